//! Rule `functions`: the body of a function has at most 70 lines.
//!
//! Lines between the braces count, whatever they hold. A function inside another counts for both.

use syn::visit::{self, Visit};

use crate::tidy::finding::Finding;
use crate::tidy::rule::{Check, Measure, Rule};
use crate::tidy::source::Source;

/// The rule.
pub const RULE: Rule = Rule {
    name: NAME,
    measure: Measure::Largest,
    check: Check::Source(check),
};

const NAME: &str = "functions";
const LINES_LIMIT: usize = 70;

fn check(source: &Source<'_>, findings: &mut Vec<Finding>) {
    if let Some(file) = source.syntax() {
        Visitor {
            path: source.path,
            findings,
        }
        .visit_file(file);
    }
}

struct Visitor<'a> {
    path: &'a str,
    findings: &'a mut Vec<Finding>,
}

impl Visitor<'_> {
    fn measure(&mut self, signature: &syn::Signature, body: &syn::Block) {
        let braces = body.brace_token.span;
        let (open, close) = (braces.open().start().line, braces.close().start().line);
        let count = (close - open).saturating_sub(1);
        if count <= LINES_LIMIT {
            return;
        }
        let line = signature.ident.span().start().line;
        let problem = format!("the body of `{}` has {count} lines", signature.ident);
        let advice = format!("split it into functions of at most {LINES_LIMIT}");
        self.findings
            .push(Finding::new(NAME, self.path, line, problem, advice).with_size(count));
    }
}

impl<'ast> Visit<'ast> for Visitor<'_> {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.measure(&item.sig, &item.block);
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.measure(&item.sig, &item.block);
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(body) = &item.default {
            self.measure(&item.sig, body);
        }
        visit::visit_trait_item_fn(self, item);
    }
}

#[cfg(test)]
mod tests {
    use super::NAME;
    use crate::tidy::rules::testing::findings;

    fn function(lines: usize) -> String {
        format!("fn f() {{\n{}}}\n", "    g();\n".repeat(lines))
    }

    #[test]
    fn body_of_71_lines_is_found() {
        let problem = "functions: the body of `f` has 71 lines";
        let advice = "split it into functions of at most 70";
        assert_eq!(
            findings(NAME, "a.rs", &function(71)),
            [format!("a.rs:1: {problem}; {advice}")]
        );
        for container in ["impl A", "trait A", "mod a"] {
            let text = format!("{container} {{\n{}}}\n", function(71));
            let expected = [format!("a.rs:2: {problem}; {advice}")];
            assert_eq!(findings(NAME, "a.rs", &text), expected, "{container}");
        }
    }

    #[test]
    fn body_of_70_lines_passes() {
        assert_eq!(findings(NAME, "a.rs", &function(70)), [""; 0]);
    }
}

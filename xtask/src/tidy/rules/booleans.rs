//! Rule `booleans`: no `match` has an arm `true` or `false`.
//!
//! Arguments of macros are read where they are expressions.

use syn::punctuated::Punctuated;
use syn::visit::{self, Visit};

use crate::tidy::finding::Finding;
use crate::tidy::rule::{Check, Measure, Rule};
use crate::tidy::source::Source;

/// The rule.
pub const RULE: Rule = Rule {
    name: NAME,
    measure: Measure::Count,
    check: Check::Source(check),
};

const NAME: &str = "booleans";

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

impl<'ast> Visit<'ast> for Visitor<'_> {
    fn visit_expr_match(&mut self, expression: &'ast syn::ExprMatch) {
        if expression.arms.iter().any(|arm| is_boolean(&arm.pat)) {
            let line = expression.match_token.span.start().line;
            let problem = "a `match` on a boolean";
            let advice = "write `if`, or make the boolean an enum";
            self.findings
                .push(Finding::new(NAME, self.path, line, problem, advice));
        }
        visit::visit_expr_match(self, expression);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        let arguments = Punctuated::<syn::Expr, syn::Token![,]>::parse_terminated;
        for argument in call.parse_body_with(arguments).iter().flatten() {
            Visit::visit_expr(self, argument);
        }
    }
}

fn is_boolean(pattern: &syn::Pat) -> bool {
    match pattern {
        syn::Pat::Lit(literal) => matches!(literal.lit, syn::Lit::Bool(_)),
        syn::Pat::Or(or) => or.cases.iter().any(is_boolean),
        syn::Pat::Guard(guarded) => is_boolean(&guarded.pat),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::NAME;
    use crate::tidy::rules::testing::findings;

    const MESSAGE: &str =
        "booleans: a `match` on a boolean; write `if`, or make the boolean an enum";

    #[test]
    fn match_on_boolean_is_found() {
        let text =
            "fn f(a: bool) {\n    match a {\n        true => g(),\n        _ => h(),\n    }\n}\n";
        assert_eq!(findings(NAME, "a.rs", text), [format!("a.rs:2: {MESSAGE}")]);
    }

    #[test]
    fn nested_match_and_alternatives_are_found() {
        let text = "fn f() {\n    match a {\n        true => match b { true | false => 1 },\n\
                    \x20       _ => 2,\n    }\n}\n";
        let expected = [format!("a.rs:2: {MESSAGE}"), format!("a.rs:3: {MESSAGE}")];
        assert_eq!(findings(NAME, "a.rs", text), expected);
    }

    #[test]
    fn match_inside_a_macro_is_found() {
        let text =
            "fn f() {\n    assert_eq!(1,\n        match g() { false if h() => 1, _ => 2 });\n}\n";
        assert_eq!(findings(NAME, "a.rs", text), [format!("a.rs:3: {MESSAGE}")]);
    }

    #[test]
    fn match_on_option_or_tuple_passes() {
        let text = "fn f() {\n    match a { Some(true) => 1, _ => 2 };\n    \
                    match (a, b) { (true, _) => 1, _ => 2 };\n    matches!(a, true);\n}\n";
        assert_eq!(findings(NAME, "a.rs", text), [""; 0]);
    }
}

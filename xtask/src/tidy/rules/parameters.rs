//! Rule `parameters`: no function that its module exports has a parameter of type `bool`.
//!
//! A function is exported with any visibility (`pub`, `pub(crate)`, ...) and as an item of an
//! exported trait. Implementations of traits pass: the trait is to be changed.

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

const NAME: &str = "parameters";

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
    fn check(&mut self, visibility: &syn::Visibility, signature: &syn::Signature) {
        let parameters = signature
            .inputs
            .iter()
            .filter(|input| is_boolean(input))
            .count();
        if parameters == 0 || matches!(visibility, syn::Visibility::Inherited) {
            return;
        }
        let line = signature.ident.span().start().line;
        let problem = format!(
            "`{}` has {parameters} boolean parameter(s)",
            signature.ident
        );
        let advice = "make each an enum, or write two functions";
        self.findings
            .push(Finding::new(NAME, self.path, line, problem, advice));
    }
}

impl<'ast> Visit<'ast> for Visitor<'_> {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.check(&item.vis, &item.sig);
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.check(&item.vis, &item.sig);
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        for member in &item.items {
            if let syn::TraitItem::Fn(function) = member {
                self.check(&item.vis, &function.sig);
            }
        }
    }
}

fn is_boolean(input: &syn::FnArg) -> bool {
    let syn::FnArg::Typed(parameter) = input else {
        return false;
    };
    matches!(&*parameter.ty, syn::Type::Path(path) if path.path.is_ident("bool"))
}

#[cfg(test)]
mod tests {
    use super::NAME;
    use crate::tidy::rules::testing::findings;

    const MESSAGE: &str = "parameters: `f` has 1 boolean parameter(s); \
                           make each an enum, or write two functions";

    #[test]
    fn boolean_parameter_of_exported_function_is_found() {
        for text in [
            "pub fn f(a: u8, b: bool) {}\n",
            "impl A { pub(crate) fn f(&self, b: bool) {} }\n",
            "pub trait A { fn f(b: bool); }\n",
        ] {
            assert_eq!(
                findings(NAME, "a.rs", text),
                [format!("a.rs:1: {MESSAGE}")],
                "{text}"
            );
        }
    }

    #[test]
    fn private_function_and_other_types_pass() {
        for text in [
            "fn f(b: bool) {}\n",
            "pub fn f(b: Option<bool>) -> bool { true }\n",
            "impl A for B { fn f(b: bool) {} }\n",
            "trait A { fn f(b: bool); }\n",
        ] {
            assert_eq!(findings(NAME, "a.rs", text), [""; 0], "{text}");
        }
    }
}

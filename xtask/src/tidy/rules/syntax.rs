//! Rule `syntax`: every Rust file parses.
//!
//! A file that does not parse passes the rules over its items, so this rule has no ratchet entry.

use crate::tidy::finding::Finding;
use crate::tidy::rule::{Check, Measure, Rule};
use crate::tidy::source::Source;

/// The rule.
pub const RULE: Rule = Rule {
    name: NAME,
    measure: Measure::Count,
    check: Check::Source(check),
};

const NAME: &str = "syntax";

fn check(source: &Source<'_>, findings: &mut Vec<Finding>) {
    let Some(rust) = source.rust() else { return };
    if let Err(error) = &rust.syntax {
        let line = error.span().start().line;
        let problem = format!("the file does not parse: {error}");
        findings.push(Finding::new(NAME, source.path, line, problem, "correct it"));
    }
}

#[cfg(test)]
mod tests {
    use super::NAME;
    use crate::tidy::rules::testing::findings;

    #[test]
    fn malformed_file_is_found() {
        let found = findings(NAME, "a.rs", "fn f() {}\nfn {\n}\n");
        assert_eq!(found.len(), 1);
        assert!(
            found[0].starts_with("a.rs:2: syntax: the file does not parse: "),
            "{found:?}"
        );
    }

    #[test]
    fn unbalanced_file_is_found() {
        assert_eq!(findings(NAME, "a.rs", "fn f() {\n").len(), 1);
    }

    #[test]
    fn valid_file_passes() {
        assert_eq!(findings(NAME, "a.rs", "fn f() {}\n"), [""; 0]);
        assert_eq!(findings(NAME, "a.md", "fn {\n"), [""; 0]);
    }
}

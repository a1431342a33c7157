//! Rule `files`: a Rust file has at most 600 lines.

use crate::tidy::finding::Finding;
use crate::tidy::rule::{Check, Measure, Rule};
use crate::tidy::source::Source;

/// The rule.
pub const RULE: Rule = Rule {
    name: NAME,
    measure: Measure::Largest,
    check: Check::Source(check),
};

const NAME: &str = "files";
const LINES_LIMIT: usize = 600;

fn check(source: &Source<'_>, findings: &mut Vec<Finding>) {
    let count = source.text.lines().count();
    if source.rust().is_some() && count > LINES_LIMIT {
        let problem = format!("the file has {count} lines");
        let advice = format!("split it into files of at most {LINES_LIMIT}");
        findings.push(Finding::new(NAME, source.path, 1, problem, advice).with_size(count));
    }
}

#[cfg(test)]
mod tests {
    use super::NAME;
    use crate::tidy::rules::testing::findings;

    #[test]
    fn file_of_601_lines_is_found() {
        let expected =
            ["a.rs:1: files: the file has 601 lines; split it into files of at most 600"];
        assert_eq!(findings(NAME, "a.rs", &"//\n".repeat(601)), expected);
    }

    #[test]
    fn file_of_600_lines_passes() {
        assert_eq!(findings(NAME, "a.rs", &"//\n".repeat(600)), [""; 0]);
        assert_eq!(findings(NAME, "a.md", &"\n".repeat(601)), [""; 0]);
    }
}

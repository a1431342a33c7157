//! A violation of a rule at one place.

use std::fmt;

/// A violation of a rule, printed as `file:line: rule: problem; advice`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// The file, or the commit in the form `commit 0123456789ab`.
    pub path: String,
    /// The line in the file, from 1.
    pub line: usize,
    /// The name of the rule.
    pub rule: &'static str,
    /// The violation.
    pub problem: String,
    /// The text or action that removes the violation.
    pub advice: String,
    /// The measured size in lines or files; 1 for rules that count findings.
    pub size: usize,
}

impl Finding {
    /// Returns a finding of size 1.
    pub fn new(
        rule: &'static str,
        path: &str,
        line: usize,
        problem: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        Finding {
            path: path.to_owned(),
            line,
            rule,
            problem: problem.into(),
            advice: advice.into(),
            size: 1,
        }
    }

    /// Returns the finding with a measured size.
    pub fn with_size(self, size: usize) -> Self {
        Finding { size, ..self }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Finding {
            path,
            line,
            rule,
            problem,
            advice,
            size: _,
        } = self;
        write!(formatter, "{path}:{line}: {rule}: {problem}; {advice}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finding_prints_on_one_line() {
        let finding = Finding::new("files", "a/b.rs", 7, "the file is long", "split the file");
        assert_eq!(
            finding.to_string(),
            "a/b.rs:7: files: the file is long; split the file"
        );
    }
}

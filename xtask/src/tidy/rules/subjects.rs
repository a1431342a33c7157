//! Rule `subjects`: commits since the base have subjects `scope: imperative summary`.
//!
//! The scope is a top-level folder or a scope of `xtask/tree.toml`, or two of these with a comma
//! between them. A history without the base, as in a shallow clone, is not checked, and tidy says
//! so. Merges are not checked.

use crate::tidy::finding::Finding;
use crate::tidy::repository::{Commit, History};
use crate::tidy::rule::{Check, Measure, Rule};
use crate::tidy::tree::Tree;

/// The rule.
pub const RULE: Rule = Rule {
    name: NAME,
    measure: Measure::Count,
    check: Check::Tree(check),
};

const NAME: &str = "subjects";
const COLUMNS_LIMIT: usize = 72;
const SCOPES_MAX: usize = 2;
/// Digits of a hash in a finding.
const HASH_DIGITS: usize = 12;

fn check(tree: &Tree<'_>, findings: &mut Vec<Finding>) {
    let commits = match &tree.history {
        History::Commits(commits) => commits,
        History::BaseMissing => {
            eprintln!("tidy: subjects: the base commit is not in the history; nothing is checked");
            return;
        }
    };
    for Commit { hash, subject } in commits {
        if let Some((problem, advice)) = violation(tree, subject) {
            let short = hash.get(..HASH_DIGITS).unwrap_or(hash);
            let problem = format!("{problem} in `{subject}`");
            findings.push(Finding::new(
                NAME,
                &format!("commit {short}"),
                1,
                problem,
                advice,
            ));
        }
    }
}

fn violation(tree: &Tree<'_>, subject: &str) -> Option<(&'static str, &'static str)> {
    let form = "write `scope: imperative summary`, the scope a top-level folder";
    let Some((scope, summary)) = subject.split_once(": ") else {
        return Some(("no scope", form));
    };
    let scopes: Vec<&str> = scope.split(", ").collect();
    if scopes.len() > SCOPES_MAX || !scopes.iter().all(|scope| is_scope(tree, scope)) {
        return Some(("an unknown scope", form));
    }
    if subject.chars().count() > COLUMNS_LIMIT {
        return Some(("more than 72 columns", "move the details to the body"));
    }
    if !summary.starts_with(|first: char| first.is_lowercase()) {
        return Some(("a summary without a lower-case letter first", form));
    }
    let first = summary.split_whitespace().next().unwrap_or_default();
    let is_participle = first.ends_with("ed") || first.ends_with("ing");
    let verbs = &tree.settings.words.subjects.verbs;
    if is_participle && !verbs.iter().any(|verb| verb == first) {
        return Some((
            "a summary that is not imperative",
            "begin with a verb such as `add`",
        ));
    }
    None
}

fn is_scope(tree: &Tree<'_>, scope: &str) -> bool {
    let is_folder = !scope.contains('/') && tree.folders.contains(scope);
    is_folder
        || tree
            .settings
            .tree
            .subjects
            .scopes
            .iter()
            .any(|other| other == scope)
}

#[cfg(test)]
mod tests {
    use super::NAME;
    use crate::tidy::repository::{Commit, History};
    use crate::tidy::rules::testing::tree_findings;

    fn check(subject: &str) -> Vec<String> {
        let commit = Commit {
            hash: "0123456789abcdef".to_owned(),
            subject: subject.to_owned(),
        };
        let files = [("txn/src/lib.rs", "")];
        tree_findings(NAME, &files, History::Commits(vec![commit]))
    }

    #[test]
    fn malformed_subject_is_found() {
        let long = format!("txn: add {}", "x".repeat(64));
        for (subject, problem) in [
            ("drain the log", "no scope"),
            ("txn/src: drain the log", "an unknown scope"),
            ("sqlx: drain the log", "an unknown scope"),
            ("txn, sqlx: drain the log", "an unknown scope"),
            ("txn, docs, ci: drain the log", "an unknown scope"),
            (long.as_str(), "more than 72 columns"),
            (
                "txn: Drain the log",
                "a summary without a lower-case letter first",
            ),
            ("txn: drained the log", "a summary that is not imperative"),
            ("txn: draining the log", "a summary that is not imperative"),
        ] {
            let found = check(subject);
            let expected = format!("commit 0123456789ab:1: subjects: {problem} in `{subject}`; ");
            assert!(
                found.len() == 1 && found[0].starts_with(&expected),
                "{found:?}"
            );
        }
    }

    #[test]
    fn imperative_subject_passes() {
        let longest = format!("txn: add {}", "x".repeat(63));
        for subject in [
            "docs: drain the log",
            "txn: seed the sampler",
            "txn, docs: drain the log",
            longest.as_str(),
        ] {
            assert_eq!(check(subject), [""; 0], "{subject}");
        }
    }

    #[test]
    fn history_without_base_passes() {
        let files = [("txn/src/lib.rs", "")];
        assert_eq!(tree_findings(NAME, &files, History::BaseMissing), [""; 0]);
    }
}

//! Helpers for tests of rules: settings with few words, and rules run on strings.

use super::{check_source, check_tree};
use crate::tidy::finding::Finding;
use crate::tidy::repository::History;
use crate::tidy::settings::{Settings, parse};
use crate::tidy::source::Source;
use crate::tidy::tree::{Summary, Tree};

const WORDS: &str = r#"
openers = { What = "name the thing", Who = "name the actor" }
[pronouns]
anywhere = { nobody = "name the actor" }
first = { "those that" = "name the things" }
[sentences]
abbreviations = ["e.g."]
[subjects]
verbs = ["seed", "bring"]
[names]
words = { allotment = "region allocation client" }
modules = { door = "join endpoint", "tcp/card" = "one-sided agent" }
types = { Spread = "`RemoteParticipants`" }
functions = { settle = "a verb" }
constants = { NAP = "backoff" }
"#;

const TREE: &str = r#"
generated = ["generated.md"]
layers = [["low"], ["left", "right"], ["high"]]
subjects = { base = "0123", scopes = ["docs"] }
"#;

/// Returns settings with few words.
pub fn settings() -> Settings {
    Settings {
        words: parse("words", WORDS).unwrap(),
        tree: parse("tree", TREE).unwrap(),
    }
}

/// Returns the lines that a rule over one file reports for a text.
pub fn findings(rule: &str, path: &str, text: &str) -> Vec<String> {
    let settings = settings();
    let mut findings = Vec::new();
    check_source(&Source::parse(path, text, &settings), &mut findings);
    printed(rule, findings)
}

/// Returns the lines that a rule over the tree reports for pairs of path and text.
pub fn tree_findings(rule: &str, files: &[(&str, &str)], history: History) -> Vec<String> {
    let settings = settings();
    let mut summaries = Vec::new();
    for (path, text) in files {
        summaries.push(Summary::of(Source::parse(path, text, &settings)));
    }
    let mut findings = Vec::new();
    check_tree(&Tree::new(&settings, summaries, history), &mut findings);
    printed(rule, findings)
}

fn printed(rule: &str, findings: Vec<Finding>) -> Vec<String> {
    let of_rule = findings.iter().filter(|finding| finding.rule == rule);
    of_rule.map(Finding::to_string).collect()
}

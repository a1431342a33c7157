//! The rules of tidy.
//!
//! A new rule is one file with a constant `RULE`, and one line in [`RULES`]. See
//! [`rule`](super::rule) for its parts.

mod booleans;
mod circles;
mod columns;
mod edges;
mod files;
mod functions;
mod links;
mod names;
mod openers;
mod parameters;
mod pronouns;
mod sentences;
mod subjects;
mod syntax;
#[cfg(test)]
pub mod testing;

use super::finding::Finding;
use super::rule::{Check, Rule};
use super::source::Source;
use super::tree::Tree;

/// All rules, by name.
pub const RULES: &[Rule] = &[
    booleans::RULE,
    circles::RULE,
    columns::RULE,
    edges::RULE,
    files::RULE,
    functions::RULE,
    links::RULE,
    names::RULE,
    openers::RULE,
    parameters::RULE,
    pronouns::RULE,
    sentences::RULE,
    subjects::RULE,
    syntax::RULE,
];

/// Runs the rules that read one file at a time; generated files pass.
pub fn check_source(source: &Source<'_>, findings: &mut Vec<Finding>) {
    if source
        .settings
        .tree
        .generated
        .iter()
        .any(|path| path == source.path)
    {
        return;
    }
    for rule in RULES {
        if let Check::Source(check) = rule.check {
            check(source, findings);
        }
    }
}

/// Runs the rules that read the whole tree.
pub fn check_tree(tree: &Tree<'_>, findings: &mut Vec<Finding>) {
    for rule in RULES {
        if let Check::Tree(check) = rule.check {
            check(tree, findings);
        }
    }
}

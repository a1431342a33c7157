//! The parts of a rule.
//!
//! A rule reads one file at a time ([`Check::Source`]) or facts about the whole tree
//! ([`Check::Tree`]). Its findings carry its name; its ratchet counts them or keeps the largest.

use super::finding::Finding;
use super::source::Source;
use super::tree::Tree;

/// A rule of tidy.
#[derive(Clone, Copy)]
pub struct Rule {
    /// The name in findings and in the ratchet.
    pub name: &'static str,
    /// The number that the ratchet keeps for a file.
    pub measure: Measure,
    /// The function that finds violations.
    pub check: Check,
}

/// The number that the ratchet keeps for a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// The number of findings.
    Count,
    /// The size of the largest finding.
    Largest,
}

/// The function that finds violations.
#[derive(Clone, Copy)]
pub enum Check {
    /// A check of one file, run for each file that no program writes.
    Source(fn(&Source<'_>, &mut Vec<Finding>)),
    /// A check of the whole tree.
    Tree(fn(&Tree<'_>, &mut Vec<Finding>)),
}

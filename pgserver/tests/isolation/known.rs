//! The list of permutations that are known to differ.
//!
//! A line names a file, a permutation by its steps, and the reason: `file | a1 b1 a2 | why`. `*`
//! stands for the permutations of a file that do not have a line of their own; then at least one
//! must differ.

use std::collections::BTreeMap;
use std::path::PathBuf;

/// Reasons by file and permutation.
pub type KnownDifferences = BTreeMap<(String, String), String>;

/// The head of the list.
const HEAD: &str = "# Permutations that differ from PostgreSQL 15: file | steps | reason\n";

/// Returns the path of the list: from the environment, or beside the specifications of this
/// repository.
fn path() -> Option<PathBuf> {
    match (
        crate::variable("ISOLATION_KNOWN"),
        crate::variable("ISOLATION_SPECS"),
    ) {
        (Some(path), _) => Some(PathBuf::from(path)),
        (None, Some(_)) => None,
        (None, None) => Some(crate::folder().join("known.txt")),
    }
}

/// Writes the list with these lines.
pub fn write(lines: &str) {
    let path = path().expect("ISOLATION_KNOWN names the list");
    std::fs::write(path, format!("{HEAD}{lines}")).expect("a list that can be written");
}

/// Reads the list.
pub fn read() -> KnownDifferences {
    let Some(path) = path().filter(|path| path.exists()) else {
        return KnownDifferences::new();
    };
    let text = std::fs::read_to_string(path).expect("a list of known differences");
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let lines = lines.filter(|line| !line.trim().is_empty());
    let entry = |line: &str| {
        let mut parts = line.splitn(3, '|').map(|part| part.trim().to_owned());
        let mut next = || {
            parts
                .next()
                .unwrap_or_else(|| panic!("{line}: three parts"))
        };
        ((next(), next()), next())
    };
    lines.map(entry).collect()
}

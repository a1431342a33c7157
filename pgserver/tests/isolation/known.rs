//! The list of permutations that are known to differ.
//!
//! A line names a file, a permutation by its steps, and the reason: `file | a1 b1 a2 | why`. `*` stands for the
//! permutations of a file that do not have a line of their own; then at least one must differ.

use std::collections::BTreeMap;
use std::path::PathBuf;

/// Reasons by file and permutation.
pub type Known = BTreeMap<(String, String), String>;

/// Reads the list of a file; without one the list beside the specifications of this repository.
pub fn read(path: Option<&str>) -> Known {
    let path = match (path, crate::variable("ISOLATION_SPECS")) {
        (Some(path), _) => PathBuf::from(path),
        (None, Some(_)) => return Known::new(),
        (None, None) => crate::folder().join("known.txt"),
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

//! Creates COMPATIBILITY.md from the test files, so that it lists only tested features.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use sqllogictest::{Condition, QueryExpect, Record, StatementExpect, parse_file};

use super::engine::TypeLetter;

const HEAD: &str = "# What is the same as in PostgreSQL

Each area has a file in [tests/compat](tests/compat) with statements, their results and types, \
and the SQLSTATEs of those that
fail. All of them do the same here and on PostgreSQL 15, but for those that are counted as \
different, which the files explain.
Anything that is not supported answers 0A000 and names the feature. This table is made of the files:
`COMPAT_DOCUMENT=1 cargo test -p fencepost-pgserver --test compat`.

| area | statements | of them fail | different |
|---|---:|---:|---:|
";

/// Returns the path of the document.
pub fn path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("COMPATIBILITY.md")
}

/// Returns the text of the document for these files.
pub fn text(files: &[PathBuf]) -> String {
    let mut text = HEAD.to_owned();
    let mut all = [0; 3];
    for file in files {
        let source = std::fs::read_to_string(file).expect("a file");
        let title = source.lines().next().unwrap_or_default();
        let title = title.trim_start_matches(['#', ' ']).trim_end_matches('.');
        let counts = count(file);
        let [statements, failing, different] = counts;
        let line = format!("| {title} | {statements} | {failing} | {different} |");
        writeln!(text, "{line}").expect("a text grows");
        for (sum, count) in all.iter_mut().zip(counts) {
            *sum += count;
        }
    }
    let [statements, failing, different] = all;
    writeln!(text, "| **all** | {statements} | {failing} | {different} |").expect("a text grows");
    text
}

/// Counts the statements of a file, the failing ones, and the ones for one server only.
fn count(file: &Path) -> [usize; 3] {
    let records = parse_file::<TypeLetter>(file).expect("a file that can be read");
    let mut counts = [0; 3];
    for record in records {
        let (fails, conditions): (bool, Vec<Condition>) = match record {
            Record::Statement {
                expected,
                conditions,
                ..
            } => (matches!(expected, StatementExpect::Error(_)), conditions),
            Record::Query {
                expected,
                conditions,
                ..
            } => (matches!(expected, QueryExpect::Error(_)), conditions),
            _ => continue,
        };
        counts[0] += 1;
        counts[1] += usize::from(fails);
        counts[2] += usize::from(!conditions.is_empty());
    }
    counts
}

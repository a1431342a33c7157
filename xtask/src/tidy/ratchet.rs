//! The ratchet: how far each file may break each rule today, in `xtask/ratchet.toml`.
//!
//! A file without an entry may have no findings. An entry above today's number is a finding, too,
//! so that the ratchet shrinks with the tree. Tightening lowers and removes entries; it never
//! raises or adds one. For a new rule, write generous entries by hand and tighten them. Entries of
//! a renamed file are renamed by hand.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use super::error::TidyError;
use super::finding::Finding;
use super::rule::Measure;
use super::rules::RULES;
use super::settings::parse;

/// Path of the data file.
pub const RATCHET_PATH: &str = "xtask/ratchet.toml";
/// The name of findings about the ratchet itself.
const NAME: &str = "ratchet";
const HEADER: &str = "\
# The number of findings that a file may have, by rule: see src/tidy/ratchet.rs.
# `cargo xtask tidy --tighten` lowers the numbers; nothing raises them.
";

/// Numbers by the name of a rule and by path.
pub type Numbers = BTreeMap<String, BTreeMap<String, usize>>;

/// The numbers that files may have.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Ratchet {
    allowed: Numbers,
}

impl Ratchet {
    /// Reads the data file under the repository's root.
    pub fn read(root: &Path) -> Result<Ratchet, TidyError> {
        let file = root.join(RATCHET_PATH);
        let text = std::fs::read_to_string(&file).map_err(|source| TidyError::File {
            path: file.clone(),
            source,
        })?;
        Ratchet::parse(&text)
    }

    /// Parses the text of the data file.
    pub fn parse(text: &str) -> Result<Ratchet, TidyError> {
        Ok(Ratchet {
            allowed: parse(RATCHET_PATH, text)?,
        })
    }

    /// Writes the data file under the repository's root.
    pub fn write(&self, root: &Path) -> Result<(), TidyError> {
        let file = root.join(RATCHET_PATH);
        std::fs::write(&file, self.render()).map_err(|source| TidyError::File {
            path: file.clone(),
            source,
        })
    }

    /// Returns the text of the data file: sorted, one line for each entry.
    pub fn render(&self) -> String {
        let mut text = HEADER.to_owned();
        for (rule, files) in &self.allowed {
            let _ = write!(text, "\n[{rule}]\n");
            for (path, number) in files {
                let _ = writeln!(text, "{path:?} = {number}");
            }
        }
        text
    }

    /// Returns the ratchet with every entry lowered to the findings, and without clean files.
    pub fn tighten(&self, findings: &[Finding]) -> Ratchet {
        let numbers = numbers(findings);
        let mut allowed = Numbers::new();
        for (rule, path, number) in self.entries() {
            let lowest = number.min(number_of(&numbers, rule, path));
            if lowest > 0 {
                allowed
                    .entry(rule.to_owned())
                    .or_default()
                    .insert(path.to_owned(), lowest);
            }
        }
        Ratchet { allowed }
    }

    /// Returns the findings that the ratchet does not allow, and those about its own entries.
    pub fn judge(&self, findings: &[Finding]) -> Vec<Finding> {
        let numbers = numbers(findings);
        let beyond = findings
            .iter()
            .filter_map(|finding| self.beyond(&numbers, finding));
        let mut judged: Vec<Finding> = beyond.collect();
        for (rule, path, number) in self.entries() {
            let present = number_of(&numbers, rule, path);
            if present < number {
                let problem = format!("`{rule}` allows {number}, and {present} is enough");
                let advice = "run cargo xtask tidy --tighten";
                judged.push(Finding::new(NAME, path, 1, problem, advice));
            }
        }
        judged.sort();
        judged
    }

    /// Returns a finding of a file that exceeds its entry, with both numbers.
    fn beyond(&self, numbers: &Numbers, finding: &Finding) -> Option<Finding> {
        let allowed = number_of(&self.allowed, finding.rule, &finding.path);
        let present = match measure(finding.rule) {
            Measure::Count => number_of(numbers, finding.rule, &finding.path),
            Measure::Largest => finding.size,
        };
        if present <= allowed {
            return None;
        }
        let mut finding = finding.clone();
        if allowed > 0 {
            let _ = write!(finding.advice, " [{present}, at most {allowed}]");
        }
        Some(finding)
    }

    fn entries(&self) -> impl Iterator<Item = (&str, &str, usize)> {
        self.allowed.iter().flat_map(|(rule, files)| {
            files
                .iter()
                .map(|(path, number)| (rule.as_str(), path.as_str(), *number))
        })
    }
}

/// Returns the number of each file that has findings.
fn numbers(findings: &[Finding]) -> Numbers {
    let mut numbers = Numbers::new();
    for finding in findings {
        let files = numbers.entry(finding.rule.to_owned()).or_default();
        let number = files.entry(finding.path.clone()).or_insert(0);
        *number = match measure(finding.rule) {
            Measure::Count => *number + 1,
            Measure::Largest => finding.size.max(*number),
        };
    }
    numbers
}

fn number_of(numbers: &Numbers, rule: &str, path: &str) -> usize {
    numbers
        .get(rule)
        .and_then(|files| files.get(path))
        .copied()
        .unwrap_or(0)
}

fn measure(rule: &str) -> Measure {
    let known = RULES.iter().find(|known| known.name == rule);
    known.map_or(Measure::Count, |known| known.measure)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(rule: &'static str, path: &str, sizes: &[usize]) -> Vec<Finding> {
        let finding = |size: &usize| Finding::new(rule, path, 9, "bad", "repair").with_size(*size);
        sizes.iter().map(finding).collect()
    }

    fn judge(ratchet: &str, findings: &[Finding]) -> Vec<String> {
        let ratchet = Ratchet::parse(ratchet).unwrap();
        ratchet
            .judge(findings)
            .iter()
            .map(Finding::to_string)
            .collect()
    }

    fn tighten(ratchet: &str, findings: &[Finding]) -> String {
        let text = Ratchet::parse(ratchet).unwrap().tighten(findings).render();
        text.strip_prefix(HEADER).unwrap().to_owned()
    }

    const COLUMNS: &str = "[columns]\n\"a.rs\" = 2\n";
    const FUNCTIONS: &str = "[functions]\n\"a.rs\" = 90\n";

    #[test]
    fn count_at_its_entry_passes() {
        assert_eq!(judge(COLUMNS, &found("columns", "a.rs", &[1, 1])), [""; 0]);
    }

    #[test]
    fn count_beyond_its_entry_shows_all_findings() {
        let line = "a.rs:9: columns: bad; repair [3, at most 2]";
        assert_eq!(
            judge(COLUMNS, &found("columns", "a.rs", &[1, 1, 1])),
            [line; 3]
        );
    }

    #[test]
    fn count_below_its_entry_is_found() {
        let message = "run cargo xtask tidy --tighten";
        let expected = [format!(
            "a.rs:1: ratchet: `columns` allows 2, and 1 is enough; {message}"
        )];
        assert_eq!(judge(COLUMNS, &found("columns", "a.rs", &[1])), expected);
    }

    #[test]
    fn new_file_starts_at_zero() {
        let mut findings = found("columns", "a.rs", &[1, 1]);
        findings.extend(found("columns", "b.rs", &[1]));
        assert_eq!(judge(COLUMNS, &findings), ["b.rs:9: columns: bad; repair"]);
        assert_eq!(
            judge("", &found("files", "a.rs", &[601])),
            ["a.rs:9: files: bad; repair"]
        );
    }

    #[test]
    fn entry_of_removed_file_or_unknown_rule_is_found() {
        assert_eq!(judge(COLUMNS, &[]).len(), 1);
        assert_eq!(judge("[none]\n\"a.rs\" = 1\n", &[]).len(), 1);
    }

    #[test]
    fn judged_findings_are_sorted() {
        let findings = [
            found("openers", "b.rs", &[1]),
            found("openers", "a.rs", &[1]),
        ]
        .concat();
        let ratchet = "[columns]\n\"aa.rs\" = 1\n";
        let paths: Vec<String> = judge(ratchet, &findings)
            .iter()
            .map(|line| line[..4].to_owned())
            .collect();
        assert_eq!(paths, ["a.rs", "aa.r", "b.rs"]);
    }

    #[test]
    fn largest_beyond_its_entry_shows_only_larger_findings() {
        assert_eq!(
            judge(FUNCTIONS, &found("functions", "a.rs", &[80, 90])),
            [""; 0]
        );
        let line = "a.rs:9: functions: bad; repair [91, at most 90]";
        assert_eq!(
            judge(FUNCTIONS, &found("functions", "a.rs", &[80, 90, 91])),
            [line]
        );
    }

    #[test]
    fn largest_below_its_entry_is_found() {
        let found = judge(FUNCTIONS, &found("functions", "a.rs", &[80, 71]));
        assert!(
            found.len() == 1 && found[0].contains("allows 90, and 80 is enough"),
            "{found:?}"
        );
    }

    #[test]
    fn tighten_lowers_entries() {
        let lowered = "\n[columns]\n\"a.rs\" = 1\n";
        assert_eq!(tighten(COLUMNS, &found("columns", "a.rs", &[1])), lowered);
        let lowered = "\n[functions]\n\"a.rs\" = 80\n";
        assert_eq!(
            tighten(FUNCTIONS, &found("functions", "a.rs", &[80, 71])),
            lowered
        );
    }

    #[test]
    fn tighten_never_raises_or_adds_entries() {
        let mut findings = found("columns", "a.rs", &[1, 1, 1]);
        findings.extend(found("columns", "b.rs", &[1]));
        findings.extend(found("openers", "a.rs", &[1]));
        assert_eq!(tighten(COLUMNS, &findings), format!("\n{COLUMNS}"));
        let findings = found("functions", "a.rs", &[91]);
        assert_eq!(tighten(FUNCTIONS, &findings), format!("\n{FUNCTIONS}"));
    }

    #[test]
    fn tighten_removes_clean_and_removed_files() {
        let ratchet = "[columns]\n\"a.rs\" = 2\n\"b.rs\" = 1\n[openers]\n\"a.rs\" = 1\n";
        let kept = "\n[columns]\n\"b.rs\" = 1\n";
        assert_eq!(tighten(ratchet, &found("columns", "b.rs", &[1])), kept);
    }

    #[test]
    fn rendered_ratchet_is_sorted_and_parses() {
        let ratchet = Ratchet::parse("[b]\n\"z\" = 1\n\"a \\\" b\" = 2\n[a]\n\"x\" = 3\n").unwrap();
        let text = ratchet.render();
        let entries = "\n[a]\n\"x\" = 3\n\n[b]\n\"a \\\" b\" = 2\n\"z\" = 1\n";
        assert_eq!(text.strip_prefix(HEADER), Some(entries));
        assert_eq!(Ratchet::parse(&text).unwrap(), ratchet);
    }
}

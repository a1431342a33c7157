//! Replacements for the parts of an output that differ from run to run.
//!
//! They are applied to the document and to the output, and everything else is compared exactly.
//! A new one needs a reason; a document that shows something stable instead needs none.

use regex_lite::Regex;

/// A pattern, its replacement, and the reason why the text differs from run to run.
struct Rule {
    pattern: &'static str,
    replacement: &'static str,
    #[allow(dead_code, reason = "read by people, and by a test")]
    reason: &'static str,
}

const RULES: &[Rule] = &[
    Rule {
        pattern: r"\b(fencepost|Fencepost) \d+\.\d+\.\d+",
        replacement: "$1 VERSION",
        reason: "the version of the program changes with each release",
    },
    Rule {
        pattern: r"\d{4}-\d{2}-\d{2} \d{2}:\d{2}:\d{2}\.\d{3} UTC \[\d+\]",
        replacement: "TIME [PID]",
        reason: "the log has the time and the process",
    },
    Rule {
        pattern: r"\b\d+(\.\d+)? (ms|s)\b",
        replacement: "DURATION $2",
        reason: "a duration depends on the host",
    },
    Rule {
        pattern: r"\b\d+(\.\d+)? (MB|MB/s)\b",
        replacement: "SIZE $2",
        reason: "memory in use, and the rate of a disk, depend on the host",
    },
    Rule {
        pattern: r"\b\d+ objects\b",
        replacement: "COUNT objects",
        reason: "sessions that insert at once split nodes of an index in another order",
    },
    Rule {
        pattern: r"\b\d+ bytes\b",
        replacement: "SIZE bytes",
        reason: "a backup has random numbers and times, whose texts differ in length",
    },
    Rule {
        pattern: r"^number of transactions (actually processed|retried): \d+( \(.*\))?$",
        replacement: "number of transactions $1: COUNT",
        reason: "pgbench runs for a time, and conflicts depend on the schedule",
    },
    Rule {
        pattern: r"^( +\d+ \| commit \|) +\d+$",
        replacement: "$1 MICROSECONDS",
        reason: "pg_fencepost_reconfigurations has the time of each step",
    },
    Rule {
        pattern: r"^\d{15,}$",
        replacement: "TRANSACTION",
        reason: "a number of txid_current() contains the time",
    },
];

/// Compiled rules.
pub struct Normaliser {
    rules: Vec<(Regex, &'static str)>,
}

impl Normaliser {
    /// Compiles the rules.
    pub fn new() -> Normaliser {
        let compile = |rule: &Rule| {
            let regex = Regex::new(rule.pattern).expect("a test compiles all patterns");
            (regex, rule.replacement)
        };
        Normaliser {
            rules: RULES.iter().map(compile).collect(),
        }
    }

    /// Returns the lines of an output in their comparable form.
    ///
    /// Editors strip blanks at the end of a line and empty lines before the end of a block.
    /// Machines that start at once print in any order, so lines of machines that follow each
    /// other are sorted.
    pub fn lines<'a>(&self, lines: impl IntoIterator<Item = &'a str>) -> Vec<String> {
        let mut all: Vec<String> = lines.into_iter().map(|line| self.line(line)).collect();
        while all.last().is_some_and(String::is_empty) {
            all.pop();
        }
        for lines in all.chunk_by_mut(|left, right| is_of_machine(left) && is_of_machine(right)) {
            lines.sort();
        }
        all
    }

    fn line(&self, line: &str) -> String {
        let mut text = line.trim_end().to_owned();
        for (regex, replacement) in &self.rules {
            text = regex.replace_all(&text, *replacement).into_owned();
        }
        text
    }
}

/// Tells whether `dev-cluster` printed a line for one of its machines, such as `m1: ready`.
fn is_of_machine(line: &str) -> bool {
    let machine = line
        .strip_prefix('m')
        .and_then(|rest| rest.split_once(": "));
    machine.is_some_and(|(number, _)| number.parse::<u32>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(line: &str) -> String {
        Normaliser::new().line(line)
    }

    #[test]
    fn rules_compile_and_have_reasons() {
        assert_eq!(Normaliser::new().rules.len(), RULES.len());
        assert!(RULES.iter().all(|rule| !rule.reason.is_empty()));
    }

    #[test]
    fn durations_versions_and_times_are_replaced() {
        assert_eq!(
            one("fencepost 0.1.0 ready on 127.0.0.1:5433 (started in 71 ms)"),
            "fencepost VERSION ready on 127.0.0.1:5433 (started in DURATION ms)"
        );
        assert_eq!(
            one("2026-11-30 00:37:43.904 UTC [174] LOG:  saved 2 MB in 0.02 s, 80 MB/s"),
            "TIME [PID] LOG:  saved SIZE MB in DURATION s, SIZE MB/s"
        );
    }

    #[test]
    fn counts_and_numbers_of_transactions_are_replaced() {
        assert_eq!(
            one("number of transactions retried: 6 (0.059%)"),
            "number of transactions retried: COUNT"
        );
        assert_eq!(
            one("             4 | commit |  1607598"),
            "             4 | commit | MICROSECONDS"
        );
        assert_eq!(one("869697191123976194"), "TRANSACTION");
        assert_eq!(one("1 rows, 13 bytes"), "1 rows, SIZE bytes");
    }

    #[test]
    fn other_numbers_stay() {
        for line in [
            "(2 rows)",
            "INSERT 0 1000",
            "m1 rows=5",
            "5 msgs",
            "1 second",
        ] {
            assert_eq!(one(line), line);
        }
    }

    #[test]
    fn lines_of_machines_are_sorted_within_their_run() {
        let lines = ["m3: a", "m1: a", "3 ready", "m2: b", "m1: b", "mode: x", ""];
        assert_eq!(
            Normaliser::new().lines(lines),
            ["m1: a", "m3: a", "3 ready", "m1: b", "m2: b", "mode: x"]
        );
    }

    #[test]
    fn blanks_at_ends_are_stripped() {
        let lines = Normaliser::new().lines([" count ", "", "  1", "", " "]);
        assert_eq!(lines, [" count", "", "  1"]);
    }
}

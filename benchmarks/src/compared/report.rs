//! The results of a run: a Markdown table for readers, JSON for programs.

use std::fmt;
use std::time::Duration;

use serde_json::{Value, json};

use super::answer::AnswerDigest;
use crate::sql::SqlFailure;

/// The result of an item on one server.
#[derive(Clone, Debug, PartialEq)]
pub enum ItemOutcome {
    /// All rounds ended.
    Measured {
        /// The median of the rounds in milliseconds.
        median_ms: f64,
    },
    /// An execution reached the time limit; further ones did not run.
    TimedOut,
    /// An execution failed; further ones did not run.
    Failed(SqlFailure),
}

impl ItemOutcome {
    /// Returns the median in milliseconds, if all rounds ended.
    pub fn median_ms(&self) -> Option<f64> {
        match self {
            ItemOutcome::Measured { median_ms } => Some(*median_ms),
            ItemOutcome::TimedOut | ItemOutcome::Failed(_) => None,
        }
    }
}

/// The result of the comparison of answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AnswerCheck {
    /// The answer has the recorded digest.
    AsRecorded,
    /// Both servers have the same answer; none is recorded for this scale.
    ServersAgree,
    /// There is no answer, or nothing to compare it with.
    NotChecked,
    /// Two answers differ; the text says which ones and where.
    Wrong(String),
}

/// The results of an item.
#[derive(Clone, Debug)]
pub struct ItemReport {
    /// Its name.
    pub name: String,
    /// The outcome on each server.
    pub outcomes: Vec<ItemOutcome>,
    /// The comparison of the answers.
    pub check: AnswerCheck,
    /// The digest of the first answer.
    pub digest: Option<AnswerDigest>,
}

/// The outcome of a run.
#[derive(Clone, Debug)]
pub struct ComparedReport {
    /// The name of the benchmark in JSON.
    pub workload: &'static str,
    /// The title, such as `TPC-H at scale 0.1`.
    pub title: String,
    /// The number of measured executions of each item.
    pub rounds: usize,
    /// The time limit of each execution.
    pub timeout: Duration,
    /// The products and versions of the servers.
    pub servers: Vec<String>,
    /// The results of the items.
    pub items: Vec<ItemReport>,
}

impl ComparedReport {
    /// Returns the items that failed or have a wrong answer, with the reasons.
    pub fn check(&self) -> Option<String> {
        let wrong: Vec<String> = self
            .items
            .iter()
            .flat_map(|item| self.problems(item))
            .collect();
        (!wrong.is_empty()).then(|| wrong.join("; "))
    }

    /// Converts the report to JSON.
    pub fn to_json(&self) -> Value {
        let items = self.items.iter().map(|item| {
            let medians = item.outcomes.iter().map(ItemOutcome::median_ms);
            json!({
                "item": item.name,
                "rows": item.digest.map(|digest| digest.rows),
                "median_ms": medians.collect::<Vec<_>>(),
                "timed_out": item.has(&ItemOutcome::TimedOut),
                "answer": item.check.to_string(),
            })
        });
        json!({
            "workload": self.workload,
            "title": self.title,
            "rounds": self.rounds,
            "timeout_s": self.timeout.as_secs_f64(),
            "servers": self.servers,
            "items": items.collect::<Vec<_>>(),
            "geometric_mean_ms": self.means().1,
            "check": self.check().unwrap_or_else(|| "ok".to_string()),
        })
    }

    fn problems(&self, item: &ItemReport) -> Vec<String> {
        let failures = item.outcomes.iter().zip(&self.servers);
        let failures = failures.filter_map(|(outcome, server)| match outcome {
            ItemOutcome::Failed(failure) => Some(format!("{} on {server}: {failure}", item.name)),
            ItemOutcome::Measured { .. } | ItemOutcome::TimedOut => None,
        });
        let wrong = match &item.check {
            AnswerCheck::Wrong(why) => Some(format!("{}: {why}", item.name)),
            _ => None,
        };
        failures.chain(wrong).collect()
    }

    /// Returns the number of items that all servers finished, and the geometric mean of each
    /// server's medians of these items.
    fn means(&self) -> (usize, Vec<f64>) {
        let medians = self.items.iter().filter_map(|item| {
            let medians = item.outcomes.iter().map(ItemOutcome::median_ms);
            medians.collect::<Option<Vec<f64>>>()
        });
        let medians: Vec<Vec<f64>> = medians.collect();
        let mean = |server| geometric_mean(medians.iter().map(|of_item| of_item[server]));
        let means = (0..self.servers.len()).filter_map(mean).collect();
        (medians.len(), means)
    }

    fn outcome(&self, outcome: &ItemOutcome) -> String {
        match outcome {
            ItemOutcome::Measured { median_ms } => format!("{median_ms:.1}"),
            ItemOutcome::TimedOut => format!("over {} s", self.timeout.as_secs_f64()),
            ItemOutcome::Failed(failure) => format!("error {}", failure.sqlstate),
        }
    }
}

impl fmt::Display for ComparedReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (title, rounds) = (&self.title, self.rounds);
        writeln!(f, "{title}; medians of {rounds} rounds in milliseconds\n")?;
        self.write_row(f, ["item", "rows", "answer"], &self.servers, "ratio")?;
        let rules = vec!["--:".to_string(); self.servers.len()];
        self.write_row(f, ["---", "--:", "---"], &rules, "--:")?;
        for item in &self.items {
            let rows = item
                .digest
                .map_or(String::new(), |digest| digest.rows.to_string());
            let times = item.outcomes.iter().map(|outcome| self.outcome(outcome));
            let medians = item.outcomes.iter().map(ItemOutcome::median_ms);
            let ratio = ratio(&medians.collect::<Option<Vec<f64>>>().unwrap_or_default());
            let texts = [&item.name, &rows, &item.check.to_string()];
            self.write_row(
                f,
                texts.map(String::as_str),
                &times.collect::<Vec<_>>(),
                &ratio,
            )?;
        }
        let (count, means) = self.means();
        let title = format!("geometric mean of {count}");
        let times: Vec<String> = means.iter().map(|mean| format!("{mean:.1}")).collect();
        if !times.is_empty() {
            self.write_row(f, [&title, "", ""], &times, &ratio(&means))?;
        }
        for problem in self.items.iter().flat_map(|item| self.problems(item)) {
            writeln!(f, "\n{problem}")?;
        }
        Ok(())
    }
}

impl ComparedReport {
    /// Writes a row of the table; the ratio only if there are two servers.
    fn write_row(
        &self,
        f: &mut fmt::Formatter<'_>,
        [name, rows, answer]: [&str; 3],
        servers: &[String],
        ratio: &str,
    ) -> fmt::Result {
        let mut fields = vec![name, rows];
        fields.extend(servers.iter().map(String::as_str));
        if self.servers.len() == 2 {
            fields.push(ratio);
        }
        fields.push(answer);
        writeln!(f, "| {} |", fields.join(" | "))
    }
}

/// Formats the ratio of the first time to the second one; nothing unless there are two.
fn ratio(times_ms: &[f64]) -> String {
    match times_ms {
        [one, other] => format!("{:.2}", one / other),
        _ => String::new(),
    }
}

impl ItemReport {
    fn has(&self, outcome: &ItemOutcome) -> bool {
        self.outcomes.contains(outcome)
    }
}

/// The line of progress: the name, the medians and the check.
impl fmt::Display for ItemReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.name)?;
        for outcome in &self.outcomes {
            match outcome {
                ItemOutcome::Measured { median_ms } => write!(f, " {median_ms:>10.1} ms")?,
                ItemOutcome::TimedOut => write!(f, "   time limit")?,
                ItemOutcome::Failed(failure) => write!(f, "  {failure}")?,
            }
        }
        write!(f, "  {}", self.check)
    }
}

impl fmt::Display for AnswerCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            AnswerCheck::AsRecorded => "as recorded",
            AnswerCheck::ServersAgree => "equal",
            AnswerCheck::NotChecked => "not checked",
            AnswerCheck::Wrong(_) => "wrong",
        })
    }
}

/// Returns the median; of an even number of values the mean of both in the middle, and of none NaN.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match (sorted.len(), sorted.len() % 2) {
        (0, _) => f64::NAN,
        (_, 1) => sorted[middle],
        _ => f64::midpoint(sorted[middle - 1], sorted[middle]),
    }
}

/// Returns the geometric mean of positive values; `None` without values.
fn geometric_mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values.fold((0.0, 0.0), |(sum, count), value| {
        (sum + value.ln(), count + 1.0)
    });
    (count > 0.0).then(|| (sum / count).exp())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(median_ms: f64) -> ItemOutcome {
        ItemOutcome::Measured { median_ms }
    }

    fn report(outcomes: Vec<Vec<ItemOutcome>>, servers: &[&str]) -> ComparedReport {
        let query = |(outcomes, number)| ItemReport {
            name: format!("q{number:02}"),
            outcomes,
            check: AnswerCheck::AsRecorded,
            digest: Some(AnswerDigest { rows: 4, crc: 255 }),
        };
        ComparedReport {
            workload: "tpch",
            title: "TPC-H at scale 0.01".to_string(),
            rounds: 5,
            timeout: Duration::from_secs(300),
            servers: servers.iter().map(ToString::to_string).collect(),
            items: outcomes.into_iter().zip(1..).map(query).collect(),
        }
    }

    #[test]
    fn median_of_even_and_odd_numbers_of_values() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert_eq!(median(&[7.0]), 7.0);
        assert!(median(&[]).is_nan());
    }

    #[test]
    fn geometric_mean_of_2_and_8_is_4() {
        let mean = geometric_mean([2.0, 8.0].into_iter()).expect("a mean");
        assert!((mean - 4.0).abs() < 1e-9);
        assert_eq!(geometric_mean([].into_iter()), None);
    }

    #[test]
    fn table_of_two_servers_has_a_ratio_and_names_the_time_limit() {
        let outcomes = vec![
            vec![measured(2.0), measured(8.0)],
            vec![ItemOutcome::TimedOut, measured(1.0)],
            vec![measured(8.0), measured(2.0)],
        ];
        let report = report(outcomes, &["Fencepost 0.1.0", "PostgreSQL 15.18"]);
        assert_eq!(report.check(), None);
        let expected = "\
TPC-H at scale 0.01; medians of 5 rounds in milliseconds

| item | rows | Fencepost 0.1.0 | PostgreSQL 15.18 | ratio | answer |
| --- | --: | --: | --: | --: | --- |
| q01 | 4 | 2.0 | 8.0 | 0.25 | as recorded |
| q02 | 4 | over 300 s | 1.0 |  | as recorded |
| q03 | 4 | 8.0 | 2.0 | 4.00 | as recorded |
| geometric mean of 2 |  | 4.0 | 4.0 | 1.00 |  |
";
        assert_eq!(report.to_string(), expected);
        assert_eq!(report.to_json()["items"][1]["timed_out"], true);
    }

    #[test]
    fn wrong_answer_and_failure_are_problems_of_the_named_item() {
        let failure = SqlFailure::new("0A000", "no such feature");
        let outcomes = vec![vec![measured(1.0)], vec![ItemOutcome::Failed(failure)]];
        let mut report = report(outcomes, &["Fencepost 0.1.0"]);
        report.items[0].check = AnswerCheck::Wrong("row 1 is `1` and `2`".to_string());
        let check = report.check().expect("a problem");
        assert_eq!(
            check,
            "q01: row 1 is `1` and `2`; q02 on Fencepost 0.1.0: 0A000: no such feature"
        );
        let text = report.to_string();
        assert!(text.contains("| q01 | 4 | 1.0 | wrong |\n"), "{text}");
        assert!(text.contains("| q02 | 4 | error 0A000 |"), "{text}");
    }
}

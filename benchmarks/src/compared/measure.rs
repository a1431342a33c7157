//! The rounds of an item, and the comparison of its answers.

use super::answer::{AnswerDigest, CanonicalAnswer};
use super::item::ComparedItem;
use super::report::{AnswerCheck, ItemOutcome, ItemReport, median};
use super::server::{ComparedServer, Execution};

/// The executions of an item on one server.
struct Series {
    times_ms: Vec<f64>,
    /// The answer of the first execution.
    answer: Option<CanonicalAnswer>,
    /// The reason why no further execution follows.
    end: Option<ItemOutcome>,
    /// The first difference between two executions.
    difference: Option<String>,
}

/// Whether an execution counts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    WarmUp,
    Measured,
}

impl Series {
    /// Adds an execution, unless an earlier one has ended the series.
    fn add(&mut self, phase: Phase, execute: impl FnOnce() -> Execution) {
        if self.end.is_some() {
            return;
        }
        match execute() {
            Execution::Finished { elapsed, answer } => {
                if phase == Phase::Measured {
                    self.times_ms.push(elapsed.as_secs_f64() * 1e3);
                }
                let first = self.answer.get_or_insert_with(|| answer.clone());
                if self.difference.is_none() {
                    self.difference = first.first_difference(&answer);
                }
            }
            Execution::TimedOut => self.end = Some(ItemOutcome::TimedOut),
            Execution::Failed(failure) => self.end = Some(ItemOutcome::Failed(failure)),
        }
    }

    fn outcome(&self) -> ItemOutcome {
        match &self.end {
            Some(end) => end.clone(),
            None => ItemOutcome::Measured {
                median_ms: median(&self.times_ms),
            },
        }
    }
}

/// Runs an item on all servers in turn: a warm-up on each machine, then the rounds.
pub fn measure(
    item: &ComparedItem,
    rounds: usize,
    servers: &mut [ComparedServer],
    recorded: Option<&AnswerDigest>,
) -> ItemReport {
    let new_series = |_: &ComparedServer| Series {
        times_ms: Vec::new(),
        answer: None,
        end: None,
        difference: None,
    };
    let mut all: Vec<Series> = servers.iter().map(new_series).collect();
    for (server, series) in servers.iter_mut().zip(&mut all) {
        for machine in 0..server.machines() {
            series.add(Phase::WarmUp, || server.execute(machine, item));
        }
    }
    for round in 0..rounds {
        for (server, series) in servers.iter_mut().zip(&mut all) {
            series.add(Phase::Measured, || server.execute(round, item));
        }
    }
    let answer = all.iter().find_map(|series| series.answer.as_ref());
    ItemReport {
        check: check(servers, &all, recorded),
        digest: answer.map(CanonicalAnswer::digest),
        outcomes: all.iter().map(Series::outcome).collect(),
        name: item.name.clone(),
    }
}

/// Compares the answers of executions, of servers, and the recorded answer.
fn check(
    servers: &[ComparedServer],
    all: &[Series],
    recorded: Option<&AnswerDigest>,
) -> AnswerCheck {
    let answers = servers.iter().zip(all);
    for (server, series) in answers.clone() {
        if let Some(difference) = &series.difference {
            let label = &server.label;
            return AnswerCheck::Wrong(format!("two executions on {label} differ: {difference}"));
        }
    }
    let mut answers =
        answers.filter_map(|(server, series)| Some((server, series.answer.as_ref()?)));
    let Some((server, answer)) = answers.next() else {
        return AnswerCheck::NotChecked;
    };
    let other = answers.next();
    let difference = other.and_then(|(_, other)| answer.first_difference(other));
    if let (Some((other, _)), Some(difference)) = (other, difference) {
        let (one, other) = (&server.label, &other.label);
        return AnswerCheck::Wrong(format!("{one} and {other} differ: {difference}"));
    }
    match (recorded, other) {
        (Some(recorded), _) if *recorded == answer.digest() => AnswerCheck::AsRecorded,
        (Some(recorded), _) => AnswerCheck::Wrong(format!(
            "rows and checksum on {} are {}, recorded are {recorded}",
            server.label,
            answer.digest()
        )),
        (None, Some(_)) => AnswerCheck::ServersAgree,
        (None, None) => AnswerCheck::NotChecked,
    }
}

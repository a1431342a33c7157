//! The results of all runs: a few lines for readers, JSON for programs, and charts.

use std::fmt;

use fencepost_txn::network::Step;
use serde_json::{Value, json};

use super::charts;
use super::{Distribution, FailoverOptions, Run};

/// The outcome of all runs.
#[derive(Clone, Debug)]
pub struct FailoverReport {
    options: FailoverOptions,
    runs: Vec<Run>,
}

fn ms(ns: u64) -> f64 {
    ns as f64 / 1e6
}

fn or_never(time: Option<f64>) -> String {
    time.map_or("never".to_string(), |ms| format!("{ms:.1} ms"))
}

/// Formats a run as one line.
pub(super) fn line(number: usize, run: &Run) -> String {
    let recovery = &run.recovery;
    let broken = run.broken.as_deref();
    let broken = broken.map_or(String::new(), |broken| format!(", BROKEN: {broken}"));
    format!(
        "run {number}: {:.0} committed/s before; suspected after {}; 80 % after another {}; \
         longest gap {:.0} ms; before the kill 80 % took up to {:.0} ms{broken}",
        recovery.before * 1000.0,
        or_never(recovery.kill_to_suspicion),
        or_never(recovery.suspicion_to_served),
        recovery.longest_gap,
        recovery.longest_dip,
    )
}

impl FailoverReport {
    pub(super) fn new(options: FailoverOptions, runs: Vec<Run>) -> FailoverReport {
        FailoverReport { options, runs }
    }

    /// Returns the milliseconds from the first suspicion until 80 % of the throughput before the
    /// kill, over the runs that reached it.
    pub fn recovery_ms(&self) -> Option<Distribution> {
        self.of(|run| run.recovery.suspicion_to_served)
    }

    /// Returns the milliseconds from the kill until then.
    pub fn kill_to_served_ms(&self) -> Option<Distribution> {
        self.of(|run| run.recovery.kill_to_served)
    }

    fn of(&self, value: impl Fn(&Run) -> Option<f64>) -> Option<Distribution> {
        Distribution::of(self.runs.iter().filter_map(value))
    }

    /// Returns the milliseconds from the first suspicion until the last machine had taken a step.
    fn step_ms(&self, step: Step) -> Option<Distribution> {
        self.of(|run| {
            let (suspected, _) = run.steps.get(&Step::Suspect)?;
            let (_, last) = run.steps.get(&step)?;
            Some(ms(last.saturating_sub(*suspected)))
        })
    }

    /// Returns the number of runs after which the throughput did not recover.
    pub fn not_recovered(&self) -> usize {
        let runs = self.runs.iter();
        let lost = runs.filter(|run| run.recovery.suspicion_to_served.is_none());
        lost.count()
    }

    /// Returns the number of suspicions of machines that had not failed, in all runs.
    pub fn false_suspicions(&self) -> u64 {
        self.runs.iter().map(|run| run.false_suspicions).sum()
    }

    /// Returns the violated condition of the first run that has one.
    pub fn check(&self) -> Option<&str> {
        let mut broken = self.runs.iter().filter_map(|run| run.broken.as_deref());
        broken.next()
    }

    fn killed(&self) -> String {
        let killed = self.options.kill.iter();
        let killed: Vec<String> = killed.map(|number| format!("m{number}")).collect();
        killed.join(" and ")
    }

    fn title(&self) -> String {
        let FailoverOptions {
            load,
            machines,
            replicas,
            kill,
            lease,
            pin,
            ..
        } = &self.options;
        let manager = if kill.contains(&1) { " (the CM)" } else { "" };
        let pinned = if *pin { ", a processor each" } else { "" };
        format!(
            "{}, {machines} machines{pinned}, {replicas} replicas, lease {} ms, {}{manager} killed",
            load.name(),
            lease.as_millis(),
            self.killed()
        )
    }

    /// Returns the run with the median recovery time.
    fn typical(&self) -> Option<&Run> {
        let median = self.recovery_ms().map(|spread| spread.median);
        let is_it = |run: &&Run| median.is_some() && run.recovery.suspicion_to_served == median;
        self.runs.iter().find(is_it).or(self.runs.first())
    }

    /// Returns the run with the longest recovery, or one that did not recover.
    fn longest(&self) -> Option<&Run> {
        let took = |run: &Run| run.recovery.suspicion_to_served.unwrap_or(f64::INFINITY);
        let mut runs: Vec<&Run> = self.runs.iter().collect();
        runs.sort_by(|a, b| took(a).total_cmp(&took(b)));
        runs.pop()
    }

    /// Returns the charts by name: `timeline` and `whole` of a typical run, `longest`, and
    /// `distribution`.
    pub fn pictures(&self) -> Vec<(&'static str, String)> {
        let title = self.title();
        let mut pictures = Vec::new();
        if let Some(run) = self.typical() {
            pictures.push(("timeline", charts::around_the_kill(&title, run)));
            pictures.push(("whole", charts::whole(&title, run)));
        }
        if let Some(run) = self.longest() {
            pictures.push(("longest", charts::whole(&title, run)));
        }
        pictures.push(("distribution", charts::distribution(&title, &self.runs)));
        pictures
    }

    /// Returns the report as JSON.
    pub fn to_json(&self) -> Value {
        let spread = |spread: Option<Distribution>| {
            spread.map(|spread| {
                json!({
                    "median": round(spread.median),
                    "p90": round(spread.p90),
                    "max": round(spread.max),
                })
            })
        };
        let steps = Step::ALL
            .into_iter()
            .map(|step| (step.name().to_string(), json!(spread(self.step_ms(step)))));
        let each = self.runs.iter().map(|run| {
            json!({
                "before_per_s": round(run.recovery.before * 1000.0),
                "kill_to_suspicion_ms": run.recovery.kill_to_suspicion.map(round),
                "recovery_ms": run.recovery.suspicion_to_served.map(round),
                "kill_to_served_ms": run.recovery.kill_to_served.map(round),
                "longest_gap_ms": round(run.recovery.longest_gap),
                "longest_dip_before_ms": round(run.recovery.longest_dip),
                "false_suspicions": run.false_suspicions,
                "check": run.broken.as_deref().unwrap_or("ok"),
            })
        });
        let options = &self.options;
        json!({
            "workload": options.load.name(),
            "via": "native",
            "durability": "memory",
            "fabric": { "kind": "shm" },
            "machines": options.machines,
            "replicas": options.replicas,
            "threads": options.threads * options.machines as usize,
            "in_flight": options.in_flight,
            "rows": options.rows,
            "seed": options.seed,
            "lease_ms": options.lease.as_millis() as u64,
            "killed": options.kill,
            "pinned": options.pin,
            "runs": self.runs.len(),
            "before_per_s": spread(self.of(|run| Some(run.recovery.before * 1000.0))),
            "kill_to_suspicion_ms": spread(self.of(|run| run.recovery.kill_to_suspicion)),
            "recovery_ms": spread(self.recovery_ms()),
            "kill_to_served_ms": spread(self.kill_to_served_ms()),
            "longest_gap_ms": spread(self.of(|run| Some(run.recovery.longest_gap))),
            "longest_dip_before_ms": spread(self.of(|run| Some(run.recovery.longest_dip))),
            "steps_ms": Value::Object(steps.collect()),
            "not_recovered": self.not_recovered(),
            "false_suspicions": self.false_suspicions(),
            "each": each.collect::<Vec<_>>(),
            "check": self.check().unwrap_or("ok"),
        })
    }
}

fn round(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

impl fmt::Display for FailoverReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}; {} run(s)", self.title(), self.runs.len())?;
        if let Some(before) = self.of(|run| Some(run.recovery.before * 1000.0)) {
            writeln!(f, "  before       {:>12.0} committed/s", before.median)?;
        }
        writeln!(f, "  milliseconds                 median     90 %      max")?;
        let mut row = |name: &str, spread: Option<Distribution>| match spread {
            Some(Distribution { median, p90, max }) => {
                writeln!(f, "  {name:<24} {median:>10.1} {p90:>8.1} {max:>8.1}")
            }
            None => writeln!(f, "  {name:<24} {:>10}", "never"),
        };
        row(
            "kill to suspicion",
            self.of(|run| run.recovery.kill_to_suspicion),
        )?;
        row("suspicion to 80 %", self.recovery_ms())?;
        row("kill to 80 %", self.kill_to_served_ms())?;
        row(
            "longest without a commit",
            self.of(|run| Some(run.recovery.longest_gap)),
        )?;
        row(
            "longest to 80 % before",
            self.of(|run| Some(run.recovery.longest_dip)),
        )?;
        for step in Step::ALL.into_iter().skip(1) {
            if let Some(spread) = self.step_ms(step) {
                row(&format!("  suspicion to {}", step.name()), Some(spread))?;
            }
        }
        let lost = self.not_recovered();
        if lost > 0 {
            writeln!(f, "  runs that did not reach 80 % again: {lost}")?;
        }
        writeln!(f, "  false suspicions {}", self.false_suspicions())?;
        write!(f, "  check      {}", self.check().unwrap_or("ok"))
    }
}

/// Returns valid options.
#[cfg(test)]
pub(super) fn options_for_tests() -> FailoverOptions {
    use std::time::Duration;

    FailoverOptions {
        machines: 3,
        replicas: 3,
        kill: vec![3],
        lease: Duration::from_millis(100),
        before: Duration::from_secs(1),
        after: Duration::from_secs(1),
        runs: 2,
        threads: 1,
        in_flight: 1,
        load: super::Load::Tatp,
        rows: 100,
        seed: 1,
        region_bytes: None,
        memory_limit: None,
        pin: false,
        progress: false,
    }
}

/// Returns a run with a kill after 100 ms, a suspicion 40 ms later, and restored service 20 ms
/// after that.
#[cfg(test)]
pub(super) fn run_for_tests() -> Run {
    use super::Recovery;
    use super::buckets::BUCKET_NS;

    let counts = [vec![50; 100], vec![0; 60], vec![50; 100]].concat();
    let at = |ms: u64| (ms * BUCKET_NS, (ms + 1) * BUCKET_NS);
    let steps = [
        (Step::Suspect, at(140)),
        (Step::Commit, at(150)),
        (Step::AllActive, at(158)),
    ];
    let suspected = Some(140 * BUCKET_NS);
    Run {
        recovery: Recovery::of(&counts, 25, 100 * BUCKET_NS, suspected),
        counts,
        killed_ns: 100 * BUCKET_NS,
        steps: steps.into(),
        false_suspicions: 0,
        broken: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> FailoverReport {
        let mut lost = run_for_tests();
        lost.recovery.suspicion_to_served = None;
        lost.recovery.kill_to_served = None;
        lost.false_suspicions = 1;
        lost.broken = Some("m2: a row is gone".to_string());
        FailoverReport::new(options_for_tests(), vec![run_for_tests(), lost])
    }

    #[test]
    fn report_lists_durations_and_errors() {
        let report = report();
        let recovery = report.recovery_ms().expect("one has recovered");
        assert_eq!((recovery.median, recovery.max), (21.0, 21.0));
        assert_eq!((report.not_recovered(), report.false_suspicions()), (1, 1));
        let json = report.to_json();
        assert_eq!(json["recovery_ms"]["median"], 21.0);
        assert_eq!(json["steps_ms"]["commit"]["max"], 11.0);
        assert!(json["steps_ms"]["drained"].is_null());
        assert_eq!(json["check"], "m2: a row is gone");
        let text = report.to_string();
        for words in ["m3 killed", "did not reach 80 % again: 1", "a row is gone"] {
            assert!(text.contains(words), "{words} in {text}");
        }
        let names = report.pictures().into_iter().map(|(name, _)| name);
        assert!(names.eq(["timeline", "whole", "longest", "distribution"]));
        let longest = report.longest().expect("there are runs");
        assert_eq!(longest.recovery.suspicion_to_served, None);
    }
}

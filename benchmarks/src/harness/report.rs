//! The results of a run: a few lines for readers, JSON for programs.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Value, json};

use super::run::{Measurement, RunOptions};
use super::workload::Counters;

/// The parameters of a run, as the caller knows them.
#[derive(Clone, Debug, Default)]
pub struct RunParameters {
    /// `native`, `embedded` or `pg`.
    pub via: String,
    /// The durability tier, or `server` if the server decides.
    pub durability: String,
    /// The number of machines of the database.
    pub machines: usize,
    /// The number of machines with a copy of each region.
    pub replicas: usize,
    /// The fabric between the machines, or `none`.
    pub fabric: String,
    /// The workload's parameters by name.
    pub parameters: BTreeMap<String, Value>,
}

/// Latencies in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Latency {
    /// The mean.
    pub mean: f64,
    /// The median.
    pub p50: f64,
    /// 95th percentile.
    pub p95: f64,
    /// 99th percentile.
    pub p99: f64,
    /// 99.9th percentile.
    pub p999: f64,
    /// The maximum.
    pub max: f64,
}

/// The constants of a workload.
pub(super) struct WorkloadConstants {
    pub name: &'static str,
    pub kinds: &'static [&'static str],
    pub sampled: u64,
}

/// The outcome of a run.
#[derive(Clone, Debug)]
pub struct Report {
    /// The name of the workload.
    pub workload: String,
    /// The parameters of the run.
    pub facts: RunParameters,
    /// The number of threads.
    pub threads: usize,
    /// The number of clients of each thread.
    pub in_flight: usize,
    /// The measured time in seconds.
    pub seconds: f64,
    /// The number of committed requests.
    pub committed: u64,
    /// The committed requests by kind; empty if there is only one kind.
    pub kinds: BTreeMap<String, u64>,
    /// The number of attempts: committed, failed and aborted.
    pub attempted: u64,
    /// The requests that the data refused, by reason.
    pub failed: BTreeMap<String, u64>,
    /// The attempts that conflicted, by reason.
    pub aborts: BTreeMap<String, u64>,
    /// The latency of requests, including attempts that conflicted.
    pub latency: Latency,
    /// One request in this many was timed.
    pub sampled: u64,
    /// The operation counters of the measured time.
    pub counters: Counters,
    /// The violated condition of the data; `None` if there is none.
    pub check: Option<String>,
}

impl Report {
    pub(super) fn new(
        about: &WorkloadConstants,
        facts: RunParameters,
        options: &RunOptions,
        measured: &Measurement,
        check: Option<String>,
    ) -> Report {
        let meter = &measured.meter;
        let owned = |counts: &BTreeMap<&'static str, u64>| {
            counts
                .iter()
                .map(|(reason, count)| ((*reason).to_string(), *count))
                .collect()
        };
        let us = |ns: u64| ns as f64 / 1000.0;
        let at = |quantile: f64| us(meter.latency_ns.value_at_quantile(quantile));
        let refused: u64 = meter.failed.values().chain(meter.aborted.values()).sum();
        Report {
            workload: about.name.to_string(),
            facts,
            threads: options.threads.max(1),
            in_flight: options.in_flight.max(1),
            seconds: measured.took.as_secs_f64(),
            committed: meter.committed,
            kinds: about
                .kinds
                .iter()
                .zip(&meter.by_kind)
                .map(|(kind, count)| ((*kind).to_string(), *count))
                .collect(),
            attempted: meter.committed + refused,
            failed: owned(&meter.failed),
            aborts: owned(&meter.aborted),
            latency: Latency {
                mean: meter.latency_ns.mean() / 1000.0,
                p50: at(0.5),
                p95: at(0.95),
                p99: at(0.99),
                p999: at(0.999),
                max: us(meter.latency_ns.max()),
            },
            sampled: about.sampled,
            counters: measured.counters.clone(),
            check,
        }
    }

    /// Returns the committed requests per second.
    pub fn committed_per_s(&self) -> f64 {
        self.committed as f64 / self.seconds.max(1e-9)
    }

    /// Returns the committed requests of a kind per second.
    pub fn kind_per_s(&self, kind: &str) -> f64 {
        let count = self.kinds.get(kind).copied().unwrap_or(0);
        count as f64 / self.seconds.max(1e-9)
    }

    /// Returns the attempts per second.
    pub fn attempted_per_s(&self) -> f64 {
        self.attempted as f64 / self.seconds.max(1e-9)
    }

    /// Returns whether the data was correct after the run.
    pub fn is_ok(&self) -> bool {
        self.check.is_none()
    }

    /// Returns the report as JSON.
    pub fn to_json(&self) -> Value {
        let each = |count: u64| round(count as f64 / (self.committed.max(1)) as f64, 4);
        let kinds: BTreeMap<&str, f64> = self
            .kinds
            .keys()
            .map(|kind| (kind.as_str(), round(self.kind_per_s(kind), 1)))
            .collect();
        json!({
            "workload": self.workload,
            "via": self.facts.via,
            "durability": self.facts.durability,
            "machines": self.facts.machines,
            "replicas": self.facts.replicas,
            "threads": self.threads,
            "in_flight": self.in_flight,
            "seconds": round(self.seconds, 3),
            "parameters": self.facts.parameters,
            "committed_per_s": round(self.committed_per_s(), 1),
            "attempted_per_s": round(self.attempted_per_s(), 1),
            "kinds_per_s": kinds,
            "failed": self.failed,
            "aborts": self.aborts,
            "latency_us": {
                "mean": round(self.latency.mean, 3),
                "p50": self.latency.p50,
                "p95": self.latency.p95,
                "p99": self.latency.p99,
                "p999": self.latency.p999,
                "max": self.latency.max,
                "sampled_one_in": self.sampled,
            },
            "fabric": {
                "kind": self.facts.fabric,
                "reads": each(self.counters.reads),
                "writes": each(self.counters.writes),
                "messages": each(self.counters.messages),
            },
            "counters": self.counters.others,
            "check": self.check.as_deref().unwrap_or("ok"),
        })
    }
}

fn round(value: f64, digits: i32) -> f64 {
    let scale = 10f64.powi(digits);
    (value * scale).round() / scale
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} via {} ({}), {} thread(s) of {} client(s), {:.1} s",
            self.workload,
            self.facts.via,
            self.facts.durability,
            self.threads,
            self.in_flight,
            self.seconds
        )?;
        if self.facts.machines > 1 {
            let RunParameters {
                machines,
                replicas,
                fabric,
                ..
            } = &self.facts;
            writeln!(
                f,
                "  {machines} machines over {fabric}, {replicas} replica(s)"
            )?;
        }
        writeln!(f, "  committed  {:>14.0} /s", self.committed_per_s())?;
        for kind in self.kinds.keys() {
            writeln!(f, "    {kind:<18} {:>6.0} /s", self.kind_per_s(kind))?;
        }
        writeln!(f, "  attempted  {:>14.0} /s", self.attempted_per_s())?;
        for (what, counts) in [("refused", &self.failed), ("aborted", &self.aborts)] {
            for (reason, count) in counts {
                writeln!(f, "  {what:<10} {count:>14}    {reason}")?;
            }
        }
        let l = &self.latency;
        writeln!(
            f,
            "  latency us  p50 {:.2}  p95 {:.2}  p99 {:.2}  p99.9 {:.2}  max {:.0}",
            l.p50, l.p95, l.p99, l.p999, l.max
        )?;
        if self.counters.reads > 0 {
            let reads = self.counters.reads as f64 / self.committed.max(1) as f64;
            writeln!(f, "  one-sided reads {reads:.3} a commit")?;
        }
        if self.counters.writes > 0 {
            let writes = self.counters.writes as f64 / self.committed.max(1) as f64;
            writeln!(f, "  one-sided writes {writes:.3} a commit")?;
        }
        write!(f, "  check      {}", self.check.as_deref().unwrap_or("ok"))
    }
}

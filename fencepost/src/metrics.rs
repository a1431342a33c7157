//! Metrics of a machine. They are computed on request, so that statements pay nothing for them.
//!
//! Names follow Prometheus: counters end with `_total`, units are base units. Labels distinguish
//! the samples of a metric. All metrics are about this machine since its start.

use std::sync::Arc;

use fencepost_sql::counts::{Count, DATABASE, Event, Totals};
use fencepost_sql::sessions::Activity;
use fencepost_storage::Account;
use fencepost_txn::AbortReason;
use fencepost_txn::network::PostKind;

use crate::database::Database;
use crate::databases::DatabaseState;

/// The kind of a metric, as of Prometheus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// A sum that only grows.
    Counter,
    /// A current value that rises and falls.
    Gauge,
}

/// A metric: its values by their labels.
#[derive(Clone, Debug, PartialEq)]
pub struct Metric {
    /// The name in Prometheus form.
    pub name: &'static str,
    /// The description for people.
    pub help: &'static str,
    /// Counter or gauge.
    pub kind: MetricKind,
    /// One sample for each combination of labels.
    pub samples: Vec<Sample>,
}

/// A value of a metric.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// The names and values of the labels.
    pub labels: Vec<(&'static str, String)>,
    /// The value.
    pub value: f64,
}

impl Metric {
    /// Returns a metric without values.
    pub fn new(kind: MetricKind, name: &'static str, help: &'static str) -> Metric {
        Metric {
            name,
            help,
            kind,
            samples: Vec::new(),
        }
    }

    /// Returns a counter with one value.
    pub fn counter(name: &'static str, help: &'static str, value: u64) -> Metric {
        Metric::new(MetricKind::Counter, name, help).with(&[], value as f64)
    }

    /// Returns a gauge with one value.
    pub fn gauge(name: &'static str, help: &'static str, value: f64) -> Metric {
        Metric::new(MetricKind::Gauge, name, help).with(&[], value)
    }

    /// Adds a value with labels.
    pub fn with(mut self, labels: &[(&'static str, &str)], value: f64) -> Metric {
        let labels = labels.iter();
        self.samples.push(Sample {
            labels: labels
                .map(|(name, value)| (*name, (*value).to_owned()))
                .collect(),
            value,
        });
        self
    }

    fn counts<'a>(
        name: &'static str,
        help: &'static str,
        label: &'static str,
        values: impl IntoIterator<Item = (&'a str, u64)>,
    ) -> Metric {
        let metric = Metric::new(MetricKind::Counter, name, help);
        let with = |metric: Metric, (value, count): (&str, u64)| {
            metric.with(&[(label, value)], count as f64)
        };
        values.into_iter().fold(metric, with)
    }
}

fn flag(is_so: bool) -> f64 {
    f64::from(u8::from(is_so))
}

impl Database {
    /// Returns the metrics of this machine since its start: transactions, sessions, memory, log,
    /// plan cache and cluster. Durations are in seconds and sizes in bytes. The caller renders
    /// them, for example for Prometheus; `fencepost start --metrics-listen` does so over HTTP.
    ///
    /// ```
    /// # let db = fencepost::Database::in_memory()?;
    /// let sessions = db.metrics().into_iter().find(|metric| metric.name == "fencepost_sessions");
    /// for sample in sessions.into_iter().flat_map(|metric| metric.samples) {
    ///     println!("{:?} {}", sample.labels, sample.value);
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn metrics(&self) -> Vec<Metric> {
        let mut all = Vec::new();
        self.transaction_metrics(&mut all);
        self.fabric_metrics(&mut all);
        self.storage_metrics(&mut all);
        self.cluster_metrics(&mut all);
        self.machine_metrics(&mut all);
        self.session_metrics(&mut all);
        self.database_metrics(&mut all);
        all
    }

    fn transaction_metrics(&self, all: &mut Vec<Metric>) {
        let totals = self.machine().counters().totals();
        all.push(Metric::counts(
            "fencepost_transactions_committed_total",
            "Transactions that have committed, by whether they wrote.",
            "kind",
            [
                ("read", totals.committed_reads),
                ("write", totals.committed_writes),
            ],
        ));
        let reasons = AbortReason::ALL.iter().map(|reason| reason.name());
        all.push(Metric::counts(
            "fencepost_transactions_aborted_total",
            "Attempts of transactions that were aborted, by reason; \
             most of them are retried unseen.",
            "reason",
            reasons.zip(totals.aborts),
        ));
        all.push(Metric::counts(
            "fencepost_transaction_events_total",
            "What transactions have met.",
            "event",
            [
                ("refresh", totals.refreshes),
                ("old_version_read", totals.old_version_reads),
                ("lock_wait", totals.lock_waits),
                ("intent_wait", totals.intent_waits),
                ("patch_reapplied", totals.patches_reapplied),
                ("version_awaited", totals.versions_awaited),
            ],
        ));
    }

    fn fabric_metrics(&self, all: &mut Vec<Metric>) {
        let traffic = self.machine().traffic();
        let posted = PostKind::ALL.map(|what| (what.name(), traffic.of(what)));
        all.push(Metric::counts(
            "fencepost_fabric_operations_total",
            "One-sided reads, log records and messages that were posted to other machines, \
             by what they were for.",
            "kind",
            posted,
        ));
        let shipped = self.shipped();
        all.push(Metric::counts(
            "fencepost_statements_shipped_total",
            "Statements, and parts of statements, that ran on another machine than their \
             session's.",
            "kind",
            [
                ("sent", shipped.sent),
                ("served", shipped.served),
                ("returned", shipped.returned),
                ("parts_sent", shipped.parts_sent),
                ("parts_served", shipped.parts_served),
                ("parts_returned", shipped.parts_returned),
            ],
        ));
    }

    fn storage_metrics(&self, all: &mut Vec<Metric>) {
        let machine = self.machine();
        let account = machine.account();
        let limit = match account.limit() {
            Account::NO_LIMIT => 0,
            limit => limit,
        };
        all.push(
            Metric::new(
                MetricKind::Gauge,
                "fencepost_memory_bytes",
                "Memory of the data, by use, and its limit; a limit of 0 is none.",
            )
            .with(&[("use", "regions_and_versions")], account.used() as f64)
            .with(&[("use", "limit")], limit as f64),
        );
        let help = "Regions that this machine is the primary of.";
        let regions = f64::from(machine.regions().count());
        all.push(Metric::gauge("fencepost_regions", help, regions));
        let log = machine.log_counters();
        if let Some(log) = &log {
            for (name, help, value) in [
                (
                    "fencepost_log_flushes_total",
                    "Flushes of the log, each of which makes all commits durable that wait.",
                    log.flushes,
                ),
                (
                    "fencepost_log_flushed_bytes_total",
                    "Bytes that were written to the log.",
                    log.flushed_bytes,
                ),
                (
                    "fencepost_log_flushed_records_total",
                    "Records that were written to the log.",
                    log.flushed_records,
                ),
                (
                    "fencepost_log_waits_total",
                    "Reservations of log space that had to wait.",
                    log.append_waits,
                ),
                (
                    "fencepost_log_refused_total",
                    "Reservations of log space that were refused because the disk was full.",
                    log.refused,
                ),
            ] {
                all.push(Metric::counter(name, help, value));
            }
        }
        if let Some(taken) = machine.checkpoint_counters() {
            let (name, help) = (
                "fencepost_checkpoints_total",
                "Checkpoints by how they ended.",
            );
            let ended = [("ok", taken.taken), ("failed", taken.failed)];
            all.push(Metric::counts(name, help, "outcome", ended));
            let (name, help) = (
                "fencepost_checkpoint_bytes_total",
                "Bytes that were written to checkpoints.",
            );
            all.push(Metric::counter(name, help, taken.bytes));
        }
    }

    fn cluster_metrics(&self, all: &mut Vec<Metric>) {
        let machine = self.machine();
        let members = machine.members();
        let me = members.me.to_string();
        all.push(
            Metric::new(
                MetricKind::Gauge,
                "fencepost_build_info",
                "1, with the version and the number of the machine.",
            )
            .with(
                &[("version", env!("CARGO_PKG_VERSION")), ("machine", &me)],
                1.0,
            ),
        );
        for (name, help, value) in [
            (
                "fencepost_configuration_id",
                "Number of the configuration that this machine is in.",
                members.configuration as f64,
            ),
            (
                "fencepost_configuration_machines",
                "Machines of the configuration.",
                members.machines.len() as f64,
            ),
            (
                "fencepost_configuration_replicas",
                "Copies that each region is to have.",
                members.replicas as f64,
            ),
            (
                "fencepost_is_manager",
                "1 on the configuration manager.",
                flag(members.manager == members.me),
            ),
            (
                "fencepost_is_member",
                "0 once the others go on without this machine.",
                flag(self.is_member()),
            ),
            (
                "fencepost_has_lease",
                "1 while this machine has its lease and no other configuration is being made.",
                flag(machine.is_answering()),
            ),
        ] {
            all.push(Metric::gauge(name, help, value));
        }
    }

    /// Adds the metrics about other machines, leases and data recovery.
    fn machine_metrics(&self, all: &mut Vec<Metric>) {
        let machine = self.machine();
        let members = machine.members();
        let mut reachable = Metric::new(
            MetricKind::Gauge,
            "fencepost_machine_reachable",
            "1 if another machine could be written to when that was last tried.",
        );
        let mut uncertainty = Metric::new(
            MetricKind::Gauge,
            "fencepost_clock_uncertainty_seconds",
            "How uncertain a machine was of the manager's time when it last answered.",
        );
        for member in &members.machines {
            let id = member.id.to_string();
            let labels = [("machine", id.as_str())];
            reachable = reachable.with(&labels, flag(member.reachable));
            if let Some(ns) = member.clock_uncertainty_ns {
                uncertainty = uncertainty.with(&labels, ns as f64 / 1e9);
            }
        }
        all.extend([reachable, uncertainty]);
        if let Some(leases) = machine.lease_counts() {
            all.push(Metric::counts(
                "fencepost_leases_total",
                "Leases: renewals of this machine's own, those of others that have expired here, \
                 and those that were renewed after all.",
                "event",
                [
                    ("renewed", leases.renewals),
                    ("expired", leases.expired),
                    ("returned", leases.returned),
                ],
            ));
        }
        let copied = machine.data_recovery_counts();
        all.push(Metric::counts(
            "fencepost_data_recovery_bytes_total",
            "Bytes of data recovery: read from primaries, \
             or found in what this machine had before it was out.",
            "from",
            [
                ("primary", copied.read_bytes),
                ("retained", copied.retained_bytes),
            ],
        ));
    }

    fn session_metrics(&self, all: &mut Vec<Metric>) {
        let activities = self.shared().register.activities();
        let mut sessions = Metric::new(
            MetricKind::Gauge,
            "fencepost_sessions",
            "Sessions by state, as pg_stat_activity has it.",
        );
        for activity in Activity::ALL {
            let count = activities.iter().filter(|of| **of == activity).count();
            sessions = sessions.with(&[("state", activity.name())], count as f64);
        }
        all.push(sessions);
    }

    fn database_metrics(&self, all: &mut Vec<Metric>) {
        let counted = self.counted();
        let by = |name, help, label: &'static str, of: &[(&'static str, DatabaseCounter)]| {
            let mut metric = Metric::new(MetricKind::Counter, name, help);
            for (database, totals, _) in &counted {
                for (value, count) in of {
                    let labels = [("database", database.as_str()), (label, *value)];
                    metric = metric.with(&labels, count.of(totals) as f64);
                }
            }
            metric
        };
        all.push(by(
            "fencepost_database_transactions_total",
            "Transactions of sessions, by how they ended.",
            "outcome",
            &[
                ("commit", DatabaseCounter::Event(Event::Commits)),
                ("rollback", DatabaseCounter::Event(Event::Rollbacks)),
                ("deadlock", DatabaseCounter::Event(Event::Deadlocks)),
            ],
        ));
        all.push(by(
            "fencepost_database_conflicts_saved_total",
            "Conflicts that clients were not told of, by what was done: a serializable block was \
             run again.",
            "by",
            &[("replay", DatabaseCounter::Event(Event::Replays))],
        ));
        all.push(by(
            "fencepost_database_sessions_total",
            "Sessions that were opened, and those that an administrator ended.",
            "event",
            &[
                ("opened", DatabaseCounter::Event(Event::Sessions)),
                ("killed", DatabaseCounter::Event(Event::Killed)),
            ],
        ));
        all.push(by(
            "fencepost_database_rows_total",
            "Rows of tables and entries of indexes, by what was done with them.",
            "operation",
            &[
                ("returned", DatabaseCounter::Rows(Count::Returned)),
                ("fetched", DatabaseCounter::Rows(Count::Fetched)),
                ("inserted", DatabaseCounter::Rows(Count::Inserted)),
                ("updated", DatabaseCounter::Rows(Count::Updated)),
                ("deleted", DatabaseCounter::Rows(Count::Deleted)),
            ],
        ));
        let mut lookups = Metric::new(
            MetricKind::Counter,
            "fencepost_plan_cache_lookups_total",
            "Lookups of statements in the plan cache.",
        );
        let mut plans = Metric::new(
            MetricKind::Gauge,
            "fencepost_plan_cache_plans",
            "Plans in the plan cache.",
        );
        for (database, _, served) in &counted {
            let cache = served.plans.counts();
            for (outcome, count) in [("hit", cache.hits), ("miss", cache.misses)] {
                let labels = [("database", database.as_str()), ("outcome", outcome)];
                lookups = lookups.with(&labels, count as f64);
            }
            plans = plans.with(&[("database", database)], cache.plans as f64);
        }
        all.extend([lookups, plans]);
    }

    /// Returns the databases that are open here, with their names and the counters of their
    /// sessions.
    fn counted(&self) -> Vec<(String, Totals, Arc<DatabaseState>)> {
        let shared = self.shared();
        let (catalog, _) = shared.newest_catalog(&shared.databases.first);
        let databases = catalog.databases().iter();
        databases
            .filter_map(|database| {
                let served = shared.databases.known(database.id)?;
                Some((database.name.clone(), served.tallies.totals(), served))
            })
            .collect()
    }
}

/// A counter of a database.
#[derive(Clone, Copy)]
enum DatabaseCounter {
    Event(Event),
    /// The sum over all relations of the database.
    Rows(Count),
}

impl DatabaseCounter {
    fn of(self, totals: &Totals) -> u64 {
        match self {
            DatabaseCounter::Event(event) => u64::try_from(totals.event(event)).unwrap_or(0),
            DatabaseCounter::Rows(count) => {
                let relations = totals.counts.iter();
                let relations = relations.filter(|(id, _)| **id != DATABASE);
                relations.map(|(_, cells)| cells[count as usize]).sum()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(all: &[Metric], name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let metric = all.iter().find(|metric| metric.name == name)?;
        let has = |sample: &&Sample| {
            let mut labels = labels.iter();
            labels.all(|(name, value)| {
                let mut own = sample.labels.iter();
                own.any(|(own, of)| own == name && of == value)
            })
        };
        metric.samples.iter().find(has).map(|sample| sample.value)
    }

    #[test]
    fn statements_are_counted_in_metrics() {
        let database = Database::in_memory().expect("opens");
        let mut session = database.blocking();
        session
            .execute("CREATE TABLE t (a int PRIMARY KEY)", &[])
            .expect("it runs");
        for _ in 0..3 {
            session
                .execute("INSERT INTO t SELECT coalesce(max(a), 0) + 1 FROM t", &[])
                .expect("it runs");
        }
        let all = database.metrics();
        let of = |name, labels: &[_]| value(&all, name, labels);
        let first = ("database", "postgres");
        let rows = of(
            "fencepost_database_rows_total",
            &[first, ("operation", "inserted")],
        );
        assert_eq!(rows, Some(3.0));
        assert!(
            of(
                "fencepost_transactions_committed_total",
                &[("kind", "write")]
            ) >= Some(4.0)
        );
        assert!(
            of(
                "fencepost_plan_cache_lookups_total",
                &[first, ("outcome", "hit")]
            ) >= Some(2.0)
        );
        assert_eq!(of("fencepost_has_lease", &[]), Some(1.0));
        assert_eq!(of("fencepost_log_flushes_total", &[]), None);
        assert!(of("fencepost_memory_bytes", &[("use", "regions_and_versions")]) > Some(0.0));
        for metric in &all {
            let is_counter = metric.name.ends_with("_total");
            assert_eq!(
                is_counter,
                metric.kind == MetricKind::Counter,
                "{}",
                metric.name
            );
            assert!(metric.name.starts_with("fencepost_") && metric.help.ends_with('.'));
        }
    }
}

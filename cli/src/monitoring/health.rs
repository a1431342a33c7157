//! The stage of a server, and its metrics.

use std::time::Instant;

use fencepost::{Database, Metric};
use fencepost_pgserver::ServerCounts;
use parking_lot::Mutex;

use super::render::render;

/// A server that serves.
pub struct Serving {
    pub database: Database,
    pub counts: ServerCounts,
    /// Lines of the log that were dropped.
    pub dropped: Box<dyn Fn() -> u64 + Send + Sync>,
}

enum Stage {
    /// The database is opened, recovery included.
    Starting,
    Serving(Box<Serving>),
    /// Sessions end.
    Stopping,
}

/// How far a server is.
pub struct Health {
    stage: Mutex<Stage>,
    began: Instant,
}

impl Health {
    /// That of a server that begins.
    pub fn starting() -> Health {
        Health {
            stage: Mutex::new(Stage::Starting),
            began: Instant::now(),
        }
    }

    /// Clients are served from now on.
    pub fn serves(&self, serving: Serving) {
        *self.stage.lock() = Stage::Serving(Box::new(serving));
    }

    /// Clients are served no longer. The database is let go of.
    pub fn stops(&self) {
        let before = std::mem::replace(&mut *self.stage.lock(), Stage::Stopping);
        drop(before);
    }

    /// Why clients are not served; `None` while they are.
    pub fn unready(&self) -> Option<&'static str> {
        match &*self.stage.lock() {
            Stage::Starting => Some("the database is being opened"),
            Stage::Stopping => Some("the server is stopping"),
            Stage::Serving(serving) if !serving.database.is_member() => {
                Some("the machine is no member of its cluster any more")
            }
            Stage::Serving(serving) if !serving.database.machine().is_answering() => {
                Some("the machine has no lease, or its cluster changes its configuration")
            }
            Stage::Serving(_) => None,
        }
    }

    /// The metrics in the format of Prometheus; `None` while the database is not open.
    pub fn metrics(&self) -> Option<String> {
        let stage = self.stage.lock();
        let Stage::Serving(serving) = &*stage else {
            return None;
        };
        let mut all = serving.database.metrics();
        all.extend(serving.counts.metrics());
        all.push(Metric::counter(
            "fencepost_log_lines_dropped_total",
            "Lines of the server's log that were dropped, because they came faster than they could be written.",
            (serving.dropped)(),
        ));
        all.push(Metric::gauge(
            "fencepost_uptime_seconds",
            "How long the process has run.",
            self.began.elapsed().as_secs_f64(),
        ));
        if let Some(bytes) = resident_bytes() {
            all.push(Metric::gauge(
                "process_resident_memory_bytes",
                "Resident memory of the process.",
                bytes,
            ));
        }
        Some(render(&all, &serving.counts.durations()))
    }
}

fn resident_bytes() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some((kilobytes << 10) as f64)
}

//! The state of a server, and its metrics.

use std::time::Instant;

use fencepost::{Database, Metric};
use fencepost_pgserver::ServerCounts;
use parking_lot::Mutex;

use super::render::render;

/// The parts of a serving server.
pub struct ServerParts {
    pub database: Database,
    pub counts: ServerCounts,
    /// Returns the number of dropped log lines.
    pub dropped: Box<dyn Fn() -> u64 + Send + Sync>,
}

enum Stage {
    /// The database is being opened, including recovery.
    Starting,
    Serving(Box<ServerParts>),
    /// The sessions are ending.
    Stopping,
}

/// The state of a server.
pub struct Health {
    stage: Mutex<Stage>,
    began: Instant,
}

impl Health {
    /// Returns the state of a starting server.
    pub fn starting() -> Health {
        Health {
            stage: Mutex::new(Stage::Starting),
            began: Instant::now(),
        }
    }

    /// Records that clients are served from now on.
    pub fn serves(&self, serving: ServerParts) {
        *self.stage.lock() = Stage::Serving(Box::new(serving));
    }

    /// Records that clients are no longer served, and drops the database.
    pub fn stops(&self) {
        let before = std::mem::replace(&mut *self.stage.lock(), Stage::Stopping);
        drop(before);
    }

    /// Returns why clients are not served; `None` while they are.
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

    /// Returns the metrics in the format of Prometheus; `None` while the database is not open.
    pub fn metrics(&self) -> Option<String> {
        let stage = self.stage.lock();
        let Stage::Serving(serving) = &*stage else {
            return None;
        };
        let mut all = serving.database.metrics();
        all.extend(serving.counts.metrics());
        all.push(Metric::counter(
            "fencepost_log_lines_dropped_total",
            "Lines of the server's log that were dropped, \
             because they came faster than they could be written.",
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

//! `log_lock_waits`: logs waits for locks that last longer than `deadlock_timeout`, and the time at
//! which the lock is acquired.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use fencepost::{Database, LockWait};

use crate::engine;
use crate::log::{Client, Entry, emit};

type LockWaitQuery = Pin<Box<dyn Future<Output = Option<LockWait>>>>;

/// The lock-wait log of one piece of work.
pub(super) struct LockWaitLog {
    since: Instant,
    /// The pending query for the lock that the session waits for.
    asked: Option<LockWaitQuery>,
    found: Option<LockWait>,
}

impl LockWaitLog {
    /// Starts a timer of `patience`, after which it queries the lock that session `pid` waits for.
    pub(super) fn start(patience: Duration, database: &Database, pid: i32) -> LockWaitLog {
        let database = database.clone();
        let asked = async move {
            tokio::time::sleep(patience).await;
            engine::lock_wait(&database, pid).await
        };
        LockWaitLog {
            since: Instant::now(),
            asked: Some(Box::pin(asked)),
            found: None,
        }
    }

    /// Logs the lock wait, once the query has found one.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>, client: &Client) {
        let Some(asked) = &mut self.asked else { return };
        let Poll::Ready(found) = asked.as_mut().poll(cx) else {
            return;
        };
        self.asked = None;
        if let Some(wait) = found {
            let pid = client.pid;
            let waited = self.waited_ms();
            let message = format!(
                "process {pid} still waiting for {} after {waited} ms",
                wait.lock
            );
            let detail = holders(&wait.blockers);
            emit(
                client,
                &Entry {
                    detail: detail.as_deref(),
                    ..Entry::log(&message)
                },
            );
            self.found = Some(wait);
        }
    }

    /// Logs that the session has acquired the lock, if the wait for it was logged.
    pub(super) fn acquired(&self, client: &Client) {
        if let Some(wait) = &self.found {
            let (pid, waited) = (client.pid, self.waited_ms());
            let message = format!("process {pid} acquired {} after {waited} ms", wait.lock);
            emit(client, &Entry::log(&message));
        }
    }

    fn waited_ms(&self) -> String {
        format!("{:.3}", self.since.elapsed().as_secs_f64() * 1e3)
    }
}

fn holders(blockers: &[i32]) -> Option<String> {
    let names: Vec<String> = blockers.iter().map(i32::to_string).collect();
    match names.len() {
        0 => None,
        1 => Some(format!("Process holding the lock: {}.", names[0])),
        _ => Some(format!("Processes holding the lock: {}.", names.join(", "))),
    }
}

/// The result of work, with the information whether it succeeded.
pub(super) trait Outcome {
    /// Returns whether the work has succeeded.
    fn is_well(&self) -> bool;
}

impl<T, E> Outcome for Result<T, E> {
    fn is_well(&self) -> bool {
        self.is_ok()
    }
}

impl<T, E> Outcome for Option<Result<T, E>> {
    fn is_well(&self) -> bool {
        self.as_ref().is_some_and(Result::is_ok)
    }
}

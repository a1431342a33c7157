//! The signals that end a server.

use std::future::Future;
use std::pin::pin;
use std::task::Poll;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// The number of SIGPWR: the host runs on its battery.
const SIGPWR: i32 = 30;

/// SIGTERM, SIGINT and SIGPWR.
pub struct Signals {
    terminate: Signal,
    power: Signal,
    interrupt: Signal,
}

impl Signals {
    /// From here on they do not end the process by themselves. Needs a runtime.
    pub fn new() -> std::io::Result<Signals> {
        Ok(Signals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            power: signal(SignalKind::from_raw(SIGPWR))?,
        })
    }

    /// Waits for one, and answers its name.
    pub async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
            _ = self.power.recv() => "SIGPWR",
        }
    }

    /// The name of one that has come already.
    pub async fn arrived(&mut self) -> Option<&'static str> {
        // The runtime sees signals only while it runs for a moment.
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        let mut next = pin!(self.next());
        std::future::poll_fn(|cx| match next.as_mut().poll(cx) {
            Poll::Ready(name) => Poll::Ready(Some(name)),
            Poll::Pending => Poll::Ready(None),
        })
        .await
    }
}

/// SIGHUP, which asks a server to read its configuration again.
pub struct Hangups(Signal);

impl Hangups {
    /// From here on SIGHUP does not end the process by itself. Needs a runtime.
    pub fn new() -> std::io::Result<Hangups> {
        signal(SignalKind::hangup()).map(Hangups)
    }

    /// Waits for one.
    pub async fn next(&mut self) {
        self.0.recv().await;
    }
}

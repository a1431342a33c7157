//! The signals that end a server.

use std::future::Future;
use std::pin::pin;
use std::task::Poll;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// The number of SIGPWR: the host runs on its battery.
const SIGPWR: i32 = 30;

/// The receivers of SIGTERM, SIGINT and SIGPWR.
pub struct Signals {
    terminate: Signal,
    power: Signal,
    interrupt: Signal,
}

impl Signals {
    /// Takes over the handling of these signals, which no longer end the process. Needs a runtime.
    pub fn new() -> std::io::Result<Signals> {
        Ok(Signals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            power: signal(SignalKind::from_raw(SIGPWR))?,
        })
    }

    /// Waits for a signal, and returns its name.
    pub async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
            _ = self.power.recv() => "SIGPWR",
        }
    }

    /// Returns the name of a signal that has already arrived.
    pub async fn arrived(&mut self) -> Option<&'static str> {
        // The runtime delivers signals only while it runs.
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        let mut next = pin!(self.next());
        std::future::poll_fn(|cx| match next.as_mut().poll(cx) {
            Poll::Ready(name) => Poll::Ready(Some(name)),
            Poll::Pending => Poll::Ready(None),
        })
        .await
    }
}

/// The receiver of SIGHUP, which asks a server to reload its configuration.
pub struct HangupSignal(Signal);

impl HangupSignal {
    /// Takes over the handling of SIGHUP, which no longer ends the process. Needs a runtime.
    pub fn new() -> std::io::Result<HangupSignal> {
        signal(SignalKind::hangup()).map(HangupSignal)
    }

    /// Waits for a SIGHUP.
    pub async fn next(&mut self) {
        self.0.recv().await;
    }
}

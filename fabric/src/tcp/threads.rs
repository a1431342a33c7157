//! The threads of one fabric, all of which end before it does.

use std::io;
use std::thread::{Builder, JoinHandle};

use parking_lot::Mutex;

/// Threads to wait for.
#[derive(Debug, Default)]
pub(super) struct Threads(Mutex<Vec<JoinHandle<()>>>);

impl Threads {
    /// Starts one.
    ///
    /// # Errors
    /// Where the system has no thread left.
    pub(super) fn spawn(
        &self,
        name: String,
        life: impl FnOnce() + Send + 'static,
    ) -> io::Result<()> {
        let mut threads = self.0.lock();
        threads.retain(|thread| !thread.is_finished());
        threads.push(Builder::new().name(name).spawn(life)?);
        Ok(())
    }

    /// Waits until all have ended, those that they start meanwhile too.
    pub(super) fn join(&self) {
        loop {
            let Some(thread) = self.0.lock().pop() else {
                return;
            };
            // A completion may be what drops the fabric, on a thread of its own.
            if thread.thread().id() != std::thread::current().id() {
                // One that panicked has ended, too.
                let _ = thread.join();
            }
        }
    }
}

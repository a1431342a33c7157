//! The threads of one fabric, all of which end before the fabric does.

use std::io;
use std::thread::{Builder, JoinHandle};

use parking_lot::Mutex;

/// The threads to wait for.
#[derive(Debug, Default)]
pub(super) struct Threads(Mutex<Vec<JoinHandle<()>>>);

impl Threads {
    /// Starts a thread.
    ///
    /// # Errors
    /// If the system has no threads left.
    pub(super) fn spawn(
        &self,
        name: String,
        body: impl FnOnce() + Send + 'static,
    ) -> io::Result<()> {
        let mut threads = self.0.lock();
        threads.retain(|thread| !thread.is_finished());
        threads.push(Builder::new().name(name).spawn(body)?);
        Ok(())
    }

    /// Waits until all threads have ended, including those that they start meanwhile.
    pub(super) fn join(&self) {
        loop {
            let Some(thread) = self.0.lock().pop() else {
                return;
            };
            // A completion may drop the fabric on one of its own threads.
            if thread.thread().id() != std::thread::current().id() {
                // A thread that has panicked has ended, too.
                let _ = thread.join();
            }
        }
    }
}

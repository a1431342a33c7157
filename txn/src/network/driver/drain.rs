//! Draining: every log record of earlier configurations is processed, and no later one (SOSP'15
//! §5.3 step 2).
//!
//! When a member applies a configuration, it writes a mark behind the last record of the previous
//! one ([`crate::record::CONFIGURATION`]). Logs are ordered, so the earlier records end there. The
//! log of an evicted machine ends where there is no further record. A record that its coordinator
//! knew to be acknowledged had arrived before its lease expired. Records that arrive later are
//! ignored.

use fencepost_cluster::ConfigurationId;

use super::{ReconfigurationDriver, State, Step};
use crate::fault::{self, Fault};
use crate::machine::Machine;
use crate::network::Network;

/// The configuration whose mark is awaited in all logs.
pub(super) struct Drain(ConfigurationId);

impl Drain {
    pub fn of(configuration: ConfigurationId) -> Drain {
        Drain(configuration)
    }
}

impl Network {
    /// Begins recovery once all logs are drained.
    pub(super) fn drain(
        &self,
        machine: &Machine,
        driver: &ReconfigurationDriver,
        state: &mut State,
    ) {
        let Some(Drain(id)) = state.drain else {
            return;
        };
        if state.recovering.waits_for_disk() {
            return;
        }
        let configuration = self.configured.current();
        let mut receivers = self.receivers.lock();
        let drained = receivers.iter_mut().all(|receiver| {
            if configuration.has(receiver.peer()) {
                receiver.has_begun(id)
            } else {
                receiver.read_out(machine, self);
                true
            }
        });
        drop(receivers);
        if drained || fault::injected(Fault::RecoverBeforeDrained) {
            state.drain = None;
            state.last_drained = id;
            let now = driver.clock.now_ns();
            state.timelines.since_applied(Step::Drain, now);
            self.recover(machine, driver, state);
        }
    }
}

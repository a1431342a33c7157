//! Draining: all records of earlier configurations are looked at, and no later one is (SOSP'15 §5.3 step 2).
//!
//! Every member has written, when it applied the configuration, a mark behind the last record of the one before
//! ([`crate::record::CONFIGURATION`]): logs are in order, so that is where they end. What machines that are out have
//! written ends where there is nothing more to read: a record that a coordinator knew to be there was there before
//! its lease ran out, and what arrives later nobody looks at.

use fencepost_cluster::ConfigurationId;

use super::{Governor, State, Step};
use crate::machine::Machine;
use crate::network::Network;
use crate::planted::{self, Planted};

/// Which configuration's beginning is awaited in all logs.
pub(super) struct Drain(ConfigurationId);

impl Drain {
    pub fn of(configuration: ConfigurationId) -> Drain {
        Drain(configuration)
    }
}

impl Network {
    /// Whether all logs are drained; then recovery begins.
    pub(super) fn drain(&self, machine: &Machine, governor: &Governor, state: &mut State) {
        let Some(Drain(id)) = state.drain else {
            return;
        };
        if state.recovering.waits_for_disk() {
            return;
        }
        let configuration = self.configured.current();
        let mut ends = self.ends.lock();
        let drained = ends.iter_mut().all(|end| {
            if configuration.has(end.peer()) {
                end.has_begun(id)
            } else {
                end.read_out(machine, self);
                true
            }
        });
        drop(ends);
        if drained || planted::is(Planted::RecoverBeforeDrained) {
            state.drain = None;
            state.last_drained = id;
            let now = governor.clock.now_ns();
            state.timelines.since_applied(Step::Drain, now);
            self.recover(machine, governor, state);
        }
    }
}

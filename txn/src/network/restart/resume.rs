//! The restart of a machine with its regions.

use fencepost_cluster::reconfiguration::RestartState;
use fencepost_storage::{OutOfMemory, Timestamp};

use crate::machine::Machine;

impl Machine {
    /// Takes over the regions of the previous incarnation. No transaction is open in them, and
    /// their free slots are found by their allocated bits (SOSP'15 §5.5). Must be called before the
    /// machine is used.
    pub(crate) fn resume(&self, resumed: &RestartState) -> Result<(), OutOfMemory> {
        let Some(network) = self.network() else {
            return Ok(());
        };
        let floor = Timestamp::from_raw(resumed.newest);
        for region in &resumed.regions {
            let mapping = &region.mapping;
            // A region from a disk is loaded already.
            let is_there = self.regions().has_backup(mapping.region);
            if mapping.replicas.has(network.me()) && !is_there {
                self.regions().reserve(mapping.region, false)?;
                self.regions().keep(mapping.region);
            }
            if !self.begin_handover(mapping.region, &mapping.replicas, floor) {
                return Err(OutOfMemory);
            }
            if mapping.replicas.primary() == network.me() {
                let with = (self.lanes(), self.account());
                let regions = self.regions();
                while !regions.take_up(mapping.region, with, floor, usize::MAX) {}
            }
        }
        Ok(())
    }
}

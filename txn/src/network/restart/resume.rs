//! A machine begins again with the regions that it had.

use fencepost_cluster::reconfiguration::Resumed;
use fencepost_storage::{OutOfMemory, Timestamp};

use crate::machine::Machine;

impl Machine {
    /// The regions of an earlier life are there: nothing is under way in them, and their free slots are found by their
    /// allocated bits (SOSP'15 §5.5). Nobody uses the machine yet.
    pub(crate) fn resume(&self, resumed: &Resumed) -> Result<(), OutOfMemory> {
        let Some(network) = self.network() else {
            return Ok(());
        };
        let floor = Timestamp::from_raw(resumed.newest);
        for region in &resumed.regions {
            let mapping = &region.mapping;
            // What was on a disk is there already.
            let is_there = self.regions().has_backup(mapping.region);
            if mapping.replicas.has(network.me()) && !is_there {
                self.regions().reserve(mapping.region, false)?;
                self.regions().keep(mapping.region);
            }
            if !self.change_hands(mapping.region, &mapping.replicas, floor) {
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

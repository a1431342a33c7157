//! Region handover: the work of a machine when a new configuration gives a region to other machines
//! (SOSP'15 §5.2 step 6, §5.5).
//!
//! ```text
//! new primary       floor ─► promote ─► region map     then the region is this machine's own
//! reader            floor, region map ─► forget        then lookups find the new primary's memory
//! former replica    part_with ─► floor, region map ─► release
//! ```
//! A region of which this machine becomes a backup gets its memory before ([`super::host`]). The
//! caller must ensure that no machine commits to the region, or reads unrecovered data of it, until
//! its primary is ready.
//!
//! # Invariants
//! * HANDOVER-1: a reader that finds memory of a machine, and sees a write that it made as a
//!   region's primary, finds that region's floor too.
//! * HANDOVER-2: a slot that was reserved while another machine was the region's primary never
//!   becomes an object.

use fencepost_cluster::Replicas;
use fencepost_storage::{Piece, RegionId, Timestamp};

use crate::fault::{self, Fault};
use crate::machine::Machine;
use crate::network::backing::segment;

impl Machine {
    /// Changes the replicas of a region to those of a new configuration. If the primary changes, no
    /// write of an earlier configuration is above `floor`. Returns `false`, without any change, if
    /// this machine is to be the primary and has no such backup. A machine that is alone does not
    /// call this. Called while a new configuration is applied (SOSP'15 §5.2, step 6).
    #[must_use]
    pub fn begin_handover(&self, region: RegionId, replicas: &Replicas, floor: Timestamp) -> bool {
        let Some(network) = self.network() else {
            return false;
        };
        let (region_map, me) = (&network.region_map, network.me());
        let before = region_map.primary(region);
        if before == Some(replicas.primary()) {
            region_map.learn(region, replicas, Timestamp::ZERO);
        } else {
            // HANDOVER-1.
            region_map.raise_floor(region, floor);
            if replicas.primary() == me && !self.regions().promote(region, floor) {
                return false;
            }
            region_map.learn(region, replicas, floor);
            self.regions().forget(region);
            network.fabric.forget(segment(Piece::Region(region.0)));
            network.blocks.forget();
            network
                .slot_reservations
                .forget(region, Some(replicas.primary()));
        }
        if !replicas.has(me) {
            self.release_region(region);
        }
        true
    }

    /// Adds the free slots of the next `blocks` blocks of a promoted region to the allocator, by
    /// scanning allocated bits (SOSP'15 §5.5). Returns whether all blocks are done. The caller
    /// begins once no transaction of an older configuration that writes the region is left, and
    /// repeats the call until all are done.
    pub fn take_up(&self, region: RegionId, blocks: usize) -> bool {
        let with = (self.lanes(), self.account());
        let done = self.regions().take_up(region, with, self.oldest(), blocks);
        if done && fault::injected(Fault::ForgetAllocatedBits) {
            for object in self.inventory().objects {
                if object.addr.region() == region {
                    self.give_back(0, object.addr);
                }
            }
        }
        if done && let Some(network) = self.network() {
            network.changed.forget(region);
        }
        done
    }

    /// Removes a region that no machine has any more.
    pub fn lose(&self, region: RegionId) {
        if let Some(network) = self.network() {
            network.region_map.forget(region);
            self.regions().forget(region);
            network.slot_reservations.forget(region, None);
        }
        self.release_region(region);
    }

    /// Gives up this machine's replica of a region. Machines that have not heard of it find the old
    /// data until the region is released.
    pub(super) fn part_with_region(&self, region: RegionId) {
        self.regions()
            .part_with(region, (self.lanes(), self.account()));
        if let Some(network) = self.network() {
            network.changed.forget(region);
        }
    }

    /// Releases the memory of a region of which this machine is no replica, or will not be one.
    pub(super) fn release_region(&self, region: RegionId) {
        self.regions()
            .release(region, (self.lanes(), self.account()));
        if let Some(network) = self.network() {
            network.changed.forget(region);
        }
    }
}

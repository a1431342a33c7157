//! What a machine does as a new configuration gives a region to other machines (SOSP'15 §5.2 step 6, §5.5).
//!
//! ```text
//! its new primary   floor ─► promote ─► whereabouts            who finds it the primary finds the region its own
//! a reader          floor, whereabouts ─► forget               who looks for the memory anew finds the new primary's
//! replica no more   part_with ─► floor, whereabouts ─► release
//! ```
//! A region of which this machine is to become a backup gets its memory before ([`super::host`]). That nobody commits
//! to a region, or reads what is about to be recovered, until its primary is ready is the business of who calls this.
//!
//! # Invariants
//! * HANDS-1: whoever finds memory of a machine, and sees in it what it wrote as a region's primary, finds that
//!   region's floor too.
//! * HANDS-2: what was reserved in a region while another machine was its primary never becomes an object.

use fencepost_cluster::Replicas;
use fencepost_storage::{Piece, RegionId, Timestamp};

use crate::machine::Machine;
use crate::network::backing::segment;
use crate::planted::{self, Planted};

impl Machine {
    /// A region has other replicas from now on, as a new configuration says. Where its primary is another one than
    /// before, no write of a configuration before is above `floor`. `false` where this machine is to be the primary
    /// and has no such backup; then nothing has changed. Machines that are alone have no part in this.
    #[must_use]
    pub fn change_hands(&self, region: RegionId, replicas: &Replicas, floor: Timestamp) -> bool {
        let Some(network) = self.network() else {
            return false;
        };
        let (whereabouts, me) = (&network.whereabouts, network.me());
        let before = whereabouts.primary(region);
        if before == Some(replicas.primary()) {
            whereabouts.learn(region, replicas, Timestamp::ZERO);
        } else {
            // HANDS-1.
            whereabouts.raise_floor(region, floor);
            if replicas.primary() == me && !self.regions().promote(region, floor) {
                return false;
            }
            whereabouts.learn(region, replicas, floor);
            self.regions().forget(region);
            network.fabric.forget(segment(Piece::Region(region.0)));
            network.blocks.forget();
            network.reserves.forget(region, Some(replicas.primary()));
        }
        if !replicas.has(me) {
            self.release_region(region);
        }
        true
    }

    /// Makes what is free in the next `blocks` blocks of a promoted region available; whether all of them are. It
    /// begins once no transaction of an older configuration that writes there is left, and is called now and then
    /// until all is done.
    pub fn take_up(&self, region: RegionId, blocks: usize) -> bool {
        let with = (self.lanes(), self.account());
        let done = self.regions().take_up(region, with, self.oldest(), blocks);
        if done && planted::is(Planted::ForgetAllocatedBits) {
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

    /// No machine has a region any more.
    pub fn lose(&self, region: RegionId) {
        if let Some(network) = self.network() {
            network.whereabouts.forget(region);
            self.regions().forget(region);
            network.reserves.forget(region, None);
        }
        self.release_region(region);
    }

    /// This machine is no replica of a region any more. Those who have not heard of it find what it had as it was, until
    /// that is released.
    pub(super) fn part_with_region(&self, region: RegionId) {
        self.regions()
            .part_with(region, (self.lanes(), self.account()));
        if let Some(network) = self.network() {
            network.changed.forget(region);
        }
    }

    /// This machine is no replica of a region, or will not be one.
    pub(super) fn release_region(&self, region: RegionId) {
        self.regions()
            .release(region, (self.lanes(), self.account()));
        if let Some(network) = self.network() {
            network.changed.forget(region);
        }
    }
}

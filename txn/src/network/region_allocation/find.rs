//! Lookup of a region that this machine does not know yet: the CM answers once.
//!
//! An address of such a region can only come from another object. So the region is looked up where
//! an object is first read, locked or waited for, and later accesses find it known.

use fencepost_cluster::allocation::Lookup;
use fencepost_cluster::{Mapping, RegionId};
use fencepost_fabric::{Completion, FabricError};
use fencepost_storage::region::MAX_REGIONS;

use super::super::Network;
use super::MappingsPart;
use crate::machine::Machine;
use crate::start::ROOT_BLOCK;
use crate::stop::{AbortReason, Stop};

const UNREACHABLE: Stop = Stop::Retry(AbortReason::Unreachable);

impl Network {
    /// Returns whether the replicas of a region are known.
    #[inline]
    pub fn knows(&self, region: RegionId) -> bool {
        self.region_map.primary(region).is_some()
    }

    /// Looks up the replicas of a region, if they are unknown. Returns whether the region exists.
    ///
    /// # Errors
    /// [`Stop::Retry`] if the CM cannot be reached, [`Stop::NotMember`] if this machine is no
    /// member any more.
    pub async fn find(&self, region: RegionId) -> Result<bool, Stop> {
        if self.knows(region) {
            return Ok(true);
        }
        let found = self.look_up(region).await;
        found.map_err(|_| match self.is_evicted() {
            true => Stop::NotMember,
            false => UNREACHABLE,
        })
    }

    fn look_up(&self, region: RegionId) -> Completion<bool> {
        if region.0 as usize >= MAX_REGIONS {
            return Completion::done(Ok(false));
        }
        self.with_state(|state, _| {
            if state.lost.contains(&state.cm) {
                return Completion::done(Err(FabricError::Lost));
            }
            if state.inactive.contains(&region) {
                let (completer, found) = Completion::pending();
                state.lookups.entry(region).or_default().push(completer);
                return found;
            }
            if let Some(allocator) = &state.allocator {
                let mapping = allocator.map().get(region);
                if let Some(mapping) = mapping {
                    self.region_map.find(region, &mapping.replicas);
                }
                return Completion::done(Ok(mapping.is_some()));
            }
            match state.cache.lookup(region) {
                Lookup::Known(mapping) => {
                    self.region_map.find(region, &mapping.replicas);
                    return Completion::done(Ok(true));
                }
                Lookup::Ask(cm, question) => state.outbox.push((cm, question)),
                Lookup::Asked => {}
            }
            let (completer, found) = Completion::pending();
            state.lookups.entry(region).or_default().push(completer);
            found
        })
    }

    /// Returns whether the root object is known to exist, and begins to look it up or make it. The
    /// machine is connected to all of its peers.
    pub(in crate::network) fn has_root(&self, machine: &Machine) -> bool {
        let root = ROOT_BLOCK.region;
        if self.configured.cm() == self.me {
            // After a restart the root object may belong to another machine.
            let another = self.knows(root) && !machine.regions().has_own(root);
            self.create_root_region(machine);
            another || machine.has_root_object()
        } else if self.knows(root) {
            true
        } else {
            // The answer is used at the next call.
            drop(self.look_up(root));
            false
        }
    }

    /// Checks that region 0 exists; before that, no machine has a region.
    ///
    /// # Errors
    /// [`Stop::Retry`] if the region is not known to exist.
    pub(in crate::network) fn expect_root(&self) -> Result<(), Stop> {
        match self.knows(ROOT_BLOCK.region) {
            true => Ok(()),
            false => Err(UNREACHABLE),
        }
    }

    /// Returns all regions.
    ///
    /// # Errors
    /// The same as of [`Self::find`].
    pub async fn all_regions(&self) -> Result<Vec<Mapping>, Stop> {
        let (mut all, mut from) = (Vec::new(), RegionId(0));
        loop {
            let (part, more) = self.list(from).await.map_err(|_| UNREACHABLE)?;
            all.extend(part);
            match all
                .last()
                .and_then(|last: &Mapping| last.region.0.checked_add(1))
            {
                Some(next) if more => from = RegionId(next),
                _ => return Ok(all),
            }
        }
    }

    fn list(&self, from: RegionId) -> Completion<MappingsPart> {
        self.with_state(|state, _| {
            if let Some(allocator) = &state.allocator {
                let all = allocator.map().mappings().cloned();
                return Completion::done(Ok((all.collect(), false)));
            }
            if state.lost.contains(&state.cm) {
                return Completion::done(Err(FabricError::Lost));
            }
            let (cm, question) = state.cache.list(from);
            let (completer, part) = Completion::pending();
            let waiting = state.lists.entry(from).or_default();
            let first = waiting.is_empty();
            waiting.push(completer);
            if first {
                state.outbox.push((cm, question));
            }
            part
        })
    }
}

//! Which machines have which region, as far as it is known here: what every access asks.
//!
//! Region ids are small and dense, so this is an array with a place for each. A place is looked at without a
//! lock.
//!
//! # Invariants
//! * WHERE-1: the machines of a region are known or not, and once known they stay so: a mapping changes with
//!   the configuration alone, between transactions that know the one and such as know the other.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use fencepost_cluster::{MAX_REPLICAS, MachineId, Replicas};
use fencepost_storage::RegionId;
use fencepost_storage::region::MAX_REGIONS;

/// Backups that a region has at most.
const BACKUPS: usize = MAX_REPLICAS - 1;
/// Bits of the primary in the first word of a place.
const PRIMARY_BITS: u32 = 32;

/// The places of all regions.
pub(crate) struct Whereabouts(Box<[Place]>);

struct Place {
    /// Replicas, 0 while nothing is known, above the primary.
    head: AtomicU64,
    backups: [AtomicU32; BACKUPS],
}

impl Place {
    fn unknown() -> Place {
        Place {
            head: AtomicU64::new(0),
            backups: [const { AtomicU32::new(0) }; BACKUPS],
        }
    }
}

impl Default for Whereabouts {
    fn default() -> Self {
        Whereabouts((0..MAX_REGIONS).map(|_| Place::unknown()).collect())
    }
}

impl Whereabouts {
    /// From now on it is known.
    pub fn learn(&self, region: RegionId, replicas: &Replicas) {
        let Some(place) = self.0.get(region.0 as usize) else {
            return;
        };
        for (backup, word) in replicas.backups().iter().zip(&place.backups) {
            word.store(backup.0, Ordering::Relaxed);
        }
        let count = replicas.count() as u64;
        let head = (count << PRIMARY_BITS) | u64::from(replicas.primary().0);
        // Whoever sees it sees the backups.
        place.head.store(head, Ordering::Release);
    }

    #[inline]
    fn head(&self, region: RegionId) -> Option<(u64, &Place)> {
        let place = self.0.get(region.0 as usize)?;
        let head = place.head.load(Ordering::Acquire);
        (head != 0).then_some((head, place))
    }

    /// The machine that answers for a region; `None` where that is not known.
    #[inline]
    pub fn primary(&self, region: RegionId) -> Option<MachineId> {
        self.head(region).map(|(head, _)| MachineId(head as u32))
    }

    /// Whether a region has this machine and no other.
    #[inline]
    pub fn is_alone_with(&self, region: RegionId, machine: MachineId) -> bool {
        let alone = (1 << PRIMARY_BITS) | u64::from(machine.0);
        self.head(region).is_some_and(|(head, _)| head == alone)
    }

    /// The other machines that have a copy of a region; none where that is not known.
    pub fn backups(&self, region: RegionId) -> impl Iterator<Item = MachineId> {
        let head = self.head(region);
        let many = head.map_or(0, |(head, _)| (head >> PRIMARY_BITS) as usize - 1);
        let words = head.map_or(&[][..], |(_, place)| &place.backups);
        let backup = |word: &AtomicU32| MachineId(word.load(Ordering::Relaxed));
        words.iter().take(many).map(backup)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_learned_is_known() {
        let whereabouts = Whereabouts::default();
        let region = RegionId(5);
        assert_eq!(whereabouts.primary(region), None);
        assert_eq!(whereabouts.backups(region).count(), 0);
        let backups: Vec<_> = [9, 0, 4].map(MachineId).into();
        let replicas = Replicas::new(MachineId(7), backups.clone()).expect("distinct");
        whereabouts.learn(region, &replicas);
        assert_eq!(whereabouts.primary(region), Some(MachineId(7)));
        assert!(whereabouts.backups(region).eq(backups));
        assert!(!whereabouts.is_alone_with(region, MachineId(7)));
        let (alone, other) = (RegionId(6), MachineId(2));
        let replicas = Replicas::new(other, Vec::new()).expect("one");
        whereabouts.learn(alone, &replicas);
        assert!(whereabouts.is_alone_with(alone, other));
        assert!(!whereabouts.is_alone_with(alone, MachineId(7)));
        let beyond = RegionId(u32::MAX);
        whereabouts.learn(beyond, &replicas);
        assert_eq!(whereabouts.primary(beyond), None);
    }
}

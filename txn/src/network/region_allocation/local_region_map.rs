//! The region map: the replicas of each region as far as this machine knows them. Every access uses
//! it.
//!
//! Region ids are small and dense, so this is an array with an entry for each. Readers need no
//! lock.
//!
//! ```text
//! head    | changes of the entry (24) | replicas, 0 while unknown (8) | primary (32) |
//! backups | after even numbers of changes | after odd ones |            floor
//! ```
//! # Invariants
//! * REGIONMAP-1: the replicas of a region are known or unknown. An answer of the CM does not
//!   replace known replicas: only a new configuration does. A concurrent reader gets the old or the
//!   new replicas, and never a mixture.
//! * REGIONMAP-2: a reader that knows a primary knows its floor, or a later one. The floor is a
//!   time that no write is above which was made under another primary in an earlier configuration.
//!   Versions older than the floor have no old versions here.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use fencepost_cluster::few::FewSet;
use fencepost_cluster::{MAX_REPLICAS, MachineId, Replicas};
use fencepost_storage::region::MAX_REGIONS;
use fencepost_storage::{RegionId, Timestamp};
use parking_lot::Mutex;

/// Maximum number of backups of a region.
const BACKUPS: usize = MAX_REPLICAS - 1;
/// Positions of the number of replicas and of the number of changes in the head of an entry.
const COUNT_SHIFT: u32 = 32;
const CHANGES_SHIFT: u32 = 40;
const COUNT_MASK: u64 = 0xFF << COUNT_SHIFT;
/// The bits of the head that describe the replicas.
const REPLICAS_MASK: u64 = (1 << CHANGES_SHIFT) - 1;

/// The region map.
pub(crate) struct LocalRegionMap {
    places: Box<[RegionSlot]>,
    /// The latest of all floors: used for a region that the CM's answer adds.
    floor: AtomicU64,
    /// The lock of writers. Contains the regions whose primary is about to change: their replicas
    /// are unknown until a configuration activates them ([`Self::suspend`]).
    writing: Mutex<FewSet<RegionId>>,
}

struct RegionSlot {
    head: AtomicU64,
    backups: [[AtomicU32; BACKUPS]; 2],
    floor: AtomicU64,
}

/// A consistent set of replicas of a region.
#[derive(Clone, Copy)]
pub(crate) struct ReplicaSet {
    pub primary: MachineId,
    backups: [u32; BACKUPS],
    many: usize,
}

impl ReplicaSet {
    /// Returns the backups.
    pub fn backups(&self) -> impl Iterator<Item = MachineId> {
        let backups = self.backups.into_iter().take(self.many);
        backups.map(MachineId)
    }
}

impl RegionSlot {
    fn unknown() -> RegionSlot {
        let none = || [const { AtomicU32::new(0) }; BACKUPS];
        RegionSlot {
            head: AtomicU64::new(0),
            backups: [none(), none()],
            floor: AtomicU64::new(0),
        }
    }

    fn backups_of(&self, head: u64) -> &[AtomicU32; BACKUPS] {
        &self.backups[(head >> CHANGES_SHIFT) as usize % 2]
    }

    /// Changes the entry, whose head is `now`. The caller holds the writers' lock.
    fn change(&self, now: u64, primary: MachineId, backups: &[MachineId], count: u64) {
        let changes = (now >> CHANGES_SHIFT).wrapping_add(1);
        let head = (changes << CHANGES_SHIFT) | (count << COUNT_SHIFT) | u64::from(primary.0);
        // A reader with an older head that loads one of these backups finds the head changed when
        // it checks the head again.
        fence(Ordering::Release);
        for (backup, word) in backups.iter().zip(self.backups_of(head)) {
            word.store(backup.0, Ordering::Relaxed);
        }
        // A reader that loads this head also sees the backups and the floor.
        self.head.store(head, Ordering::Release);
    }

    /// Returns the replicas; `Err` if they were changed meanwhile.
    fn known(&self) -> Result<Option<ReplicaSet>, ()> {
        let head = self.head.load(Ordering::Acquire);
        let Some(many) = ((head & COUNT_MASK) >> COUNT_SHIFT).checked_sub(1) else {
            return Ok(None);
        };
        let (mut backups, many) = ([0; BACKUPS], many as usize);
        for (backup, word) in backups.iter_mut().zip(self.backups_of(head)).take(many) {
            *backup = word.load(Ordering::Relaxed);
        }
        fence(Ordering::Acquire);
        if many > 0 && self.head.load(Ordering::Relaxed) != head {
            return Err(());
        }
        let primary = MachineId(head as u32);
        Ok(Some(ReplicaSet {
            primary,
            backups,
            many,
        }))
    }
}

impl Default for LocalRegionMap {
    fn default() -> Self {
        LocalRegionMap {
            places: (0..MAX_REGIONS).map(|_| RegionSlot::unknown()).collect(),
            floor: AtomicU64::new(0),
            writing: Mutex::default(),
        }
    }
}

impl LocalRegionMap {
    fn place(&self, region: RegionId) -> Option<&RegionSlot> {
        self.places.get(region.0 as usize)
    }

    /// Adds the replicas of a region from an answer of the CM. Known replicas are not replaced.
    pub fn find(&self, region: RegionId, replicas: &Replicas) {
        let suspended = self.writing.lock();
        if self.primary(region).is_none() && !suspended.contains(&region) {
            // The region may have been handed over before this machine heard of it.
            let floor = self.floor.load(Ordering::Relaxed);
            self.set(region, replicas, Timestamp::from_raw(floor));
        }
    }

    /// Sets the replicas of a region from a configuration, and its floor if the primary was another
    /// one.
    pub fn learn(&self, region: RegionId, replicas: &Replicas, floor: Timestamp) {
        let mut suspended = self.writing.lock();
        suspended.remove(&region);
        self.floor.fetch_max(floor.raw(), Ordering::Relaxed);
        self.set(region, replicas, floor);
    }

    fn set(&self, region: RegionId, replicas: &Replicas, floor: Timestamp) {
        let Some(place) = self.place(region) else {
            return;
        };
        place.floor.fetch_max(floor.raw(), Ordering::Relaxed);
        let known = self.replicas(region);
        let same = known.is_some_and(|known| {
            let backups = replicas.backups().iter().copied();
            known.primary == replicas.primary() && known.backups().eq(backups)
        });
        if !same {
            let now = place.head.load(Ordering::Relaxed);
            let count = replicas.count() as u64;
            place.change(now, replicas.primary(), replicas.backups(), count);
        }
    }

    /// Raises the floor of a region before its handover changes its replicas.
    pub fn raise_floor(&self, region: RegionId, floor: Timestamp) {
        if let Some(place) = self.place(region) {
            place.floor.fetch_max(floor.raw(), Ordering::Release);
        }
    }

    /// Raises the floor of all regions that had other primaries before this machine learns of them.
    pub fn raise_all(&self, floor: Timestamp) {
        let _one = self.writing.lock();
        self.floor.fetch_max(floor.raw(), Ordering::Relaxed);
        for place in &self.places {
            if place.head.load(Ordering::Relaxed) & COUNT_MASK != 0 {
                place.floor.fetch_max(floor.raw(), Ordering::Release);
            }
        }
    }

    /// Makes the replicas of a region unknown until [`Self::learn`]: its next primary has yet to
    /// recover it.
    pub fn suspend(&self, region: RegionId) {
        let mut suspended = self.writing.lock();
        suspended.insert(region);
        self.clear(region);
    }

    /// Does the same for all known regions: this machine is evicted and uses no region any more.
    pub fn suspend_all(&self) {
        let mut suspended = self.writing.lock();
        for region in (0..MAX_REGIONS as u32).map(RegionId) {
            if self.head(region).is_some() {
                suspended.insert(region);
                self.clear(region);
            }
        }
    }

    /// Makes the replicas of a region unknown.
    pub fn forget(&self, region: RegionId) {
        let _one = self.writing.lock();
        self.clear(region);
    }

    fn clear(&self, region: RegionId) {
        if let Some(place) = self.place(region) {
            let now = place.head.load(Ordering::Relaxed);
            place.change(now, MachineId(0), &[], 0);
        }
    }

    #[inline]
    fn head(&self, region: RegionId) -> Option<u64> {
        let head = self.place(region)?.head.load(Ordering::Acquire);
        (head & COUNT_MASK != 0).then_some(head)
    }

    /// Returns the primary of a region; `None` if it is unknown.
    #[inline]
    pub fn primary(&self, region: RegionId) -> Option<MachineId> {
        self.head(region).map(|head| MachineId(head as u32))
    }

    /// Returns whether this machine is the only replica of a region.
    #[inline]
    pub fn is_alone_with(&self, region: RegionId, machine: MachineId) -> bool {
        let alone = (1 << COUNT_SHIFT) | u64::from(machine.0);
        self.head(region)
            .is_some_and(|head| head & REPLICAS_MASK == alone)
    }

    /// Returns the replicas of a region; `None` if they are unknown.
    pub fn replicas(&self, region: RegionId) -> Option<ReplicaSet> {
        let place = self.place(region)?;
        loop {
            if let Ok(known) = place.known() {
                return known;
            }
            std::hint::spin_loop();
        }
    }

    /// Returns the floor of a region: versions that are not older have their old versions
    /// (REGIONMAP-2).
    pub fn floor(&self, region: RegionId) -> Timestamp {
        let floor = self
            .place(region)
            .map_or(0, |place| place.floor.load(Ordering::Acquire));
        Timestamp::from_raw(floor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REGION: RegionId = RegionId(5);
    const NEVER: Timestamp = Timestamp::ZERO;

    fn replicas(primary: u32, backups: &[u32]) -> Replicas {
        let backups = backups.iter().copied().map(MachineId).collect();
        Replicas::new(MachineId(primary), backups).expect("distinct")
    }

    fn known(region_map: &LocalRegionMap, region: RegionId) -> Option<(u32, Vec<u32>)> {
        let known = region_map.replicas(region)?;
        let backups = known.backups().map(|machine| machine.0).collect();
        Some((known.primary.0, backups))
    }

    #[test]
    fn learned_replicas_are_known() {
        let region_map = LocalRegionMap::default();
        assert_eq!(region_map.primary(REGION), None);
        assert_eq!(known(&region_map, REGION), None);
        region_map.find(REGION, &replicas(7, &[9, 0, 4]));
        assert_eq!(region_map.primary(REGION), Some(MachineId(7)));
        assert_eq!(known(&region_map, REGION), Some((7, vec![9, 0, 4])));
        assert!(!region_map.is_alone_with(REGION, MachineId(7)));
        let (alone, other) = (RegionId(6), MachineId(2));
        region_map.find(alone, &replicas(2, &[]));
        assert!(region_map.is_alone_with(alone, other));
        assert!(!region_map.is_alone_with(alone, MachineId(7)));
        let beyond = RegionId(u32::MAX);
        region_map.find(beyond, &replicas(2, &[]));
        assert_eq!(region_map.primary(beyond), None);
    }

    #[test]
    fn configuration_replaces_known_replicas_and_answer_does_not() {
        let region_map = LocalRegionMap::default();
        let floor = Timestamp::from_raw(70);
        region_map.find(REGION, &replicas(1, &[2, 3]));
        assert_eq!(region_map.floor(REGION), NEVER);
        region_map.learn(REGION, &replicas(2, &[3]), floor);
        assert_eq!(known(&region_map, REGION), Some((2, vec![3])));
        region_map.find(REGION, &replicas(1, &[2, 3]));
        assert_eq!(known(&region_map, REGION), Some((2, vec![3])));
        assert_eq!(region_map.floor(REGION), floor);
        region_map.learn(REGION, &replicas(3, &[]), NEVER);
        assert!(region_map.is_alone_with(REGION, MachineId(3)));
        assert_eq!(region_map.floor(REGION), floor, "it never sinks");
        region_map.forget(REGION);
        assert_eq!(known(&region_map, REGION), None);
        assert_eq!(region_map.primary(REGION), None);
        assert!(!region_map.is_alone_with(REGION, MachineId(0)));
        // A region found later may have been handed over before.
        let other = RegionId(8);
        region_map.find(other, &replicas(2, &[3]));
        assert_eq!(region_map.floor(other), floor);
        region_map.find(REGION, &replicas(4, &[5]));
        assert_eq!(known(&region_map, REGION), Some((4, vec![5])));
    }

    #[test]
    fn concurrent_reader_never_sees_mixed_replicas() {
        const ROUNDS: u32 = 40_000;
        /// Returns the replicas after so many changes; none after every seventh.
        fn after(round: u32) -> (u32, Vec<u32>) {
            let many = round % MAX_REPLICAS as u32;
            (1000 * round, (1..=many).map(|i| 1000 * round + i).collect())
        }
        let region_map = LocalRegionMap::default();
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let mut newest = 0;
                    while newest < ROUNDS {
                        let Some((primary, backups)) = known(&region_map, REGION) else {
                            continue;
                        };
                        let round = primary / 1000;
                        assert!(round >= newest, "it went back");
                        assert_eq!((primary, backups), after(round));
                        let floor = region_map.floor(REGION).raw();
                        assert!(floor >= u64::from(round));
                        newest = round;
                    }
                });
            }
            for round in 1..=ROUNDS {
                let (primary, backups) = after(round);
                let floor = Timestamp::from_raw(round.into());
                region_map.learn(REGION, &replicas(primary, &backups), floor);
                if round % 7 == 0 && round < ROUNDS {
                    region_map.forget(REGION);
                }
            }
        });
    }
}

//! Where a region's memory is found: a place for each id, and behind it what came after.
//!
//! ```text
//! place | next: none       | now: region |                                    one cache line
//! place | next ─► place | next: none | now: nothing yet |  |  now: region before |
//! ```
//! A region changes hands seldom: a machine becomes its primary, or another one does. Then a further place follows the
//! last one, and what was there stays as it was until the table is dropped, because somebody may look at it still.
//!
//! # Concurrency
//! Whoever looks sees the last place that was there when it looked. A place is filled once, by whoever comes first.

use std::sync::OnceLock;

use super::blocks::Region;
use crate::addr::RegionId;

/// The places of all regions.
pub(super) struct Table(Box<[Place]>);

/// A region, as long as it is in one hand.
#[derive(Default)]
#[repr(align(64))]
pub(super) struct Place {
    next: OnceLock<Box<Place>>,
    now: OnceLock<Region>,
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<Place>() == 64);

impl Place {
    #[cold]
    fn last(&self) -> &Place {
        let mut last = self;
        while let Some(next) = last.next.get() {
            last = next;
        }
        last
    }

    /// The region, if it is there.
    #[inline]
    pub fn get(&self) -> Option<&Region> {
        self.now.get()
    }

    /// The region, as it is there or as `make` brings it.
    pub fn get_or_init(&self, make: impl FnOnce() -> Region) -> &Region {
        self.now.get_or_init(make)
    }
}

impl Table {
    pub fn new(regions: usize) -> Table {
        Table((0..regions).map(|_| Place::default()).collect())
    }

    pub fn has(&self, id: RegionId) -> bool {
        (id.0 as usize) < self.0.len()
    }

    /// The last place of a region.
    #[inline]
    pub fn last(&self, id: RegionId) -> Option<&Place> {
        let place = self.0.get(id.0 as usize)?;
        match place.next.get() {
            None => Some(place),
            Some(next) => Some(next.last()),
        }
    }

    /// A region, if it is there.
    #[inline]
    pub fn get(&self, id: RegionId) -> Option<&Region> {
        self.last(id)?.get()
    }

    /// A region is there now where none was before.
    pub fn put(&self, id: RegionId, region: Region) {
        if let Some(place) = self.last(id) {
            let _ = place.now.set(region);
        }
    }

    /// From now on it is `region`, or nothing until it is put there.
    pub fn replace(&self, id: RegionId, region: Option<Region>) {
        let mut place = Box::new(Place::default());
        place.now = region.map_or_else(OnceLock::new, OnceLock::from);
        while let Some(last) = self.last(id) {
            match last.next.set(place) {
                Ok(()) => return,
                // Somebody else was first; behind that one, then.
                Err(back) => place = back,
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use fencepost_fabric::memory::Memory;
    use fencepost_fabric::sync::Ordering;

    use super::*;

    const ID: RegionId = RegionId(1);

    /// A region in whose header block there is a number.
    fn numbered(number: u64) -> Region {
        let memory = Memory::anonymous(1 << 18).expect("memory");
        memory.words()[1].store(number, Ordering::Relaxed);
        Region::of_peer(memory, 0)
    }

    fn number(region: &Region) -> u64 {
        region
            .class_word(1)
            .expect("a block")
            .load(Ordering::Relaxed)
    }

    #[test]
    fn the_last_hand_counts_and_what_was_before_stays_for_who_has_it() {
        let table = Table::new(2);
        assert!(table.get(ID).is_none() && table.last(RegionId(2)).is_none());
        table.put(ID, numbered(5));
        let first = table.get(ID).expect("put");
        table.put(ID, numbered(6));
        assert_eq!(table.get(ID).map(number), Some(5), "a place is filled once");
        table.replace(ID, None);
        assert!(table.get(ID).is_none());
        table.put(ID, numbered(7));
        let second = table.get(ID).expect("put");
        table.replace(ID, Some(numbered(8)));
        assert_eq!(table.get(ID).map(number), Some(8));
        assert_eq!((number(first), number(second)), (5, 7));
    }

    #[test]
    fn nobody_goes_back_while_hands_change() {
        const LAST: u64 = 200;
        let table = Table::new(2);
        table.put(ID, numbered(0));
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let mut newest = 0;
                    while newest < LAST {
                        let now = table.get(ID).map_or(newest, number);
                        assert!(now >= newest);
                        newest = now;
                    }
                });
            }
            (1..=LAST).for_each(|next| table.replace(ID, Some(numbered(next))));
        });
    }
}

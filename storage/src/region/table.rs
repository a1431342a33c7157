//! The table of regions: a place for each id, and after it the places that have replaced it.
//!
//! ```text
//! place | next: none       | now: region |                                    one cache line
//! place | next ─► place | next: none | now: nothing yet |  |  now: region before |
//! ```
//! A region's primary changes seldom. Then a new place is linked after the last one. The old place
//! stays until the table is dropped, because a thread may still read it.
//!
//! # Concurrency
//! A reader sees the last place that existed when it looked. A place is filled once, by the first
//! thread.

use std::sync::OnceLock;

use super::blocks::Region;
use crate::addr::RegionId;

/// The places of all regions.
pub(super) struct Table(Box<[RegionEntry]>);

/// A region between two changes of its primary.
#[derive(Default)]
#[repr(align(64))]
pub(super) struct RegionEntry {
    next: OnceLock<Box<RegionEntry>>,
    now: OnceLock<Region>,
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<RegionEntry>() == 64);

impl RegionEntry {
    #[cold]
    fn last(&self) -> &RegionEntry {
        let mut last = self;
        while let Some(next) = last.next.get() {
            last = next;
        }
        last
    }

    /// Returns the region, if the place is filled.
    #[inline]
    pub fn get(&self) -> Option<&Region> {
        self.now.get()
    }

    /// Returns the region; fills the place with the result of `make` if it is empty.
    pub fn get_or_init(&self, make: impl FnOnce() -> Region) -> &Region {
        self.now.get_or_init(make)
    }
}

impl Table {
    pub fn new(regions: usize) -> Table {
        Table((0..regions).map(|_| RegionEntry::default()).collect())
    }

    pub fn has(&self, id: RegionId) -> bool {
        (id.0 as usize) < self.0.len()
    }

    /// Returns the last place of a region.
    #[inline]
    pub fn last(&self, id: RegionId) -> Option<&RegionEntry> {
        let place = self.0.get(id.0 as usize)?;
        match place.next.get() {
            None => Some(place),
            Some(next) => Some(next.last()),
        }
    }

    /// Returns a region, if its last place is filled.
    #[inline]
    pub fn get(&self, id: RegionId) -> Option<&Region> {
        self.last(id)?.get()
    }

    /// Fills the last place of a region, if it is empty.
    pub fn put(&self, id: RegionId, region: Region) {
        if let Some(place) = self.last(id) {
            let _ = place.now.set(region);
        }
    }

    /// Replaces a region by `region`, or by an empty place.
    pub fn replace(&self, id: RegionId, region: Option<Region>) {
        let mut place = Box::new(RegionEntry::default());
        place.now = region.map_or_else(OnceLock::new, OnceLock::from);
        while let Some(last) = self.last(id) {
            match last.next.set(place) {
                Ok(()) => return,
                // Another thread was first: link the place after that one.
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

    /// Returns a region with a number in its header block.
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
    fn latest_entry_counts_and_earlier_stays_for_holders() {
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
    fn reader_never_sees_older_entry_during_handover() {
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

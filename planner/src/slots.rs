//! Sets of slots of a from row.
//!
//! A relation fills consecutive slots. The sides of a join may combine relations in any order, so
//! their slots are a set of ranges.

use std::ops::Range;

/// Slots from the first up to, but not including, the second.
pub type SlotRange = (usize, usize);

/// A collection of slots that can be asked for its members.
pub trait SlotSet {
    /// Returns whether `slot` is a member.
    fn contains(&self, slot: usize) -> bool;
}

impl SlotSet for SlotRange {
    fn contains(&self, slot: usize) -> bool {
        self.0 <= slot && slot < self.1
    }
}

/// A set of slots, as ascending ranges with gaps between them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Slots {
    ranges: Vec<Range<usize>>,
}

impl SlotSet for Slots {
    fn contains(&self, slot: usize) -> bool {
        self.ranges.iter().any(|range| range.contains(&slot))
    }
}

impl SlotSet for &Slots {
    fn contains(&self, slot: usize) -> bool {
        (**self).contains(slot)
    }
}

impl Slots {
    /// The set without members.
    pub const NONE: &'static Slots = &Slots { ranges: Vec::new() };

    /// Adds the slots of a range.
    pub fn add(&mut self, range: SlotRange) {
        if range.0 >= range.1 {
            return;
        }
        let mut merged = range.0..range.1;
        self.ranges.retain(|other| {
            let apart = other.end < merged.start || merged.end < other.start;
            if !apart {
                merged = merged.start.min(other.start)..merged.end.max(other.end);
            }
            apart
        });
        let at = self
            .ranges
            .partition_point(|other| other.start < merged.start);
        self.ranges.insert(at, merged);
    }

    /// Returns the members of both sets.
    pub fn union(&self, other: &Slots) -> Slots {
        let mut union = self.clone();
        for range in &other.ranges {
            union.add((range.start, range.end));
        }
        union
    }

    /// Returns the members that `needed` marks.
    pub fn only(&self, needed: &[bool]) -> Slots {
        let mut only = Slots::default();
        for slot in self.ranges.iter().cloned().flatten() {
            if needed.get(slot).copied().unwrap_or_default() {
                only.add((slot, slot + 1));
            }
        }
        only
    }

    /// Returns the ranges in ascending order.
    pub fn ranges(&self) -> impl Iterator<Item = Range<usize>> {
        self.ranges.iter().cloned()
    }
}

impl From<SlotRange> for Slots {
    fn from(range: SlotRange) -> Slots {
        let mut slots = Slots::default();
        slots.add(range);
        slots
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adjacent_ranges_are_merged() {
        let mut slots = Slots::from((4, 6));
        slots.add((0, 2));
        slots.add((2, 4));
        slots.add((9, 9));
        assert_eq!(slots, Slots::from((0, 6)));
    }

    #[test]
    fn set_keeps_its_gaps() {
        let slots = Slots::from((4, 6)).union(&Slots::from((0, 2)));
        let members: Vec<usize> = (0..8).filter(|slot| slots.contains(*slot)).collect();
        assert_eq!(members, [0, 1, 4, 5]);
        let needed = [true, false, false, false, true, true];
        let ranges: Vec<_> = slots.only(&needed).ranges().collect();
        assert_eq!(ranges, [0..1, 4..6]);
    }
}

//! Sets of the units of a join graph.

/// A set of units, as bits by their positions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct UnitSet(u128);

impl UnitSet {
    /// The maximum number of units.
    pub const MAX: usize = 128;

    /// Returns the set of one unit.
    pub fn one(unit: usize) -> UnitSet {
        UnitSet(1 << unit)
    }

    /// Returns the set of the units before `unit`.
    pub fn before(unit: usize) -> UnitSet {
        UnitSet((1 << unit) - 1)
    }

    /// Returns the members of both sets.
    pub fn union(self, other: UnitSet) -> UnitSet {
        UnitSet(self.0 | other.0)
    }

    /// Returns the members that `other` does not have.
    pub fn without(self, other: UnitSet) -> UnitSet {
        UnitSet(self.0 & !other.0)
    }

    /// Returns the common members.
    pub fn common(self, other: UnitSet) -> UnitSet {
        UnitSet(self.0 & other.0)
    }

    /// Returns whether the sets have a common member.
    pub fn meets(self, other: UnitSet) -> bool {
        self.0 & other.0 != 0
    }

    /// Returns whether all members are in `other`.
    pub fn is_within(self, other: UnitSet) -> bool {
        self.0 & !other.0 == 0
    }

    /// Returns whether the set has no member.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns the number of members.
    pub fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Returns the only member; `None` for another number of members.
    pub fn only(self) -> Option<usize> {
        (self.len() == 1).then(|| self.0.trailing_zeros() as usize)
    }

    /// Returns the members in ascending order.
    pub fn members(self) -> impl Iterator<Item = usize> {
        let mut left = self.0;
        std::iter::from_fn(move || {
            let next = (left != 0).then(|| left.trailing_zeros() as usize)?;
            left &= left - 1;
            Some(next)
        })
    }

    /// Returns the subsets with at least one member, smaller ones before those that contain them.
    pub fn subsets(self) -> impl Iterator<Item = UnitSet> {
        let mut last = 0_u128;
        std::iter::from_fn(move || {
            last = last.wrapping_sub(self.0) & self.0;
            (last != 0).then_some(UnitSet(last))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subsets_of_three_units_are_seven() {
        let set = [0, 3, 5]
            .map(UnitSet::one)
            .into_iter()
            .fold(UnitSet::default(), UnitSet::union);
        let subsets: Vec<UnitSet> = set.subsets().collect();
        assert_eq!(subsets.len(), 7);
        assert_eq!(subsets.last(), Some(&set));
        assert!(subsets.iter().all(|subset| subset.is_within(set)));
    }

    #[test]
    fn members_are_ascending() {
        let set = UnitSet::one(7).union(UnitSet::one(2));
        assert_eq!(set.members().collect::<Vec<_>>(), [2, 7]);
        assert_eq!(set.without(UnitSet::before(3)).only(), Some(7));
    }
}

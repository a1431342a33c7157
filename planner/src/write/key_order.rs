//! Sorting many keys.
//!
//! Runs of a moderate length are sorted, and then merged in pairs. The first bytes of each key are
//! beside its number, so most comparisons read nothing else.

use std::cmp::Ordering;
use std::ops::Range;

/// The number of keys that one step sorts or merges.
const RUN: usize = 4096;

/// A key in its order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrderedKey {
    /// The first bytes of the key: keys with different ones are in their order.
    head: u64,
    /// The number of the key.
    pub nth: u32,
}

impl OrderedKey {
    fn new(key: &[u8], nth: u32) -> OrderedKey {
        let mut head = [0; 8];
        let bytes = key.len().min(head.len());
        head[..bytes].copy_from_slice(&key[..bytes]);
        OrderedKey {
            head: u64::from_be_bytes(head),
            nth,
        }
    }

    /// Compares two keys, and their numbers if the keys are equal.
    #[inline]
    fn compare<'k>(self, other: OrderedKey, key: &impl Fn(u32) -> &'k [u8]) -> Ordering {
        self.head.cmp(&other.head).then_with(|| {
            let keys = key(self.nth).cmp(key(other.nth));
            keys.then(self.nth.cmp(&other.nth))
        })
    }

    /// Returns whether two keys are equal.
    pub fn is_same<'k>(self, other: OrderedKey, key: &impl Fn(u32) -> &'k [u8]) -> bool {
        self.head == other.head && key(self.nth) == key(other.nth)
    }
}

/// A sort in progress: keys with the numbers `0..count` are ordered, equal keys by their numbers.
#[derive(Debug, Default)]
pub struct KeySort {
    count: usize,
    /// The keys in runs of `width`, each of which is in order.
    order: Vec<OrderedKey>,
    width: usize,
    /// The merged runs of twice the width so far.
    merged: Vec<OrderedKey>,
    /// The keys of the pair of runs being merged that are not merged yet, as positions in `order`.
    left: Range<usize>,
    right: Range<usize>,
}

impl KeySort {
    /// Begins to sort `count` keys.
    pub fn new(count: usize) -> KeySort {
        KeySort {
            count,
            order: Vec::with_capacity(count),
            width: RUN,
            ..KeySort::default()
        }
    }

    /// Does a part of the work, which is short. Returns false if there was nothing to do.
    pub fn step<'k>(&mut self, key: impl Fn(u32) -> &'k [u8]) -> bool {
        let from = self.order.len();
        if from < self.count {
            let run = from as u32..self.count.min(from + RUN) as u32;
            let run = run.map(|nth| OrderedKey::new(key(nth), nth));
            self.order.extend(run);
            self.order[from..].sort_unstable_by(|a, b| a.compare(*b, &key));
            return true;
        }
        if self.width >= self.count {
            return false;
        }
        if self.left.is_empty() && self.right.is_empty() {
            self.begin_pair();
        }
        let mut sides = (
            &self.order[self.left.clone()],
            &self.order[self.right.clone()],
        );
        merge(&mut sides, &mut self.merged, &key);
        self.left.start = self.left.end - sides.0.len();
        self.right.start = self.right.end - sides.1.len();
        if self.merged.len() == self.count {
            std::mem::swap(&mut self.order, &mut self.merged);
            self.merged.clear();
            self.width *= 2;
        }
        true
    }

    fn begin_pair(&mut self) {
        self.merged.reserve_exact(self.count - self.merged.len());
        let at = |runs: usize| self.count.min(self.merged.len() + runs * self.width);
        (self.left, self.right) = (at(0)..at(1), at(1)..at(2));
    }

    /// Returns the keys in their order, once [`Self::step`] has returned false.
    pub fn into_order(self) -> Vec<OrderedKey> {
        self.order
    }
}

/// Moves the least keys of two sorted runs to `merged`, in order.
fn merge<'k>(
    (left, right): &mut (&[OrderedKey], &[OrderedKey]),
    merged: &mut Vec<OrderedKey>,
    key: &impl Fn(u32) -> &'k [u8],
) {
    let is_apart = match (left.last(), right.first()) {
        (Some(left), Some(right)) => left.compare(*right, key).is_lt(),
        (None, _) | (_, None) => true,
    };
    if is_apart {
        let (taken, rest) = left.split_at(left.len().min(RUN));
        merged.extend_from_slice(taken);
        *left = rest;
        if rest.is_empty() {
            let (taken, rest) = right.split_at(right.len().min(RUN));
            merged.extend_from_slice(taken);
            *right = rest;
        }
        return;
    }
    // Neither side ends within so many steps.
    let steps = left.len().min(right.len()).min(RUN);
    let (mut l, mut r) = (0, 0);
    for _ in 0..steps {
        let (a, b) = (left[l], right[r]);
        let is_left = a.compare(b, key).is_lt();
        merged.push(if is_left { a } else { b });
        l += usize::from(is_left);
        r += usize::from(!is_left);
    }
    *left = &left[l..];
    *right = &right[r..];
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn keys_are_in_stable_order(
            some in proptest::collection::vec(proptest::collection::vec(0u8..3, 0..12), 1..60),
            copies in 1usize..700,
        ) {
            // Copies beside each other and far apart, so that runs are merged and taken whole.
            let copied = some.iter().flat_map(|key| std::iter::repeat_n(key, 1 + copies / 8));
            let rest = (0..copies).flat_map(|_| &some);
            let keys: Vec<&[u8]> = copied.chain(rest).map(Vec::as_slice).collect();
            let mut expected: Vec<u32> = (0..keys.len() as u32).collect();
            expected.sort_by_key(|nth| keys[*nth as usize]);
            let mut sort = KeySort::new(keys.len());
            while sort.step(|nth| keys[nth as usize]) {}
            let order = sort.into_order().into_iter().map(|key| key.nth);
            prop_assert_eq!(order.collect::<Vec<_>>(), expected);
        }
    }
}

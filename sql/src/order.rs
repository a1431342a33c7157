//! A stable sort for short lists of many types. It sorts indexes and then swaps the elements, so
//! the sort itself is compiled once and not once for each type.

use std::cmp::Ordering;

/// A list that can be sorted; equal elements keep their order.
pub trait StableSort<T> {
    /// Sorts the list by `compare`.
    fn order_by(&mut self, compare: impl Fn(&T, &T) -> Ordering);

    /// Sorts the list by `key`.
    fn order_by_key<K: Ord>(&mut self, key: impl Fn(&T) -> K) {
        self.order_by(|a, b| key(a).cmp(&key(b)));
    }
}

impl<T> StableSort<T> for [T] {
    fn order_by(&mut self, compare: impl Fn(&T, &T) -> Ordering) {
        let swaps = swaps(self.len(), &|a, b| compare(&self[a], &self[b]));
        for (at, from) in swaps.into_iter().enumerate() {
            self.swap(at, from);
        }
    }
}

/// Returns, for each position from the first on, the position to swap it with.
fn swaps(count: usize, compare: &dyn Fn(usize, usize) -> Ordering) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_by(|a, b| compare(*a, *b));
    for at in 0..count {
        let mut from = order[at];
        // The element was swapped away earlier; the entry of its position says where it is now.
        while from < at {
            from = order[from];
        }
        order[at] = from;
    }
    order
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn sort_is_correct_and_stable(
            keys in proptest::collection::vec(0u8..20, 0..60),
        ) {
            let mut ours: Vec<(u8, usize)> = keys.into_iter().zip(0..).collect();
            let mut sorted = ours.clone();
            ours.order_by_key(|of| of.0);
            sorted.sort_by_key(|of| of.0);
            prop_assert_eq!(ours, sorted);
        }
    }
}

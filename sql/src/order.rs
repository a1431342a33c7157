//! Sorting of lists that are short, and of many kinds: what is sorted is only swapped, so that no kind has a sort of its own,
//! each of which is as much code as a small module.

use std::cmp::Ordering;

/// What can be put in order; what is alike stays as it was.
pub trait InOrder<T> {
    /// Puts it in the order that `compare` gives.
    fn order_by(&mut self, compare: impl Fn(&T, &T) -> Ordering);

    /// Puts it in the order of `key`.
    fn order_by_key<K: Ord>(&mut self, key: impl Fn(&T) -> K) {
        self.order_by(|a, b| key(a).cmp(&key(b)));
    }
}

impl<T> InOrder<T> for [T] {
    fn order_by(&mut self, compare: impl Fn(&T, &T) -> Ordering) {
        let swaps = swaps(self.len(), &|a, b| compare(&self[a], &self[b]));
        for (at, from) in swaps.into_iter().enumerate() {
            self.swap(at, from);
        }
    }
}

/// What to swap each place with, from the first on.
fn swaps(count: usize, compare: &dyn Fn(usize, usize) -> Ordering) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_by(|a, b| compare(*a, *b));
    for at in 0..count {
        let mut from = order[at];
        // What was there has been swapped away, to where that place's own says.
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
        fn all_is_in_order_and_what_is_alike_as_it_was(keys in proptest::collection::vec(0u8..20, 0..60)) {
            let mut ours: Vec<(u8, usize)> = keys.into_iter().zip(0..).collect();
            let mut sorted = ours.clone();
            ours.order_by_key(|of| of.0);
            sorted.sort_by_key(|of| of.0);
            prop_assert_eq!(ours, sorted);
        }
    }
}

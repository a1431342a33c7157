//! A set that is a sorted list.

use std::borrow::Borrow;
use std::fmt;
use std::{slice, vec};

/// A set with few elements, in their order.
///
/// ```
/// use fencepost_cluster::few::FewSet;
///
/// let mut machines = FewSet::from([3, 1]);
/// assert!(machines.insert(2) && !machines.insert(3));
/// assert!(machines.iter().eq(&[1, 2, 3]));
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FewSet<T>(Vec<T>);

impl<T> FewSet<T> {
    /// An empty one.
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// How many elements it has.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Removes all.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// The elements in order.
    pub fn iter(&self) -> slice::Iter<'_, T> {
        self.0.iter()
    }

    /// The smallest element.
    pub fn first(&self) -> Option<&T> {
        self.0.first()
    }

    /// The largest element.
    pub fn last(&self) -> Option<&T> {
        self.0.last()
    }

    /// Removes the smallest element.
    pub fn pop_first(&mut self) -> Option<T> {
        (!self.0.is_empty()).then(|| self.0.remove(0))
    }

    /// Keeps what `keep` says.
    pub fn retain(&mut self, keep: impl FnMut(&T) -> bool) {
        self.0.retain(keep);
    }
}

impl<T: Ord> FewSet<T> {
    /// Where an element is, or where it would be.
    fn find<Q: Ord + ?Sized>(&self, element: &Q) -> Result<usize, usize>
    where
        T: Borrow<Q>,
    {
        match self.0.last() {
            // Mostly they come in order.
            Some(last) if last.borrow() < element => Err(self.0.len()),
            _ => self.0.binary_search_by(|there| there.borrow().cmp(element)),
        }
    }

    /// Whether the element is there.
    pub fn contains<Q: Ord + ?Sized>(&self, element: &Q) -> bool
    where
        T: Borrow<Q>,
    {
        self.find(element).is_ok()
    }

    /// Inserts an element; false if it was there.
    pub fn insert(&mut self, element: T) -> bool {
        let place = self.find(&element);
        if let Err(at) = place {
            self.0.insert(at, element);
        }
        place.is_err()
    }

    /// Removes an element; whether it was there.
    pub fn remove<Q: Ord + ?Sized>(&mut self, element: &Q) -> bool
    where
        T: Borrow<Q>,
    {
        let place = self.find(element);
        if let Ok(at) = place {
            self.0.remove(at);
        }
        place.is_ok()
    }

    /// Whether all elements are in `other`.
    pub fn is_subset(&self, other: &Self) -> bool {
        self.iter().all(|element| other.contains(element))
    }

    /// Whether no element is in `other`.
    pub fn is_disjoint(&self, other: &Self) -> bool {
        !self.iter().any(|element| other.contains(element))
    }

    /// What is not in `other`.
    pub fn difference<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = &'a T> {
        self.iter().filter(|element| !other.contains(*element))
    }

    /// What is in `other`, too.
    pub fn intersection<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = &'a T> {
        self.iter().filter(|element| other.contains(*element))
    }
}

impl<T> Default for FewSet<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: fmt::Debug> fmt::Debug for FewSet<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(&self.0).finish()
    }
}

impl<T: Ord> Extend<T> for FewSet<T> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, more: I) {
        for element in more {
            self.insert(element);
        }
    }
}

impl<'a, T: Ord + Copy> Extend<&'a T> for FewSet<T> {
    fn extend<I: IntoIterator<Item = &'a T>>(&mut self, more: I) {
        self.extend(more.into_iter().copied());
    }
}

impl<T: Ord> FromIterator<T> for FewSet<T> {
    fn from_iter<I: IntoIterator<Item = T>>(all: I) -> Self {
        let mut set = Self::new();
        set.extend(all);
        set
    }
}

impl<T: Ord, const N: usize> From<[T; N]> for FewSet<T> {
    fn from(all: [T; N]) -> Self {
        all.into_iter().collect()
    }
}

impl<T> IntoIterator for FewSet<T> {
    type Item = T;
    type IntoIter = vec::IntoIter<T>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'a, T> IntoIterator for &'a FewSet<T> {
    type Item = &'a T;
    type IntoIter = slice::Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

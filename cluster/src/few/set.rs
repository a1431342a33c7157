//! A set as the keys of a [`FewMap`].

use std::borrow::Borrow;
use std::fmt;
use std::iter;

use super::map::{self, FewMap};

/// A set of few elements, in ascending order.
///
/// ```
/// use fencepost_cluster::few::FewSet;
///
/// let mut machines = FewSet::from([3, 1]);
/// assert!(machines.insert(2) && !machines.insert(3));
/// assert!(machines.iter().eq(&[1, 2, 3]));
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FewSet<T>(FewMap<T, ()>);

/// An iterator over the elements of a set.
pub type Iter<'a, T> = iter::Map<map::Iter<'a, T, ()>, fn((&'a T, &'a ())) -> &'a T>;
/// An iterator that owns the elements of a set.
pub type IntoIter<T> = iter::Map<<FewMap<T, ()> as IntoIterator>::IntoIter, fn((T, ())) -> T>;

impl<T> FewSet<T> {
    /// Returns an empty set.
    pub const fn new() -> Self {
        Self(FewMap::new())
    }

    /// Returns the number of elements.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Removes all elements.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Returns the elements in ascending order.
    pub fn iter(&self) -> Iter<'_, T> {
        self.0.iter().map(|(element, ())| element)
    }

    /// Returns the smallest element.
    pub fn first(&self) -> Option<&T> {
        self.iter().next()
    }

    /// Returns the largest element.
    pub fn last(&self) -> Option<&T> {
        self.iter().next_back()
    }

    /// Removes the elements for which `keep` returns false.
    pub fn retain(&mut self, mut keep: impl FnMut(&T) -> bool) {
        self.0.retain(|element, ()| keep(element));
    }
}

impl<T: Ord> FewSet<T> {
    /// Returns whether the set has the element.
    pub fn contains<Q: Ord + ?Sized>(&self, element: &Q) -> bool
    where
        T: Borrow<Q>,
    {
        self.0.contains_key(element)
    }

    /// Inserts an element; returns false if the set already had it.
    pub fn insert(&mut self, element: T) -> bool {
        self.0.insert(element, ()).is_none()
    }

    /// Removes an element; returns whether the set had it.
    pub fn remove<Q: Ord + ?Sized>(&mut self, element: &Q) -> bool
    where
        T: Borrow<Q>,
    {
        self.0.remove(element).is_some()
    }

    /// Returns whether all elements are in `other`.
    pub fn is_subset(&self, other: &Self) -> bool {
        self.iter().all(|element| other.contains(element))
    }
}

impl<T> Default for FewSet<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: fmt::Debug> fmt::Debug for FewSet<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self).finish()
    }
}

impl<T: Ord> Extend<T> for FewSet<T> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, more: I) {
        self.0.extend(more.into_iter().map(|element| (element, ())));
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
    type IntoIter = IntoIter<T>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter().map(|(element, ())| element)
    }
}

impl<'a, T> IntoIterator for &'a FewSet<T> {
    type Item = &'a T;
    type IntoIter = Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

//! A set: the keys of a map.

use std::borrow::Borrow;
use std::fmt;
use std::iter;

use super::map::{self, FewMap};

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
pub struct FewSet<T>(FewMap<T, ()>);

/// Goes through a set.
pub type Iter<'a, T> = iter::Map<map::Iter<'a, T, ()>, fn((&'a T, &'a ())) -> &'a T>;
/// The elements themselves.
pub type IntoIter<T> = iter::Map<<FewMap<T, ()> as IntoIterator>::IntoIter, fn((T, ())) -> T>;

impl<T> FewSet<T> {
    /// An empty one.
    pub const fn new() -> Self {
        Self(FewMap::new())
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
    pub fn iter(&self) -> Iter<'_, T> {
        self.0.iter().map(|(element, ())| element)
    }

    /// The smallest element.
    pub fn first(&self) -> Option<&T> {
        self.iter().next()
    }

    /// The largest element.
    pub fn last(&self) -> Option<&T> {
        self.iter().next_back()
    }

    /// Keeps what `keep` says.
    pub fn retain(&mut self, mut keep: impl FnMut(&T) -> bool) {
        self.0.retain(|element, ()| keep(element));
    }
}

impl<T: Ord> FewSet<T> {
    /// Whether the element is there.
    pub fn contains<Q: Ord + ?Sized>(&self, element: &Q) -> bool
    where
        T: Borrow<Q>,
    {
        self.0.contains_key(element)
    }

    /// Inserts an element; false if it was there.
    pub fn insert(&mut self, element: T) -> bool {
        self.0.insert(element, ()).is_none()
    }

    /// Removes an element; whether it was there.
    pub fn remove<Q: Ord + ?Sized>(&mut self, element: &Q) -> bool
    where
        T: Borrow<Q>,
    {
        self.0.remove(element).is_some()
    }

    /// Whether all elements are in `other`.
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

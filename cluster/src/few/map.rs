//! A map as a sorted list of pairs.

use std::borrow::Borrow;
use std::fmt;
use std::ops::{Bound, Index, RangeBounds};
use std::{iter, slice, vec};

/// A map of few keys, ordered by key.
///
/// ```
/// use fencepost_cluster::few::FewMap;
///
/// let mut regions = FewMap::from([(3, "c"), (1, "a")]);
/// assert_eq!(regions.insert(3, "C"), Some("c"));
/// *regions.entry(2).or_default() = "b";
/// assert!(regions.iter().eq([(&1, &"a"), (&2, &"b"), (&3, &"C")]));
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FewMap<K, V>(Vec<(K, V)>);

/// An iterator over the pairs of a map.
pub type Iter<'a, K, V> = iter::Map<slice::Iter<'a, (K, V)>, fn(&'a (K, V)) -> (&'a K, &'a V)>;
/// An iterator over the pairs of a map, with mutable values.
pub type IterMut<'a, K, V> =
    iter::Map<slice::IterMut<'a, (K, V)>, fn(&'a mut (K, V)) -> (&'a K, &'a mut V)>;

impl<K, V> FewMap<K, V> {
    /// Returns an empty map.
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// Returns the number of keys.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether the map has no keys.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Removes all keys.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Returns keys and values, in the order of keys.
    pub fn iter(&self) -> Iter<'_, K, V> {
        self.0.iter().map(|(key, value)| (key, value))
    }

    /// Returns the same as [`Self::iter`], with mutable values.
    pub fn iter_mut(&mut self) -> IterMut<'_, K, V> {
        self.0.iter_mut().map(|(key, value)| (&*key, value))
    }

    /// Returns the keys in order.
    pub fn keys(&self) -> impl DoubleEndedIterator<Item = &K> + ExactSizeIterator + Clone {
        self.0.iter().map(|(key, _)| key)
    }

    /// Returns the values, in the order of keys.
    pub fn values(&self) -> impl DoubleEndedIterator<Item = &V> + ExactSizeIterator + Clone {
        self.0.iter().map(|(_, value)| value)
    }

    /// Returns the same as [`Self::values`], mutable.
    pub fn values_mut(&mut self) -> impl DoubleEndedIterator<Item = &mut V> + ExactSizeIterator {
        self.0.iter_mut().map(|(_, value)| value)
    }

    /// Consumes the map and returns its values, in the order of keys.
    pub fn into_values(self) -> impl DoubleEndedIterator<Item = V> + ExactSizeIterator {
        self.0.into_iter().map(|(_, value)| value)
    }

    /// Removes the pairs for which `keep` returns false.
    pub fn retain(&mut self, mut keep: impl FnMut(&K, &mut V) -> bool) {
        self.0.retain_mut(|(key, value)| keep(key, value));
    }
}

impl<K: Ord, V> FewMap<K, V> {
    /// Returns the index of a key (`Ok`), or the index at which it would be inserted (`Err`).
    fn find<Q: Ord + ?Sized>(&self, key: &Q) -> Result<usize, usize>
    where
        K: Borrow<Q>,
    {
        match self.0.last() {
            // Keys mostly arrive in ascending order.
            Some((last, _)) if last.borrow() < key => Err(self.0.len()),
            _ => self
                .0
                .binary_search_by(|(there, _)| there.borrow().cmp(key)),
        }
    }

    /// Returns the value of a key.
    pub fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.find(key).ok().map(|at| &self.0[at].1)
    }

    /// Returns the mutable value of a key.
    pub fn get_mut<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        self.find(key).ok().map(|at| &mut self.0[at].1)
    }

    /// Returns whether the map has the key.
    pub fn contains_key<Q: Ord + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.find(key).is_ok()
    }

    /// Sets the value of a key and returns its previous value.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        match self.find(&key) {
            Ok(at) => Some(std::mem::replace(&mut self.0[at].1, value)),
            Err(at) => {
                self.0.insert(at, (key, value));
                None
            }
        }
    }

    /// Removes a key and returns its value.
    pub fn remove<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        self.find(key).ok().map(|at| self.0.remove(at).1)
    }

    /// Returns the position of a key, whether the map has the key or not.
    pub fn entry(&mut self, key: K) -> Vacancy<'_, K, V> {
        let at = self.find(&key);
        let map = self;
        Vacancy { map, at, key }
    }

    /// Returns the pairs whose keys are in a range.
    pub fn range(&self, keys: impl RangeBounds<K>) -> Iter<'_, K, V> {
        let from = match keys.start_bound() {
            Bound::Included(from) => self.0.partition_point(|(key, _)| key < from),
            Bound::Excluded(from) => self.0.partition_point(|(key, _)| key <= from),
            Bound::Unbounded => 0,
        };
        let to = match keys.end_bound() {
            Bound::Included(to) => self.0.partition_point(|(key, _)| key <= to),
            Bound::Excluded(to) => self.0.partition_point(|(key, _)| key < to),
            Bound::Unbounded => self.0.len(),
        };
        let range = self.0.get(from..to).unwrap_or_default();
        range.iter().map(|(key, value)| (key, value))
    }
}

/// The position of a key in a map: the counterpart of `BTreeMap`'s `Entry`.
pub struct Vacancy<'a, K, V> {
    map: &'a mut FewMap<K, V>,
    at: Result<usize, usize>,
    key: K,
}

impl<'a, K, V> Vacancy<'a, K, V> {
    /// Returns the key's value, after it has inserted that of `make` if there was none.
    pub fn or_insert_with(self, make: impl FnOnce() -> V) -> &'a mut V {
        let Vacancy { map, at, key } = self;
        let at = match at {
            Ok(at) => at,
            Err(at) => {
                map.0.insert(at, (key, make()));
                at
            }
        };
        &mut map.0[at].1
    }

    /// Does the same as [`Self::or_insert_with`] with a `make` that can fail.
    ///
    /// # Errors
    /// The error of `make`; nothing is inserted then.
    pub fn or_try_insert_with<E>(
        self,
        make: impl FnOnce() -> Result<V, E>,
    ) -> Result<&'a mut V, E> {
        let value = match self.at {
            Ok(at) => return Ok(&mut self.map.0[at].1),
            Err(_) => make()?,
        };
        Ok(self.or_insert(value))
    }

    /// Returns the key's value, after it has inserted `value` if there was none.
    pub fn or_insert(self, value: V) -> &'a mut V {
        self.or_insert_with(|| value)
    }

    /// Returns the key's value, after it has inserted the default if there was none.
    pub fn or_default(self) -> &'a mut V
    where
        V: Default,
    {
        self.or_insert_with(V::default)
    }
}

impl<K, V> Default for FewMap<K, V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: fmt::Debug, V: fmt::Debug> fmt::Debug for FewMap<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl<K: Borrow<Q> + Ord, Q: Ord + ?Sized, V> Index<&Q> for FewMap<K, V> {
    type Output = V;

    /// # Panics
    /// If the map does not have the key.
    fn index(&self, key: &Q) -> &V {
        self.get(key).expect("the key is there")
    }
}

impl<K: Ord, V> Extend<(K, V)> for FewMap<K, V> {
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, more: I) {
        for (key, value) in more {
            self.insert(key, value);
        }
    }
}

impl<K: Ord, V> FromIterator<(K, V)> for FewMap<K, V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(all: I) -> Self {
        let mut map = Self::new();
        map.extend(all);
        map
    }
}

impl<K: Ord, V, const N: usize> From<[(K, V); N]> for FewMap<K, V> {
    fn from(all: [(K, V); N]) -> Self {
        all.into_iter().collect()
    }
}

impl<K, V> IntoIterator for FewMap<K, V> {
    type Item = (K, V);
    type IntoIter = vec::IntoIter<(K, V)>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'a, K, V> IntoIterator for &'a FewMap<K, V> {
    type Item = (&'a K, &'a V);
    type IntoIter = Iter<'a, K, V>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<'a, K, V> IntoIterator for &'a mut FewMap<K, V> {
    type Item = (&'a K, &'a mut V);
    type IntoIter = IterMut<'a, K, V>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter_mut()
    }
}

//! The portals of a session by name; the unnamed one is found without hashing.
//!
//! What is held is what the client made and has not closed: there is no other limit.

use std::collections::HashMap;

use foldhash::fast::RandomState;

/// Things by name.
pub(super) struct Names<T> {
    unnamed: Option<T>,
    named: HashMap<Box<str>, T, RandomState>,
}

impl<T> Names<T> {
    pub(super) fn new() -> Self {
        Names {
            unnamed: None,
            named: HashMap::default(),
        }
    }

    #[inline]
    pub(super) fn get(&self, name: &str) -> Option<&T> {
        match name {
            "" => self.unnamed.as_ref(),
            name => self.named.get(name),
        }
    }

    #[inline]
    pub(super) fn get_mut(&mut self, name: &str) -> Option<&mut T> {
        match name {
            "" => self.unnamed.as_mut(),
            name => self.named.get_mut(name),
        }
    }

    /// Puts `item` under `name`, in the place of what was there.
    #[inline]
    pub(super) fn insert(&mut self, name: &str, item: T) {
        match name {
            "" => self.unnamed = Some(item),
            name => {
                self.named.insert(name.into(), item);
            }
        }
    }

    pub(super) fn remove(&mut self, name: &str) -> Option<T> {
        match name {
            "" => self.unnamed.take(),
            name => self.named.remove(name),
        }
    }

    /// Forgets everything and the memory it took.
    #[inline]
    pub(super) fn clear(&mut self) {
        self.unnamed = None;
        if self.named.capacity() > 0 {
            self.named = HashMap::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unnamed_one_is_apart() {
        let mut names = Names::new();
        names.insert("", 1);
        names.insert("a", 2);
        names.insert("", 3);
        assert_eq!(
            (names.get(""), names.get("a"), names.get("b")),
            (Some(&3), Some(&2), None)
        );
        assert_eq!((names.remove("a"), names.remove("a")), (Some(2), None));
        names.clear();
        assert_eq!(names.get_mut(""), None);
    }
}

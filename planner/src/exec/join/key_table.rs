//! A hash table from keys to the numbers of the rows that have them.
//!
//! ```text
//! HashTable ─▶ group (bytes of the key, first row, last row)
//! next      row ─▶ the following row of its group
//! ```
//!
//! All keys are in one buffer, so a row costs no allocation of its own.

use std::hash::BuildHasher;

use foldhash::fast::RandomState;
use hashbrown::HashTable;

/// Marks the last row of a group.
const NONE: u32 = u32::MAX;

/// Rows with the same key, in the order in which they were added.
#[derive(Clone, Copy)]
struct Group {
    /// The end of the key; it begins where the key of the previous group ends.
    key_end: usize,
    first: u32,
    last: u32,
}

/// The rows by their keys.
#[derive(Default)]
pub struct KeyTable {
    groups: HashTable<u32>,
    all: Vec<Group>,
    keys: Vec<u8>,
    next: Vec<u32>,
    hasher: RandomState,
}

impl KeyTable {
    /// Adds a row, whose number is larger than those of all earlier ones. Returns whether its key
    /// is new.
    pub fn add(&mut self, key: &[u8], row: u32) -> bool {
        self.next.resize(row as usize + 1, NONE);
        let hash = self.hasher.hash_one(key);
        let (all, keys) = (&self.all, &self.keys);
        if let Some(group) = self
            .groups
            .find(hash, |group| key_of(all, keys, *group) == key)
        {
            let group = &mut self.all[*group as usize];
            self.next[group.last as usize] = row;
            group.last = row;
            return false;
        }
        self.keys.extend_from_slice(key);
        self.all.push(Group {
            key_end: self.keys.len(),
            first: row,
            last: row,
        });
        let (all, keys, hasher) = (&self.all, &self.keys, &self.hasher);
        let rehash = |group: &u32| hasher.hash_one(key_of(all, keys, *group));
        self.groups
            .insert_unique(hash, all.len() as u32 - 1, rehash);
        true
    }

    /// Returns the first row with this key.
    pub fn first(&self, key: &[u8]) -> Option<u32> {
        let hash = self.hasher.hash_one(key);
        let is_key = |group: &u32| key_of(&self.all, &self.keys, *group) == key;
        let group = self.groups.find(hash, is_key)?;
        Some(self.all[*group as usize].first)
    }

    /// Returns the row after `row` with the same key.
    pub fn after(&self, row: u32) -> Option<u32> {
        self.next
            .get(row as usize)
            .copied()
            .filter(|next| *next != NONE)
    }
}

fn key_of<'a>(all: &[Group], keys: &'a [u8], group: u32) -> &'a [u8] {
    let at = group as usize;
    let start = match at {
        0 => 0,
        _ => all[at - 1].key_end,
    };
    &keys[start..all[at].key_end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_a_key_come_in_order() {
        let mut table = KeyTable::default();
        for row in 0..1_000_u32 {
            let key = (row % 7).to_be_bytes();
            // Some rows have no key.
            if row % 5 != 0 {
                assert_eq!(
                    table.add(&key[..1 + row as usize % 4], row),
                    has_new_key(row)
                );
            }
        }
        let first = table.first(&[0, 0, 0]).expect("a row");
        let rows: Vec<u32> = std::iter::successors(Some(first), |row| table.after(*row)).collect();
        assert!(rows.iter().all(|row| row % 4 == 2 && row % 5 != 0));
        assert!(rows.is_sorted());
        assert_eq!(table.first(b"none"), None);
    }

    /// Returns whether the row is the first one with its key.
    fn has_new_key(row: u32) -> bool {
        let key = |row: u32| (row % 7).to_be_bytes()[..1 + row as usize % 4].to_vec();
        (0..row)
            .filter(|other| other % 5 != 0)
            .all(|other| key(other) != key(row))
    }
}

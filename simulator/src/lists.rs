//! The check of lists: a list contains all appended numbers, in the order of the versions, since it
//! was last cleared.

use std::collections::BTreeMap;

use crate::history::{Object, ObservedTransaction};
use crate::versions::Versions;
use crate::world::LIST_WORDS;

/// The contents that a transaction read in a list.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Contents {
    /// The list.
    pub list: Object,
    /// The numbers in the list.
    pub numbers: Vec<u64>,
}

/// Appends a transaction's number to a list; a full list is cleared first.
pub fn append(numbers: &mut Vec<u64>, id: u64) {
    if numbers.len() + 1 == LIST_WORDS {
        numbers.clear();
    }
    numbers.push(id);
}

/// Compares the contents that were read with those that follow from the order of versions.
///
/// # Errors
/// A description of the difference.
pub fn check_lists(history: &[ObservedTransaction], found: &[Contents]) -> Result<(), String> {
    let versions = Versions::of(history)?;
    let mut right: BTreeMap<(Object, u64), Vec<u64>> = BTreeMap::new();
    for contents in found {
        let list = contents.list;
        let writer = contents.numbers.last().copied().unwrap_or(0);
        if !right.contains_key(&(list, 0)) {
            let mut numbers = Vec::new();
            right.insert((list, 0), numbers.clone());
            for version in versions.order(list) {
                let id = history[version.by].id;
                append(&mut numbers, id);
                right.insert((list, id), numbers.clone());
            }
        }
        let right = right.get(&(list, writer));
        if right != Some(&contents.numbers) {
            return Err(format!(
                "{list} contained {:?} and not {right:?}",
                contents.numbers
            ));
        }
    }
    Ok(())
}

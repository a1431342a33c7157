//! What lists contained: everything that was appended, in the order of the versions, since the list was
//! begun anew.

use std::collections::BTreeMap;

use crate::history::{Object, Seen};
use crate::versions::Versions;
use crate::world::LIST_WORDS;

/// What a transaction found in a list.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Contents {
    /// The list.
    pub list: Object,
    /// The numbers in it.
    pub numbers: Vec<u64>,
}

/// What a list contains once a transaction has appended its number: a full one begins anew.
pub fn append(numbers: &mut Vec<u64>, id: u64) {
    if numbers.len() + 1 == LIST_WORDS {
        numbers.clear();
    }
    numbers.push(id);
}

/// Compares what was found with what the order of versions makes of each list.
///
/// # Errors
/// What is wrong, for people.
pub fn check_lists(history: &[Seen], found: &[Contents]) -> Result<(), String> {
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

//! The version order of each list, and the anomalies that contents alone show: G1a, G1b, lost
//! appends.

use std::collections::{BTreeMap, BTreeSet};

use super::{Anomaly, Execution, Violation, writer_of};
use crate::history::Object;
use crate::lists::Contents;

/// The elements of each list in their order, and the executions that appended them.
pub(super) struct ListOrders<'a> {
    of: BTreeMap<Object, &'a [u64]>,
    /// The place of each committed transaction in the history, by its number.
    places: BTreeMap<u64, usize>,
}

/// Returns all contents that an execution has read.
fn contents(execution: &Execution) -> impl Iterator<Item = &Contents> {
    let statements = execution.statements.iter();
    statements.flat_map(|statement| statement.seen.iter().chain(&statement.locked))
}

impl<'a> ListOrders<'a> {
    /// Infers the orders of all lists.
    pub(super) fn of(history: &'a [Execution]) -> Result<ListOrders<'a>, Violation> {
        let committed = || history.iter().filter(|execution| execution.committed);
        let appended: BTreeSet<(Object, u64)> = committed()
            .flat_map(|execution| execution.appended.iter().copied())
            .collect();
        find_aborted_read(history, &appended)?;
        find_intermediate_read(history)?;
        let of = longest(history)?;
        find_lost_append(&of, appended)?;
        let places = history.iter().enumerate();
        let places = places.filter(|(_, execution)| execution.committed);
        Ok(ListOrders {
            of,
            places: places.map(|(place, of)| (of.id, place)).collect(),
        })
    }

    /// Returns the elements of all lists.
    pub(super) fn all(&self) -> impl Iterator<Item = (Object, &'a [u64])> {
        self.of.iter().map(|(list, elements)| (*list, *elements))
    }

    /// Returns the elements of a list.
    pub(super) fn elements(&self, list: Object) -> &'a [u64] {
        self.of.get(&list).copied().unwrap_or_default()
    }

    /// Returns the place in the history of the execution that has appended an element.
    pub(super) fn place_of(&self, element: u64) -> usize {
        // Elements of other transactions were reported as aborted reads before.
        self.places[&writer_of(element)]
    }
}

fn find_aborted_read(
    history: &[Execution],
    appended: &BTreeSet<(Object, u64)>,
) -> Result<(), Violation> {
    for reader in history {
        for Contents { list, numbers } in contents(reader) {
            let aborted = |element: &&u64| !appended.contains(&(*list, **element));
            if let Some(element) = numbers.iter().find(aborted) {
                let (id, writer) = (reader.id, writer_of(*element));
                let evidence = format!(
                    "{id} read {element} in {list}, which {writer} has not committed: {reader:?}"
                );
                return Err(Violation::of_every_level(Anomaly::AbortedRead, evidence));
            }
        }
    }
    Ok(())
}

fn find_intermediate_read(history: &[Execution]) -> Result<(), Violation> {
    let mut last: BTreeMap<(Object, u64), u64> = BTreeMap::new();
    for execution in history {
        for (list, element) in &execution.appended {
            last.insert((*list, execution.id), *element);
        }
    }
    for reader in history {
        for Contents { list, numbers } in contents(reader) {
            let Some(element) = numbers.last() else {
                continue;
            };
            let writer = writer_of(*element);
            if last.get(&(*list, writer)) != Some(element) {
                let id = reader.id;
                let evidence = format!(
                    "{id} read {list} up to {element}, and {writer} appended more: {reader:?}"
                );
                return Err(Violation::of_every_level(
                    Anomaly::IntermediateRead,
                    evidence,
                ));
            }
        }
    }
    Ok(())
}

/// Returns the longest contents of each list; all other contents must be a prefix of them.
fn longest(history: &[Execution]) -> Result<BTreeMap<Object, &[u64]>, Violation> {
    let mut longest: BTreeMap<Object, &[u64]> = BTreeMap::new();
    for contents in history.iter().flat_map(contents) {
        let so_far = longest.entry(contents.list).or_default();
        if contents.numbers.len() > so_far.len() {
            *so_far = &contents.numbers;
        }
    }
    for reader in history {
        for Contents { list, numbers } in contents(reader) {
            let order = longest[list];
            if !order.starts_with(numbers) {
                let evidence = format!(
                    "{list} contained {numbers:?}, which is no beginning of {order:?}: {reader:?}"
                );
                return Err(Violation::of_every_level(Anomaly::LostUpdate, evidence));
            }
        }
    }
    Ok(longest)
}

fn find_lost_append(
    orders: &BTreeMap<Object, &[u64]>,
    mut missing: BTreeSet<(Object, u64)>,
) -> Result<(), Violation> {
    for (list, order) in orders {
        for element in *order {
            if !missing.remove(&(*list, *element)) {
                let evidence = format!("{list} has {element} twice: {order:?}");
                return Err(Violation::of_every_level(Anomaly::LostUpdate, evidence));
            }
        }
    }
    let Some((list, element)) = missing.first() else {
        return Ok(());
    };
    let order = orders.get(list).copied().unwrap_or_default();
    let writer = writer_of(*element);
    let evidence = format!("{list} has lost {element}, which {writer} committed: {order:?}");
    Err(Violation::of_every_level(Anomaly::LostUpdate, evidence))
}

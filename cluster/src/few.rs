//! Maps and sets of what a cluster has few of: machines, regions, groups.
//!
//! They are sorted lists, and go through their elements in order, as a `BTreeMap` and a `BTreeSet` do, whose methods
//! those here are named after. A search takes a logarithm of the elements, an insertion or removal moves those behind it: nothing
//! for some thousands. What grows with the load, as transactions do, is not to be kept so.
//!
//! There is much less of their code than of a B-tree's, which is compiled once for each pair of types.

mod map;
mod set;
#[cfg(test)]
mod tests;

pub use map::{FewMap, Vacancy};
pub use set::FewSet;

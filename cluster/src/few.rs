//! Maps and sets for small numbers of elements: machines, regions, groups.
//!
//! They are sorted lists and iterate in order, as `BTreeMap` and `BTreeSet` do. Their methods have
//! the same names. A search takes logarithmic time. An insertion or a removal moves all later
//! elements, which costs little up to some thousands of elements. Do not keep collections here
//! whose size grows with the load, such as transactions.
//!
//! A sorted list needs much less compiled code than a B-tree, which is compiled for each pair of
//! types.

mod map;
mod set;
#[cfg(test)]
mod tests;

pub use map::{FewMap, Vacancy};
pub use set::FewSet;

//! Texts that the catalog keeps, when something that they name is called otherwise.
//!
//! The text is written anew with all names resolved, where what they mean has its new name: so an alias that is the old
//! one, or a column of another table, stays as it is. What cannot be shown with its names resolved cannot follow.

use super::super::scope::ScopeLeaf;
use super::{Reader, Shower};
use crate::catalog::CATALOG_SCHEMA;
use crate::error::SqlError;
use crate::pg_catalog::relation_oid;

/// What is called otherwise from now on, in the catalog that still has the old name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Renaming {
    /// A table, view or sequence.
    Relation {
        /// Its oid.
        id: u32,
        /// Its new name.
        to: String,
    },
    /// A column of a table or view.
    Column {
        /// The relation.
        relation: u32,
        /// Its place.
        column: usize,
        /// Its new name.
        to: String,
    },
    /// A function or procedure.
    Routine {
        /// Its oid.
        id: u32,
        /// Its new name.
        to: String,
    },
}

impl Renaming {
    /// The new name of a relation.
    pub(super) fn of_relation(&self, oid: u32) -> Option<&str> {
        match self {
            Renaming::Relation { id, to } if *id == oid => Some(to),
            _ => None,
        }
    }

    /// The new name of a routine.
    pub(super) fn of_routine(&self, oid: u32) -> Option<&str> {
        match self {
            Renaming::Routine { id, to } if *id == oid => Some(to),
            _ => None,
        }
    }
}

impl<'a> Reader<'a> {
    /// The reader for texts that are to be kept: all names are qualified, and what is renamed has its new name.
    pub fn keeping(self, renaming: &'a Renaming) -> Reader<'a> {
        Reader {
            renaming: Some(renaming),
            ..self
        }
    }
}

impl Shower<'_, '_> {
    /// What a relation of a query is called by itself, if it has another name now.
    pub(super) fn new_name(&self, leaf: &ScopeLeaf) -> Option<&str> {
        let renaming = self.reader.renaming?;
        match leaf.table_name {
            // It is called by its alias.
            Some(_) => None,
            None => renaming.of_relation(self.oid_of(leaf)?),
        }
    }

    /// The new name of a column of a relation of a query.
    pub(super) fn new_column(&self, leaf: &ScopeLeaf, at: usize) -> Option<&str> {
        match self.reader.renaming? {
            Renaming::Column {
                relation,
                column,
                to,
            } if *column == at && self.oid_of(leaf) == Some(*relation) => Some(to),
            _ => None,
        }
    }

    fn oid_of(&self, leaf: &ScopeLeaf) -> Option<u32> {
        let schema = leaf.schema.as_deref().filter(|of| *of != CATALOG_SCHEMA)?;
        let name = leaf.table_name.as_ref().unwrap_or(&leaf.alias);
        relation_oid(self.reader.snapshot, Some(schema), name)
    }

    /// Refuses what names a relation of a query by more than its columns, where it, or one of its columns, is renamed.
    pub(super) fn check_stays(&self, leaf: &ScopeLeaf) -> Result<(), SqlError> {
        let of_leaf = match self.reader.renaming {
            Some(Renaming::Relation { id, .. }) => Some(*id),
            Some(Renaming::Column { relation, .. }) => Some(*relation),
            _ => None,
        };
        match of_leaf.is_some() && of_leaf == self.oid_of(leaf) {
            true => Err(SqlError::unsupported("a new name here")),
            false => Ok(()),
        }
    }
}

//! Renaming in stored text: rewrites definitions when an object that they refer to is renamed.
//!
//! The text is deparsed with all names resolved, and references to the renamed object get its new
//! name. So an alias equal to the old name, or a column of another table, stays unchanged. A text
//! that cannot be deparsed cannot follow the renaming.

use super::super::scope::ScopeLeaf;
use super::{DeparseContext, Deparser};
use crate::catalog::CATALOG_SCHEMA;
use crate::error::SqlError;
use crate::pg_catalog::relation_oid;

/// An object that is being renamed; the catalog still has the old name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ObjectRename {
    /// A table, view or sequence.
    Relation {
        /// Its oid.
        id: u32,
        /// Its new name.
        to: String,
    },
    /// A column of a table or view.
    Column {
        /// The oid of the relation.
        relation: u32,
        /// The position of the column.
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

impl ObjectRename {
    /// Returns the new name of a relation; `None` if it keeps its name.
    pub(super) fn of_relation(&self, oid: u32) -> Option<&str> {
        match self {
            ObjectRename::Relation { id, to } if *id == oid => Some(to),
            _ => None,
        }
    }

    /// Returns the new name of a routine; `None` if it keeps its name.
    pub(super) fn of_routine(&self, oid: u32) -> Option<&str> {
        match self {
            ObjectRename::Routine { id, to } if *id == oid => Some(to),
            _ => None,
        }
    }
}

impl<'a> DeparseContext<'a> {
    /// Returns a reader for text to be stored: all names are qualified, and the renamed object has
    /// its new name.
    pub fn keeping(self, renaming: &'a ObjectRename) -> DeparseContext<'a> {
        DeparseContext {
            renaming: Some(renaming),
            ..self
        }
    }
}

impl Deparser<'_, '_> {
    /// Returns the new name of a relation of a query if the query refers to it by its own name.
    pub(super) fn new_name(&self, leaf: &ScopeLeaf) -> Option<&str> {
        let renaming = self.reader.renaming?;
        match leaf.table_name {
            // The query refers to the relation by an alias.
            Some(_) => None,
            None => renaming.of_relation(self.oid_of(leaf)?),
        }
    }

    /// Returns the new name of a column of a relation of a query.
    pub(super) fn new_column(&self, leaf: &ScopeLeaf, at: usize) -> Option<&str> {
        match self.reader.renaming? {
            ObjectRename::Column {
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

    /// Refuses to deparse a whole-row reference to a relation if the relation or one of its columns
    /// is renamed.
    pub(super) fn check_stays(&self, leaf: &ScopeLeaf) -> Result<(), SqlError> {
        let of_leaf = match self.reader.renaming {
            Some(ObjectRename::Relation { id, .. }) => Some(*id),
            Some(ObjectRename::Column { relation, .. }) => Some(*relation),
            _ => None,
        };
        match of_leaf.is_some() && of_leaf == self.oid_of(leaf) {
            true => Err(SqlError::unsupported("a new name here")),
            false => Ok(()),
        }
    }
}

//! The constraints and triggers of a table besides its keys, and further properties of columns.
//!
//! Invariants
//! - FK-1: `foreign_keys[i].parent_columns` are the columns of a unique index of the parent, in any
//!   order.
//! - FK-2: `referenced_by` of a table contains exactly the tables with a foreign key to it. So a
//!   change of a parent finds the rows to check, and DDL on either table finds the other.
//! - FK-3: a foreign key depends on one unique index of its parent. It is dropped with that index,
//!   or prevents the drop.

use super::collation::Collation;
use super::def::TableDef;
use super::trigger::TriggerDef;
use crate::types::Domain;
use crate::value::Value;

/// The constraints of a table that are not indexes, and its comments and triggers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TableRules {
    /// CHECK constraints.
    pub checks: Vec<CheckDef>,
    /// FOREIGN KEY constraints.
    pub foreign_keys: Vec<ForeignKeyDef>,
    /// The oids of the tables that have foreign keys to this one.
    pub referenced_by: Vec<u32>,
    /// COMMENT ON the table (`None`) and its columns, by position.
    pub comments: Vec<(Option<usize>, String)>,
    /// The triggers (TRG-1).
    pub triggers: Vec<TriggerDef>,
    /// The storage options.
    pub storage: Storage,
}

/// The storage options of a table. They have no effect, but dumps contain them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Storage {
    /// Storage parameters and their values.
    pub options: Vec<(String, String)>,
    /// Whether the table is UNLOGGED.
    pub unlogged: bool,
}

/// Applies SET (…) to storage parameters.
pub fn set_options(options: &mut Vec<(String, String)>, said: &[(String, String)]) {
    options.retain(|(name, _)| said.iter().all(|(new, _)| new != name));
    options.extend_from_slice(said);
}

/// A CHECK constraint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckDef {
    /// The oid of the constraint.
    pub id: u32,
    /// The name of the constraint.
    pub name: String,
    /// The condition as SQL text, over the table's columns.
    pub text: String,
    /// Whether the condition is known to be true for all rows. After NOT VALID, rows that existed
    /// before are unchecked.
    pub valid: bool,
    /// Whether the constraint is NO INHERIT.
    pub no_inherit: bool,
}

/// A FOREIGN KEY constraint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignKeyDef {
    /// The oid of the constraint.
    pub id: u32,
    /// The name of the constraint.
    pub name: String,
    /// The referencing columns, by position in the table.
    pub columns: Vec<usize>,
    /// The oid of the referenced table.
    pub parent: u32,
    /// The referenced columns, by position in that table.
    pub parent_columns: Vec<usize>,
    /// The oid of the unique index of the parent that it depends on (FK-3); 0 in definitions stored
    /// without one.
    pub index: u32,
    /// The action for referencing rows on a DELETE of the referenced row.
    pub on_delete: Referential,
    /// The columns that ON DELETE SET changes, by position in `columns`; empty if it changes all.
    pub delete_columns: Vec<usize>,
    /// The action for referencing rows on an UPDATE of the referenced key.
    pub on_update: Referential,
    /// MATCH FULL: either all columns are NULL or none.
    pub full: bool,
    /// Whether the check can be deferred to the end of the transaction.
    pub deferrable: bool,
    /// Whether the check is deferred by default.
    pub deferred: bool,
    /// Whether all rows are known to satisfy it, as for a CHECK.
    pub valid: bool,
    /// DISABLE TRIGGER ALL of its table: new rows are not checked.
    pub unchecked: bool,
    /// DISABLE TRIGGER ALL of the parent: changes there are not checked, and have no effect on its
    /// rows.
    pub inert: bool,
}

/// A referential action: the effect on referencing rows if the referenced row is deleted or its key
/// changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Referential {
    /// An error, unless the reference is valid again at the time of the check.
    NoAction,
    /// An immediate error.
    Restrict,
    /// The referencing rows are deleted, or get the new key.
    Cascade,
    /// The referencing columns become NULL.
    SetNull,
    /// The referencing columns get their defaults.
    SetDefault,
}

impl ForeignKeyDef {
    /// Returns the columns that a DELETE of the referenced row changes, by position in the table.
    pub fn columns_set_on_delete(&self) -> Vec<usize> {
        if self.delete_columns.is_empty() {
            return self.columns.clone();
        }
        self.listed_on_delete()
    }

    /// Returns the column list of ON DELETE SET, by position in the table.
    pub fn listed_on_delete(&self) -> Vec<usize> {
        let listed = self.delete_columns.iter();
        listed
            .filter_map(|nth| self.columns.get(*nth).copied())
            .collect()
    }
}

/// The properties of a column besides its type.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ColumnMore {
    /// GENERATED ALWAYS AS (…) STORED: the expression as SQL text.
    pub generated: Option<String>,
    /// GENERATED … AS IDENTITY; the default is the next value of the sequence.
    pub identity: Option<Identity>,
    /// The oid of the sequence that belongs to a SERIAL or IDENTITY column.
    pub sequence: Option<u32>,
    /// The value in rows that were written before the column was added; `None` if no such rows
    /// exist.
    pub missing: Option<Value>,
    /// The domain of the column; the type of the column is the root base type of that domain.
    pub domain: Option<Domain>,
    /// COLLATE
    pub collation: Collation,
}

/// The kind of an identity column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Identity {
    /// ALWAYS: the sequence supplies the value, unless OVERRIDING SYSTEM VALUE is given.
    Always,
    /// BY DEFAULT: the sequence supplies the value if the statement gives none.
    ByDefault,
}

impl Referential {
    /// Returns the SQL keywords; `None` for the default action.
    pub fn written(self) -> Option<&'static str> {
        match self {
            Referential::NoAction => None,
            Referential::Restrict => Some("RESTRICT"),
            Referential::Cascade => Some("CASCADE"),
            Referential::SetNull => Some("SET NULL"),
            Referential::SetDefault => Some("SET DEFAULT"),
        }
    }

    /// Returns whether the action changes the referencing rows.
    pub fn changes(self) -> bool {
        !matches!(self, Referential::NoAction | Referential::Restrict)
    }
}

impl TableDef {
    /// Returns the position of the unique index that a foreign key to this table depends on (FK-3):
    /// the recorded one, or the oldest that fits.
    pub fn referenced_index(&self, key: &ForeignKeyDef) -> Option<usize> {
        let recorded = self.indexes.iter().position(|index| index.id == key.index);
        recorded.or_else(|| self.unique_index_of(&key.parent_columns))
    }

    /// Returns the position of the oldest unique index over exactly these columns, in any order.
    pub fn unique_index_of(&self, columns: &[usize]) -> Option<usize> {
        let fits = |position: &usize| {
            let index = &self.indexes[*position];
            index.unique
                && !index.is_partial()
                && self.is_whole(index)
                && index.columns.len() == columns.len()
                && columns.iter().all(|column| index.covers(*column))
        };
        let fitting = (0..self.indexes.len()).filter(fits);
        fitting.min_by_key(|position| self.indexes[*position].id)
    }
}

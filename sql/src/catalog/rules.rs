//! What a table's rows have to satisfy besides their keys, what runs when they change, and what else a column is.
//!
//! Invariants
//! - FK-1: `foreign_keys[i].parent_columns` are the columns of a unique index of the parent, whatever their
//!   order.
//! - FK-2: a table is in the `referenced_by` of each table that a foreign key of it leads to, and nothing else is.
//!   So who changes a parent knows whose rows to look at, and DDL on either finds the other.
//! - FK-3: a foreign key depends on one unique index of its parent, and is dropped with that index or keeps it.

use super::collation::Collation;
use super::def::TableDef;
use super::trigger::TriggerDef;
use crate::types::Domain;
use crate::value::Value;

/// The constraints of a table that are no indexes.
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
    /// What was said of how its rows are kept.
    pub storage: Storage,
}

/// What was said of how rows are kept, which changes nothing: dumps have it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Storage {
    /// Storage parameters and their values.
    pub options: Vec<(String, String)>,
    /// UNLOGGED
    pub unlogged: bool,
}

/// Storage parameters with what SET (…) says of them.
pub fn set_options(options: &mut Vec<(String, String)>, said: &[(String, String)]) {
    options.retain(|(name, _)| said.iter().all(|(new, _)| new != name));
    options.extend_from_slice(said);
}

/// A CHECK constraint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckDef {
    /// Its oid.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// The condition as SQL text, over the table's columns.
    pub text: String,
    /// It holds for all rows; those that were there before a NOT VALID one was added nobody has looked at.
    pub valid: bool,
    /// NO INHERIT
    pub no_inherit: bool,
}

/// A FOREIGN KEY constraint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignKeyDef {
    /// Its oid.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// The referencing columns, by position in the table.
    pub columns: Vec<usize>,
    /// The oid of the table it leads to.
    pub parent: u32,
    /// The referenced columns, by position in that table.
    pub parent_columns: Vec<usize>,
    /// The oid of the unique index of the parent that it depends on (FK-3); 0 in definitions stored without one.
    pub index: u32,
    /// What a DELETE there does here.
    pub on_delete: Referential,
    /// The columns that ON DELETE SET changes, by position in `columns`; empty if it changes all.
    pub delete_columns: Vec<usize>,
    /// What an UPDATE there does here.
    pub on_update: Referential,
    /// MATCH FULL: all columns are NULL or none.
    pub full: bool,
    /// The check may wait for the end of the transaction.
    pub deferrable: bool,
    /// It does so unless it is told otherwise.
    pub deferred: bool,
    /// As of a CHECK.
    pub valid: bool,
    /// DISABLE TRIGGER ALL of its table: new rows are not checked.
    pub unchecked: bool,
    /// DISABLE TRIGGER ALL of the parent: changes there are not checked, and have no effect on its rows.
    pub inert: bool,
}

/// What becomes of rows whose referenced row goes or gets another key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Referential {
    /// An error, unless the reference is right again when it is checked.
    NoAction,
    /// An error.
    Restrict,
    /// They follow.
    Cascade,
    /// Their columns become NULL.
    SetNull,
    /// Their columns get their defaults.
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

/// What a column is besides its type.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ColumnMore {
    /// GENERATED ALWAYS AS (…) STORED: the expression as SQL text.
    pub generated: Option<String>,
    /// GENERATED … AS IDENTITY; its default is the next value of its sequence.
    pub identity: Option<Identity>,
    /// The oid of the sequence that goes with it, of SERIAL or IDENTITY.
    pub sequence: Option<u32>,
    /// What rows have in it that were written before it was added; `None` where there are none.
    pub missing: Option<Value>,
    /// The domain that it is of; its type is that domain's root.
    pub domain: Option<Domain>,
    /// COLLATE
    pub collation: Collation,
}

/// Who gives an identity column its values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Identity {
    /// The sequence, unless OVERRIDING SYSTEM VALUE is said.
    Always,
    /// The sequence, where nothing is given.
    ByDefault,
}

impl Referential {
    /// As it is written; `None` for what is so unless something is said.
    pub fn written(self) -> Option<&'static str> {
        match self {
            Referential::NoAction => None,
            Referential::Restrict => Some("RESTRICT"),
            Referential::Cascade => Some("CASCADE"),
            Referential::SetNull => Some("SET NULL"),
            Referential::SetDefault => Some("SET DEFAULT"),
        }
    }

    /// Does it change the rows that reference?
    pub fn changes(self) -> bool {
        !matches!(self, Referential::NoAction | Referential::Restrict)
    }
}

impl TableDef {
    /// Returns the position of the unique index that a foreign key to this table depends on (FK-3): the recorded
    /// one, or the oldest that fits.
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

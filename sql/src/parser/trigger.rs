//! The syntax trees of statements about triggers.

use crate::catalog::{Events, Timing};

/// A statement about a trigger, and the table that it names.
#[derive(Clone, Debug)]
pub struct TriggerSyntax {
    /// The trigger's name.
    pub name: String,
    /// The schema of the table, if it is named.
    pub schema: Option<String>,
    /// The table.
    pub table: String,
    /// What is done.
    pub does: TriggerAction,
}

/// What is done about a trigger.
#[derive(Clone, Debug)]
pub enum TriggerAction {
    /// CREATE TRIGGER
    Create(Box<CreateTrigger>),
    /// DROP TRIGGER
    Drop {
        /// IF EXISTS
        if_exists: bool,
    },
    /// ALTER TRIGGER … RENAME TO
    Rename(String),
    /// COMMENT ON TRIGGER; `None` takes it away.
    Comment(Option<String>),
}

/// CREATE TRIGGER
#[derive(Clone, Debug)]
pub struct CreateTrigger {
    /// OR REPLACE
    pub or_replace: bool,
    /// CONSTRAINT, with what it says besides.
    pub constraint: Option<ConstraintSyntax>,
    /// BEFORE or AFTER.
    pub timing: Timing,
    /// At what.
    pub events: Events,
    /// UPDATE OF
    pub columns: Vec<String>,
    /// FOR EACH ROW
    pub row: bool,
    /// REFERENCING: OLD TABLE and NEW TABLE
    pub transition: [Option<String>; 2],
    /// WHEN
    pub condition: Option<String>,
    /// The function, with its schema if that is named.
    pub function: (Option<String>, String),
    /// What it is given.
    pub args: Vec<String>,
}

/// What a CONSTRAINT TRIGGER says besides.
#[derive(Clone, Debug, Default)]
pub struct ConstraintSyntax {
    /// FROM: a table, with its schema if that is named.
    pub from: Option<(Option<String>, String)>,
    /// DEFERRABLE
    pub deferrable: bool,
    /// INITIALLY DEFERRED
    pub deferred: bool,
}

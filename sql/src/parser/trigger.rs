//! The syntax trees of statements about triggers.

use crate::catalog::{Events, Timing};

/// A statement about a trigger of a table.
#[derive(Clone, Debug)]
pub struct TriggerSyntax {
    /// The trigger's name.
    pub name: String,
    /// The schema of the table, if it is named.
    pub schema: Option<String>,
    /// The table.
    pub table: String,
    /// The action.
    pub does: TriggerAction,
}

/// The action of a statement about a trigger.
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
    /// COMMENT ON TRIGGER; `None` removes the comment.
    Comment(Option<String>),
}

/// The CREATE TRIGGER statement.
#[derive(Clone, Debug)]
pub struct CreateTrigger {
    /// OR REPLACE
    pub or_replace: bool,
    /// The clauses of a constraint trigger; `None` for other triggers.
    pub constraint: Option<ConstraintSyntax>,
    /// BEFORE, AFTER or INSTEAD OF.
    pub timing: Timing,
    /// The events that fire the trigger.
    pub events: Events,
    /// The columns of UPDATE OF.
    pub columns: Vec<String>,
    /// True for FOR EACH ROW, false for FOR EACH STATEMENT.
    pub row: bool,
    /// REFERENCING: the names of OLD TABLE and NEW TABLE.
    pub transition: [Option<String>; 2],
    /// The WHEN condition, as text.
    pub condition: Option<String>,
    /// The function, with its schema if that is named.
    pub function: (Option<String>, String),
    /// The arguments of the function.
    pub args: Vec<String>,
}

/// The clauses that only a CONSTRAINT TRIGGER has.
#[derive(Clone, Debug, Default)]
pub struct ConstraintSyntax {
    /// FROM: a table, with its schema if that is named.
    pub from: Option<(Option<String>, String)>,
    /// DEFERRABLE
    pub deferrable: bool,
    /// INITIALLY DEFERRED
    pub deferred: bool,
}

//! Triggers: the statements that change them, and the triggers that a data-modifying statement may
//! fire.

use std::sync::Arc;

use super::expr::Expr;
use crate::catalog::{RoutineDef, TriggerDef, TriggerState};

/// A change of the triggers of a table.
#[derive(Clone, Debug, PartialEq)]
pub enum TriggerChange {
    /// CREATE TRIGGER
    Create {
        /// The definition of the trigger; its oid is not assigned yet.
        trigger: Box<TriggerDef>,
        /// OR REPLACE
        or_replace: bool,
    },
    /// DROP TRIGGER
    Drop {
        /// The name of the trigger.
        name: String,
        /// IF EXISTS
        if_exists: bool,
    },
    /// ALTER TRIGGER … RENAME TO
    Rename {
        /// The present name of the trigger.
        from: String,
        /// The new name of the trigger.
        to: String,
    },
    /// COMMENT ON TRIGGER
    Comment {
        /// The name of the trigger.
        name: String,
        /// The text; `None` removes the comment.
        text: Option<String>,
    },
    /// ENABLE and DISABLE TRIGGER
    Enable {
        /// The name of the trigger; `None` for all triggers.
        name: Option<String>,
        /// The new state.
        enabled: TriggerState,
        /// ALL: the foreign-key triggers are included.
        keys: bool,
    },
}

impl TriggerChange {
    /// Returns the command tag.
    pub fn tag(&self) -> &'static str {
        match self {
            TriggerChange::Create { .. } => "CREATE TRIGGER",
            TriggerChange::Drop { .. } => "DROP TRIGGER",
            TriggerChange::Rename { .. } => "ALTER TRIGGER",
            TriggerChange::Comment { .. } => "COMMENT",
            TriggerChange::Enable { .. } => "ALTER TABLE",
        }
    }
}

/// A trigger that a statement may fire.
#[derive(Clone, Debug, PartialEq)]
pub struct Trigger {
    /// The definition of the trigger.
    pub def: TriggerDef,
    /// The function that the trigger calls.
    pub routine: Arc<RoutineDef>,
    /// WHEN, over the old row followed by the new row.
    pub condition: Option<Expr>,
}

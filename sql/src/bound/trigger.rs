//! Triggers: what statements do about them, and those that a statement which writes rows may run.

use std::sync::Arc;

use super::expr::Expr;
use crate::catalog::{Enabled, RoutineDef, TriggerDef};

/// What a statement does about the triggers of a table.
#[derive(Clone, Debug, PartialEq)]
pub enum TriggerChange {
    /// CREATE TRIGGER
    Create {
        /// What it is to be; its oid is not known yet.
        trigger: Box<TriggerDef>,
        /// OR REPLACE
        or_replace: bool,
    },
    /// DROP TRIGGER
    Drop {
        /// Which.
        name: String,
        /// IF EXISTS
        if_exists: bool,
    },
    /// ALTER TRIGGER … RENAME TO
    Rename {
        /// Its name.
        from: String,
        /// Its new name.
        to: String,
    },
    /// COMMENT ON TRIGGER
    Comment {
        /// Which.
        name: String,
        /// The text; `None` takes it away.
        text: Option<String>,
    },
    /// ENABLE and DISABLE TRIGGER
    Enable {
        /// Which; `None` is all of them.
        name: Option<String>,
        /// What becomes of it.
        enabled: Enabled,
        /// ALL: also what foreign keys do.
        keys: bool,
    },
}

impl TriggerChange {
    /// The command tag.
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

/// A trigger that a statement may run.
#[derive(Clone, Debug, PartialEq)]
pub struct Trigger {
    /// What it is.
    pub def: TriggerDef,
    /// What it runs.
    pub routine: Arc<RoutineDef>,
    /// WHEN, over the old row and then the new one.
    pub condition: Option<Expr>,
}

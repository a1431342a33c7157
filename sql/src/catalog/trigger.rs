//! Triggers: what the catalog says about a function that runs when rows of a table change.
//!
//! Invariants
//! - TRG-1: the triggers of a table are in the order of their names, which is that in which they run.
//! - TRG-2: `function` is a routine that is there; who drops it drops the trigger first.

use super::def::TableDef;
use crate::parser::mentions;

/// A trigger of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TriggerDef {
    /// Its oid.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// The oid of the function that it runs.
    pub function: u32,
    /// When.
    pub timing: Timing,
    /// At what.
    pub events: Events,
    /// UPDATE OF: the columns, by position; none for any.
    pub columns: Vec<usize>,
    /// FOR EACH ROW, not STATEMENT.
    pub row: bool,
    /// WHEN as SQL text, over `old` and `new`.
    pub condition: Option<String>,
    /// OLD TABLE and NEW TABLE: what its function calls the rows that the statement has changed, as they were and are.
    pub transition: [Option<String>; 2],
    /// What TG_ARGV has.
    pub args: Vec<String>,
    /// Whether it runs.
    pub enabled: Enabled,
    /// It is a CONSTRAINT TRIGGER.
    pub constraint: Option<ConstraintTrigger>,
    /// COMMENT ON it.
    pub comment: Option<String>,
}

impl TriggerDef {
    /// Does its function see all rows that the statement has changed?
    pub fn sees_rows(&self) -> bool {
        self.transition.iter().any(Option::is_some)
    }

    /// Does its definition name a column, by UPDATE OF or in WHEN?
    pub fn concerns(&self, column: usize, name: &str) -> bool {
        let condition = self.condition.as_deref();
        self.columns.contains(&column) || condition.is_some_and(|text| mentions(text, name))
    }
}

impl TableDef {
    /// Has it triggers, or a leaf of it?
    pub fn has_triggers(&self) -> bool {
        let of_leaf = |leaf: &std::sync::Arc<TableDef>| !leaf.rules.triggers.is_empty();
        !self.rules.triggers.is_empty() || self.leaves().iter().any(of_leaf)
    }
}

/// When a trigger runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timing {
    /// Before the change.
    Before,
    /// At the end of the statement, or of the transaction.
    After,
    /// In the place of the change, of a row of a view.
    Instead,
}

impl Timing {
    /// As it is written.
    pub fn written(self) -> &'static str {
        match self {
            Timing::Before => "BEFORE",
            Timing::After => "AFTER",
            Timing::Instead => "INSTEAD OF",
        }
    }
}

/// What a statement does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// INSERT
    Insert,
    /// DELETE
    Delete,
    /// UPDATE
    Update,
    /// TRUNCATE
    Truncate,
}

impl Event {
    /// All of them, as definitions list them.
    pub const ALL: [Event; 4] = [Event::Insert, Event::Delete, Event::Update, Event::Truncate];

    /// As it is written.
    pub fn written(self) -> &'static str {
        match self {
            Event::Insert => "INSERT",
            Event::Delete => "DELETE",
            Event::Update => "UPDATE",
            Event::Truncate => "TRUNCATE",
        }
    }
}

/// A set of events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Events(u8);

impl Events {
    /// Those of these bits; `None` where a bit is no event's.
    pub fn of_bits(bits: u8) -> Option<Events> {
        (bits < 1 << Event::ALL.len()).then_some(Events(bits))
    }

    /// A bit each, in the order of [`Event::ALL`].
    pub fn bits(self) -> u8 {
        self.0
    }

    /// Adds one; false where it was there.
    pub fn add(&mut self, event: Event) -> bool {
        let had = self.has(event);
        self.0 |= 1 << event as u8;
        !had
    }

    /// Is it one of them?
    pub fn has(self, event: Event) -> bool {
        self.0 & 1 << event as u8 != 0
    }

    /// All that are among them.
    pub fn all(self) -> impl Iterator<Item = Event> {
        Event::ALL.into_iter().filter(move |event| self.has(*event))
    }
}

/// Whether a trigger runs, by `session_replication_role`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Enabled {
    /// Unless that is `replica`.
    Origin,
    /// Never.
    Disabled,
    /// Where that is `replica`.
    Replica,
    /// Always.
    Always,
}

impl Enabled {
    /// All of them.
    pub const ALL: [Enabled; 4] = [
        Enabled::Origin,
        Enabled::Disabled,
        Enabled::Replica,
        Enabled::Always,
    ];

    /// As `pg_trigger` has it.
    pub fn letter(self) -> &'static str {
        match self {
            Enabled::Origin => "O",
            Enabled::Disabled => "D",
            Enabled::Replica => "R",
            Enabled::Always => "A",
        }
    }

    /// Does it run in a session whose `session_replication_role` is `replica`, or is not?
    pub fn runs(self, replica: bool) -> bool {
        match self {
            Enabled::Origin => !replica,
            Enabled::Disabled => false,
            Enabled::Replica => replica,
            Enabled::Always => true,
        }
    }
}

/// What a CONSTRAINT TRIGGER is besides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConstraintTrigger {
    /// FROM: the oid of the table that the constraint refers to.
    pub from: Option<u32>,
    /// It may wait for the end of the transaction.
    pub deferrable: bool,
    /// It does so unless it is told otherwise.
    pub deferred: bool,
}

//! Triggers, as the catalog defines them: a function that runs when rows of a table change.
//!
//! Invariants
//! - TRG-1: the triggers of a table are in the order of their names, which is the order in which
//!   they fire.
//! - TRG-2: `function` is an existing routine. A statement that drops the routine drops the trigger
//!   first.

use super::def::TableDef;
use crate::parser::mentions;

/// A trigger of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TriggerDef {
    /// The oid of the trigger.
    pub id: u32,
    /// The name of the trigger.
    pub name: String,
    /// The oid of the function that the trigger calls.
    pub function: u32,
    /// BEFORE, AFTER or INSTEAD OF.
    pub timing: Timing,
    /// The events that fire the trigger.
    pub events: Events,
    /// UPDATE OF: the columns, by position; empty for any.
    pub columns: Vec<usize>,
    /// Whether it is FOR EACH ROW rather than FOR EACH STATEMENT.
    pub row: bool,
    /// WHEN as SQL text, over `old` and `new`.
    pub condition: Option<String>,
    /// OLD TABLE and NEW TABLE: the names of the transition tables with the old and the new rows.
    pub transition: [Option<String>; 2],
    /// The arguments, which the function reads as TG_ARGV.
    pub args: Vec<String>,
    /// The state in which the trigger fires.
    pub enabled: TriggerState,
    /// The further properties of a CONSTRAINT TRIGGER.
    pub constraint: Option<ConstraintTrigger>,
    /// The comment on the trigger.
    pub comment: Option<String>,
}

impl TriggerDef {
    /// Returns whether the function reads transition tables.
    pub fn sees_rows(&self) -> bool {
        self.transition.iter().any(Option::is_some)
    }

    /// Returns whether the definition refers to a column, in UPDATE OF or in WHEN.
    pub fn concerns(&self, column: usize, name: &str) -> bool {
        let condition = self.condition.as_deref();
        self.columns.contains(&column) || condition.is_some_and(|text| mentions(text, name))
    }
}

impl TableDef {
    /// Returns whether the table or one of its leaf partitions has triggers.
    pub fn has_triggers(&self) -> bool {
        let of_leaf = |leaf: &std::sync::Arc<TableDef>| !leaf.rules.triggers.is_empty();
        !self.rules.triggers.is_empty() || self.leaves().iter().any(of_leaf)
    }
}

/// The time at which a trigger fires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timing {
    /// Before the change.
    Before,
    /// At the end of the statement, or of the transaction.
    After,
    /// Instead of the change, for a row of a view.
    Instead,
}

impl Timing {
    /// Returns the SQL keywords.
    pub fn written(self) -> &'static str {
        match self {
            Timing::Before => "BEFORE",
            Timing::After => "AFTER",
            Timing::Instead => "INSTEAD OF",
        }
    }
}

/// An event that fires triggers.
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
    /// All events, in the order of their bits.
    pub const ALL: [Event; 4] = [Event::Insert, Event::Delete, Event::Update, Event::Truncate];

    /// Returns the SQL keyword.
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
    /// Returns the events of these bits; `None` if a bit has no event.
    pub fn of_bits(bits: u8) -> Option<Events> {
        (bits < 1 << Event::ALL.len()).then_some(Events(bits))
    }

    /// Returns one bit for each event, in the order of [`Event::ALL`].
    pub fn bits(self) -> u8 {
        self.0
    }

    /// Adds an event; returns false if the set contains it already.
    pub fn add(&mut self, event: Event) -> bool {
        let had = self.has(event);
        self.0 |= 1 << event as u8;
        !had
    }

    /// Returns whether the set contains the event.
    pub fn has(self, event: Event) -> bool {
        self.0 & 1 << event as u8 != 0
    }

    /// Returns the events of the set.
    pub fn all(self) -> impl Iterator<Item = Event> {
        Event::ALL.into_iter().filter(move |event| self.has(*event))
    }
}

/// The state of a trigger, which determines whether it fires under the current
/// `session_replication_role`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TriggerState {
    /// Fires unless `session_replication_role` is `replica`.
    Origin,
    /// Never fires.
    Disabled,
    /// Fires only if `session_replication_role` is `replica`.
    Replica,
    /// Always fires.
    Always,
}

impl TriggerState {
    /// All states.
    pub const ALL: [TriggerState; 4] = [
        TriggerState::Origin,
        TriggerState::Disabled,
        TriggerState::Replica,
        TriggerState::Always,
    ];

    /// Returns the letter that `pg_trigger` contains.
    pub fn letter(self) -> &'static str {
        match self {
            TriggerState::Origin => "O",
            TriggerState::Disabled => "D",
            TriggerState::Replica => "R",
            TriggerState::Always => "A",
        }
    }

    /// Returns whether the trigger fires in a session whose `session_replication_role` is `replica`
    /// or, if `replica` is false, another value.
    pub fn runs(self, replica: bool) -> bool {
        match self {
            TriggerState::Origin => !replica,
            TriggerState::Disabled => false,
            TriggerState::Replica => replica,
            TriggerState::Always => true,
        }
    }
}

/// The further properties of a CONSTRAINT TRIGGER.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConstraintTrigger {
    /// FROM: the oid of the table that the constraint refers to.
    pub from: Option<u32>,
    /// Whether the trigger can be deferred to the end of the transaction.
    pub deferrable: bool,
    /// Whether the trigger is deferred by default.
    pub deferred: bool,
}

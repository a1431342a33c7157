//! Views, as the catalog defines them: named queries.
//!
//! A materialized view is a table with a query ([`Materialized`]). Its rows are the result of the
//! last REFRESH, and only REFRESH changes them.

use super::def::{ColumnDef, TableDef};
use super::guard::Guards;
use super::rules::{ColumnMore, TableRules};
use super::trigger::{Event, Events, Timing, TriggerDef};
use crate::error::{SqlError, SqlState};
use crate::settings::parse_bool;
use crate::types::Type;

/// The definition of a view.
#[derive(Clone, Debug, PartialEq)]
pub struct ViewDef {
    /// The oid of the view.
    pub id: u32,
    /// The schema of the view.
    pub schema: String,
    /// The name of the view.
    pub name: String,
    /// The names and types of the columns.
    pub columns: Vec<(String, Type)>,
    /// The query as SQL text.
    pub text: String,
    /// The oids of the tables that it reads, directly or through other views.
    pub tables: Vec<u32>,
    /// The oids of the views that it reads, directly or through other views.
    pub views: Vec<u32>,
    /// The oids of the types to which it refers.
    pub types: Vec<u32>,
    /// The further properties of the view.
    pub more: ViewMore,
    /// The catalog version of its last change; 0 if it has no guards.
    pub version: u64,
    /// The guards; none in definitions that were stored without.
    pub guards: Guards,
}

/// The properties of a view besides its query.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ViewMore {
    /// The options and their values as given, including WITH CHECK OPTION.
    pub options: Vec<(String, String)>,
    /// The column defaults for INSERT, by position, as SQL text.
    pub defaults: Vec<(usize, String)>,
    /// The triggers (TRG-1).
    pub triggers: Vec<TriggerDef>,
}

/// The conditions that rows written through a view must satisfy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckOption {
    /// LOCAL: the condition of the view itself.
    Local,
    /// CASCADED: also the conditions of the views below.
    Cascaded,
}

/// The query and the state of a materialized view.
#[derive(Clone, Debug, PartialEq)]
pub struct Materialized {
    /// The query as SQL text.
    pub text: String,
    /// The oids of the tables that it reads, directly or through views.
    pub tables: Vec<u32>,
    /// The oids of the views that it reads, directly or through other views.
    pub views: Vec<u32>,
    /// The oids of the types to which it refers.
    pub types: Vec<u32>,
    /// Whether its rows have been computed.
    pub populated: bool,
}

impl ViewDef {
    /// Returns whether it reads the table or view with this oid.
    pub fn reads(&self, id: u32) -> bool {
        self.tables.contains(&id) || self.views.contains(&id)
    }

    fn option(&self, name: &str) -> Option<&str> {
        let mut all = self.more.options.iter();
        let found = all.find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    /// Returns the WITH CHECK OPTION of the view, if it has one.
    pub fn check_option(&self) -> Option<CheckOption> {
        match self.option("check_option")? {
            "local" => Some(CheckOption::Local),
            _ => Some(CheckOption::Cascaded),
        }
    }

    /// Returns whether the view is a security_invoker view: privileges are checked for the invoker,
    /// not for the owner.
    pub fn is_invoker(&self) -> bool {
        let value = self.option("security_invoker");
        value.is_some_and(|value| parse_bool(value) == Some(true))
    }

    /// Returns the events of its INSTEAD OF triggers.
    pub fn instead(&self) -> Events {
        let mut events = Events::default();
        let all = self.more.triggers.iter();
        for trigger in all.filter(|trigger| trigger.timing == Timing::Instead) {
            trigger.events.all().for_each(|event| {
                events.add(event);
            });
        }
        events
    }

    /// Returns whether an INSTEAD OF trigger handles this event.
    pub fn is_done_instead(&self, event: Event) -> bool {
        self.instead().has(event)
    }

    /// Returns the view in the form of a table without rows, for code that resolves its columns and
    /// fires its triggers.
    pub fn as_table(&self) -> TableDef {
        let columns = self.columns.iter().enumerate().zip(1..);
        let default = |at: usize| {
            let mut all = self.more.defaults.iter();
            let found = all.find(|(column, _)| *column == at);
            found.map(|(_, text)| text.clone())
        };
        TableDef {
            id: self.id,
            schema: self.schema.clone(),
            name: self.name.clone(),
            columns: columns
                .map(|((at, (name, ty)), attnum)| ColumnDef {
                    name: name.clone(),
                    ty: *ty,
                    not_null: false,
                    default: default(at),
                    attnum,
                    more: ColumnMore::default(),
                })
                .collect(),
            indexes: Vec::new(),
            partitioning: None,
            hierarchy: None,
            materialized: None,
            rules: TableRules {
                triggers: self.more.triggers.clone(),
                ..TableRules::default()
            },
            version: self.version,
            guards: self.guards.clone(),
        }
    }
}

impl TableDef {
    /// Returns whether this is a view in the form of a table ([`ViewDef::as_table`]). A table has
    /// at least one index (CAT-1).
    pub fn is_view(&self) -> bool {
        self.indexes.is_empty()
    }

    /// Returns the materialized view in the form of a view; `None` for a table.
    pub fn as_view(&self) -> Option<ViewDef> {
        let of = self.materialized.as_deref()?;
        let columns = self.columns.iter();
        Some(ViewDef {
            id: self.id,
            schema: self.schema.clone(),
            name: self.name.clone(),
            columns: columns.map(|c| (c.name.clone(), c.ty)).collect(),
            text: of.text.clone(),
            tables: of.tables.clone(),
            views: of.views.clone(),
            types: of.types.clone(),
            more: ViewMore::default(),
            version: self.version,
            guards: self.guards.clone(),
        })
    }

    /// Returns the name of its object kind: table or materialized view.
    pub fn kind_name(&self) -> &'static str {
        match self.materialized {
            Some(_) => "materialized view",
            None => "table",
        }
    }

    /// Checks that statements may change the rows; 42809 for a materialized view.
    pub fn check_changeable(&self) -> Result<(), SqlError> {
        match self.materialized {
            None => Ok(()),
            Some(_) => Err(SqlError::new(
                SqlState::WRONG_OBJECT_TYPE,
                format!("cannot change materialized view \"{}\"", self.name),
            )),
        }
    }
}

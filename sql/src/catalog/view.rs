//! Views: what the catalog says about a query that has a name.
//!
//! A materialized view is a table that has a query ([`Materialized`]): its rows are what the query gave when they were
//! made, and nothing but REFRESH changes them.

use super::def::{ColumnDef, TableDef};
use super::guard::Guards;
use super::rules::{ColumnMore, TableRules};
use super::trigger::{Event, Events, Timing, TriggerDef};
use crate::error::{SqlError, SqlState};
use crate::settings::parse_bool;
use crate::types::Type;

/// A view.
#[derive(Clone, Debug, PartialEq)]
pub struct ViewDef {
    /// Its oid.
    pub id: u32,
    /// The schema it is in.
    pub schema: String,
    /// Its name.
    pub name: String,
    /// The names and types of its columns.
    pub columns: Vec<(String, Type)>,
    /// The query as SQL text.
    pub text: String,
    /// The oids of the tables that it reads, also through other views.
    pub tables: Vec<u32>,
    /// The oids of the views that it reads, also through others.
    pub views: Vec<u32>,
    /// The oids of the types that it names.
    pub types: Vec<u32>,
    /// What else it is.
    pub more: ViewMore,
    /// The catalog version of its last change; 0 where it has no guards.
    pub version: u64,
    /// Its guards; none in definitions stored without.
    pub guards: Guards,
}

/// What a view is besides its query.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ViewMore {
    /// Its options and their values, as they were given; that of WITH CHECK OPTION is among them.
    pub options: Vec<(String, String)>,
    /// What columns, by position, become where an INSERT says nothing: as SQL text.
    pub defaults: Vec<(usize, String)>,
    /// The triggers (TRG-1).
    pub triggers: Vec<TriggerDef>,
}

/// Which conditions the rows have to meet that are written through a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckOption {
    /// Its own.
    Local,
    /// Also those of the views below.
    Cascaded,
}

/// What a table that is a materialized view has besides its rows.
#[derive(Clone, Debug, PartialEq)]
pub struct Materialized {
    /// The query as SQL text.
    pub text: String,
    /// The oids of the tables that it reads, also through views.
    pub tables: Vec<u32>,
    /// The oids of the views that it reads, also through others.
    pub views: Vec<u32>,
    /// The oids of the types that it names.
    pub types: Vec<u32>,
    /// Its rows have been made.
    pub populated: bool,
}

impl ViewDef {
    /// Does it read the table or view with this oid?
    pub fn reads(&self, id: u32) -> bool {
        self.tables.contains(&id) || self.views.contains(&id)
    }

    fn option(&self, name: &str) -> Option<&str> {
        let mut all = self.more.options.iter();
        let found = all.find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    /// WITH CHECK OPTION
    pub fn check_option(&self) -> Option<CheckOption> {
        match self.option("check_option")? {
            "local" => Some(CheckOption::Local),
            _ => Some(CheckOption::Cascaded),
        }
    }

    /// Is what its query reads read for whoever asks, and not for the view's owner?
    pub fn is_invoker(&self) -> bool {
        let value = self.option("security_invoker");
        value.is_some_and(|value| parse_bool(value) == Some(true))
    }

    /// What its INSTEAD OF triggers do.
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

    /// Does a trigger do in its place what a statement would do to its rows?
    pub fn is_done_instead(&self, event: Event) -> bool {
        self.instead().has(event)
    }

    /// The view as if it were a table, without rows of its own: for what names its columns and runs its triggers.
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
            family: None,
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
    /// Is it none, but a view that is looked at as one ([`ViewDef::as_table`])? Tables have an index (CAT-1).
    pub fn is_view(&self) -> bool {
        self.indexes.is_empty()
    }

    /// A materialized view as if it were none.
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

    /// What it is called as an object: a table or a materialized view.
    pub fn kind_name(&self) -> &'static str {
        match self.materialized {
            Some(_) => "materialized view",
            None => "table",
        }
    }

    /// 42809 of a materialized view, whose rows nothing but its query makes.
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

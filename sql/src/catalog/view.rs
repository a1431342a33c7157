//! Views: what the catalog says about a query that has a name.
//!
//! A materialized view is a table that has a query ([`Materialized`]): its rows are what the query gave when they were
//! made, and nothing but REFRESH changes them.

use super::def::TableDef;
use crate::error::{SqlError, SqlState};
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
}

impl TableDef {
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

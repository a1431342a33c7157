//! Views: what the catalog says about a query that has a name.

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

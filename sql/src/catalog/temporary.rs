//! Temporary objects: those of one session, in a schema of its own.
//!
//! The schema is `pg_temp_<number of the session>`, created with the first temporary object of the
//! session. The catalog treats it as an ordinary schema, so all operations on temporary tables are
//! transactional. Its oid distinguishes it from a schema of the same name that an earlier session
//! has left.

/// The prefix of the names of temporary schemas.
pub const PREFIX: &str = "pg_temp_";

/// The name by which every session refers to its own temporary schema.
pub const ALIAS: &str = "pg_temp";

/// The schema of a session's temporary objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Temporary {
    /// The name of the schema.
    pub schema: String,
    /// The oid of the schema.
    pub id: u32,
}

/// Returns the name of the temporary schema of session `number`.
pub fn schema_of(number: i32) -> String {
    format!("{PREFIX}{number}")
}

/// Returns the session whose temporary schema has this name.
pub fn session_of(schema: &str) -> Option<i32> {
    schema.strip_prefix(PREFIX)?.parse().ok()
}

/// Returns whether the schema is the temporary schema of a session.
pub fn is_temporary(schema: &str) -> bool {
    schema.starts_with(PREFIX)
}

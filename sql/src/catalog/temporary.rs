//! Temporary objects: those of one session, in a schema of its own.
//!
//! The schema is `pg_temp_<number of the session>`, made when the session first makes something temporary, and an
//! ordinary one to the catalog, so all about temporary tables is transactional. Its oid tells it from one of the same
//! name that a session before has left.

/// What the names of such schemas begin with.
pub const PREFIX: &str = "pg_temp_";

/// What every session calls its own.
pub const ALIAS: &str = "pg_temp";

/// The schema of a session's temporary objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Temporary {
    /// Its name.
    pub schema: String,
    /// Its oid.
    pub id: u32,
}

/// The name of the schema of session `number`.
pub fn schema_of(number: i32) -> String {
    format!("{PREFIX}{number}")
}

/// The session whose schema is called so.
pub fn session_of(schema: &str) -> Option<i32> {
    schema.strip_prefix(PREFIX)?.parse().ok()
}

/// Is it the schema of some session?
pub fn is_temporary(schema: &str) -> bool {
    schema.starts_with(PREFIX)
}

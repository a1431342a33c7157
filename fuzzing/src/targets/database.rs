//! The database of a target, shared by all of its inputs.

use fencepost::{Database, SqlError};

/// The memory limit of the data, in bytes.
const MEMORY_LIMIT: u64 = 256 << 20;

/// The size of a region, in bytes.
const REGION_BYTES: usize = 16 << 20;

/// Opens a database in memory and runs statements in it.
///
/// # Panics
/// If the database cannot be opened or a statement fails.
pub fn open(statements: &str) -> Database {
    let options = Database::options().region_size(REGION_BYTES);
    let database = options.memory_limit(MEMORY_LIMIT).open();
    let database = database.unwrap_or_else(|error| panic!("the database does not open: {error}"));
    let made = database.blocking().batch(statements);
    made.unwrap_or_else(|error| panic!("the tables cannot be made: {error}"));
    database
}

/// The prefixes of messages that are internal errors of PostgreSQL, too.
const AS_POSTGRES: [&str; 2] = [
    "unsupported jsonb version number",
    "unrecognized objtype abbreviation",
];

/// Returns whether an error is internal.
pub fn is_internal(sqlstate: &str, message: &str) -> bool {
    sqlstate.starts_with("XX") && !AS_POSTGRES.iter().any(|begin| message.starts_with(begin))
}

/// Panics if an error is internal.
pub fn check(context: &dyn std::fmt::Display, error: &SqlError) {
    let (state, message) = (error.sqlstate(), error.message());
    assert!(
        !is_internal(state.as_str(), message),
        "{error} of {context}"
    );
}

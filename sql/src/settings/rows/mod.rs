//! The list of settings: those of PostgreSQL 15 and Fencepost's own.
//!
//! Most exist only for clients that set or read them, and have no effect here.

mod a_to_k;
mod l_to_z;

use super::definition::{Context, Kind, SettingDefinition};

/// Returns all settings, in the order of their names.
pub(super) fn settings() -> impl Iterator<Item = &'static SettingDefinition> {
    [a_to_k::ROWS, l_to_z::ROWS].into_iter().flatten()
}

const fn row(
    name: &'static str,
    default: &'static str,
    kind: Kind,
    context: Context,
    category: &'static str,
    description: &'static str,
) -> SettingDefinition {
    SettingDefinition {
        name,
        default,
        kind,
        context,
        category,
        description,
    }
}

/// The levels of messages to a client.
const CLIENT_LEVELS: &[&str] = &[
    "debug5", "debug4", "debug3", "debug2", "debug1", "log", "notice", "warning", "error",
];
/// The levels of messages in the log of the server.
const LOG_LEVELS: &[&str] = &[
    "debug5", "debug4", "debug3", "debug2", "debug1", "info", "notice", "warning", "error", "log",
    "fatal", "panic",
];
const ISOLATION: &[&str] = &[
    "serializable",
    "repeatable read",
    "read committed",
    "read uncommitted",
];
const INT_MAX: i64 = i32::MAX as i64;

//! The settings that exist: names as PostgreSQL spells them, defaults, and what values they take.
//!
//! Most are kept for clients that set or read them and change nothing here.

use crate::error::{SqlError, SqlState};

/// The ParameterStatus messages of start-up, in PostgreSQL 15's order.
pub(super) const REPORTED: [&str; 13] = [
    "application_name",
    "client_encoding",
    "DateStyle",
    "default_transaction_read_only",
    "in_hot_standby",
    "integer_datetimes",
    "IntervalStyle",
    "is_superuser",
    "server_encoding",
    "server_version",
    "session_authorization",
    "standard_conforming_strings",
    "TimeZone",
];

/// The version we answer with.
pub const SERVER_VERSION: &str = "15.18";

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Kind {
    /// Cannot be set.
    Fixed,
    Bool,
    /// An integer in a range.
    Int(i64, i64),
    /// A number of milliseconds, with units.
    Time,
    /// A number in a range.
    Real(f64, f64),
    Enum(&'static [&'static str]),
    Text,
    DateStyle,
    Encoding,
    Zone,
}

#[derive(Debug)]
pub(super) struct Known {
    pub(super) name: &'static str,
    pub(super) default: &'static str,
    pub(super) kind: Kind,
    pub(super) description: &'static str,
}

const fn row(
    name: &'static str,
    default: &'static str,
    kind: Kind,
    description: &'static str,
) -> Known {
    Known {
        name,
        default,
        kind,
        description,
    }
}

const LEVELS: &[&str] = &[
    "debug5", "debug4", "debug3", "debug2", "debug1", "log", "notice", "warning", "error",
];
const ISOLATION: &[&str] = &[
    "serializable",
    "repeatable read",
    "read committed",
    "read uncommitted",
];
const INT_MAX: i64 = i32::MAX as i64;

#[rustfmt::skip]
pub(super) const SETTINGS: &[Known] = &[
    row("application_name", "", Kind::Text, "Sets the application name to be reported in statistics and logs."),
    row("array_nulls", "on", Kind::Bool, "Enable input of NULL elements in arrays."),
    row("backslash_quote", "safe_encoding", Kind::Enum(&["safe_encoding", "on", "off"]), "Sets whether \"\\'\" is allowed in string literals."),
    row("bytea_output", "hex", Kind::Enum(&["hex", "escape"]), "Sets the output format for bytea."),
    row("check_function_bodies", "on", Kind::Bool, "Check routine bodies during CREATE FUNCTION and CREATE PROCEDURE."),
    row("client_connection_check_interval", "0", Kind::Time, "Sets the time interval between checks for disconnection while running queries."),
    row("client_encoding", "UTF8", Kind::Encoding, "Sets the client's character set encoding."),
    row("client_min_messages", "notice", Kind::Enum(LEVELS), "Sets the message levels that are sent to the client."),
    row("commit_delay", "0", Kind::Int(0, 100_000), "Sets the delay in microseconds between transaction commit and flushing WAL to disk."),
    row("constraint_exclusion", "partition", Kind::Enum(&["partition", "on", "off"]), "Enables the planner to use constraints to optimize queries."),
    row("DateStyle", "ISO, MDY", Kind::DateStyle, "Sets the display format for date and time values."),
    row("deadlock_timeout", "1s", Kind::Time, "Sets the time to wait on a lock before checking for deadlock."),
    row("default_table_access_method", "heap", Kind::Text, "Sets the default table access method for new tables."),
    row("default_tablespace", "", Kind::Text, "Sets the default tablespace to create tables and indexes in."),
    row("default_toast_compression", "pglz", Kind::Text, "Sets the default compression method for compressible values."),
    row("default_transaction_deferrable", "off", Kind::Bool, "Sets the default deferrable status of new transactions."),
    row("default_transaction_isolation", "read committed", Kind::Enum(ISOLATION), "Sets the transaction isolation level of each new transaction."),
    row("default_transaction_read_only", "off", Kind::Bool, "Sets the default read-only status of new transactions."),
    row("effective_cache_size", "4GB", Kind::Text, "Sets the planner's assumption about the total size of the data caches."),
    row("enable_bitmapscan", "on", Kind::Bool, "Enables the planner's use of bitmap-scan plans."),
    row("enable_hashagg", "on", Kind::Bool, "Enables the planner's use of hashed aggregation plans."),
    row("enable_hashjoin", "on", Kind::Bool, "Enables the planner's use of hash join plans."),
    row("enable_indexonlyscan", "on", Kind::Bool, "Enables the planner's use of index-only-scan plans."),
    row("enable_indexscan", "on", Kind::Bool, "Enables the planner's use of index-scan plans."),
    row("enable_mergejoin", "on", Kind::Bool, "Enables the planner's use of merge join plans."),
    row("enable_nestloop", "on", Kind::Bool, "Enables the planner's use of nested-loop join plans."),
    row("enable_seqscan", "on", Kind::Bool, "Enables the planner's use of sequential-scan plans."),
    row("enable_sort", "on", Kind::Bool, "Enables the planner's use of explicit sort steps."),
    row("escape_string_warning", "on", Kind::Bool, "Warn about backslash escapes in ordinary string literals."),
    row("extra_float_digits", "1", Kind::Int(-15, 3), "Sets the number of digits displayed for floating-point values."),
    row("fencepost.analytics", "auto", Kind::Enum(&["auto", "on", "off"]), "Sets which queries run on the executor for large joins, aggregates and sorts."),
    row("fencepost.ship", "auto", Kind::Enum(&["off", "auto", "always"]), "Sets which statements, or parts of them, run on the machines of a cluster that have their data."),
    row("fencepost.track_outcomes", "off", Kind::Bool, "Remembers of every transaction that writes whether it has committed, as txid_status tells."),
    row("from_collapse_limit", "8", Kind::Int(1, INT_MAX), "Sets the FROM-list size beyond which subqueries are not collapsed."),
    row("fsync", "on", Kind::Fixed, "Forces synchronization of updates to disk."),
    row("geqo", "on", Kind::Bool, "Enables genetic query optimization."),
    row("idle_in_transaction_session_timeout", "0", Kind::Time, "Sets the maximum allowed idle time between queries, when in a transaction."),
    row("idle_session_timeout", "0", Kind::Time, "Sets the maximum allowed idle time between queries, when not in a transaction."),
    row("in_hot_standby", "off", Kind::Fixed, "Shows whether hot standby is currently active."),
    row("integer_datetimes", "on", Kind::Fixed, "Shows whether datetimes are integer based."),
    row("IntervalStyle", "postgres", Kind::Enum(&["postgres", "postgres_verbose", "sql_standard", "iso_8601"]), "Sets the display format for interval values."),
    row("is_superuser", "on", Kind::Fixed, "Shows whether the current user is a superuser."),
    row("jit", "on", Kind::Bool, "Allow JIT compilation."),
    row("join_collapse_limit", "8", Kind::Int(1, INT_MAX), "Sets the FROM-list size beyond which JOIN constructs are not flattened."),
    row("lc_collate", "C", Kind::Fixed, "Shows the collation order locale."),
    row("lc_ctype", "C.UTF-8", Kind::Fixed, "Shows the character classification and case conversion locale."),
    row("lc_messages", "C", Kind::Text, "Sets the language in which messages are displayed."),
    row("lc_monetary", "C", Kind::Text, "Sets the locale for formatting monetary amounts."),
    row("lc_numeric", "C", Kind::Text, "Sets the locale for formatting numbers."),
    row("lc_time", "C", Kind::Text, "Sets the locale for formatting date and time values."),
    row("lock_timeout", "0", Kind::Time, "Sets the maximum allowed duration of any wait for a lock."),
    row("maintenance_work_mem", "64MB", Kind::Text, "Sets the maximum memory to be used for maintenance operations."),
    row("max_connections", "100", Kind::Fixed, "Sets the maximum number of concurrent connections."),
    row("max_identifier_length", "63", Kind::Fixed, "Shows the maximum identifier length."),
    row("max_index_keys", "32", Kind::Fixed, "Shows the maximum number of index keys."),
    row("max_parallel_workers_per_gather", "2", Kind::Int(0, 1024), "Sets the maximum number of parallel processes per executor node."),
    row("max_prepared_transactions", "0", Kind::Fixed, "Sets the maximum number of simultaneously prepared transactions."),
    row("password_encryption", "scram-sha-256", Kind::Enum(&["md5", "scram-sha-256"]), "Chooses the algorithm for encrypting passwords."),
    row("plan_cache_mode", "auto", Kind::Enum(&["auto", "force_generic_plan", "force_custom_plan"]), "Controls the planner's selection of custom or generic plan."),
    row("port", "5433", Kind::Fixed, "Sets the TCP port the server listens on."),
    row("quote_all_identifiers", "off", Kind::Bool, "When generating SQL fragments, quote all identifiers."),
    row("random_page_cost", "4", Kind::Real(0.0, f64::MAX), "Sets the planner's estimate of the cost of a nonsequentially fetched disk page."),
    row("role", "none", Kind::Text, "Sets the current role."),
    row("row_security", "on", Kind::Bool, "Enable row security."),
    row("search_path", "\"$user\", public", Kind::Text, "Sets the schema search order for names that are not schema-qualified."),
    row("seq_page_cost", "1", Kind::Real(0.0, f64::MAX), "Sets the planner's estimate of the cost of a sequentially fetched disk page."),
    row("server_encoding", "UTF8", Kind::Fixed, "Shows the server (database) character set encoding."),
    row("server_version", SERVER_VERSION, Kind::Fixed, "Shows the server version."),
    row("server_version_num", "150018", Kind::Fixed, "Shows the server version as an integer."),
    row("session_authorization", "postgres", Kind::Text, "Sets the session user name."),
    row("session_replication_role", "origin", Kind::Enum(&["origin", "replica", "local"]), "Sets the session's behavior for triggers and rewrite rules."),
    row("shared_buffers", "128MB", Kind::Fixed, "Sets the number of shared memory buffers used by the server."),
    row("ssl", "off", Kind::Fixed, "Enables SSL connections."),
    row("standard_conforming_strings", "on", Kind::Enum(&["on"]), "Causes '...' strings to treat backslashes literally."),
    row("statement_timeout", "0", Kind::Time, "Sets the maximum allowed duration of any statement."),
    row("synchronize_seqscans", "on", Kind::Bool, "Enable synchronized sequential scans."),
    row("synchronous_commit", "on", Kind::Enum(&["on", "off", "local", "remote_write", "remote_apply"]), "Sets the current transaction's synchronization level."),
    row("temp_buffers", "8MB", Kind::Text, "Sets the maximum number of temporary buffers used by each session."),
    row("temp_tablespaces", "", Kind::Text, "Sets the tablespace(s) to use for temporary tables and sort files."),
    row("TimeZone", "UTC", Kind::Zone, "Sets the time zone for displaying and interpreting time stamps."),
    row("timezone_abbreviations", "Default", Kind::Text, "Selects a file of time zone abbreviations."),
    row("track_activities", "on", Kind::Bool, "Collects information about executing commands."),
    row("transaction_deferrable", "off", Kind::Bool, "Whether to defer a read-only serializable transaction."),
    row("transaction_isolation", "read committed", Kind::Enum(ISOLATION), "Sets the current transaction's isolation level."),
    row("transaction_read_only", "off", Kind::Bool, "Sets the current transaction's read-only status."),
    row("transform_null_equals", "off", Kind::Enum(&["off"]), "Treats \"expr=NULL\" as \"expr IS NULL\"."),
    row("vacuum_cost_delay", "0", Kind::Time, "Vacuum cost delay in milliseconds."),
    row("wal_level", "replica", Kind::Fixed, "Sets the level of information written to the WAL."),
    row("work_mem", "4MB", Kind::Text, "Sets the maximum memory to be used for query workspaces."),
    row("xmloption", "content", Kind::Enum(&["content", "document"]), "Sets whether XML data is to be considered as documents or content fragments."),
];

/// The setting called `name` (lower case).
pub(super) fn known(name: &str) -> Option<&'static Known> {
    SETTINGS.iter().find(|s| s.name.eq_ignore_ascii_case(name))
}

impl Known {
    /// The canonical form of `value`, or 22023.
    pub(super) fn check(&self, value: &str) -> Result<String, SqlError> {
        let trimmed = value.trim();
        match self.kind {
            Kind::Fixed | Kind::Text => Ok(value.to_owned()),
            Kind::Bool => match parse_bool(trimmed) {
                Some(b) => Ok(if b { "on" } else { "off" }.to_owned()),
                None => Err(invalid(format!(
                    "parameter \"{}\" requires a Boolean value",
                    self.name
                ))),
            },
            Kind::Int(low, high) => {
                let number: i64 = trimmed.parse().map_err(|_| self.bad_value(value))?;
                if !(low..=high).contains(&number) {
                    return Err(invalid(format!(
                        "{number} is outside the valid range for parameter \"{}\" ({low} .. {high})",
                        self.name
                    )));
                }
                Ok(number.to_string())
            }
            Kind::Real(low, high) => match trimmed.parse::<f64>() {
                Ok(number) if (low..=high).contains(&number) => Ok(trimmed.to_owned()),
                _ => Err(self.bad_value(value)),
            },
            Kind::Time => match milliseconds(trimmed) {
                Some(ms) => Ok(show_milliseconds(ms)),
                None => Err(self.bad_value(value)),
            },
            Kind::Enum(options) => {
                let lowered = trimmed.to_ascii_lowercase();
                if let Some(option) = options.iter().find(|o| **o == lowered) {
                    return Ok((*option).to_owned());
                }
                // The enums with on and off take all spellings of a Boolean.
                let boolean = parse_bool(trimmed).map(|b| if b { "on" } else { "off" });
                match boolean.filter(|b| options.contains(b)) {
                    Some(b) => Ok(b.to_owned()),
                    None => Err(self
                        .bad_value(value)
                        .hint(format!("Available values: {}.", options.join(", ")))),
                }
            }
            Kind::DateStyle => date_style(trimmed).ok_or_else(|| self.bad_value(value)),
            Kind::Encoding => {
                let bare = trimmed.trim_matches('\'').to_ascii_lowercase();
                match bare.replace(['-', '_'], "").as_str() {
                    "utf8" | "unicode" => Ok("UTF8".to_owned()),
                    "sqlascii" => Ok("SQL_ASCII".to_owned()),
                    _ => Err(self.bad_value(value)),
                }
            }
            Kind::Zone => {
                let zone = super::parse_zone(trimmed)?;
                Ok(match zone.iana_name() {
                    Some(name) if name != "UTC" => name.to_owned(),
                    _ => trimmed.to_owned(),
                })
            }
        }
    }

    fn bad_value(&self, value: &str) -> SqlError {
        invalid(format!(
            "invalid value for parameter \"{}\": \"{value}\"",
            self.name
        ))
    }
}

fn invalid(message: String) -> SqlError {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

/// A Boolean as settings and `boolean` input spell it, unique prefixes too.
pub(crate) fn parse_bool(text: &str) -> Option<bool> {
    let lowered = text.to_ascii_lowercase();
    if lowered.is_empty() {
        return None;
    }
    for (word, least, value) in [
        ("true", 1, true),
        ("false", 1, false),
        ("yes", 1, true),
        ("no", 1, false),
        ("on", 2, true),
        ("off", 2, false),
        ("1", 1, true),
        ("0", 1, false),
    ] {
        if lowered.len() >= least && word.starts_with(&lowered) {
            return Some(value);
        }
    }
    None
}

/// A time with a unit, in milliseconds.
fn milliseconds(text: &str) -> Option<i64> {
    let digits = text
        .find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '-'))
        .unwrap_or(text.len());
    let number: f64 = text[..digits].parse().ok()?;
    let factor = match text[digits..].trim() {
        "" | "ms" => 1.0,
        "us" => 0.001,
        "s" => 1000.0,
        "min" => 60_000.0,
        "h" => 3_600_000.0,
        "d" => 86_400_000.0,
        _ => return None,
    };
    let ms = (number * factor).round();
    (0.0..=f64::from(i32::MAX))
        .contains(&ms)
        .then_some(ms as i64)
}

/// Milliseconds in the largest unit that shows them whole.
fn show_milliseconds(ms: i64) -> String {
    if ms == 0 {
        return "0".to_owned();
    }
    for (unit, size) in [
        ("d", 86_400_000),
        ("h", 3_600_000),
        ("min", 60_000),
        ("s", 1000),
    ] {
        if ms % size == 0 {
            return format!("{}{unit}", ms / size);
        }
    }
    format!("{ms}ms")
}

/// `ISO` with an order. The other output styles are not ours.
fn date_style(text: &str) -> Option<String> {
    let mut order = "MDY";
    for part in text.split(',') {
        match part.trim().to_ascii_lowercase().as_str() {
            "iso" | "default" => {}
            "mdy" | "us" | "noneuro" | "noneuropean" => order = "MDY",
            "dmy" | "euro" | "european" => order = "DMY",
            "ymd" => order = "YMD",
            _ => return None,
        }
    }
    Some(format!("ISO, {order}"))
}

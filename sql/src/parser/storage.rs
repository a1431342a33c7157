//! Storage parameters, `WITH (fillfactor = 70)`. They have no effect here and are recorded for
//! catalog queries and dumps.
//!
//! sqlparser does not read them in a key constraint. There, a comment replaces them and records the
//! index of their token.

use super::cursor::Cursor;
use super::dialect::EVERY_FIELD;
use super::lexer::{self, Kind, Token};
use super::patch::put_padded;
use super::search_cycle::opening;
use crate::error::{SqlError, SqlState};
use crate::settings::parse_bool;

/// Storage parameters and their values.
pub type StorageOptions = Vec<(String, String)>;

/// The type and range of a parameter's value.
#[derive(Clone, Copy)]
enum ParameterType {
    Bool,
    Int(i64, i64),
    Real(f64, f64),
    /// `auto` or a Boolean.
    Auto,
}

const MAX: i64 = i32::MAX as i64;

/// The parameters of tables and indexes, including some of access methods that do not exist here.
const OPTIONS: [(&str, ParameterType); 31] = [
    ("fillfactor", ParameterType::Int(10, 100)),
    ("parallel_workers", ParameterType::Int(0, 1024)),
    ("user_catalog_table", ParameterType::Bool),
    ("vacuum_index_cleanup", ParameterType::Auto),
    ("vacuum_truncate", ParameterType::Bool),
    ("toast_tuple_target", ParameterType::Int(128, 8160)),
    ("log_autovacuum_min_duration", ParameterType::Int(-1, MAX)),
    ("deduplicate_items", ParameterType::Bool),
    ("fastupdate", ParameterType::Bool),
    ("gin_pending_list_limit", ParameterType::Int(64, MAX)),
    ("pages_per_range", ParameterType::Int(1, 131_072)),
    ("buffering", ParameterType::Auto),
    ("autovacuum_enabled", ParameterType::Bool),
    ("autovacuum_vacuum_threshold", ParameterType::Int(0, MAX)),
    (
        "autovacuum_vacuum_insert_threshold",
        ParameterType::Int(-1, MAX),
    ),
    ("autovacuum_analyze_threshold", ParameterType::Int(0, MAX)),
    (
        "autovacuum_vacuum_cost_limit",
        ParameterType::Int(1, 10_000),
    ),
    (
        "autovacuum_vacuum_cost_delay",
        ParameterType::Real(0.0, 100.0),
    ),
    (
        "autovacuum_vacuum_scale_factor",
        ParameterType::Real(0.0, 100.0),
    ),
    (
        "autovacuum_vacuum_insert_scale_factor",
        ParameterType::Real(0.0, 100.0),
    ),
    (
        "autovacuum_analyze_scale_factor",
        ParameterType::Real(0.0, 100.0),
    ),
    (
        "autovacuum_freeze_min_age",
        ParameterType::Int(0, 1_000_000_000),
    ),
    (
        "autovacuum_freeze_max_age",
        ParameterType::Int(100_000, 2_000_000_000),
    ),
    (
        "autovacuum_freeze_table_age",
        ParameterType::Int(0, 2_000_000_000),
    ),
    (
        "autovacuum_multixact_freeze_min_age",
        ParameterType::Int(0, 1_000_000_000),
    ),
    (
        "autovacuum_multixact_freeze_max_age",
        ParameterType::Int(10_000, 2_000_000_000),
    ),
    (
        "autovacuum_multixact_freeze_table_age",
        ParameterType::Int(0, 2_000_000_000),
    ),
    ("toast.autovacuum_enabled", ParameterType::Bool),
    ("toast.vacuum_index_cleanup", ParameterType::Auto),
    ("toast.vacuum_truncate", ParameterType::Bool),
    (
        "toast.log_autovacuum_min_duration",
        ParameterType::Int(-1, MAX),
    ),
];

fn known(name: &str) -> Option<ParameterType> {
    let mut all = OPTIONS.iter();
    let found = all.find(|(known, _)| *known == name);
    // A toast parameter takes the same values as the parameter of the table.
    let plain = || {
        known(
            name.strip_prefix("toast.")
                .filter(|of| of.starts_with("autovacuum_"))?,
        )
    };
    found.map(|(_, of)| *of).or_else(plain)
}

/// Returns whether a name is a storage parameter of a table or index.
pub(crate) fn is_storage_option(name: &str) -> bool {
    known(name).is_some()
}

/// Checks a parameter and its value.
///
/// # Errors
/// 22023 for an unknown parameter or an invalid value.
pub(super) fn check(name: &str, value: &str) -> Result<(), SqlError> {
    let bad = |message: String| SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message);
    let bounds = |low: &str, high: &str| {
        let message = format!("value {value} out of bounds for option \"{name}\"");
        let detail = format!("Valid values are between \"{low}\" and \"{high}\".");
        Err(bad(message).detail(detail))
    };
    let invalid = |kind: &str| {
        Err(bad(format!(
            "invalid value for {kind} option \"{name}\": {value}"
        )))
    };
    match known(name) {
        None => Err(bad(format!("unrecognized parameter \"{name}\""))),
        Some(ParameterType::Bool) if parse_bool(value).is_none() => invalid("boolean"),
        Some(ParameterType::Auto) if value != "auto" && parse_bool(value).is_none() => {
            invalid("enum")
        }
        Some(ParameterType::Int(low, high)) => match value.parse::<i64>() {
            Ok(number) if (low..=high).contains(&number) => Ok(()),
            Ok(_) => bounds(&low.to_string(), &high.to_string()),
            Err(_) => invalid("integer"),
        },
        Some(ParameterType::Real(low, high)) => match value.parse::<f64>() {
            Ok(number) if (low..=high).contains(&number) => Ok(()),
            Ok(_) => bounds(&format!("{low:.6}"), &format!("{high:.6}")),
            Err(_) => invalid("floating point"),
        },
        Some(_) => Ok(()),
    }
}

/// Reads `name [= value]`. The name can have a prefix, such as `toast`.
pub(super) fn parameter<'a>(c: &mut Cursor<'a>) -> Result<(String, Option<&'a str>), SqlError> {
    let mut name = c.identifier()?;
    if c.accept_kind(Kind::Dot).is_some() {
        name = format!("{name}.{}", c.identifier()?);
    }
    let mut value = None;
    if c.accept_operator("=") {
        value = Some(c.text_until(&|_, token| token.kind == Kind::Comma));
    }
    Ok((name, value))
}

/// Reads `name [= value], …`.
pub(super) fn list(c: &mut Cursor<'_>) -> Result<StorageOptions, SqlError> {
    let mut all = StorageOptions::new();
    while c.peek().is_some_and(|token| token.kind != Kind::Close) {
        let (name, value) = parameter(c)?;
        if all.iter().any(|(other, _)| *other == name) {
            let message = format!("parameter \"{name}\" specified more than once");
            return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
        }
        let value = value.unwrap_or("true").trim_matches('\'');
        let value = match value.bytes().all(|b| b.is_ascii_alphabetic()) {
            true => value.to_ascii_lowercase(),
            false => value.to_owned(),
        };
        all.push((name, value));
        if c.accept_kind(Kind::Comma).is_none() {
            break;
        }
    }
    Ok(all)
}

/// Returns the token range of the `WITH (…)` at a position.
pub(super) fn with_at(
    text: &str,
    tokens: &[Token],
    at: usize,
) -> Option<std::ops::RangeInclusive<usize>> {
    let opens = tokens
        .get(at + 1)
        .is_some_and(|token| token.text(text) == "(");
    let close = (at + 2..tokens.len()).find(|i| tokens[*i].kind == Kind::Close)?;
    opens.then_some(at..=close)
}

/// Returns the parameters in the parentheses after the WITH at a position.
pub(super) fn options_at(
    text: &str,
    tokens: &[Token],
    at: usize,
) -> Result<StorageOptions, SqlError> {
    let Some(range) = with_at(text, tokens, at) else {
        return Ok(StorageOptions::new());
    };
    list(&mut Cursor::new(text, &tokens[at + 2..*range.end()]))
}

/// Returns the storage parameters of a CREATE TABLE, CREATE INDEX or CREATE MATERIALIZED VIEW,
/// without Fencepost's own parameters.
pub(crate) fn storage_options(sql: &str) -> Result<StorageOptions, SqlError> {
    let tokens = lexer::tokens(sql)?;
    let mut all = StorageOptions::new();
    for at in super::storage_actions::withs(sql, &tokens) {
        all.extend(options_at(sql, &tokens, at)?);
    }
    all.retain(|(name, _)| is_storage_option(name) && !name.starts_with("toast."));
    Ok(all)
}

/// Returns whether a CREATE TABLE is UNLOGGED.
pub(crate) fn is_unlogged(sql: &str) -> bool {
    let tokens = lexer::tokens(sql).unwrap_or_default();
    tokens.len() > 2 && tokens[0].is(sql, "create") && tokens[1].is(sql, "unlogged")
}

/// Returns the token index of each WITH in a key constraint of a table.
pub(super) fn of_keys(text: &str, tokens: &[Token]) -> Result<Vec<usize>, SqlError> {
    let is = |i: usize, word: &str| tokens.get(i).is_some_and(|t: &Token| t.is(text, word));
    let table = (is(0, "create") || is(0, "alter")) && (1..4).any(|i| is(i, "table"));
    let mut found = Vec::new();
    for at in (4..tokens.len()).filter(|i| table && is(*i, "with")) {
        if tokens[at - 1].text(text) != ")" || with_at(text, tokens, at).is_none() {
            continue;
        }
        let open = opening(tokens, at - 1);
        let before = open.and_then(|open| open.checked_sub(1)).unwrap_or(0);
        if ["key", "unique", "distinct"]
            .iter()
            .any(|word| is(before, word))
        {
            for (name, value) in options_at(text, tokens, at)? {
                check(&name, &value)?;
            }
            found.push(at);
        }
    }
    Ok(found)
}

/// Replaces the parameters by comments.
pub(super) fn apply(patched: &mut String, text: &str, tokens: &[Token], places: &[usize]) {
    for at in places {
        let Some(range) = with_at(text, tokens, *at) else {
            continue;
        };
        let bytes = tokens[*at].start..tokens[*range.end()].end;
        let comment = format!("COMMENT '{EVERY_FIELD}{at}'");
        // A shorter WITH has no valid parameter and is rejected.
        if comment.len() <= bytes.len() {
            put_padded(patched, bytes, &comment);
        }
    }
}

/// Returns the parameters that the comment of a constraint stands for.
///
/// # Errors
/// 42601 for a comment that the user wrote.
pub(crate) fn options_of_key(sql: &str, comment: &str) -> Result<StorageOptions, SqlError> {
    let tokens = lexer::tokens(sql)?;
    let at = comment
        .strip_prefix(EVERY_FIELD)
        .and_then(|at| at.parse().ok());
    match at {
        Some(at) => options_at(sql, &tokens, at),
        None => Err(SqlError::new(
            SqlState::SYNTAX_ERROR,
            "syntax error at or near \"COMMENT\"",
        )),
    }
}

//! DROP of kinds of objects that are not supported. IF EXISTS gives a notice; without it the object
//! does not exist (an error). PostgreSQL itself has objects of some kinds. For these kinds, DROP of
//! such an object or without IF EXISTS is not supported (0A000).

use super::super::cursor::Cursor;
use crate::bound::{DropAbsent, Statement};
use crate::error::{SqlError, SqlState};

/// The words of a kind, its command tag, its name in messages, and whether the system has such
/// objects.
type Kind = (&'static [&'static str], &'static str, &'static str, bool);

/// Longer sequences of words come first.
const KINDS: [Kind; 19] = [
    (&["rule"], "DROP RULE", "rule", false),
    (&["policy"], "DROP POLICY", "policy", false),
    (&["aggregate"], "DROP AGGREGATE", "aggregate", true),
    (
        &["operator", "class"],
        "DROP OPERATOR CLASS",
        "operator class",
        true,
    ),
    (
        &["operator", "family"],
        "DROP OPERATOR FAMILY",
        "operator family",
        true,
    ),
    (&["operator"], "DROP OPERATOR", "operator", true),
    (&["cast"], "DROP CAST", "cast", true),
    (&["collation"], "DROP COLLATION", "collation", true),
    (&["conversion"], "DROP CONVERSION", "conversion", true),
    (&["transform"], "DROP TRANSFORM", "transform", true),
    (
        &["text", "search", "configuration"],
        "DROP TEXT SEARCH CONFIGURATION",
        "text search configuration",
        true,
    ),
    (
        &["text", "search", "dictionary"],
        "DROP TEXT SEARCH DICTIONARY",
        "text search dictionary",
        true,
    ),
    (
        &["event", "trigger"],
        "DROP EVENT TRIGGER",
        "event trigger",
        false,
    ),
    (
        &["foreign", "table"],
        "DROP FOREIGN TABLE",
        "foreign table",
        false,
    ),
    (
        &["foreign", "data", "wrapper"],
        "DROP FOREIGN DATA WRAPPER",
        "foreign-data wrapper",
        false,
    ),
    (&["server"], "DROP SERVER", "server", false),
    (&["publication"], "DROP PUBLICATION", "publication", false),
    (
        &["subscription"],
        "DROP SUBSCRIPTION",
        "subscription",
        false,
    ),
    (
        &["statistics"],
        "DROP STATISTICS",
        "statistics object",
        false,
    ),
];

/// The names of system objects, which IF EXISTS finds.
const OF_SYSTEM: [&str; 8] = [
    "c",
    "posix",
    "default",
    "ucs_basic",
    "simple",
    "english",
    "sum",
    "count",
];

/// Parses the statement, if it drops an object of such a kind.
pub(super) fn parse(word: &str, c: &mut Cursor<'_>) -> Result<Option<Statement>, SqlError> {
    if word == "create" && c.sees("statistics") {
        return no_statistics(c).map(Some);
    }
    if word != "drop" {
        return Ok(None);
    }
    let known = KINDS.iter().find(|(words, ..)| c.sees_all(words));
    let Some((words, command, kind, of_system)) = known else {
        return Ok(None);
    };
    c.accept_all(words);
    let if_exists = c.accept_all(&["if", "exists"]);
    let text = c.rest().trim().trim_end_matches(';').trim_end();
    let text = ["cascade", "restrict"].iter().fold(text, |text, end| {
        let cut = text.len().saturating_sub(end.len());
        match text.get(cut..) {
            Some(last) if last.eq_ignore_ascii_case(end) => text[..cut].trim_end(),
            _ => text,
        }
    });
    if text.is_empty() {
        return Err(c.unexpected());
    }
    let lower = text.to_ascii_lowercase();
    let first = lower.split(['(', ' ']).next().unwrap_or_default();
    let found = OF_SYSTEM.contains(&first.trim_matches('"'));
    if *of_system && (!if_exists || found) {
        return Err(SqlError::unsupported(*command));
    }
    super::skip(c);
    let named = match lower.split_once(" on ") {
        Some((name, of)) if matches!(*kind, "rule" | "policy") => {
            let (name, of) = (name.trim().trim_matches('"'), of.trim().trim_matches('"'));
            format!("{kind} \"{name}\" for relation \"{of}\"")
        }
        _ if text.contains('(') => format!("{kind} {text}"),
        _ => format!("{kind} \"{}\"", lower.trim_matches('"')),
    };
    if !if_exists {
        return Err(SqlError::new(
            SqlState::UNDEFINED_OBJECT,
            format!("{named} does not exist"),
        ));
    }
    Ok(Some(Statement::DropAbsent(DropAbsent {
        command,
        notice: format!("{named} does not exist, skipping"),
    })))
}

/// Parses CREATE STATISTICS and rejects it: the planner does not use extended statistics.
fn no_statistics(c: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    c.expect("statistics")?;
    c.accept_all(&["if", "not", "exists"]);
    let (_, name) = c.qualified()?;
    if c.peek().is_none() {
        return Err(c.unexpected());
    }
    super::skip(c);
    Ok(Statement::DropAbsent(DropAbsent {
        command: "CREATE STATISTICS",
        notice: format!("statistics object \"{name}\" is not created: no plan uses it"),
    }))
}

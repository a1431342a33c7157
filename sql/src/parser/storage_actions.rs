//! Actions of ALTER TABLE, ALTER INDEX and ALTER MATERIALIZED VIEW that concern the physical
//! storage of rows in PostgreSQL. Dumps contain many of them. They have no effect here, but the
//! objects that they name must exist. Storage parameters and UNLOGGED are recorded for dumps.
//!
//! ```text
//! ALTER TABLE t  ALTER c SET STATISTICS n | STORAGE s | COMPRESSION m | (…)     ALTER c RESET (…)
//!                CLUSTER ON i     SET WITHOUT { CLUSTER | OIDS }     SET { LOGGED | UNLOGGED }
//!                SET (…)     RESET (…)
//!                SET TABLESPACE pg_default     SET ACCESS METHOD heap     REPLICA IDENTITY …
//! ```

use super::cursor::Cursor;
use super::lexer::{Kind, Token};
use super::storage::{self, StorageOptions, is_storage_option};
use crate::error::{SqlError, SqlState};
use crate::settings::parse_bool;

/// An ALTER statement that has only such actions.
#[derive(Debug)]
pub struct StorageActionSyntax {
    /// The kind of the object.
    pub of: StorageObjectKind,
    /// IF EXISTS
    pub if_exists: bool,
    /// The schema and name.
    pub name: (Option<String>, String),
    /// The objects that must exist, and the settings to record.
    pub parts: Vec<StorageActionPart>,
}

/// The kind of object of such a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StorageObjectKind {
    /// A table.
    Table,
    /// An index.
    Index,
    /// A materialized view.
    Materialized,
}

/// A part of an action that is checked or recorded.
#[derive(Debug)]
pub enum StorageActionPart {
    /// A column of the table.
    Column(String),
    /// An index of the table.
    Index(String),
    /// SET (…)
    Set(StorageOptions),
    /// RESET (…)
    Reset(Vec<String>),
    /// SET UNLOGGED; false for SET LOGGED
    Unlogged(bool),
}

/// The options of views, which have an effect.
const OPTIONS_OF_VIEWS: [&str; 3] = ["security_barrier", "security_invoker", "check_option"];
const OPTIONS_OF_COLUMNS: [&str; 2] = ["n_distinct", "n_distinct_inherited"];

/// Parses the statement; returns `None` if one of its actions has an effect.
pub(super) fn alter(text: &str, tokens: &[Token]) -> Result<Option<StorageActionSyntax>, SqlError> {
    let mut c = Cursor::new(text, &tokens[1..]);
    let of = match () {
        () if c.accept("table") => StorageObjectKind::Table,
        () if c.accept("index") => StorageObjectKind::Index,
        () if c.accept_all(&["materialized", "view"]) => StorageObjectKind::Materialized,
        () => return Ok(None),
    };
    let if_exists = c.accept_all(&["if", "exists"]);
    c.accept("only");
    let Ok(name) = c.qualified() else {
        return Ok(None);
    };
    c.accept_operator("*");
    let mut parts = Vec::new();
    loop {
        match action(&mut c, of)? {
            None => return Ok(None),
            Some(part) => parts.extend(part),
        }
        match c.accept_kind(Kind::Comma) {
            Some(_) => {}
            None if c.peek().is_none() => break,
            None => return Err(c.unexpected()),
        }
    }
    Ok(Some(StorageActionSyntax {
        of,
        if_exists,
        name,
        parts,
    }))
}

/// Parses an action and the part that it names. The outer `None` is an action that has an effect.
fn action(
    c: &mut Cursor<'_>,
    of: StorageObjectKind,
) -> Result<Option<Option<StorageActionPart>>, SqlError> {
    if c.accept("alter") {
        c.accept("column");
        if of == StorageObjectKind::Index {
            c.expect_kind(Kind::Integer)?;
            c.expect("set")?;
            c.expect("statistics")?;
            statistics(c)?;
            return Ok(Some(None));
        }
        let Ok(column) = c.identifier() else {
            return Ok(None);
        };
        return Ok(column_action(c)?.then_some(Some(StorageActionPart::Column(column))));
    }
    if of == StorageObjectKind::Table && c.sees("set") && is_view_option(c) {
        return Ok(None);
    }
    if c.accept("reset") {
        c.expect_kind(Kind::Open)?;
        let named = storage::list(c)?.into_iter().map(|(name, _)| name);
        c.expect_kind(Kind::Close)?;
        return Ok(Some(Some(StorageActionPart::Reset(named.collect()))));
    }
    if c.accept_all(&["cluster", "on"]) {
        return Ok(Some(Some(StorageActionPart::Index(c.identifier()?))));
    }
    if c.accept_all(&["replica", "identity"]) {
        if c.accept_all(&["using", "index"]) {
            return Ok(Some(Some(StorageActionPart::Index(c.identifier()?))));
        }
        if !["default", "full", "nothing"]
            .iter()
            .any(|word| c.accept(word))
        {
            return Err(c.unexpected());
        }
        return Ok(Some(None));
    }
    if !c.accept("set") {
        return Ok(None);
    }
    match () {
        () if c.accept_all(&["without", "cluster"]) || c.accept_all(&["without", "oids"]) => {}
        () if c.accept("logged") => return Ok(Some(Some(StorageActionPart::Unlogged(false)))),
        () if c.accept("unlogged") => return Ok(Some(Some(StorageActionPart::Unlogged(true)))),
        () if c.accept("tablespace") => {
            let name = c.identifier()?;
            if name != "pg_default" {
                return Err(no_tablespace(&name));
            }
        }
        () if c.accept_all(&["access", "method"]) => {
            check_method(&c.identifier()?)?;
        }
        () if c.accept_kind(Kind::Open).is_some() => {
            let mut all = storage::list(c)?;
            c.expect_kind(Kind::Close)?;
            for (name, value) in &all {
                storage::check(name, value)?;
            }
            all.retain(|(name, _)| !name.starts_with("toast."));
            return Ok(Some(Some(StorageActionPart::Set(all))));
        }
        () => return Ok(None),
    }
    Ok(Some(None))
}

/// Returns whether the first option in parentheses is a view option. ALTER TABLE can refer to a
/// view.
fn is_view_option(c: &Cursor<'_>) -> bool {
    let first = c.peek_after(2);
    first.is_some_and(|token| OPTIONS_OF_VIEWS.iter().any(|name| token.is(c.sql, name)))
}

/// Returns the TABLESPACE of a CREATE TABLE, CREATE INDEX or CREATE MATERIALIZED VIEW, and the
/// USING of a table. Only one value of each is allowed.
pub(super) fn places(text: &str, tokens: &[Token]) -> Result<Vec<Token>, SqlError> {
    let is = |i: usize, word: &str| tokens.get(i).is_some_and(|t: &Token| t.is(text, word));
    let kinds = ["table", "index", "materialized"];
    let Some(kind) = (1..4).find(|i| kinds.iter().any(|word| is(*i, word))) else {
        return Ok(Vec::new());
    };
    let mut found = Vec::new();
    if !is(0, "create") {
        return Ok(found);
    }
    let named = |i: usize| {
        let token = tokens.get(i)?;
        let name = token.text(text);
        match token.kind {
            Kind::Word => Some(name.to_ascii_lowercase()),
            Kind::QuotedIdent => Some(name.trim_matches('"').to_owned()),
            _ => None,
        }
    };
    let mut depth = 0usize;
    for i in 0..tokens.len() {
        match tokens[i].kind {
            Kind::Open => depth += 1,
            Kind::Close => depth = depth.saturating_sub(1),
            _ => {}
        }
        let behind = |word: &str| i > 0 && is(i - 1, word);
        let of_key = is(i, "tablespace") && behind("index") && i > 1 && is(i - 2, "using");
        let begins = i > kind + 1 && !behind("exists") && !behind("concurrently") && !behind("on");
        let closed = i > 0 && tokens[i - 1].kind == Kind::Close;
        if is(i, "as") && depth == 0 && !is(kind, "index") {
            break;
        }
        if of_key || (depth == 0 && begins && is(i, "tablespace")) {
            let Some(name) = named(i + 1) else {
                continue;
            };
            if name != "pg_default" {
                return Err(no_tablespace(&name));
            }
            found.extend(&tokens[if of_key { i - 2 } else { i }..i + 2]);
        } else if depth == 0 && is(i, "without") && is(i + 1, "oids") && is(kind, "table") {
            found.extend(&tokens[i..i + 2]);
        } else if depth == 0 && begins && is(i, "with") {
            found.extend(storage(text, tokens, i, is(kind, "index"))?);
        } else if depth == 0 && closed && is(kind, "table") && is(i, "using") {
            let Some(name) = named(i + 1) else {
                continue;
            };
            check_method(&name)?;
            found.extend(&tokens[i..i + 2]);
        }
    }
    Ok(found)
}

/// Returns the positions of each WITH that can hold storage parameters, in a CREATE TABLE, CREATE
/// INDEX or CREATE MATERIALIZED VIEW.
pub(super) fn withs(text: &str, tokens: &[Token]) -> Vec<usize> {
    let is = |i: usize, word: &str| tokens.get(i).is_some_and(|t: &Token| t.is(text, word));
    let mut depth = 0usize;
    let mut found = Vec::new();
    for (i, token) in tokens.iter().enumerate() {
        match token.kind {
            Kind::Open => depth += 1,
            Kind::Close => depth = depth.saturating_sub(1),
            // A query follows.
            _ if depth == 0 && is(i, "as") => break,
            _ if depth == 0 && is(i, "with") => found.push(i),
            _ => {}
        }
    }
    found
}

/// Returns the tokens of the `WITH (…)` at a position if all its parameters have no effect, else
/// none.
fn storage(
    text: &str,
    tokens: &[Token],
    at: usize,
    of_index: bool,
) -> Result<Vec<Token>, SqlError> {
    let Some(range) = storage::with_at(text, tokens, at) else {
        return Ok(Vec::new());
    };
    let mut all = true;
    for (name, value) in storage::options_at(text, tokens, at)? {
        match name.as_str() {
            "oids" if parse_bool(&value) == Some(false) => {}
            "oids" => {
                let message = "tables declared WITH OIDS are not supported";
                return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
            }
            _ if of_index || is_storage_option(&name) => storage::check(&name, &value)?,
            _ => all = false,
        }
    }
    Ok(match all {
        true => tokens[range].to_vec(),
        false => Vec::new(),
    })
}

/// Checks the access method of a table.
///
/// # Errors
/// 42704 for a method other than heap.
fn check_method(name: &str) -> Result<(), SqlError> {
    match name {
        "heap" => Ok(()),
        _ => Err(SqlError::new(
            SqlState::UNDEFINED_OBJECT,
            format!("access method \"{name}\" does not exist"),
        )),
    }
}

/// Returns the error for a tablespace: 0A000 for pg_global, 42704 for any other.
fn no_tablespace(name: &str) -> SqlError {
    match name {
        "pg_global" => SqlError::unsupported("the tablespace pg_global"),
        _ => SqlError::new(
            SqlState::UNDEFINED_OBJECT,
            format!("tablespace \"{name}\" does not exist"),
        ),
    }
}

/// Returns whether an action on a column has no effect here, and consumes it.
fn column_action(c: &mut Cursor<'_>) -> Result<bool, SqlError> {
    let of_columns = |name: &str| OPTIONS_OF_COLUMNS.contains(&name);
    let opens = |c: &Cursor<'_>| {
        c.peek_after(1)
            .is_some_and(|token| token.kind == Kind::Open)
    };
    match () {
        () if c.accept_all(&["set", "statistics"]) => statistics(c)?,
        () if c.accept_all(&["set", "storage"]) => {
            let storage = c.identifier()?;
            if !["plain", "external", "extended", "main"].contains(&storage.as_str()) {
                let message = format!("invalid storage type \"{storage}\"");
                return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
            }
        }
        () if c.accept_all(&["set", "compression"]) => {
            let method = c.identifier()?;
            if !["pglz", "lz4", "default"].contains(&method.as_str()) {
                let message = format!("invalid compression method \"{method}\"");
                return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
            }
        }
        () if (c.sees("set") || c.sees("reset")) && opens(c) => match c.accept("reset") {
            true => options(c, &|_| true)?,
            false => {
                c.expect("set")?;
                options(c, &of_columns)?;
            }
        },
        () => return Ok(false),
    }
    Ok(true)
}

fn statistics(c: &mut Cursor<'_>) -> Result<(), SqlError> {
    c.accept_operator("-");
    c.expect_kind(Kind::Integer).map(|_| ())
}

/// Reads `(name = value, …)` or `(name, …)`.
///
/// # Errors
/// 22023 for an unknown name.
fn options(c: &mut Cursor<'_>, known: &dyn Fn(&str) -> bool) -> Result<(), SqlError> {
    c.expect_kind(Kind::Open)?;
    loop {
        let (name, _) = storage::parameter(c)?;
        if !known(&name) {
            let message = format!("unrecognized parameter \"{name}\"");
            return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
        }
        if c.accept_kind(Kind::Comma).is_none() {
            break;
        }
    }
    c.expect_kind(Kind::Close).map(|_| ())
}

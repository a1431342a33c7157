//! SET, SHOW and RESET.

use super::super::cursor::Cursor;
use super::super::is_reserved;
use super::super::lexer::Kind;
use super::transaction::modes;
use crate::bound::{SetScope, SetStatement, SetValue, Statement, SystemChange};
use crate::error::SqlError;
use crate::settings::{clock_offset, east};

pub(super) fn parse(word: &str, c: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    match word {
        "show" => Ok(Statement::Show(
            name(c)?.unwrap_or_else(|| "all".to_owned()),
        )),
        "reset" => Ok(Statement::Reset(name(c)?)),
        _ => set(c),
    }
}

/// Reads a setting's name, with its special spellings; `None` is ALL.
fn name(c: &mut Cursor<'_>) -> Result<Option<String>, SqlError> {
    if c.accept("all") {
        return Ok(None);
    }
    if c.accept_all(&["time", "zone"]) {
        return Ok(Some("timezone".to_owned()));
    }
    if c.accept_all(&["transaction", "isolation", "level"]) {
        return Ok(Some("transaction_isolation".to_owned()));
    }
    if c.accept_all(&["session", "authorization"]) {
        return Ok(Some("session_authorization".to_owned()));
    }
    dotted(c).map(Some)
}

fn dotted(c: &mut Cursor<'_>) -> Result<String, SqlError> {
    let mut name = c.identifier()?.to_ascii_lowercase();
    while c.accept_kind(Kind::Dot).is_some() {
        name.push('.');
        name.push_str(&c.identifier()?.to_ascii_lowercase());
    }
    Ok(name)
}

/// Parses SET CONSTRAINTS: `{ ALL | name, … } { DEFERRED | IMMEDIATE }`.
fn constraints(c: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    let mut names = Vec::new();
    if !c.accept("all") {
        loop {
            names.push(c.qualified()?.1);
            if c.accept_kind(Kind::Comma).is_none() {
                break;
            }
        }
    }
    let deferred = c.accept("deferred");
    if !deferred {
        c.expect("immediate")?;
    }
    Ok(Statement::SetConstraints { names, deferred })
}

fn set(c: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    if c.sees_all(&["xml", "option"]) {
        return Err(SqlError::unsupported("XML OPTION"));
    }
    if c.accept_all(&["session", "characteristics", "as", "transaction"]) {
        return modes(c).map(Statement::SetSessionCharacteristics);
    }
    if c.accept("constraints") {
        return constraints(c);
    }
    let local = c.accept("local");
    let scope = if local {
        SetScope::Local
    } else {
        if !c.sees_all(&["session", "authorization"]) {
            c.accept("session");
        }
        SetScope::Session
    };
    if c.accept_all(&["transaction", "snapshot"]) {
        return c.string().map(Statement::SetSnapshot);
    }
    if c.accept("transaction") {
        return modes(c).map(Statement::SetTransaction);
    }
    let (name, value) = if c.accept_all(&["time", "zone"]) {
        ("timezone".to_owned(), zone(c)?)
    } else if c.accept_all(&["session", "authorization"]) {
        ("session_authorization".to_owned(), value(c)?)
    } else if c.accept("role") {
        ("role".to_owned(), value(c)?)
    } else if c.accept("names") {
        let name = "client_encoding".to_owned();
        match c.peek() {
            Some(_) => (name, value(c)?),
            None => (name, SetValue::Default),
        }
    } else if c.sees("schema") && c.peek_after(1).is_some_and(|t| t.kind == Kind::String) {
        c.next_token();
        let schema = crate::functions::quote_ident(&c.string()?);
        ("search_path".to_owned(), SetValue::Value(schema))
    } else {
        let name = dotted(c)?;
        if !c.accept("to") && !c.accept_operator("=") {
            return Err(c.unexpected());
        }
        (name, value(c)?)
    };
    Ok(Statement::Set(SetStatement { name, scope, value }))
}

/// Parses the rest of ALTER SYSTEM: `SET name { TO | = } value`, `RESET name`, `RESET ALL`.
pub(super) fn system(c: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    if c.accept("reset") {
        let change = match c.accept("all") {
            true => SystemChange::ResetAll,
            false => SystemChange::Reset(dotted(c)?),
        };
        return Ok(Statement::AlterSystem(change));
    }
    c.expect("set")?;
    let name = dotted(c)?;
    if !c.accept("to") && !c.accept_operator("=") {
        return Err(c.unexpected());
    }
    Ok(Statement::AlterSystem(match value(c)? {
        SetValue::Value(value) => SystemChange::Set(name, value),
        SetValue::Default => SystemChange::Reset(name),
    }))
}

/// Reads a time zone: `'zone'`, a number of hours, LOCAL, DEFAULT, or `INTERVAL '…' HOUR TO
/// MINUTE`.
fn zone(c: &mut Cursor<'_>) -> Result<SetValue, SqlError> {
    if c.accept("local") {
        return Ok(SetValue::Default);
    }
    if c.accept("interval") {
        let offset = c.string()?;
        if c.accept("hour") && c.accept("to") {
            c.expect("minute")?;
        }
        // The sign of an interval is positive east of UTC.
        let seconds = clock_offset(offset.trim());
        return Ok(SetValue::Value(seconds.map_or(offset, east)));
    }
    value(c)
}

/// Reads DEFAULT, or comma-separated values.
fn value(c: &mut Cursor<'_>) -> Result<SetValue, SqlError> {
    if c.accept("default") {
        return Ok(SetValue::Default);
    }
    let mut values = Vec::new();
    loop {
        values.push(one(c)?);
        if c.accept_kind(Kind::Comma).is_none() {
            break;
        }
    }
    if values.len() == 1 {
        return Ok(SetValue::Value(values.remove(0)));
    }
    let quoted: Vec<String> = values.iter().map(|v| quoted_if_needed(v)).collect();
    Ok(SetValue::Value(quoted.join(", ")))
}

fn one(c: &mut Cursor<'_>) -> Result<String, SqlError> {
    let negative = c.accept_operator("-");
    if !negative {
        c.accept_operator("+");
    }
    match c.peek() {
        Some(t) if matches!(t.kind, Kind::Integer | Kind::Decimal) => {
            c.next_token();
            let sign = if negative { "-" } else { "" };
            Ok(format!("{sign}{}", t.text(c.sql)))
        }
        _ if negative => Err(c.unexpected()),
        Some(t) if matches!(t.kind, Kind::Word | Kind::QuotedIdent) => c.identifier(),
        _ => c.string(),
    }
}

fn quoted_if_needed(value: &str) -> String {
    let plain = value
        .bytes()
        .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
    if plain && !value.is_empty() && !is_reserved(value) {
        value.to_owned()
    } else {
        format!("\"{}\"", value.replace('"', "\"\""))
    }
}

//! CREATE, ALTER and DROP SEQUENCE.

use super::super::cursor::Cursor;
use super::super::lexer::Kind;
use crate::bound::{AlterSequence, CreateSequence, DropSequence, SequenceOptions, Statement};
use crate::catalog::temporary::ALIAS;
use crate::error::{SqlError, SqlState};
use crate::types::TypeKind;

/// Parses the statement after CREATE, ALTER or DROP, if it concerns sequences.
pub(super) fn parse(word: &str, c: &mut Cursor<'_>) -> Result<Option<Statement>, SqlError> {
    let temporary = word == "create"
        && (c.accept_all(&["temp", "sequence"]) || c.accept_all(&["temporary", "sequence"]));
    // Dumps contain UNLOGGED for sequences of unlogged tables.
    let unlogged = word == "create" && c.accept_all(&["unlogged", "sequence"]);
    if !temporary && !unlogged && !c.accept("sequence") {
        return Ok(None);
    }
    Ok(Some(match word {
        "create" => create(c, temporary)?,
        "alter" => alter(c)?,
        _ => drop(c)?,
    }))
}

fn create(c: &mut Cursor<'_>, temporary: bool) -> Result<Statement, SqlError> {
    let if_not_exists = c.accept_all(&["if", "not", "exists"]);
    let (mut schema, name) = c.qualified()?;
    if temporary && schema.get_or_insert_with(|| ALIAS.to_owned()) != ALIAS {
        return Err(SqlError::new(
            SqlState::INVALID_TABLE_DEFINITION,
            "cannot create temporary relation in non-temporary schema",
        ));
    }
    let options = options(c, false)?;
    Ok(Statement::CreateSequence(CreateSequence {
        schema,
        name,
        if_not_exists,
        options,
    }))
}

fn alter(c: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    let if_exists = c.accept_all(&["if", "exists"]);
    let (schema, name) = c.qualified()?;
    let rename = match c.accept_all(&["rename", "to"]) {
        true => Some(c.identifier()?),
        false => None,
    };
    let mut said = SequenceOptions::default();
    // LOGGED and UNLOGGED have no effect: all sequences are logged.
    let kept = c.accept_all(&["set", "logged"]) || c.accept_all(&["set", "unlogged"]);
    if rename.is_none() && !kept {
        said = options(c, true)?;
    }
    Ok(Statement::AlterSequence(AlterSequence {
        schema,
        name,
        if_exists,
        rename,
        options: said,
        of_column: false,
    }))
}

fn drop(c: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    let if_exists = c.accept_all(&["if", "exists"]);
    let mut names = vec![c.qualified()?];
    while c.accept_kind(Kind::Comma).is_some() {
        names.push(c.qualified()?);
    }
    let cascade = c.accept("cascade");
    if !cascade {
        c.accept("restrict");
    }
    Ok(Statement::DropSequence(DropSequence {
        names,
        if_exists,
        cascade,
    }))
}

/// Reads the options of a new sequence.
pub(in super::super) fn new_options(c: &mut Cursor<'_>) -> Result<SequenceOptions, SqlError> {
    options(c, false)
}

/// Reads the options of ALTER SEQUENCE, including RESTART.
pub(in super::super) fn changed(c: &mut Cursor<'_>) -> Result<SequenceOptions, SqlError> {
    options(c, true)
}

fn options(c: &mut Cursor<'_>, restarts: bool) -> Result<SequenceOptions, SqlError> {
    let mut said = SequenceOptions::default();
    while c.peek().is_some() {
        if !restarts && c.accept_all(&["sequence", "name"]) {
            said.name = Some(c.qualified()?.1);
        } else if c.accept("as") {
            said.kind = Some(kind(&c.identifier()?)?);
        } else if c.accept("increment") {
            c.accept("by");
            said.increment = Some(number(c)?);
        } else if c.accept_all(&["no", "minvalue"]) {
            said.min = Some(None);
        } else if c.accept("minvalue") {
            said.min = Some(Some(number(c)?));
        } else if c.accept_all(&["no", "maxvalue"]) {
            said.max = Some(None);
        } else if c.accept("maxvalue") {
            said.max = Some(Some(number(c)?));
        } else if c.accept("start") {
            c.accept("with");
            said.start = Some(number(c)?);
        } else if c.accept("cache") {
            said.cache = Some(number(c)?);
        } else if c.accept_all(&["no", "cycle"]) {
            said.cycle = Some(false);
        } else if c.accept("cycle") {
            said.cycle = Some(true);
        } else if c.accept_all(&["owned", "by"]) {
            said.owner = Some(owner(c)?);
        } else if restarts && c.accept("restart") {
            let with = c.accept("with");
            let given = with || c.peek().is_some_and(|t| t.kind != Kind::Word);
            said.restart = Some(if given { Some(number(c)?) } else { None });
        } else {
            return Err(c.unexpected());
        }
    }
    Ok(said)
}

fn owner(c: &mut Cursor<'_>) -> Result<Option<(Option<String>, String, String)>, SqlError> {
    if c.accept("none") {
        return Ok(None);
    }
    let (first, second) = c.qualified()?;
    if c.accept_kind(Kind::Dot).is_some() {
        return Ok(Some((first, second, c.identifier()?)));
    }
    match first {
        Some(table) => Ok(Some((None, table, second))),
        None => Err(
            SqlError::new(SqlState::SYNTAX_ERROR, "invalid OWNED BY option")
                .hint("Specify OWNED BY table.column or OWNED BY NONE."),
        ),
    }
}

fn number(c: &mut Cursor<'_>) -> Result<i64, SqlError> {
    let minus = c.accept_operator("-");
    let digits = c.expect_kind(Kind::Integer)?;
    let text = digits.text(c.sql);
    let parsed = match minus {
        true => format!("-{text}").parse(),
        false => text.parse(),
    };
    parsed.map_err(|_| {
        SqlError::new(
            SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
            format!("value \"{text}\" is out of range for type bigint"),
        )
    })
}

/// Returns the type of a sequence's values (AS type).
fn kind(name: &str) -> Result<TypeKind, SqlError> {
    match name.to_ascii_lowercase().as_str() {
        "smallint" | "int2" => Ok(TypeKind::Int2),
        "int" | "integer" | "int4" => Ok(TypeKind::Int4),
        "bigint" | "int8" => Ok(TypeKind::Int8),
        _ => Err(SqlError::new(
            SqlState::INVALID_PARAMETER_VALUE,
            "sequence type must be smallint, integer, or bigint",
        )),
    }
}

//! EXPLAIN.

use sqlparser::ast;

use super::super::cursor::Cursor;
use super::super::lexer::{self, Kind};
use super::super::{Statement, parse_one};
use crate::bound::{ExplainFormat, ExplainOptions};
use crate::error::{SqlError, SqlState};
use crate::settings::parse_bool;

/// Parses `EXPLAIN [ANALYZE] [VERBOSE] statement` or `EXPLAIN (option [value], …) statement`.
pub(super) fn parse(c: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    let mut options = ExplainOptions::default();
    if c.accept_kind(Kind::Open).is_some() {
        listed(c, &mut options)?;
    } else {
        options.analyze = c.accept("analyze") || c.accept("analyse");
        options.verbose = c.accept("verbose");
    }
    let explainable = c.peek().is_some_and(|t| {
        [
            "select", "insert", "update", "delete", "merge", "values", "execute", "with", "table",
            "declare", "create", "refresh",
        ]
        .iter()
        .any(|word| t.is(c.sql, word))
            || t.kind == Kind::Open
    });
    if !explainable {
        return Err(c.unexpected());
    }
    let creates = c.peek().is_some_and(|t| t.is(c.sql, "create"));
    let refused = c.unexpected();
    let text = c.rest_in_place();
    let statement = parse_one(&text, &lexer::tokens(&text)?)?;
    if creates && !is_made_of_query(&statement) {
        return Err(refused);
    }
    Ok(Statement::Explain {
        options,
        statement: Box::new(statement),
    })
}

/// Returns whether a CREATE takes its rows from a query.
fn is_made_of_query(statement: &Statement) -> bool {
    match statement {
        Statement::Sql(sql) => match sql.as_ref() {
            ast::Statement::CreateTable(create) => create.query.is_some(),
            ast::Statement::CreateView(create) => create.materialized,
            _ => false,
        },
        _ => false,
    }
}

fn listed(c: &mut Cursor<'_>, options: &mut ExplainOptions) -> Result<(), SqlError> {
    let (mut wal, mut timing) = (false, None);
    loop {
        let option = c.identifier()?;
        let value = match c.peek().map(|t| t.kind) {
            Some(Kind::Comma | Kind::Close) => None,
            Some(Kind::String) => Some(c.string()?),
            _ => c.next_token().map(|t| t.text(c.sql).to_ascii_lowercase()),
        };
        let on = || match value.as_deref() {
            None => Ok(true),
            Some(value) => parse_bool(value).ok_or_else(|| {
                let message = format!("{option} requires a Boolean value");
                SqlError::new(SqlState::SYNTAX_ERROR, message)
            }),
        };
        match option.as_str() {
            "analyze" | "analyse" => options.analyze = on()?,
            "verbose" => options.verbose = on()?,
            "summary" => options.summary = Some(on()?),
            "timing" => timing = Some(on()?),
            "wal" => wal = on()?,
            "costs" | "buffers" | "settings" => {
                on()?;
            }
            "format" => options.format = format(value.as_deref())?,
            other => {
                return Err(SqlError::new(
                    SqlState::SYNTAX_ERROR,
                    format!("unrecognized EXPLAIN option \"{other}\""),
                ));
            }
        }
        if c.accept_kind(Kind::Comma).is_none() {
            c.expect_kind(Kind::Close)?;
            break;
        }
    }
    for (name, said) in [("WAL", wal), ("TIMING", timing == Some(true))] {
        if said && !options.analyze {
            return Err(SqlError::new(
                SqlState::INVALID_PARAMETER_VALUE,
                format!("EXPLAIN option {name} requires ANALYZE"),
            ));
        }
    }
    Ok(())
}

fn format(value: Option<&str>) -> Result<ExplainFormat, SqlError> {
    Ok(match value {
        Some("text") => ExplainFormat::Text,
        Some("json") => ExplainFormat::Json,
        Some("xml") => ExplainFormat::Xml,
        Some("yaml") => ExplainFormat::Yaml,
        Some(other) => {
            return Err(SqlError::new(
                SqlState::INVALID_PARAMETER_VALUE,
                format!("unrecognized value for EXPLAIN option \"format\": \"{other}\""),
            ));
        }
        None => {
            return Err(SqlError::new(
                SqlState::SYNTAX_ERROR,
                "format requires a parameter",
            ));
        }
    })
}

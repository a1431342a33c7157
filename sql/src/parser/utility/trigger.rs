//! CREATE, ALTER and DROP TRIGGER, COMMENT ON TRIGGER.

use super::super::Statement;
use super::super::cursor::Cursor;
use super::super::lexer::Kind;
use super::super::trigger::{ConstraintSyntax, CreateTrigger, TriggerAction, TriggerSyntax};
use crate::catalog::{Event, Events, Timing};
use crate::error::{SqlError, SqlState};

/// Parses the statement after CREATE, ALTER, DROP or COMMENT, if it concerns triggers.
pub(super) fn parse(word: &str, c: &mut Cursor<'_>) -> Result<Option<Statement>, SqlError> {
    let syntax = match word {
        "create" => {
            let or_replace = c.sees_all(&["or", "replace", "trigger"])
                || c.sees_all(&["or", "replace", "constraint", "trigger"]);
            let constraint = c.sees_all(&["constraint", "trigger"]);
            if !or_replace && !constraint && !c.sees("trigger") {
                return Ok(None);
            }
            create(c)?
        }
        "drop" if c.accept("trigger") => {
            let if_exists = c.accept_all(&["if", "exists"]);
            let syntax = named(c, TriggerAction::Drop { if_exists })?;
            if !c.accept("cascade") {
                c.accept("restrict");
            }
            syntax
        }
        "alter" if c.accept("trigger") => {
            let mut syntax = named(c, TriggerAction::Rename(String::new()))?;
            if c.sees("depends") || c.sees("no") {
                return Err(SqlError::unsupported(
                    "ALTER TRIGGER … DEPENDS ON EXTENSION",
                ));
            }
            c.expect("rename")?;
            c.expect("to")?;
            syntax.does = TriggerAction::Rename(c.identifier()?);
            syntax
        }
        "comment" if c.accept_all(&["on", "trigger"]) => {
            let mut syntax = named(c, TriggerAction::Comment(None))?;
            c.expect("is")?;
            if !c.accept("null") {
                // An empty comment removes the comment.
                let text = Some(c.string()?).filter(|text| !text.is_empty());
                syntax.does = TriggerAction::Comment(text);
            }
            syntax
        }
        _ => return Ok(None),
    };
    c.end()?;
    Ok(Some(Statement::Trigger(Box::new(syntax))))
}

/// Reads `name ON table`.
fn named(c: &mut Cursor<'_>, does: TriggerAction) -> Result<TriggerSyntax, SqlError> {
    let name = c.identifier()?;
    c.expect("on")?;
    let (schema, table) = c.qualified()?;
    Ok(TriggerSyntax {
        name,
        schema,
        table,
        does,
    })
}

fn create(c: &mut Cursor<'_>) -> Result<TriggerSyntax, SqlError> {
    let or_replace = c.accept_all(&["or", "replace"]);
    let is_constraint = c.accept("constraint");
    c.expect("trigger")?;
    let name = c.identifier()?;
    let timing = match () {
        () if c.accept("after") => Timing::After,
        () if is_constraint => return Err(c.unexpected()),
        () if c.accept("before") => Timing::Before,
        () if c.accept_all(&["instead", "of"]) => Timing::Instead,
        () => return Err(c.unexpected()),
    };
    let (mut events, mut columns) = (Events::default(), Vec::new());
    loop {
        if !events.add(event(c, &mut columns)?) {
            return Err(SqlError::new(
                SqlState::SYNTAX_ERROR,
                "duplicate trigger events specified",
            ));
        }
        if !c.accept("or") {
            break;
        }
    }
    c.expect("on")?;
    let (schema, table) = c.qualified()?;
    let constraint = match is_constraint {
        true => Some(constraint(c)?),
        false => None,
    };
    let transition = match !is_constraint && c.accept("referencing") {
        true => transition(c)?,
        false => [None, None],
    };
    let mut row = false;
    if c.accept("for") {
        c.accept("each");
        row = c.accept("row");
        if !row {
            c.expect("statement")?;
        }
    }
    if is_constraint && !row {
        return Err(c.unexpected());
    }
    let mut condition = None;
    if c.accept("when") {
        let (start, end) = c.bracketed()?;
        condition = c.sql.get(start..end).map(|text| text.trim().to_owned());
    }
    c.expect("execute")?;
    if !c.accept("function") {
        c.expect("procedure")?;
    }
    let function = c.qualified()?;
    let args = arguments(c)?;
    Ok(TriggerSyntax {
        name,
        schema,
        table,
        does: TriggerAction::Create(Box::new(CreateTrigger {
            or_replace,
            constraint,
            timing,
            events,
            columns,
            row,
            transition,
            condition,
            function,
            args,
        })),
    })
}

/// Reads an event; the columns of UPDATE OF are added to `columns`.
fn event(c: &mut Cursor<'_>, columns: &mut Vec<String>) -> Result<Event, SqlError> {
    let all = Event::ALL.into_iter();
    let found = all.into_iter().find(|event| c.accept(event.written()));
    let event = found.ok_or_else(|| c.unexpected())?;
    if event == Event::Update && c.accept("of") {
        columns.push(c.identifier()?);
        while c.accept_kind(Kind::Comma).is_some() {
            columns.push(c.identifier()?);
        }
    }
    Ok(event)
}

/// Reads REFERENCING items: `{ OLD | NEW } TABLE [AS] name …`.
fn transition(c: &mut Cursor<'_>) -> Result<[Option<String>; 2], SqlError> {
    let mut names = [None, None];
    while c.sees("old") || c.sees("new") {
        let new = c.accept("new");
        if !new {
            c.expect("old")?;
        }
        if c.accept("row") {
            return Err(SqlError::new(
                SqlState::FEATURE_NOT_SUPPORTED,
                "ROW variable naming in the REFERENCING clause is not supported",
            )
            .hint("Use OLD TABLE or NEW TABLE for naming transition tables."));
        }
        c.expect("table")?;
        c.accept("as");
        if names[usize::from(new)].replace(c.identifier()?).is_some() {
            let which = if new { "NEW" } else { "OLD" };
            let message = format!("{which} TABLE cannot be specified multiple times");
            return Err(SqlError::new(SqlState::INVALID_OBJECT_DEFINITION, message));
        }
    }
    match names.iter().any(Option::is_some) {
        true => Ok(names),
        false => Err(c.unexpected()),
    }
}

/// Reads `[FROM table] [[NOT] DEFERRABLE] [INITIALLY IMMEDIATE | DEFERRED]`.
fn constraint(c: &mut Cursor<'_>) -> Result<ConstraintSyntax, SqlError> {
    let mut constraint = ConstraintSyntax::default();
    if c.accept("from") {
        constraint.from = Some(c.qualified()?);
    }
    let mut never = false;
    loop {
        if c.accept_all(&["not", "deferrable"]) {
            never = true;
        } else if c.accept("deferrable") {
            constraint.deferrable = true;
        } else if c.accept_all(&["initially", "immediate"]) {
            constraint.deferred = false;
        } else if c.accept_all(&["initially", "deferred"]) {
            (constraint.deferrable, constraint.deferred) = (true, true);
        } else {
            break;
        }
    }
    if never && constraint.deferrable {
        return Err(SqlError::new(
            SqlState::SYNTAX_ERROR,
            "constraint declared INITIALLY DEFERRED must be DEFERRABLE",
        ));
    }
    Ok(constraint)
}

/// Reads the arguments of the trigger function: `(literal or name, …)`.
fn arguments(c: &mut Cursor<'_>) -> Result<Vec<String>, SqlError> {
    c.expect_kind(Kind::Open)?;
    let mut args = Vec::new();
    if c.accept_kind(Kind::Close).is_some() {
        return Ok(args);
    }
    loop {
        args.push(match c.peek().map(|t| (t.kind, t)) {
            Some((Kind::Integer | Kind::Decimal, token)) => {
                c.next_token();
                token.text(c.sql).to_owned()
            }
            Some((Kind::String | Kind::OtherString, _)) => c.string()?,
            _ => c.identifier()?,
        });
        if c.accept_kind(Kind::Comma).is_none() {
            break;
        }
    }
    c.expect_kind(Kind::Close)?;
    Ok(args)
}

//! DECLARE, FETCH and MOVE.

use super::super::cursor::Cursor;
use super::super::lexer::{self, Kind};
use super::super::{Statement, parse_one};
use crate::bound::{self, CursorOptions, Direction, Fetch};
use crate::error::{SqlError, SqlState};

/// Parses `DECLARE name [BINARY] [INSENSITIVE | ASENSITIVE] [[NO] SCROLL] CURSOR [WITH HOLD |
/// WITHOUT HOLD] FOR query`.
pub(super) fn declare(c: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    let name = c.identifier()?;
    let options = options(c)?;
    c.expect("for")?;
    let starts = ["select", "values", "with", "table"];
    let is_query = starts.iter().any(|word| c.sees(word));
    if !is_query && c.peek().is_none_or(|t| t.kind != Kind::Open) {
        return Err(c.unexpected());
    }
    let text = c.rest_in_place();
    let query = parse_one(&text, &lexer::tokens(&text)?)?;
    Ok(Statement::Declare {
        name,
        options,
        query: Box::new(query),
    })
}

fn options(c: &mut Cursor<'_>) -> Result<CursorOptions, SqlError> {
    let mut options = CursorOptions::default();
    let mut asensitive = false;
    loop {
        if c.accept("binary") {
            options.binary = true;
        } else if c.accept("insensitive") {
            options.insensitive = true;
        } else if c.accept("asensitive") {
            asensitive = true;
        } else if c.sees("scroll") || c.sees_all(&["no", "scroll"]) {
            let scroll = !c.accept("no");
            c.expect("scroll")?;
            if options.scroll.is_some_and(|other| other != scroll) {
                return Err(both("SCROLL", "NO SCROLL"));
            }
            options.scroll = Some(scroll);
        } else {
            break;
        }
    }
    if options.insensitive && asensitive {
        return Err(both("INSENSITIVE", "ASENSITIVE"));
    }
    c.expect("cursor")?;
    if c.accept_all(&["with", "hold"]) {
        options.hold = true;
    } else {
        c.accept_all(&["without", "hold"]);
    }
    Ok(options)
}

/// Returns error 42P11 for two incompatible options.
fn both(one: &str, other: &str) -> SqlError {
    SqlError::new(
        SqlState::INVALID_CURSOR_DEFINITION,
        format!("cannot specify both {one} and {other}"),
    )
}

/// Parses `FETCH [direction] [FROM | IN] name`.
pub(super) fn fetch(c: &mut Cursor<'_>, moves: bool) -> Result<bound::Statement, SqlError> {
    let direction = direction(c)?;
    if !c.accept("from") {
        c.accept("in");
    }
    let name = c.identifier()?;
    Ok(bound::Statement::Fetch(Fetch {
        name,
        direction,
        moves,
    }))
}

fn direction(c: &mut Cursor<'_>) -> Result<Direction, SqlError> {
    if c.is_last() {
        // The cursor can have any of these words as its name.
        return Ok(Direction::Forward(1));
    }
    let plain = [
        ("next", Direction::Forward(1)),
        ("prior", Direction::Forward(-1)),
        ("first", Direction::Absolute(1)),
        ("last", Direction::Absolute(-1)),
        ("all", Direction::ForwardAll),
    ];
    for (word, direction) in plain {
        if c.accept(word) {
            return Ok(direction);
        }
    }
    if c.accept("absolute") {
        return Ok(Direction::Absolute(required(c)?));
    }
    if c.accept("relative") {
        return Ok(Direction::Relative(required(c)?));
    }
    if c.accept("forward") {
        return Ok(match c.accept("all") {
            true => Direction::ForwardAll,
            false => Direction::Forward(count(c)?.unwrap_or(1)),
        });
    }
    if c.accept("backward") {
        return Ok(match c.accept("all") {
            true => Direction::BackwardAll,
            false => Direction::Forward(-count(c)?.unwrap_or(1)),
        });
    }
    Ok(Direction::Forward(count(c)?.unwrap_or(1)))
}

fn required(c: &mut Cursor<'_>) -> Result<i64, SqlError> {
    count(c)?.ok_or_else(|| c.unexpected())
}

/// Reads an integer with an optional sign, if there is one.
fn count(c: &mut Cursor<'_>) -> Result<Option<i64>, SqlError> {
    let negative = c.accept_operator("-");
    let signed = negative || c.accept_operator("+");
    let token = match signed {
        true => Some(c.expect_kind(Kind::Integer)?),
        false => c.accept_kind(Kind::Integer),
    };
    let Some(token) = token else {
        return Ok(None);
    };
    let number: i32 = token
        .text(c.sql)
        .parse()
        .map_err(|_| lexer::syntax_error(c.sql, Some(token)))?;
    let number = i64::from(number);
    Ok(Some(if negative { -number } else { number }))
}

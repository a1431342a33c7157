//! CREATE, ALTER and DROP of functions and procedures, CALL and DO.

use sqlparser::ast;

use super::super::cursor::Cursor;
use super::super::lexer::{self, Kind, Token};
use super::super::routine::{
    AlterRoutine, ArgSyntax, Attributes, Body, CreateRoutine, DropRoutine, ReturnsSyntax,
    RoutineChange, RoutineName, RoutineSyntax, TypeSyntax,
};
use super::super::{Statement, syntax};
use super::database::setting;
use crate::bound;
use crate::bound::Volatility;
use crate::catalog::{ArgMode, Parallel, RoutineKind};
use crate::error::{SqlError, SqlState};

/// Parses the statement after CREATE, ALTER or DROP, if it concerns routines.
pub(super) fn parse(word: &str, c: &mut Cursor<'_>) -> Result<Option<Statement>, SqlError> {
    let replace = word == "create" && c.sees_all(&["or", "replace"]);
    let kinds = ["function", "procedure", "routine"];
    let seen = |kind: &&str| match replace {
        true => c.sees_all(&["or", "replace", kind]),
        false => c.sees(kind),
    };
    let Some(found) = kinds.iter().find(|kind| seen(kind)) else {
        return Ok(None);
    };
    let kind = match *found {
        "function" => Some(RoutineKind::Function),
        "procedure" => Some(RoutineKind::Procedure),
        _ => None,
    };
    if replace {
        c.accept_all(&["or", "replace"]);
    }
    c.next_token();
    let syntax = match (word, kind) {
        ("create", Some(kind)) => create(c, kind, replace)?,
        ("create", None) => return Err(c.unexpected()),
        ("drop", kind) => drop(c, kind)?,
        (_, kind) => alter(c, kind)?,
    };
    c.end()?;
    Ok(Some(Statement::Routine(Box::new(syntax))))
}

/// Parses a CALL after its first word.
pub(super) fn call(c: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    let rest = c.rest();
    let shift = c
        .peek()
        .map_or(0, |t| lexer::position(c.sql, t.start).saturating_sub(1));
    let tokens = lexer::tokens(rest)?;
    let expr = syntax::expression(rest, &tokens).map_err(|e| super::super::shifted(e, shift))?;
    match expr {
        ast::Expr::Function(function) => {
            Ok(Statement::Routine(Box::new(RoutineSyntax::Call(function))))
        }
        _ => Err(c.unexpected()),
    }
}

/// Parses a DO after its first word.
pub(super) fn anonymous(c: &mut Cursor<'_>) -> Result<bound::Statement, SqlError> {
    let (mut language, mut body) = (None, None);
    while c.peek().is_some() {
        if c.accept("language") {
            language = Some(language_name(c)?);
        } else {
            body = Some(c.string()?);
        }
    }
    let body =
        body.ok_or_else(|| SqlError::new(SqlState::SYNTAX_ERROR, "no inline code specified"))?;
    match language.as_deref() {
        None | Some("plpgsql") => Ok(bound::Statement::Do(body)),
        Some("sql") => Err(SqlError::new(
            SqlState::FEATURE_NOT_SUPPORTED,
            "language \"sql\" does not support inline code execution",
        )),
        Some(other) => Err(no_language(other)),
    }
}

/// Returns error 42704 for an unknown language.
fn no_language(name: &str) -> SqlError {
    SqlError::new(
        SqlState::UNDEFINED_OBJECT,
        format!("language \"{name}\" does not exist"),
    )
}

fn language_name(c: &mut Cursor<'_>) -> Result<String, SqlError> {
    match c.peek().map(|t| t.kind) {
        Some(Kind::String) => Ok(c.string()?.to_ascii_lowercase()),
        _ => c.identifier(),
    }
}

fn create(
    c: &mut Cursor<'_>,
    kind: RoutineKind,
    or_replace: bool,
) -> Result<RoutineSyntax, SqlError> {
    let (schema, name) = c.qualified()?;
    let args = arguments(c)?;
    let mut create = CreateRoutine {
        or_replace,
        kind,
        schema,
        name,
        args,
        returns: None,
        language: None,
        attributes: Attributes::default(),
        settings: Vec::new(),
        body: None,
    };
    if c.sees("returns") && !c.sees_all(&["returns", "null"]) {
        if kind == RoutineKind::Procedure {
            return Err(c.unexpected());
        }
        c.next_token();
        create.returns = Some(match c.accept("table") {
            true => ReturnsSyntax::Table(arguments(c)?),
            false => ReturnsSyntax::Type(type_until(c, &is_option)?),
        });
    }
    while c.peek().is_some() {
        option(c, &mut create)?;
    }
    Ok(RoutineSyntax::Create(create))
}

/// Returns whether a token begins an option of CREATE FUNCTION and therefore ends a type.
fn is_option(sql: &str, token: &Token) -> bool {
    const OPTIONS: [&str; 21] = [
        "language",
        "immutable",
        "stable",
        "volatile",
        "not",
        "leakproof",
        "called",
        "returns",
        "strict",
        "external",
        "security",
        "parallel",
        "cost",
        "rows",
        "support",
        "set",
        "window",
        "transform",
        "as",
        "return",
        "begin",
    ];
    OPTIONS.iter().any(|word| token.is(sql, word))
}

fn once<T>(place: &mut Option<T>, value: T) -> Result<(), SqlError> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(SqlError::new(
            SqlState::SYNTAX_ERROR,
            "conflicting or redundant options",
        )),
    }
}

fn option(c: &mut Cursor<'_>, create: &mut CreateRoutine) -> Result<(), SqlError> {
    if attribute(c, create.kind, &mut create.attributes)? {
        return Ok(());
    }
    if c.accept("language") {
        return once(&mut create.language, language_name(c)?);
    }
    if c.accept("as") {
        let text = c.string()?;
        if c.accept_kind(Kind::Comma).is_some() {
            return Err(SqlError::unsupported("a function in a file of objects"));
        }
        return once(&mut create.body, Body::Text(text));
    }
    if c.sees("return") || c.sees_all(&["begin", "atomic"]) {
        let text = c.rest().to_owned();
        while c.next_token().is_some() {}
        return once(&mut create.body, Body::Sql(text));
    }
    if c.sees("set") {
        create.settings.extend(setting(c)?);
        return Ok(());
    }
    for what in ["window", "transform"] {
        if c.sees(what) {
            let what = format!("{} of a function", what.to_ascii_uppercase());
            return Err(SqlError::unsupported(what));
        }
    }
    Err(c.unexpected())
}

/// Reads an attribute that CREATE and ALTER share; returns false if there is none.
fn attribute(c: &mut Cursor<'_>, kind: RoutineKind, to: &mut Attributes) -> Result<bool, SqlError> {
    if c.accept_all(&["external", "security"]) || c.accept("security") {
        let says = c.accept("definer");
        if !says {
            c.expect("invoker")?;
        }
        once(&mut to.definer, says)?;
        return Ok(true);
    }
    if c.accept("immutable") {
        once(&mut to.volatility, Volatility::Immutable)?;
    } else if c.accept("stable") {
        once(&mut to.volatility, Volatility::Stable)?;
    } else if c.accept("volatile") {
        once(&mut to.volatility, Volatility::Volatile)?;
    } else if c.accept("strict") || c.accept_all(&["returns", "null", "on", "null", "input"]) {
        once(&mut to.strict, true)?;
    } else if c.accept_all(&["called", "on", "null", "input"]) {
        once(&mut to.strict, false)?;
    } else if c.accept("leakproof") {
        once(&mut to.leakproof, true)?;
    } else if c.accept_all(&["not", "leakproof"]) {
        once(&mut to.leakproof, false)?;
    } else if c.accept("parallel") {
        let word = c.identifier()?;
        let parallel = Parallel::of(&word).ok_or_else(|| {
            SqlError::new(
                SqlState::SYNTAX_ERROR,
                "parameter \"parallel\" must be SAFE, RESTRICTED, or UNSAFE",
            )
        })?;
        once(&mut to.parallel, parallel)?;
    } else if c.accept("cost") {
        once(&mut to.cost, positive(c, "COST")?)?;
    } else if c.accept("rows") {
        once(&mut to.rows, positive(c, "ROWS")?)?;
    } else if c.sees("support") {
        return Err(SqlError::unsupported("SUPPORT of a function"));
    } else {
        return Ok(false);
    }
    match kind {
        RoutineKind::Function => Ok(true),
        RoutineKind::Procedure => Err(SqlError::new(
            SqlState::new(b"42P13"),
            "invalid attribute in procedure definition",
        )),
    }
}

/// Reads a number that must be positive.
fn positive(c: &mut Cursor<'_>, what: &str) -> Result<f32, SqlError> {
    let negative = c.accept_operator("-");
    if !negative {
        c.accept_operator("+");
    }
    let token = match c.accept_kind(Kind::Integer) {
        Some(token) => token,
        None => c.expect_kind(Kind::Decimal)?,
    };
    let number: f32 = token.text(c.sql).parse().unwrap_or(f32::INFINITY);
    match number > 0.0 && !negative {
        true => Ok(number),
        false => Err(SqlError::new(
            SqlState::INVALID_PARAMETER_VALUE,
            format!("{what} must be positive"),
        )),
    }
}

/// Reads `(argument, …)`.
fn arguments(c: &mut Cursor<'_>) -> Result<Vec<ArgSyntax>, SqlError> {
    c.expect_kind(Kind::Open)?;
    let mut args = Vec::new();
    if c.accept_kind(Kind::Close).is_some() {
        return Ok(args);
    }
    loop {
        args.push(argument(c)?);
        if c.accept_kind(Kind::Comma).is_none() {
            c.expect_kind(Kind::Close)?;
            return Ok(args);
        }
    }
}

fn mode(c: &mut Cursor<'_>) -> Option<ArgMode> {
    Some(if c.accept("inout") || c.accept_all(&["in", "out"]) {
        ArgMode::InOut
    } else if c.accept("in") {
        ArgMode::In
    } else if c.accept("out") {
        ArgMode::Out
    } else if c.accept("variadic") {
        ArgMode::Variadic
    } else {
        return None;
    })
}

fn argument(c: &mut Cursor<'_>) -> Result<ArgSyntax, SqlError> {
    let mut given = mode(c);
    let mut name = String::new();
    if has_name(c) {
        name = c.identifier()?;
        if given.is_none() {
            given = mode(c);
        }
    }
    let ends = |sql: &str, token: &Token| {
        matches!(token.kind, Kind::Comma | Kind::Close)
            || token.is(sql, "default")
            || is_assignment(sql, token)
    };
    let ty = type_until(c, &ends)?;
    let mut default = None;
    let begins = c.peek().is_some_and(|t| is_assignment(c.sql, &t));
    if begins || c.sees("default") {
        c.next_token();
        let text = c.text_until(&|_, token| matches!(token.kind, Kind::Comma | Kind::Close));
        if text.is_empty() {
            return Err(c.unexpected());
        }
        default = Some(text.to_owned());
    }
    Ok(ArgSyntax {
        name,
        mode: given.unwrap_or(ArgMode::In),
        ty,
        default,
    })
}

fn is_assignment(sql: &str, token: &Token) -> bool {
    token.kind == Kind::Operator && token.text(sql) == "="
}

/// Returns whether a name precedes the type.
fn has_name(c: &Cursor<'_>) -> bool {
    let Some(first) = c.peek() else {
        return false;
    };
    let Some(second) = c.peek_after(1) else {
        return false;
    };
    if !matches!(second.kind, Kind::Word | Kind::QuotedIdent) {
        return false;
    }
    if first.kind == Kind::QuotedIdent {
        return true;
    }
    if first.kind != Kind::Word || second.is(c.sql, "default") {
        return false;
    }
    // The first words of type names of several words.
    const FIRST: [&str; 8] = [
        "double",
        "character",
        "char",
        "national",
        "bit",
        "time",
        "timestamp",
        "interval",
    ];
    const SECOND: [&str; 13] = [
        "precision",
        "varying",
        "character",
        "char",
        "with",
        "without",
        "year",
        "month",
        "day",
        "hour",
        "minute",
        "second",
        "array",
    ];
    let of_type = FIRST.iter().any(|w| first.is(c.sql, w)) || second.is(c.sql, "array");
    let setof = first.is(c.sql, "setof");
    let goes_on = of_type && SECOND.iter().any(|w| second.is(c.sql, w));
    !setof && !goes_on
}

/// Reads a type up to a token that `ends` accepts.
fn type_until(
    c: &mut Cursor<'_>,
    ends: &dyn Fn(&str, &Token) -> bool,
) -> Result<TypeSyntax, SqlError> {
    let start = c.peek();
    let set = c.accept("setof");
    let text = c.text_until(ends);
    if text.is_empty() {
        return Err(c.unexpected());
    }
    TypeSyntax::parse(text, set).map_err(|e| match start {
        Some(token) => {
            let position = lexer::position(c.sql, token.start);
            e.at(position)
        }
        None => e,
    })
}

pub(super) fn routine_name(c: &mut Cursor<'_>) -> Result<RoutineName, SqlError> {
    let (schema, name) = c.qualified()?;
    let args = match c.peek().is_some_and(|t| t.kind == Kind::Open) {
        true => Some(arguments(c)?),
        false => None,
    };
    Ok(RoutineName { schema, name, args })
}

fn drop(c: &mut Cursor<'_>, kind: Option<RoutineKind>) -> Result<RoutineSyntax, SqlError> {
    let if_exists = c.accept_all(&["if", "exists"]);
    let mut routines = vec![routine_name(c)?];
    while c.accept_kind(Kind::Comma).is_some() {
        routines.push(routine_name(c)?);
    }
    let cascade = c.accept("cascade");
    if !cascade {
        c.accept("restrict");
    }
    Ok(RoutineSyntax::Drop(DropRoutine {
        kind,
        if_exists,
        routines,
        cascade,
    }))
}

fn alter(c: &mut Cursor<'_>, kind: Option<RoutineKind>) -> Result<RoutineSyntax, SqlError> {
    let routine = routine_name(c)?;
    let change = if c.accept_all(&["rename", "to"]) {
        RoutineChange::Rename(c.identifier()?)
    } else if c.accept_all(&["set", "schema"]) {
        RoutineChange::Schema(c.identifier()?)
    } else if c.sees("depends") || c.sees("no") {
        return Err(SqlError::unsupported("this form of ALTER FUNCTION"));
    } else {
        let mut attributes = Attributes::default();
        let mut settings = Vec::new();
        let mut any = false;
        let of = kind.unwrap_or(RoutineKind::Function);
        loop {
            if let Some(change) = setting(c)? {
                settings.push(change);
            } else if !attribute(c, of, &mut attributes)? {
                break;
            }
            any = true;
        }
        if !any {
            return Err(c.unexpected());
        }
        c.accept("restrict");
        RoutineChange::Attributes {
            attributes,
            settings,
        }
    };
    Ok(RoutineSyntax::Alter(AlterRoutine {
        kind,
        routine,
        change,
    }))
}

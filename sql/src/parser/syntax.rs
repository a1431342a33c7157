//! The statements that sqlparser reads, and its errors in PostgreSQL's words.

use std::borrow::Cow;
use std::ops::Range;

use sqlparser::ast;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::Token as SqlToken;

use super::depth::too_deep;
use super::dialect::Postgres;
use super::lexer::{Kind, Token, syntax_error};
use super::{Statement, column_list, identity, partition, position_of};
use crate::error::{SqlError, SqlState};

/// Brackets are limited before (`depth`); this is for what recurses without them.
const RECURSION_MAX: usize = 300;

static DIALECT: Postgres = Postgres;

pub(super) fn statement(text: &str, tokens: &[Token]) -> Result<Statement, SqlError> {
    let mut patched = patch(text, tokens);
    let clause = partition::clause(text, tokens);
    if let Some((clause, _)) = &clause {
        patched = Cow::Owned(partition::without(&patched, clause.clone()));
    }
    let mut parser = parser(&patched, text, tokens)?;
    let mut parsed = parser
        .parse_statement()
        .map_err(|e| refused(e, text, tokens))?;
    finished(&mut parser, text, tokens)?;
    if let (Some((_, by)), ast::Statement::CreateTable(create)) = (clause, &mut parsed) {
        create.partition_by = Some(Box::new(partition_by(text, by, tokens)?));
    }
    Ok(Statement::Sql(Box::new(parsed)))
}

fn partition_by(text: &str, by: Range<usize>, tokens: &[Token]) -> Result<ast::Expr, SqlError> {
    let alone = partition::only(text, by);
    let mut parser = parser(&alone, text, tokens)?;
    let parsed = parser
        .parse_expr()
        .map_err(|e| syntax_fault(e, text, tokens))?;
    finished(&mut parser, text, tokens)?;
    Ok(parsed)
}

pub(super) fn query(text: &str, tokens: &[Token]) -> Result<Box<ast::Query>, SqlError> {
    let patched = patch(text, tokens);
    let mut parser = parser(&patched, text, tokens)?;
    let parsed = parser
        .parse_query()
        .map_err(|e| syntax_fault(e, text, tokens))?;
    finished(&mut parser, text, tokens)?;
    Ok(parsed)
}

pub(super) fn expression(text: &str, tokens: &[Token]) -> Result<ast::Expr, SqlError> {
    let mut parser = parser(text, text, tokens)?;
    let parsed = parser
        .parse_expr()
        .map_err(|e| syntax_fault(e, text, tokens))?;
    finished(&mut parser, text, tokens)?;
    Ok(parsed)
}

pub(super) fn data_type(text: &str, tokens: &[Token]) -> Result<ast::DataType, SqlError> {
    let mut parser = parser(text, text, tokens)?;
    let parsed = parser
        .parse_data_type()
        .map_err(|e| syntax_fault(e, text, tokens))?;
    finished(&mut parser, text, tokens)?;
    Ok(parsed)
}

fn parser(patched: &str, text: &str, tokens: &[Token]) -> Result<Parser<'static>, SqlError> {
    Parser::new(&DIALECT)
        .with_recursion_limit(RECURSION_MAX)
        .try_with_sql(patched)
        .map_err(|e| syntax_fault(e, text, tokens))
}

/// 42601 unless the parser has read all.
fn finished(parser: &mut Parser<'_>, text: &str, tokens: &[Token]) -> Result<(), SqlError> {
    let next = parser.peek_token();
    if next.token == SqlToken::EOF {
        return Ok(());
    }
    let start = next.span.start;
    Err(at_location(text, tokens, start.line, start.column))
}

/// Blanks out words that change nothing here and that sqlparser does not know; positions stay.
fn patch<'a>(text: &'a str, tokens: &[Token]) -> Cow<'a, str> {
    let is = |i: usize, word: &str| tokens.get(i).is_some_and(|t: &Token| t.is(text, word));
    let mut blanked: Vec<Token> = Vec::new();
    if is(0, "create") && is(1, "unlogged") {
        blanked.push(tokens[1]);
    }
    if is(1, "index") && is(2, "concurrently") && is(0, "drop") {
        blanked.push(tokens[2]);
    }
    if let Some(list) = column_list::brackets(text, tokens) {
        blanked.extend(&tokens[list]);
    }
    for options in identity::brackets(text, tokens) {
        blanked.extend(&tokens[options]);
    }
    if let Some((i, _)) = overriding_at(text, tokens) {
        blanked.extend(&tokens[i..i + 3]);
    }
    for i in 0..tokens.len() {
        if !is(i, "for") {
            continue;
        }
        if is(i + 1, "no") && is(i + 2, "key") && is(i + 3, "update") {
            blanked.extend([tokens[i + 1], tokens[i + 2]]);
        } else if is(i + 1, "key") && is(i + 2, "share") {
            blanked.push(tokens[i + 1]);
        }
    }
    if blanked.is_empty() {
        return Cow::Borrowed(text);
    }
    let mut patched = text.to_owned();
    for token in blanked {
        patched.replace_range(token.start..token.end, &" ".repeat(token.end - token.start));
    }
    Cow::Owned(patched)
}

/// Where `OVERRIDING SYSTEM VALUE` is, and whether it is that and not USER.
pub(super) fn overriding_at(text: &str, tokens: &[Token]) -> Option<(usize, bool)> {
    let is = |i: usize, word: &str| tokens.get(i).is_some_and(|t: &Token| t.is(text, word));
    (0..tokens.len()).find_map(|i| {
        let said = is(i, "overriding") && is(i + 2, "value");
        match said {
            true if is(i + 1, "system") => Some((i, true)),
            true if is(i + 1, "user") => Some((i, false)),
            _ => None,
        }
    })
}

/// Statements of PostgreSQL that we do not have, by their first words.
const COMMANDS: [&str; 14] = [
    "alter", "call", "cluster", "comment", "create", "drop", "grant", "import", "merge",
    "reassign", "refresh", "revoke", "security", "with",
];

/// What to say of a statement that sqlparser refuses: a command we do not have is 0A000.
fn refused(error: ParserError, text: &str, tokens: &[Token]) -> SqlError {
    let word = |i: usize| {
        tokens
            .get(i)
            .filter(|t| t.kind == Kind::Word)
            .map(|t| t.text(text).to_ascii_uppercase())
            .unwrap_or_default()
    };
    let (first, second) = (word(0), word(1));
    let ours = matches!(
        second.as_str(),
        "TABLE" | "INDEX" | "UNIQUE" | "UNLOGGED" | "TEMP" | "TEMPORARY" | ""
    );
    let known = COMMANDS
        .iter()
        .any(|c| c.eq_ignore_ascii_case(&first) && first != "WITH");
    if known && !ours && !matches!(error, ParserError::RecursionLimitExceeded) {
        return SqlError::unsupported(format!("{first} {second}"));
    }
    syntax_fault(error, text, tokens)
}

fn syntax_fault(error: ParserError, text: &str, tokens: &[Token]) -> SqlError {
    let message = match error {
        ParserError::RecursionLimitExceeded => return too_deep(),
        ParserError::ParserError(message) | ParserError::TokenizerError(message) => message,
    };
    match location(&message) {
        Some((line, column)) => at_location(text, tokens, line, column),
        None if message.contains("found: EOF") => syntax_error(text, None),
        // sqlparser has parsed it and then found it wrong, without saying where.
        None => SqlError::new(SqlState::SYNTAX_ERROR, format!("syntax error: {message}")),
    }
}

/// `… at Line: 1, Column: 8`
fn location(message: &str) -> Option<(u64, u64)> {
    let (_, tail) = message.rsplit_once(" at Line: ")?;
    let (line, column) = tail.split_once(", Column: ")?;
    Some((line.parse().ok()?, column.parse().ok()?))
}

/// 42601 at the token at a line and column.
fn at_location(text: &str, tokens: &[Token], line: u64, column: u64) -> SqlError {
    let position = position_of(text, line, column);
    if position == 0 {
        return syntax_error(text, None);
    }
    let characters = position as usize - 1;
    let byte = text
        .char_indices()
        .nth(characters)
        .map_or(text.len(), |(i, _)| i);
    syntax_error(text, tokens.iter().find(|t| t.end > byte).copied())
}

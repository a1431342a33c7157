//! The statements that sqlparser parses, and its errors in PostgreSQL's wording.

use std::borrow::Cow;
use std::ops::Range;

use sqlparser::ast;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Token as SqlToken, Tokenizer};

use super::dialect::{EVERY_FIELD, Postgres};
use super::lexer::{Kind, Token, syntax_error};
use super::patch::{put, put_padded};
use super::retoken::retoken;
use super::{
    Statement, budget, column_list, column_types, current_of, exclusion, identity, included, lexer,
    like, materialized, merge, misplaced, nested_sets, no_inherit, no_targets, partition,
    position_of, recursive_view, regroup, rename, respelled, row_lock, rows_from, search_cycle,
    select_into, shown_forms, storage, storage_actions, subscripts, table_query, type_collation,
    unicode, using_alias, variadic, view,
};
use crate::error::{SqlError, SqlState};
use crate::stack::too_deep;
use crate::walk::TreeMut;

/// sqlparser's own depth limit. It is never reached, because `depth` has checked the tokens.
const RECURSION_MAX: usize = 1 << 30;

static NATURAL: Postgres = Postgres { nests_joins: false };
static OTHERS: Postgres = Postgres { nests_joins: true };

pub(super) fn statement(text: &str, tokens: &[Token]) -> Result<Statement, SqlError> {
    if let Some(plain) = recursive_view::plain(text, tokens)? {
        return statement(&plain, &lexer::tokens(&plain)?);
    }
    let patched = patch(text, tokens)?;
    let clause = partition::clause(text, tokens);
    let mut parser = parser(&patched, text, tokens)?;
    let mut parsed = parser
        .parse_statement()
        .map_err(|e| refused(e, text, tokens))?;
    finished(&mut parser, text, tokens).map_err(|error| match feature_of(text, tokens) {
        Some(feature) => SqlError::unsupported(feature),
        None => error,
    })?;
    if let (Some(clause), ast::Statement::CreateTable(create)) = (clause, &mut parsed) {
        let strategy = tokens[clause.start + 2].start..tokens[clause.end - 1].end;
        create.partition_by = Some(Box::new(partition_by(text, strategy, tokens)?));
    }
    finish(&mut parsed, text, tokens);
    Ok(Statement::Sql(Box::new(select_into::made(parsed))))
}

/// Parses a statement that is composed of parts of `text`. Its errors have positions in `text`.
pub(super) fn plain_statement(
    whole: &str,
    text: &str,
    tokens: &[Token],
) -> Result<ast::Statement, SqlError> {
    let mut parser = parser(whole, text, tokens)?;
    let mut parsed = parser
        .parse_statement()
        .map_err(|e| syntax_fault(e, text, tokens))?;
    finished(&mut parser, text, tokens)?;
    finish(&mut parsed, text, tokens);
    Ok(parsed)
}

fn partition_by(text: &str, by: Range<usize>, tokens: &[Token]) -> Result<ast::Expr, SqlError> {
    let alone = partition::only(text, by);
    let mut parser = parser(&alone, text, tokens)?;
    let mut parsed = parser
        .parse_expr()
        .map_err(|e| syntax_fault(e, text, tokens))?;
    finished(&mut parser, text, tokens)?;
    finish(&mut parsed, text, tokens);
    Ok(parsed)
}

pub(super) fn query(text: &str, tokens: &[Token]) -> Result<Box<ast::Query>, SqlError> {
    let patched = patch(text, tokens)?;
    let mut parser = parser(&patched, text, tokens)?;
    let mut parsed = parser
        .parse_query()
        .map_err(|e| syntax_fault(e, text, tokens))?;
    finished(&mut parser, text, tokens)?;
    finish(&mut *parsed, text, tokens);
    Ok(parsed)
}

pub(super) fn expression(text: &str, tokens: &[Token]) -> Result<ast::Expr, SqlError> {
    let patched = patch(text, tokens)?;
    let mut parser = parser(&patched, text, tokens)?;
    let mut parsed = parser
        .parse_expr()
        .map_err(|e| syntax_fault(e, text, tokens))?;
    finished(&mut parser, text, tokens)?;
    finish(&mut parsed, text, tokens);
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
    let natural = tokens.iter().any(|token| token.is(text, "natural"));
    let dialect = if natural { &NATURAL } else { &OTHERS };
    let read = Tokenizer::new(dialect, patched).tokenize_with_location();
    let read = read.map_err(|e| syntax_fault(e.into(), text, tokens))?;
    budget::grant(read.len());
    Ok(Parser::new(dialect)
        .with_recursion_limit(RECURSION_MAX)
        .with_tokens_with_locations(retoken(read)))
}

/// Checks that the parser has read the whole text.
///
/// # Errors
/// 42601 at the next token.
fn finished(parser: &mut Parser<'_>, text: &str, tokens: &[Token]) -> Result<(), SqlError> {
    let next = parser.peek_token();
    if next.token == SqlToken::EOF {
        return Ok(());
    }
    let start = next.span.start;
    Err(at_location(text, tokens, start.line, start.column))
}

/// Completes a tree from sqlparser with the constructs that it does not read.
fn finish(tree: &mut impl TreeMut, text: &str, tokens: &[Token]) {
    regroup::regroup(tree, text, tokens);
    no_targets::remove(tree, text, tokens);
    nested_sets::convert(tree, text, tokens);
    if !column_types::words(text, tokens).is_empty() {
        column_types::name(tree);
    }
    // Invalid clauses were rejected earlier.
    let clauses = search_cycle::clauses(text, tokens).unwrap_or_default();
    if !clauses.is_empty() {
        search_cycle::attach(tree, text, &clauses);
    }
}

/// Returns the offset of the `*` of each `(row).*`.
fn stars_of_rows(text: &str, tokens: &[Token]) -> impl Iterator<Item = usize> {
    tokens.windows(3).filter_map(move |three| {
        let is_star = matches!(three[0].kind, Kind::Close | Kind::Param)
            && three[1].kind == Kind::Dot
            && three[2].kind == Kind::Operator
            && three[2].text(text) == "*";
        is_star.then_some(three[2].start)
    })
}

/// Replaces the syntax that sqlparser does not read; positions stay the same.
fn patch<'a>(text: &'a str, tokens: &[Token]) -> Result<Cow<'a, str>, SqlError> {
    misplaced::check(text, tokens)?;
    let is = |i: usize, word: &str| tokens.get(i).is_some_and(|t: &Token| t.is(text, word));
    let mut blanked: Vec<Token> = Vec::new();
    if is(0, "create") && is(1, "unlogged") {
        blanked.push(tokens[1]);
    }
    if is(1, "index") && is(2, "concurrently") && is(0, "drop") {
        blanked.push(tokens[2]);
    }
    blanked.extend(rename::index_if_exists(text, tokens));
    blanked.extend(partition::index_only(text, tokens));
    if let Some(clause) = partition::clause(text, tokens) {
        blanked.extend(&tokens[clause]);
    }
    blanked.extend(storage_actions::places(text, tokens)?);
    if let Some((clause, _)) = materialized::data_clause_at(text, tokens) {
        blanked.extend(&tokens[clause]);
    }
    for clause in view::Clauses::of(text, tokens).ranges() {
        blanked.extend(&tokens[clause]);
    }
    for collation in type_collation::found(text, tokens) {
        blanked.extend(&tokens[collation.tokens]);
    }
    for clauses in search_cycle::clauses(text, tokens)? {
        blanked.extend(&tokens[clauses.tokens]);
    }
    for clause in included::clauses(text, tokens) {
        blanked.extend(&tokens[clause]);
    }
    let altered = materialized::altered(text, tokens);
    if let Some(list) = column_list::brackets(text, tokens) {
        blanked.extend(&tokens[list]);
    }
    for options in identity::brackets(text, tokens) {
        blanked.extend(&tokens[options]);
    }
    if let Some((i, _)) = overriding_at(text, tokens) {
        blanked.extend(&tokens[i..i + 3]);
    }
    let target = conflict_expressions_at(text, tokens);
    if let Some(range) = conflict_filter_at(text, tokens) {
        let within = tokens.iter().filter(|token| range.contains(&token.start));
        blanked.extend(within);
    }
    for i in 0..tokens.len() {
        if is(i, "only") && i > 0 && may_be_only(text, tokens[i - 1]) {
            blanked.push(tokens[i]);
            let bracket = |at: usize, kind: Kind| tokens.get(at).filter(|t| t.kind == kind);
            let close = (i + 3..i + 6).find_map(|at| bracket(at, Kind::Close));
            if let (Some(open), Some(close)) = (bracket(i + 1, Kind::Open), close) {
                blanked.extend([open, close]);
            }
        }
        if is_compared_row(text, tokens, i) {
            blanked.extend(&tokens[i + 1..i + 3]);
        }
    }
    let weak_locks = row_lock::clauses(text, tokens);
    let commas = locked_commas(text, tokens);
    let mut respelled = merge::patches(text, tokens);
    respelled.extend(respelled::words(text, tokens)?);
    let decoded = unicode::literals(text, tokens)?;
    let tables = table_query::tables(text, tokens)?;
    blanked.extend(shown_forms::words(text, tokens));
    let exclusions = exclusion::exclusions(text, tokens);
    let alike = like::elements(text, tokens);
    let current = current_of::words(text, tokens);
    let rows_from = rows_from::words(text, tokens)?;
    let unnamed = column_types::words(text, tokens);
    let variadics = variadic::words(text, tokens)?;
    let subscripted = subscripts::targets(text, tokens);
    let aliases = using_alias::aliases(text, tokens);
    let uninherited = no_inherit::found(text, tokens)?;
    let of_keys = storage::of_keys(text, tokens)?;
    let stars: Vec<usize> = stars_of_rows(text, tokens).collect();
    if blanked.is_empty()
        && commas.is_empty()
        && weak_locks.is_empty()
        && respelled.is_empty()
        && decoded.is_empty()
        && tables.is_empty()
        && exclusions.is_empty()
        && alike.is_empty()
        && current.is_empty()
        && rows_from.is_empty()
        && unnamed.is_empty()
        && variadics.is_empty()
        && subscripted.is_empty()
        && aliases.is_empty()
        && uninherited.is_empty()
        && of_keys.is_empty()
        && stars.is_empty()
        && target.is_none()
        && altered.is_none()
    {
        return Ok(Cow::Borrowed(text));
    }
    let mut patched = text.to_owned();
    like::apply(&mut patched, &alike);
    current_of::apply(&mut patched, &current);
    rows_from::apply(&mut patched, &rows_from);
    column_types::apply(&mut patched, &unnamed);
    variadic::apply(&mut patched, &variadics);
    using_alias::apply(&mut patched, &aliases);
    no_inherit::apply(&mut patched, &uninherited);
    storage::apply(&mut patched, text, tokens, &of_keys);
    for star in stars {
        put(
            &mut patched,
            star..star + 1,
            EVERY_FIELD.encode_utf8(&mut [0; 4]),
        );
    }
    if let Some([materialized, view]) = altered {
        put_padded(&mut patched, materialized.start..view.end, "TABLE");
    }
    if let Some(target) = target {
        // A column replaces the expressions, which are parsed separately.
        put_padded(&mut patched, target, "x");
    }
    let respelled = respelled
        .into_iter()
        .map(|(range, shorter)| (range, shorter.to_owned()));
    for (range, shorter) in respelled.chain(decoded) {
        put_padded(&mut patched, range, &shorter);
    }
    for table in &tables {
        put(&mut patched, table.start..table.end, "FROM ");
    }
    for comma in commas {
        put(&mut patched, comma.start..comma.end, ".");
    }
    for token in blanked {
        put_padded(&mut patched, token.start..token.end, "");
    }
    exclusion::apply(&mut patched, &exclusions);
    subscripts::apply(&mut patched, &subscripted);
    row_lock::apply(&mut patched, &weak_locks);
    if let Some(table) = tables
        .first()
        .filter(|table| table_query::is_inserted(text, tokens, table))
    {
        // FROM would be read as an alias here. Errors after the longer text have wrong positions.
        put(&mut patched, table.start..table.end, "SELECT * FROM");
    }
    Ok(Cow::Owned(patched))
}

/// Returns whether a `name.*` is compared or cast as a row; `name` alone means the same there.
fn is_compared_row(text: &str, tokens: &[Token], i: usize) -> bool {
    let is = |i: usize, word: &str| tokens.get(i).is_some_and(|t: &Token| t.is(text, word));
    let kind = |i: usize| tokens.get(i).map(|t: &Token| t.kind);
    let compares = |i: usize| {
        let token = tokens.get(i).filter(|t| t.kind == Kind::Operator);
        token.is_some_and(|t| ["=", "<>", "!=", "<", ">", "<=", ">="].contains(&t.text(text)))
    };
    let is_row = matches!(kind(i), Some(Kind::Word | Kind::QuotedIdent))
        && kind(i + 1) == Some(Kind::Dot)
        && tokens.get(i + 2).is_some_and(|t| t.text(text) == "*");
    let behind = || {
        let distinct = i >= 3 && is(i - 1, "from") && is(i - 2, "distinct");
        (distinct && (is(i - 3, "is") || is(i - 3, "not"))) || (i >= 1 && compares(i - 1))
    };
    let casts = kind(i + 3) == Some(Kind::Cast);
    is_row && (is(i + 3, "is") || compares(i + 3) || casts || behind())
}

/// Returns whether ONLY, which excludes descendant tables, can follow the token.
fn may_be_only(text: &str, before: Token) -> bool {
    let words = ["from", "join", "update", "using", "into", "truncate"];
    before.kind == Kind::Comma || words.iter().any(|word| before.is(text, word))
}

/// Returns the byte range between the parentheses after ON CONFLICT, if they contain more than
/// names and commas.
pub(super) fn conflict_expressions_at(text: &str, tokens: &[Token]) -> Option<Range<usize>> {
    let is = |i: usize, word: &str| tokens.get(i).is_some_and(|t: &Token| t.is(text, word));
    let open = (2..tokens.len())
        .find(|&i| is(i - 2, "on") && is(i - 1, "conflict") && tokens[i].kind == Kind::Open)?;
    let (mut depth, mut plain) = (1usize, true);
    let mut before = Kind::Comma;
    for token in &tokens[open + 1..] {
        match token.kind {
            Kind::Open => depth += 1,
            Kind::Close => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            let range = tokens[open].end..token.start;
            return (!plain && !range.is_empty()).then_some(range);
        }
        plain &= match token.kind {
            Kind::Word | Kind::QuotedIdent => before == Kind::Comma,
            kind => kind == Kind::Comma,
        };
        before = token.kind;
    }
    None
}

/// Returns the byte range of `WHERE …` after the columns of ON CONFLICT.
pub(super) fn conflict_filter_at(text: &str, tokens: &[Token]) -> Option<Range<usize>> {
    let is = |i: usize, word: &str| tokens.get(i).is_some_and(|t: &Token| t.is(text, word));
    let on = (0..tokens.len()).find(|&i| {
        is(i, "on")
            && is(i + 1, "conflict")
            && tokens.get(i + 2).is_some_and(|t| t.kind == Kind::Open)
    })?;
    let mut depth = 0usize;
    let mut from = None;
    for (i, token) in tokens.iter().enumerate().skip(on + 2) {
        match token.kind {
            Kind::Open => depth += 1,
            Kind::Close => depth = depth.saturating_sub(1),
            _ if depth > 0 => {}
            Kind::Word if from.is_none() => {
                if !is(i, "where") {
                    return None;
                }
                from = Some(token.start);
            }
            Kind::Word if is(i, "do") => return Some(from?..token.start),
            _ => {}
        }
    }
    None
}

/// Returns the commas between the names of `FOR UPDATE OF a, b`: sqlparser reads one name, which
/// can have dots.
fn locked_commas(text: &str, tokens: &[Token]) -> Vec<Token> {
    let is = |i: usize, word: &str| tokens.get(i).is_some_and(|t: &Token| t.is(text, word));
    let has = |i: usize, kind: Kind| tokens.get(i).is_some_and(|t: &Token| t.kind == kind);
    let mut commas = Vec::new();
    for i in 1..tokens.len() {
        let strength = is(i - 1, "update") || is(i - 1, "share");
        let mut before = i.saturating_sub(2);
        before -= usize::from(is(before, "key") && before > 0);
        before -= usize::from(is(before, "no") && before > 0);
        if is(i, "of") && strength && is(before, "for") {
            let mut at = i + 2;
            while has(at, Kind::Comma) {
                commas.push(tokens[at]);
                at += 2;
            }
        }
    }
    commas
}

/// Returns the position of OVERRIDING … VALUE, and true for SYSTEM, false for USER.
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

/// The first words of PostgreSQL statements that are not supported.
const COMMANDS: [&str; 13] = [
    "alter", "call", "cluster", "comment", "create", "drop", "grant", "import", "reassign",
    "refresh", "revoke", "security", "with",
];

/// Returns the error for a statement that sqlparser rejects; 0A000 for an unsupported command.
fn refused(error: ParserError, text: &str, tokens: &[Token]) -> SqlError {
    let word = |i: usize| {
        tokens
            .get(i)
            .filter(|t| t.kind == Kind::Word)
            .map(|t| t.text(text).to_ascii_uppercase())
            .unwrap_or_default()
    };
    if let Some(feature) = feature_of(text, tokens) {
        return SqlError::unsupported(feature);
    }
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

/// Unsupported features of PostgreSQL: the first word of the statement, consecutive words, and the
/// name of the feature.
const FEATURES: [(&str, &[&str], &str); 12] = [
    ("create", &["exclude", "using"], "an EXCLUDE constraint"),
    ("create", &["exclude", "("], "an EXCLUDE constraint"),
    ("alter", &["exclude", "using"], "an EXCLUDE constraint"),
    ("alter", &["exclude", "("], "an EXCLUDE constraint"),
    ("alter", &["no", "inherit"], "NO INHERIT"),
    ("alter", &["inherit"], "INHERIT"),
    ("alter", &["not", "of"], "a typed table"),
    ("alter", &["of"], "a typed table"),
    ("create", &["as", "execute"], "CREATE TABLE AS EXECUTE"),
    ("alter", &["in", "tablespace"], "ALTER of ALL IN TABLESPACE"),
    ("create", &["transform", "for"], "CREATE TRANSFORM"),
    ("load", &["load"], "LOAD"),
];

/// XML functions, whose arguments have their own syntax.
const OF_XML: [&str; 9] = [
    "xmlagg",
    "xmlconcat",
    "xmlelement",
    "xmlexists",
    "xmlforest",
    "xmlparse",
    "xmlpi",
    "xmlroot",
    "xmlserialize",
];

/// Returns the unsupported feature whose words a rejected statement contains.
fn feature_of(text: &str, tokens: &[Token]) -> Option<&'static str> {
    let first = tokens.first()?;
    let stands = |words: &[&str]| {
        tokens.windows(words.len()).any(|row| {
            let mut pairs = row.iter().zip(words);
            pairs.all(|(token, word)| match token.kind {
                Kind::Open => *word == "(" && token.text(text) == "(",
                _ => token.is(text, word),
            })
        })
    };
    let typed = tokens.len() > 3 && first.is(text, "create") && tokens[1].is(text, "table");
    if typed && tokens[3].is(text, "of") {
        return Some("a typed table");
    }
    let of = |pair: &[Token]| pair[0].is(text, "partition") && pair[1].is(text, "of");
    if let Some(at) = tokens.windows(2).position(of) {
        // A parenthesis after the name, which may have a schema.
        let mut behind = tokens[at + 2..].iter().take(4);
        if behind.any(|token| token.kind == Kind::Open) {
            return Some("columns of a partition that differ from its table's");
        }
    }
    let of_xml = |pair: &[Token]| {
        pair[1].kind == Kind::Open && OF_XML.iter().any(|name| pair[0].is(text, name))
    };
    if tokens.windows(2).any(of_xml) {
        return Some("XML");
    }
    let known = FEATURES
        .iter()
        .find(|(of, words, _)| first.is(text, of) && stands(words));
    known.map(|(_, _, feature)| *feature)
}

fn syntax_fault(error: ParserError, text: &str, tokens: &[Token]) -> SqlError {
    let message = match error {
        ParserError::RecursionLimitExceeded => return too_deep(),
        ParserError::ParserError(message) | ParserError::TokenizerError(message) => message,
    };
    match location(&message) {
        Some((line, column)) => at_location(text, tokens, line, column),
        None if message.contains("found: EOF") => syntax_error(text, None),
        // sqlparser has parsed the statement and then rejected it, without a position.
        None => SqlError::new(SqlState::SYNTAX_ERROR, format!("syntax error: {message}")),
    }
}

/// Parses the location in a message: `… at Line: 1, Column: 8`.
fn location(message: &str) -> Option<(u64, u64)> {
    let (_, tail) = message.rsplit_once(" at Line: ")?;
    let (line, column) = tail.split_once(", Column: ")?;
    Some((line.parse().ok()?, column.parse().ok()?))
}

/// Returns error 42601 at the token at a line and column.
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

//! The parser: from text to syntax trees.
//!
//! ```text
//!   text ─lexer─▶ tokens ─depth─▶ statements ─┬─ utility ─▶ our own trees (COPY, SET, BEGIN, …)
//!                                             └─ sqlparser ─▶ its syntax tree
//! ```
//! sqlparser's PostgreSQL dialect reads queries, DML and DDL. `utility` parses the statements that
//! sqlparser cannot parse or parses incorrectly. A few other statements are patched before
//! sqlparser reads them.
//!
//! Invariants
//! - PAR-1: no text makes a tree so deep that dropping or binding it overflows a 2 MiB stack
//!   (`depth`). The exception is a tree that is made and dropped on a large stack (`stack`). The
//!   test is `tests::deep_text_is_refused`.
//! - PAR-2: positions in errors count characters of the whole text, from 1.

mod bracketed_query;
mod budget;
mod column_list;
mod column_types;
mod composite;
mod constraint_actions;
mod copy;
mod current_of;
pub(crate) mod cursor;
mod delete_columns;
pub(crate) mod depth;
mod dialect;
mod domain;
mod exclusion;
mod identity;
mod included;
pub(crate) mod lexer;
mod lift;
mod like;
mod like_operator;
mod lookahead;
mod materialized;
mod merge;
mod misplaced;
mod nested_sets;
mod no_inherit;
mod no_targets;
mod partition;
mod passes;
mod patch;
mod prefixes;
mod recursive_view;
mod regroup;
mod rename;
mod respelled;
mod retoken;
mod routine;
mod row_lock;
mod rows_from;
mod search_cycle;
mod security;
mod select_into;
mod shown_forms;
mod storage;
mod storage_actions;
mod strings;
mod subscripts;
mod syntax;
mod table_query;
#[cfg(test)]
mod tests;
mod trigger;
mod type_collation;
mod unicode;
mod using_alias;
mod utility;
mod variadic;
mod view;

pub(crate) use column_list::column_list;
pub use composite::{AttributeSyntax, CompositeAction, CompositeSyntax};
pub use constraint_actions::{ConstraintAction, ConstraintActionSyntax};
pub use copy::{CopyFrom, CopySyntax};
pub(crate) use current_of::cursor_of;
pub(crate) use delete_columns::split_columns;
pub(crate) use dialect::{EVERY_FIELD, SYMMETRIC};
pub use domain::{DomainCheckSyntax, DomainRule, DomainRuleChange, DomainSyntax};
pub(crate) use exclusion::MARKS;
pub use identity::IdentitySyntax;
pub(crate) use identity::identity_options;
pub(crate) use included::included;
pub use lift::{LiftedStatement, Literal, lift};
pub(crate) use like::{LikeSyntax, MARK as LIKE, like_at};
pub use materialized::RefreshSyntax;
pub(crate) use materialized::{alters_materialized, data_clause};
pub use merge::WhenSyntax;
pub use partition::{PartitionChange, PartitionSyntax};
pub(crate) use rename::{all_names, alters_index_if_exists, mentions, renamed, with_schema};
pub use rename::{calls, names, quoted, with_schema_renamed};
pub use routine::{
    AlterRoutine, ArgSyntax, Attributes, Body, CreateRoutine, DropRoutine, ReturnsSyntax,
    RoutineChange, RoutineName, RoutineSyntax, TypeOf, TypeSyntax,
};
pub(crate) use row_lock::is_weak;
pub(crate) use rows_from::ROWS_FROM;
pub(crate) use search_cycle::{Cycle, Search, SearchCycle, search_cycle, spelled};
pub use storage::StorageOptions;
pub(crate) use storage::{is_storage_option, is_unlogged, options_of_key, storage_options};
pub use storage_actions::{StorageActionPart, StorageActionSyntax, StorageObjectKind};
pub(crate) use subscripts::subscripts_of;
pub use trigger::{CreateTrigger, TriggerAction, TriggerSyntax};
pub(crate) use type_collation::type_collation;
pub(crate) use using_alias::using_alias;
pub(crate) use variadic::variadic_argument;
pub(crate) use view::view_options;
pub use view::{AlterView, AlterViewSyntax, ViewOptions};

pub use security::{GrantSyntax, GrantTargets, ObjectName, SecuritySyntax};
pub(crate) use utility::privilege_of;
pub use utility::{MaintenanceCommand, MaintenanceSyntax, MaintenanceTarget};

use std::fmt;

use crate::bound;
use crate::error::SqlError;
use crate::stack::{self, DeepTree};
use lexer::{Kind, Token};
use sqlparser::ast::Expr;

/// One statement of a text, parsed.
pub struct ParsedStatement {
    tree: Box<dyn Tree>,
    /// The text of the statement, without the semicolon.
    pub text: String,
    /// The number of characters before the statement in the whole text.
    pub offset: u32,
}

/// A syntax tree behind a trait object. Dropping a tree takes some hundreds of functions; the trait
/// object keeps them out of each crate that owns one.
trait Tree: Send + Sync {
    fn statement(&self) -> &Statement;
    fn is_deep(&self) -> bool;
}

impl Tree for DeepTree<Statement> {
    fn statement(&self) -> &Statement {
        self.get()
    }

    fn is_deep(&self) -> bool {
        self.has_depth()
    }
}

impl ParsedStatement {
    /// Checks that this stack is large enough for the tree.
    ///
    /// # Errors
    /// 54001 if the tree is deep and the stack is not a large one.
    pub(crate) fn check_stack(&self) -> Result<(), SqlError> {
        if self.tree.is_deep() && !stack::is_roomy() {
            return Err(stack::too_deep());
        }
        Ok(())
    }

    /// Returns the syntax tree.
    pub fn statement(&self) -> &Statement {
        self.tree.statement()
    }
}

impl fmt::Debug for ParsedStatement {
    /// Prints the text, which determines the tree.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parsed = f.debug_struct("Parsed");
        parsed.field("text", &self.text);
        parsed.field("offset", &self.offset).finish_non_exhaustive()
    }
}

/// The syntax tree of a statement.
#[derive(Debug)]
pub enum Statement {
    /// A query, DML or DDL, as sqlparser parsed it.
    Sql(Box<sqlparser::ast::Statement>),
    /// A statement without names to resolve, which needs no binding.
    Ready(Box<bound::Statement>),
    /// COPY
    Copy(Box<CopySyntax>),
    /// PREPARE
    Prepare(Box<PrepareSyntax>),
    /// ALTER COLUMN … SET GENERATED and DROP IDENTITY.
    Identity(Box<IdentitySyntax>),
    /// DROP EXPRESSION, ALTER CONSTRAINT, and ADD CONSTRAINT … USING INDEX.
    ConstraintAction(Box<ConstraintActionSyntax>),
    /// ALTER TABLE with actions that PostgreSQL runs in several passes.
    Passes {
        /// The statement of the first pass.
        first: Box<Statement>,
        /// The texts of the statements of the later passes.
        later: Vec<String>,
    },
    /// ALTER TABLE with actions about physical storage.
    Keeping(Box<StorageActionSyntax>),
    /// ATTACH and DETACH PARTITION.
    Partition(Box<PartitionSyntax>),
    /// DECLARE … CURSOR
    Declare {
        /// The cursor's name.
        name: String,
        /// The cursor's options.
        options: bound::CursorOptions,
        /// The query.
        query: Box<Statement>,
    },
    /// REFRESH MATERIALIZED VIEW
    Refresh(Box<RefreshSyntax>),
    /// A statement about functions or procedures.
    Routine(Box<RoutineSyntax>),
    /// CREATE and ALTER DOMAIN.
    Domain(Box<DomainSyntax>),
    /// A statement about a composite type.
    Composite(Box<CompositeSyntax>),
    /// A statement about triggers.
    Trigger(Box<TriggerSyntax>),
    /// ALTER VIEW
    View(Box<AlterViewSyntax>),
    /// VACUUM and other maintenance commands.
    Maintenance(Box<MaintenanceSyntax>),
    /// A statement about privileges, owners or comments.
    Security(Box<SecuritySyntax>),
    /// EXPLAIN
    Explain {
        /// The options.
        options: bound::ExplainOptions,
        /// The statement to explain.
        statement: Box<Statement>,
    },
}

impl Default for Statement {
    /// Returns a placeholder that leaves nothing to do.
    fn default() -> Statement {
        Statement::Ready(Box::new(bound::Statement::Commit { chain: false }))
    }
}

/// The PREPARE statement.
#[derive(Debug)]
pub struct PrepareSyntax {
    /// The name of the prepared statement.
    pub name: String,
    /// The declared types of the first parameters.
    pub types: Vec<sqlparser::ast::DataType>,
    /// The text of the statement after AS.
    pub text: String,
}

/// Parses a text into its statements; an empty text has none.
///
/// # Errors
/// 42601 and other syntax errors; 54001 if a statement is too deep.
pub fn parse(sql: &str) -> Result<Vec<ParsedStatement>, SqlError> {
    stack::on_large_stack(|| parse_here(sql))
}

fn parse_here(sql: &str) -> Result<Vec<ParsedStatement>, SqlError> {
    let mut tokens = lexer::tokens(sql)?;
    let joined = strings::joined(sql, &tokens)?;
    let sql = match &joined {
        Some(joined) => {
            tokens = lexer::tokens(joined)?;
            joined
        }
        None => sql,
    };
    let mut statements = Vec::new();
    for part in split(sql, &tokens) {
        let (Some(first), Some(last)) = (part.first(), part.last()) else {
            continue;
        };
        let text = sql.get(first.start..last.end).unwrap_or("");
        let offset = lexer::position(sql, first.start) - 1;
        let moved: Vec<Token> = part
            .iter()
            .map(|t| Token {
                start: t.start - first.start,
                end: t.end - first.start,
                ..*t
            })
            .collect();
        let statement = parse_one(text, &moved).map_err(|e| shifted(e, offset))?;
        statements.push(ParsedStatement {
            tree: Box::new(DeepTree::new(statement)),
            text: text.to_owned(),
            offset,
        });
    }
    Ok(statements)
}

/// Splits the tokens into statements, without the semicolons. A semicolon inside a BEGIN ATOMIC
/// body ends no statement.
fn split<'t>(sql: &str, tokens: &'t [Token]) -> Vec<&'t [Token]> {
    let (mut parts, mut start, mut depth) = (Vec::new(), 0, 0usize);
    for (i, token) in tokens.iter().enumerate() {
        let after = |word: &str| i > start && tokens[i - 1].is(sql, word);
        match token.kind {
            Kind::Semicolon if depth == 0 => {
                parts.push(&tokens[start..i]);
                start = i + 1;
            }
            Kind::Word if depth == 0 => {
                let creates = tokens[start].is(sql, "create");
                depth = usize::from(creates && token.is(sql, "atomic") && after("begin"));
            }
            Kind::Word if token.is(sql, "case") => depth += 1,
            Kind::Word if token.is(sql, "end") => depth -= 1,
            _ => {}
        }
    }
    parts.push(&tokens[start..]);
    parts
}

fn parse_one(text: &str, tokens: &[Token]) -> Result<Statement, SqlError> {
    depth::check(text, tokens)?;
    let mut steps = passes::steps(text, tokens).into_iter();
    if let Some(first) = steps.next() {
        let tokens = lexer::tokens(&first)?;
        return Ok(Statement::Passes {
            first: Box::new(parse_alone(&first, &tokens)?),
            later: steps.collect(),
        });
    }
    parse_alone(text, tokens)
}

/// Parses a statement that runs in a single pass.
fn parse_alone(text: &str, tokens: &[Token]) -> Result<Statement, SqlError> {
    if tokens.first().is_some_and(|first| first.is(text, "alter"))
        && let Some(syntax) = identity::alter(text, tokens)?
    {
        return Ok(Statement::Identity(Box::new(syntax)));
    }
    if tokens.first().is_some_and(|first| first.is(text, "alter"))
        && let Some(syntax) = partition::alter(text, tokens)?
    {
        return Ok(Statement::Partition(Box::new(syntax)));
    }
    if tokens.first().is_some_and(|first| first.is(text, "alter"))
        && let Some(syntax) = constraint_actions::alter(text, tokens)?
    {
        return Ok(Statement::ConstraintAction(Box::new(syntax)));
    }
    if tokens.first().is_some_and(|first| first.is(text, "alter"))
        && let Some(syntax) = storage_actions::alter(text, tokens)?
    {
        return Ok(Statement::Keeping(Box::new(syntax)));
    }
    match utility::parse(text, tokens)? {
        Some(statement) => Ok(statement),
        None => syntax::statement(text, tokens),
    }
}

/// Parses a query on its own, such as a view's text in the catalog.
pub(crate) fn parse_query(sql: &str) -> Result<Box<sqlparser::ast::Query>, SqlError> {
    let tokens = lexer::tokens(sql)?;
    depth::check(sql, &tokens)?;
    syntax::query(sql, &tokens)
}

/// Returns true if an INSERT has OVERRIDING SYSTEM VALUE, false for OVERRIDING USER VALUE.
pub(crate) fn overriding(sql: &str) -> Option<bool> {
    let tokens = lexer::tokens(sql).ok()?;
    syntax::overriding_at(sql, &tokens).map(|(_, system)| system)
}

/// Parses the WHERE expression after the columns of ON CONFLICT, `(a) WHERE …`, at its position in
/// the text.
pub(crate) fn conflict_filter(sql: &str) -> Result<Option<Expr>, SqlError> {
    let tokens = lexer::tokens(sql)?;
    let Some(range) = syntax::conflict_filter_at(sql, &tokens) else {
        return Ok(None);
    };
    let alone = partition::only(sql, range.start + "where".len()..range.end);
    parse_expression(&alone).map(Some)
}

/// Returns whether the statement is DROP INDEX CONCURRENTLY.
pub(crate) fn drops_concurrently(sql: &str) -> bool {
    let words = ["drop", "index", "concurrently"];
    let tokens = lexer::tokens(sql).unwrap_or_default();
    let pairs = tokens.iter().zip(words);
    tokens.len() > words.len() && pairs.fold(true, |all, (token, word)| all && token.is(sql, word))
}

/// Returns whether a CREATE INDEX has ON ONLY.
pub(crate) fn index_only(sql: &str) -> bool {
    let tokens = lexer::tokens(sql);
    tokens.is_ok_and(|tokens| partition::index_only(sql, &tokens).is_some())
}

/// Returns the elements of an ON CONFLICT target without parentheses, if not all of them are
/// columns.
pub(crate) fn conflict_target(sql: &str) -> Result<Option<Vec<Expr>>, SqlError> {
    let tokens = lexer::tokens(sql)?;
    let Some(range) = syntax::conflict_expressions_at(sql, &tokens) else {
        return Ok(None);
    };
    let mut parts = Vec::new();
    for part in utility::top_level_parts(sql.get(range).unwrap_or(""))? {
        let mut expr = parse_expression(without_class(part)?)?;
        // The collation does not matter: any index on these expressions qualifies.
        while let Expr::Nested(inner) | Expr::Collate { expr: inner, .. } = expr {
            expr = *inner;
        }
        parts.push(expr);
    }
    Ok(Some(parts))
}

/// Removes an operator class from an index element, as in `lower(a) text_pattern_ops`.
fn without_class(part: &str) -> Result<&str, SqlError> {
    let tokens = lexer::tokens(part)?;
    let before = match &tokens[..] {
        [.., before, class] if class.text(part).ends_with("_ops") => before,
        _ => return Ok(part),
    };
    let ends = matches!(before.kind, Kind::Word | Kind::QuotedIdent | Kind::Close);
    Ok(part.get(..before.end).filter(|_| ends).unwrap_or(part))
}

/// Returns the WHEN clauses of a MERGE.
pub(crate) fn whens(sql: &str) -> Vec<WhenSyntax> {
    lexer::tokens(sql).map_or_else(|_| Vec::new(), |tokens| merge::whens(sql, &tokens))
}

/// Returns the statements of an SQL-standard body: `RETURN expression`, or `BEGIN ATOMIC … END`.
pub(crate) fn atomic_body(sql: &str) -> Result<String, SqlError> {
    let tokens = lexer::tokens(sql)?;
    let inner = match &tokens[..] {
        [begin, atomic, inner @ .., end]
            if begin.is(sql, "begin") && atomic.is(sql, "atomic") && end.is(sql, "end") =>
        {
            inner
        }
        [first, ..] if first.is(sql, "return") => &tokens[..],
        _ => return Err(lexer::syntax_error(sql, tokens.first().copied())),
    };
    let statements = inner.split(|t| t.kind == Kind::Semicolon);
    let texts = statements.filter_map(|part| {
        let (first, last) = (part.first()?, part.last()?);
        Some(match first.is(sql, "return") {
            true => format!("SELECT {}", sql.get(first.end..last.end).unwrap_or("")),
            false => sql.get(first.start..last.end).unwrap_or("").to_owned(),
        })
    });
    Ok(texts.collect::<Vec<_>>().join("; "))
}

/// Parses an expression on its own, such as a DEFAULT in the catalog.
pub fn parse_expression(sql: &str) -> Result<Expr, SqlError> {
    let tokens = lexer::tokens(sql)?;
    depth::check(sql, &tokens)?;
    syntax::expression(sql, &tokens)
}

/// Shifts the position of an error from a statement to the whole text.
fn shifted(error: SqlError, offset: u32) -> SqlError {
    match error.fields().position {
        Some(position) => error.at(position + offset),
        None => error,
    }
}

/// Converts a line and column (both from 1) of a text to a character position.
pub(crate) fn position_of(text: &str, line: u64, column: u64) -> u32 {
    if line == 0 {
        return 0;
    }
    let lines_before = usize::try_from(line - 1).unwrap_or(0);
    let before: usize = text
        .split_inclusive('\n')
        .take(lines_before)
        .map(|l| l.chars().count())
        .sum();
    let column = usize::try_from(column).unwrap_or(0);
    u32::try_from(before + column).unwrap_or(u32::MAX)
}

/// PostgreSQL's reserved words: as identifiers they need quotes.
#[rustfmt::skip]
const RESERVED: [&str; 77] = [
    "all", "analyse", "analyze", "and", "any", "array", "as", "asc", "asymmetric", "both", "case",
    "cast", "check", "collate", "column", "constraint", "create", "current_catalog",
    "current_date", "current_role", "current_time", "current_timestamp", "current_user",
    "default", "deferrable", "desc", "distinct", "do", "else", "end", "except", "false", "fetch",
    "for", "foreign", "from", "grant", "group", "having", "in", "initially", "intersect", "into",
    "lateral", "leading", "limit", "localtime", "localtimestamp", "not", "null", "offset", "on",
    "only", "or", "order", "placing", "primary", "references", "returning", "select",
    "session_user", "some", "symmetric", "table", "then", "to", "trailing", "true", "union",
    "unique", "user", "using", "variadic", "when", "where", "window", "with",
];

/// Returns whether the word is reserved.
pub fn is_reserved(word: &str) -> bool {
    RESERVED.binary_search(&word).is_ok()
}

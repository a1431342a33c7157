//! Syntax of views that sqlparser does not read: their options, WITH CHECK OPTION, and ALTER VIEW.

use std::ops::Range;

use super::cursor::Cursor;
use super::lexer::{self, Kind, Token};
use super::parse_expression;
use crate::error::SqlError;

/// The options of a view, in their order; an option without a value is `true`.
pub type ViewOptions = Vec<(String, String)>;

/// An action of ALTER VIEW, except RENAME and the actions that other relations have, too.
#[derive(Debug)]
pub enum AlterView {
    /// ALTER COLUMN … SET DEFAULT, or DROP DEFAULT if the value is `None`.
    Default {
        /// The column.
        column: String,
        /// The new default of the column for INSERT; `None` for DROP DEFAULT.
        value: Option<Box<sqlparser::ast::Expr>>,
    },
    /// SET (…)
    Set(ViewOptions),
    /// RESET (…)
    Reset(Vec<String>),
}

/// An ALTER VIEW statement.
#[derive(Debug)]
pub struct AlterViewSyntax {
    /// The schema, if it is named.
    pub schema: Option<String>,
    /// The name.
    pub name: String,
    /// Whether IF EXISTS is given.
    pub if_exists: bool,
    /// The action.
    pub does: AlterView,
}

/// Parses the statement after ALTER, if it is an ALTER VIEW with one of these actions.
pub(super) fn alter(c: &mut Cursor<'_>) -> Result<Option<AlterViewSyntax>, SqlError> {
    if !c.sees("view") {
        return Ok(None);
    }
    c.next_token();
    let if_exists = c.accept_all(&["if", "exists"]);
    let (schema, name) = c.qualified()?;
    let does = if c.accept("alter") {
        c.accept("column");
        let column = c.identifier()?;
        let value = match c.accept_all(&["set", "default"]) {
            true => {
                let text = c.text_until(&|_, _| false);
                Some(Box::new(parse_expression(text)?))
            }
            false => {
                c.expect("drop")?;
                c.expect("default")?;
                None
            }
        };
        AlterView::Default { column, value }
    } else if c.accept("set") {
        AlterView::Set(options(c)?)
    } else {
        c.expect("reset")?;
        let names = options(c)?.into_iter();
        AlterView::Reset(names.map(|(name, _)| name).collect())
    };
    c.end()?;
    Ok(Some(AlterViewSyntax {
        schema,
        name,
        if_exists,
        does,
    }))
}

/// Reads `(name [= value], …)`.
fn options(c: &mut Cursor<'_>) -> Result<ViewOptions, SqlError> {
    let mut all = ViewOptions::new();
    c.expect_kind(Kind::Open)?;
    loop {
        let name = c.identifier()?;
        let value = match c.accept_operator("=") {
            false => "true".to_owned(),
            true => match c.peek().map(|token| token.kind) {
                Some(Kind::String | Kind::OtherString) => c.string()?,
                Some(Kind::Word | Kind::QuotedIdent) => c.identifier()?,
                _ => match c.next_token() {
                    Some(token) if token.kind != Kind::Close => token.text(c.sql).to_owned(),
                    _ => return Err(c.unexpected()),
                },
            },
        };
        all.push((name, value));
        if c.accept_kind(Kind::Comma).is_none() {
            break;
        }
    }
    c.expect_kind(Kind::Close)?;
    Ok(all)
}

/// The clauses of a CREATE VIEW besides the names and the query, as token ranges.
#[derive(Debug, Default)]
pub(super) struct Clauses {
    /// WITH (…)
    options: Option<Range<usize>>,
    /// WITH [LOCAL | CASCADED] CHECK OPTION
    check: Option<Range<usize>>,
}

impl Clauses {
    /// Returns the clauses of a CREATE VIEW; none for other statements.
    pub(super) fn of(text: &str, tokens: &[Token]) -> Clauses {
        let is = |i: usize, word: &str| tokens.get(i).is_some_and(|t: &Token| t.is(text, word));
        let words = ["create", "or", "replace", "temp", "temporary"];
        let begins = |i: &usize| words.iter().any(|word| is(*i, word));
        let view = (0..).take_while(begins).count();
        let mut clauses = Clauses::default();
        if !is(0, "create") || !is(view, "view") {
            return clauses;
        }
        let Some(as_at) = (view..tokens.len()).find(|i| is(*i, "as")) else {
            return clauses;
        };
        clauses.options = (view..as_at)
            .find(|i| is(*i, "with"))
            .map(|with| with..as_at);
        let length = tokens.len();
        let ends = |words: &[&str]| {
            let start = length.checked_sub(words.len())?;
            let mut all = words.iter().enumerate();
            let fits = start > as_at && all.all(|(i, word)| is(start + i, word));
            fits.then_some(start..length)
        };
        clauses.check = ends(&["with", "check", "option"])
            .or_else(|| ends(&["with", "local", "check", "option"]))
            .or_else(|| ends(&["with", "cascaded", "check", "option"]));
        clauses
    }

    /// Returns the token ranges to hide from sqlparser.
    pub(super) fn ranges(self) -> impl Iterator<Item = Range<usize>> {
        self.options.into_iter().chain(self.check)
    }
}

/// Returns the options of a CREATE VIEW; the one of WITH CHECK OPTION is the last.
pub(crate) fn view_options(sql: &str) -> Result<ViewOptions, SqlError> {
    let tokens = lexer::tokens(sql)?;
    let clauses = Clauses::of(sql, &tokens);
    let mut all = ViewOptions::new();
    if let Some(range) = clauses.options {
        let mut c = Cursor::new(sql, &tokens[range.start + 1..range.end]);
        all = options(&mut c)?;
        c.end()?;
    }
    if let Some(range) = clauses.check {
        let local = tokens[range.start + 1].is(sql, "local");
        let value = if local { "local" } else { "cascaded" };
        all.push(("check_option".to_owned(), value.to_owned()));
    }
    Ok(all)
}

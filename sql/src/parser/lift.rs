//! Literal lifting: the literals of an unprepared statement become parameters. The same text with
//! other values then finds the same plan.
//!
//! ```text
//! UPDATE t SET a = a + 5 WHERE b = 'x'   ──▶   UPDATE t SET a = a + $1 WHERE b = $2/*:it*/
//! ```
//! The comment at the end records the literals' kinds, so the lifted text alone is the key of a
//! plan cache. A number keeps the type that PostgreSQL gives the literal. A string has an unknown
//! type, which its context determines as for an untyped parameter.
//!
//! A literal is lifted only after a token that an expression must follow. It is never lifted where
//! its value is part of the meaning: ORDER BY and GROUP BY (ordinals), type modifiers, typed
//! literals. Statements with GROUP BY or DISTINCT are not lifted, because their expressions are
//! matched by text. If the lifted text does not bind, bind the original to get the right error.

use compact_str::CompactString;
use rust_decimal::Decimal;

use super::cursor::unquoted;
use super::lexer::{Kind, Lexer, Token};
use crate::types::{Type, numeric};
use crate::value::Value;

/// The maximum number of literals; longer statements are not worth a cached plan.
const LITERALS_MAX: usize = 64;

/// A lifted statement.
#[derive(Clone, Debug, PartialEq)]
pub struct LiftedStatement {
    /// The text with parameters. It is also the cache key.
    pub text: String,
    /// The literals: the values of `$1` and so on.
    pub literals: Vec<Literal>,
}

/// A lifted literal.
#[derive(Clone, Debug, PartialEq)]
pub enum Literal {
    /// An integer that fits four bytes.
    Int4(i32),
    /// An integer that fits eight.
    Int8(i64),
    /// A longer integer, or one with a point or exponent.
    Numeric(Decimal),
    /// A string of unknown type.
    Text(CompactString),
}

impl Literal {
    /// Returns the parameter's type; unknown for a string.
    pub fn ty(&self) -> Type {
        match self {
            Literal::Int4(_) => Type::INT4,
            Literal::Int8(_) => Type::INT8,
            Literal::Numeric(_) => Type::NUMERIC,
            Literal::Text(_) => Type::UNKNOWN,
        }
    }

    /// Returns the value. A string is still text, for the input function of the parameter's type.
    pub fn value(&self) -> Value {
        match self {
            Literal::Int4(v) => Value::Int4(*v),
            Literal::Int8(v) => Value::Int8(*v),
            Literal::Numeric(v) => Value::Numeric(*v),
            Literal::Text(v) => Value::Text(v.clone()),
        }
    }

    fn tag(&self) -> char {
        match self {
            Literal::Int4(_) => 'i',
            Literal::Int8(_) => 'l',
            Literal::Numeric(_) => 'n',
            Literal::Text(_) => 't',
        }
    }
}

/// Keywords after which an expression begins.
const BEFORE_EXPRESSION: [&str; 19] = [
    "select",
    "where",
    "and",
    "or",
    "not",
    "like",
    "ilike",
    "between",
    "then",
    "else",
    "when",
    "case",
    "limit",
    "offset",
    "returning",
    "on",
    "having",
    "in",
    "values",
];

/// Functions whose first argument is a name that the binder resolves.
const OF_NAMES: [&str; 4] = ["nextval", "currval", "setval", "pg_get_serial_sequence"];

/// Type names that a modifier in parentheses can follow.
const TYPES_WITH_MODIFIER: [&str; 18] = [
    "char",
    "character",
    "varchar",
    "varying",
    "nchar",
    "bpchar",
    "numeric",
    "decimal",
    "dec",
    "float",
    "bit",
    "time",
    "timestamp",
    "timestamptz",
    "interval",
    "second",
    "current_timestamp",
    "localtimestamp",
];

/// Lifts the literals of a SELECT, INSERT, UPDATE or DELETE; returns `None` if lifting has no
/// benefit.
pub fn lift(sql: &str) -> Option<LiftedStatement> {
    let mut lexer = Lexer::new(sql);
    let first = lexer.next_token().ok()??;
    if !first.is_one_of(sql, &["select", "insert", "update", "delete"]) {
        return None;
    }
    let mut walk = Walk {
        sql,
        text: String::with_capacity(sql.len() + 16),
        copied: first.start,
        literals: Vec::new(),
        order_by_at: None,
        modifier_at: None,
        depth: 0,
        selects: first.is(sql, "select"),
    };
    let mut before = first;
    let mut before_that = None;
    let mut current = lexer.next_token().ok()?;
    while let Some(token) = current {
        let next = lexer.next_token().ok()?;
        walk.token(token, before, before_that, next)?;
        before_that = Some(before);
        before = token;
        current = next;
    }
    walk.finish(before)
}

struct Walk<'a> {
    sql: &'a str,
    text: String,
    /// The number of source bytes already copied to `text`.
    copied: usize,
    literals: Vec<Literal>,
    /// The parenthesis depth of the current ORDER BY.
    order_by_at: Option<usize>,
    /// The parenthesis depth of the current type modifier.
    modifier_at: Option<usize>,
    depth: usize,
    /// Whether the statement is a SELECT, which creates a table if it has INTO.
    selects: bool,
}

impl Walk<'_> {
    /// Handles one token; `None` gives up on the whole statement.
    fn token(
        &mut self,
        token: Token,
        before: Token,
        before_that: Option<Token>,
        next: Option<Token>,
    ) -> Option<()> {
        match token.kind {
            Kind::Semicolon if next.is_some() => return None,
            Kind::Param => return None,
            Kind::Open => {
                self.depth += 1;
                let typed =
                    before.kind == Kind::Word && before.is_one_of(self.sql, &TYPES_WITH_MODIFIER);
                if typed && self.modifier_at.is_none() {
                    self.modifier_at = Some(self.depth);
                }
            }
            Kind::Close => {
                if self.order_by_at == Some(self.depth) {
                    self.order_by_at = None;
                }
                if self.modifier_at == Some(self.depth) {
                    self.modifier_at = None;
                }
                self.depth = self.depth.checked_sub(1)?;
            }
            Kind::Word => self.word(token)?,
            Kind::Integer | Kind::Decimal | Kind::String => {
                self.literal(token, before, before_that, next)?;
            }
            _ => {}
        }
        Some(())
    }

    fn word(&mut self, token: Token) -> Option<()> {
        let sql = self.sql;
        // The length alone excludes most words.
        match token.end - token.start {
            4 if self.selects && token.is(sql, "into") => return None,
            5 if token.is_one_of(sql, &["group", "union"]) => return None,
            6 if token.is(sql, "window") => return None,
            8 if token.is(sql, "distinct") => return None,
            5 if token.is(sql, "order") => self.order_by_at = Some(self.depth),
            5 if token.is(sql, "limit") => self.order_by_at = None,
            6 if token.is(sql, "offset") => self.order_by_at = None,
            _ => {}
        }
        Some(())
    }

    fn literal(
        &mut self,
        token: Token,
        before: Token,
        before_that: Option<Token>,
        next: Option<Token>,
    ) -> Option<()> {
        if self.order_by_at.is_some() || self.modifier_at.is_some() {
            return Some(());
        }
        // The names of sequences are part of the plan.
        if token.kind == Kind::String && self.is_named(before, before_that) {
            return Some(());
        }
        // A minus without a left operand is the sign of the literal.
        let minus = before.kind == Kind::Operator && before.text(self.sql) == "-";
        let signed = minus
            && token.kind != Kind::String
            && before_that.is_some_and(|t| self.expression_follows(t))
            && !next.is_some_and(|t| self.binds_tighter_than_minus(t));
        if !signed && !self.expression_follows(before) {
            return Some(());
        }
        if token.kind == Kind::String && next.is_some_and(|t| t.kind == Kind::String) {
            return None;
        }
        let literal = self.read(token, signed)?;
        let start = if signed { before.start } else { token.start };
        self.text.push_str(self.sql.get(self.copied..start)?);
        self.copied = token.end;
        self.literals.push(literal);
        if self.literals.len() > LITERALS_MAX {
            return None;
        }
        self.text.push('$');
        self.text.push_str(&self.literals.len().to_string());
        Some(())
    }

    /// Returns whether the next token is an argument of a function in `OF_NAMES` that is a name:
    /// the first, or a second one.
    fn is_named(&self, before: Token, before_that: Option<Token>) -> bool {
        match before.kind {
            Kind::Open => before_that.is_some_and(|word| word.is_one_of(self.sql, &OF_NAMES)),
            Kind::Comma => before_that.is_some_and(|name| {
                let end = self.sql.get(..name.start).unwrap_or("").trim_end();
                name.kind == Kind::String
                    && end
                        .to_ascii_lowercase()
                        .ends_with("pg_get_serial_sequence(")
            }),
            _ => false,
        }
    }

    fn read(&self, token: Token, negative: bool) -> Option<Literal> {
        let text = token.text(self.sql);
        match token.kind {
            Kind::String => Some(Literal::Text(unquoted(text).into())),
            Kind::Integer => {
                let size = text.parse::<u64>().ok();
                let value = size.and_then(|size| match negative {
                    true => 0i64.checked_sub_unsigned(size),
                    false => i64::try_from(size).ok(),
                });
                let Some(value) = value else {
                    return self.decimal(text, negative);
                };
                let short = i32::try_from(value).map(Literal::Int4);
                Some(short.unwrap_or(Literal::Int8(value)))
            }
            _ => self.decimal(text, negative),
        }
    }

    fn decimal(&self, text: &str, negative: bool) -> Option<Literal> {
        let value = numeric::parse(text).ok()?;
        Some(Literal::Numeric(if negative { -value } else { value }))
    }

    /// Returns whether an expression must follow this token.
    fn expression_follows(&self, token: Token) -> bool {
        match token.kind {
            Kind::Open | Kind::Comma => true,
            Kind::Operator => true,
            Kind::Word => token.is_one_of(self.sql, &BEFORE_EXPRESSION),
            _ => false,
        }
    }

    /// Returns whether this token binds to the number before it more strongly than a minus sign.
    fn binds_tighter_than_minus(&self, token: Token) -> bool {
        match token.kind {
            Kind::Cast | Kind::Open | Kind::Dot => true,
            Kind::Operator => token.text(self.sql).starts_with('^'),
            Kind::Word => token.is(self.sql, "collate") || token.is(self.sql, "at"),
            _ => false,
        }
    }

    fn finish(mut self, last: Token) -> Option<LiftedStatement> {
        if self.literals.is_empty() {
            return None;
        }
        let end = match last.kind {
            Kind::Semicolon => last.start,
            _ => last.end,
        };
        self.text.push_str(self.sql.get(self.copied..end)?);
        self.text.push_str("/*:");
        self.text.extend(self.literals.iter().map(Literal::tag));
        self.text.push_str("*/");
        Some(LiftedStatement {
            text: self.text,
            literals: self.literals,
        })
    }
}

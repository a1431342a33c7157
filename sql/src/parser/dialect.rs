//! The dialect we hand to sqlparser: its PostgreSQL dialect, but for a few things.
//!
//! sqlparser first tries every function argument as `expression => value` and, when no arrow follows,
//! parses the expression again: nested calls take time exponential in their depth. With plain
//! names before the arrow (all that PostgreSQL has) it does not.

use std::any::TypeId;

use sqlparser::ast::{
    ColumnOption, Expr, Ident, KeyOrIndexDisplay, NullsDistinctOption, UniqueConstraint,
};
use sqlparser::dialect::{Dialect, PostgreSqlDialect, Precedence};
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::Token;

use super::subscripts::is_moved;

/// The one dialect.
#[derive(Debug)]
pub(super) struct Postgres;

static BASE: PostgreSqlDialect = PostgreSqlDialect {};

macro_rules! as_in_postgresql {
    ($($method:ident)*) => {
        $(fn $method(&self) -> bool {
            BASE.$method()
        })*
    };
}

/// What stands for the `*` of `(row).*`; no name that anybody writes.
pub(crate) const EVERY_FIELD: char = '\u{1}';

/// What marks the lower bound of a BETWEEN SYMMETRIC.
pub(crate) const SYMMETRIC: &str = "symmetric";

fn between(
    dialect: &Postgres,
    parser: &mut Parser<'_>,
    (expr, negated): (&Expr, bool),
    word: String,
) -> Result<Expr, ParserError> {
    let precedence = dialect.prec_value(Precedence::Between);
    let low = parser.parse_subexpr(precedence)?;
    parser.expect_keyword(Keyword::AND)?;
    let high = parser.parse_subexpr(precedence)?;
    let low = match word == SYMMETRIC {
        false => low,
        true => Expr::Prefixed {
            prefix: Ident::new(SYMMETRIC),
            value: Box::new(low),
        },
    };
    Ok(Expr::Between {
        expr: Box::new(expr.clone()),
        negated,
        low: Box::new(low),
        high: Box::new(high),
    })
}

/// Behind the UNIQUE of a column: `NULLS NOT DISTINCT`, and what is said of when it is checked.
fn unique_nulls(parser: &mut Parser<'_>) -> Result<ColumnOption, ParserError> {
    parser.expect_keyword(Keyword::NULLS)?;
    let nulls_distinct = match parser.parse_keyword(Keyword::NOT) {
        true => NullsDistinctOption::NotDistinct,
        false => NullsDistinctOption::Distinct,
    };
    parser.expect_keyword(Keyword::DISTINCT)?;
    Ok(ColumnOption::Unique(UniqueConstraint {
        name: None,
        index_name: None,
        index_type_display: KeyOrIndexDisplay::None,
        index_type: None,
        columns: Vec::new(),
        index_options: Vec::new(),
        characteristics: parser.parse_constraint_characteristics()?,
        nulls_distinct,
    }))
}

impl Dialect for Postgres {
    /// The parser asks for the PostgreSQL dialect by its type.
    fn dialect(&self) -> TypeId {
        TypeId::of::<PostgreSqlDialect>()
    }

    fn supports_named_fn_args_with_expr_name(&self) -> bool {
        false
    }

    fn supports_named_fn_args_with_assignment_operator(&self) -> bool {
        true
    }

    fn identifier_quote_style(&self, identifier: &str) -> Option<char> {
        BASE.identifier_quote_style(identifier)
    }

    fn is_delimited_identifier_start(&self, ch: char) -> bool {
        BASE.is_delimited_identifier_start(ch)
    }

    fn is_identifier_start(&self, ch: char) -> bool {
        ch == EVERY_FIELD || is_moved(ch) || BASE.is_identifier_start(ch)
    }

    fn is_identifier_part(&self, ch: char) -> bool {
        is_moved(ch) || BASE.is_identifier_part(ch)
    }

    fn is_reserved_for_identifier(&self, keyword: Keyword) -> bool {
        BASE.is_reserved_for_identifier(keyword)
    }

    fn is_custom_operator_part(&self, ch: char) -> bool {
        BASE.is_custom_operator_part(ch)
    }

    fn get_next_precedence(&self, parser: &Parser<'_>) -> Option<Result<u8, ParserError>> {
        BASE.get_next_precedence(parser)
    }

    /// `FOR` is none in PostgreSQL: `SELECT 1 FOR UPDATE`.
    fn is_column_alias(&self, keyword: &Keyword, parser: &mut Parser<'_>) -> bool {
        *keyword != Keyword::FOR && BASE.is_column_alias(keyword, parser)
    }

    fn parse_column_option(
        &self,
        parser: &mut Parser<'_>,
    ) -> Result<Option<Result<Option<ColumnOption>, ParserError>>, ParserError> {
        let is = |n: usize, keyword: Keyword| matches!(parser.peek_nth_token_ref(n).token, Token::Word(ref word) if word.keyword == keyword);
        if !(is(0, Keyword::UNIQUE) && is(1, Keyword::NULLS)) {
            return Ok(None);
        }
        parser.advance_token();
        Ok(Some(unique_nulls(parser).map(Some)))
    }

    /// `BETWEEN SYMMETRIC`: the lower bound is marked. `COLLATE` behind what is no single term.
    fn parse_infix(
        &self,
        parser: &mut Parser<'_>,
        expr: &Expr,
        _precedence: u8,
    ) -> Option<Result<Expr, ParserError>> {
        let is = |n: usize, keyword: Keyword| matches!(parser.peek_nth_token_ref(n).token, Token::Word(ref word) if word.keyword == keyword);
        if is(0, Keyword::COLLATE) {
            parser.advance_token();
            let collation = parser.parse_object_name(false);
            return Some(collation.map(|collation| Expr::Collate {
                expr: Box::new(expr.clone()),
                collation,
            }));
        }
        let negated = is(0, Keyword::NOT);
        let at = usize::from(negated);
        if !is(at, Keyword::BETWEEN) {
            return None;
        }
        let word = match &parser.peek_nth_token_ref(at + 1).token {
            Token::Word(word) if word.quote_style.is_none() => word.value.to_ascii_lowercase(),
            _ => return None,
        };
        if word != SYMMETRIC && word != "asymmetric" {
            return None;
        }
        for _ in 0..at + 2 {
            parser.advance_token();
        }
        Some(between(self, parser, (expr, negated), word))
    }

    /// `TABLE t` is read as `FROM t`, which takes its place (`table_query`).
    fn supports_from_first_select(&self) -> bool {
        true
    }

    fn prec_value(&self, precedence: Precedence) -> u8 {
        BASE.prec_value(precedence)
    }

    as_in_postgresql! {
        supports_unicode_string_literal
        supports_filter_during_aggregation
        supports_group_by_expr
        allow_extract_custom
        allow_extract_single_quotes
        supports_create_index_with_clause
        supports_explain_with_utility_options
        supports_listen_notify
        supports_factorial_operator
        supports_bitwise_shift_operators
        supports_comment_on
        supports_empty_projections
        supports_nested_comments
        supports_string_escape_constant
        supports_numeric_literal_underscores
        supports_array_typedef_with_brackets
        supports_geometric_types
        supports_set_names
        supports_alter_column_type_using
        supports_notnull_operator
        supports_interval_options
        supports_insert_table_alias
        supports_create_table_like_parenthesized
        supports_select_wildcard_with_alias
        supports_comma_separated_trim
        supports_xml_expressions
        supports_comment_optimizer_hint
    }
}

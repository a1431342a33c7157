//! The dialect that sqlparser uses: its PostgreSQL dialect with a few changes.
//!
//! sqlparser first tries every function argument as `expression => value`. If no arrow follows, it
//! parses the expression again, so nested calls take time exponential in their depth. With only
//! plain names before the arrow, as in PostgreSQL, it does not.

use std::any::TypeId;

use sqlparser::ast::{
    BinaryOperator, ColumnOption, DataType, Expr, Ident, KeyOrIndexDisplay, NullsDistinctOption,
    TrimWhereField, TypedString, UniqueConstraint,
};
use sqlparser::dialect::{Dialect, PostgreSqlDialect, Precedence};
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::Token;

use super::bracketed_query::{of_values, query_in_brackets};
use super::like_operator::{like_all, pattern_and_escape};
use super::lookahead::{is_isnull, is_other_operator, is_word, prefix_operator, trim_side};
use super::prefixes::prefixed;
use super::subscripts::is_moved;
use super::{budget, is_reserved};

/// The dialect, in a variant for texts that contain NATURAL and one for other texts.
#[derive(Debug)]
pub(super) struct Postgres {
    /// Whether a join whose condition follows the next join, `a JOIN b JOIN c ON … ON …`, is read
    /// as if in parentheses. With NATURAL, which has no condition, such a join is ambiguous.
    pub(super) nests_joins: bool,
}

static BASE: PostgreSqlDialect = PostgreSqlDialect {};

macro_rules! as_in_postgresql {
    ($($method:ident)*) => {
        $(fn $method(&self) -> bool {
            BASE.$method()
        })*
    };
}

/// The replacement for the `*` of `(row).*`; users cannot write this name.
pub(crate) const EVERY_FIELD: char = '\u{1}';

/// The mark of the lower bound of a BETWEEN SYMMETRIC.
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

/// Parses the rest of a TRIM after FROM, if the TRIM does not name the characters to remove.
fn trimmed(
    parser: &mut Parser<'_>,
    trim_where: Option<TrimWhereField>,
) -> Result<Expr, ParserError> {
    let expr = Box::new(parser.parse_expr()?);
    parser.expect_token(&Token::RParen)?;
    Ok(Expr::Trim {
        expr,
        trim_where,
        trim_what: None,
        trim_characters: None,
    })
}

/// Returns the number of words in a type's name before a literal of the type; dots separate the
/// words.
fn typed_literal(parser: &Parser<'_>) -> Option<usize> {
    let token = |n: usize| &parser.peek_nth_token_ref(n).token;
    let word = |n: usize| match token(n) {
        Token::Word(word) => Some(word),
        _ => None,
    };
    let is_text = |n: usize| {
        matches!(
            token(n),
            Token::SingleQuotedString(_)
                | Token::EscapedStringLiteral(_)
                | Token::DollarQuotedString(_)
        )
    };
    let first = word(0)?;
    let words = match token(1) {
        Token::Period if word(2).is_some() => 2,
        _ => 1,
    };
    let reserved = first.quote_style.is_none()
        && (is_reserved(&first.value.to_ascii_lowercase()) || HAS_SYNTAX.contains(&first.keyword));
    (is_text(2 * words - 1) && !(reserved && words == 1)).then_some(words)
}

/// Words that can name a column only after AS.
#[rustfmt::skip]
const ALIASES_BEHIND_AS: [Keyword; 38] = [
    Keyword::ARRAY, Keyword::AS, Keyword::CHAR, Keyword::CHARACTER, Keyword::CREATE, Keyword::DAY,
    Keyword::EXCEPT, Keyword::FETCH, Keyword::FILTER, Keyword::FOR, Keyword::FROM, Keyword::GRANT,
    Keyword::GROUP, Keyword::HAVING, Keyword::HOUR, Keyword::INTERSECT, Keyword::INTO,
    Keyword::LIMIT, Keyword::MINUTE, Keyword::MONTH, Keyword::NOTNULL, Keyword::OFFSET, Keyword::ON,
    Keyword::ORDER, Keyword::OVER, Keyword::OVERLAPS, Keyword::PRECISION, Keyword::RETURNING,
    Keyword::SECOND, Keyword::TO, Keyword::UNION, Keyword::VARYING, Keyword::WHERE, Keyword::WINDOW,
    Keyword::WITH, Keyword::WITHIN, Keyword::WITHOUT, Keyword::YEAR,
];

/// Words before literals that sqlparser reads itself.
const HAS_SYNTAX: [Keyword; 5] = [
    Keyword::INTERVAL,
    Keyword::DATE,
    Keyword::TIME,
    Keyword::TIMESTAMP,
    Keyword::DATETIME,
];

fn literal_of_type(parser: &mut Parser<'_>, words: usize) -> Result<Expr, ParserError> {
    let data_type = match words {
        1 => parser.parse_data_type()?,
        _ => DataType::Custom(parser.parse_object_name(false)?, Vec::new()),
    };
    Ok(Expr::TypedString(TypedString {
        data_type,
        value: parser.parse_value()?,
        uses_odbc_syntax: false,
    }))
}

/// Parses `[NOT] LIKE pattern [ESCAPE expression]`. If the expression is not a literal, a function
/// call applies the escape to the pattern.
fn like_pattern(
    dialect: &Postgres,
    parser: &mut Parser<'_>,
    (expr, negated): (&Expr, bool),
) -> Option<Result<Expr, ParserError>> {
    like_symbol(parser, negated)?;
    let at = usize::from(negated);
    let quantified = [Keyword::ANY, Keyword::SOME, Keyword::ALL];
    if quantified.iter().any(|word| is_word(parser, at + 1, *word)) {
        return None;
    }
    let folds = is_word(parser, at, Keyword::ILIKE);
    (0..=at).for_each(|_| parser.advance_token());
    let sides = pattern_and_escape(parser, dialect.prec_value(Precedence::Like));
    let expr = Box::new(expr.clone());
    Some(sides.map(|(pattern, escape_char)| match folds {
        false => Expr::Like {
            negated,
            any: false,
            expr,
            pattern: Box::new(pattern),
            escape_char,
        },
        true => Expr::ILike {
            negated,
            any: false,
            expr,
            pattern: Box::new(pattern),
            escape_char,
        },
    }))
}

/// Returns the operator that LIKE or ILIKE stands for.
fn like_symbol(parser: &Parser<'_>, negated: bool) -> Option<BinaryOperator> {
    let at = usize::from(negated);
    match (
        is_word(parser, at, Keyword::LIKE),
        is_word(parser, at, Keyword::ILIKE),
    ) {
        (true, _) if negated => Some(BinaryOperator::PGNotLikeMatch),
        (true, _) => Some(BinaryOperator::PGLikeMatch),
        (_, true) if negated => Some(BinaryOperator::PGNotILikeMatch),
        (_, true) => Some(BinaryOperator::PGILikeMatch),
        _ => None,
    }
}

/// Parses `NULLS NOT DISTINCT` and the deferrability after the UNIQUE of a column.
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
    /// Returns the type of the PostgreSQL dialect, for which sqlparser checks.
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
        if is_isnull(parser) {
            return Some(Ok(self.prec_value(Precedence::Is)));
        }
        if is_other_operator(parser) {
            return Some(Ok(self.prec_value(Precedence::PgOther)));
        }
        BASE.get_next_precedence(parser)
    }

    /// Excludes words such as FOR, which is not an alias in PostgreSQL: `SELECT 1 FOR UPDATE`.
    fn is_column_alias(&self, keyword: &Keyword, parser: &mut Parser<'_>) -> bool {
        !ALIASES_BEHIND_AS.contains(keyword) && BASE.is_column_alias(keyword, parser)
    }

    fn parse_column_option(
        &self,
        parser: &mut Parser<'_>,
    ) -> Result<Option<Result<Option<ColumnOption>, ParserError>>, ParserError> {
        if !(is_word(parser, 0, Keyword::UNIQUE) && is_word(parser, 1, Keyword::NULLS)) {
            return Ok(None);
        }
        parser.advance_token();
        Ok(Some(unique_nulls(parser).map(Some)))
    }

    /// Parses `TRIM(LEADING FROM x)`, and `name 'literal'`: a literal of a type without its own
    /// syntax.
    fn parse_prefix(&self, parser: &mut Parser<'_>) -> Option<Result<Expr, ParserError>> {
        if let Err(error) = budget::spend() {
            return Some(Err(error));
        }
        // sqlparser first tries to read a type, and formats an error message for each literal.
        if let Token::Number(..) | Token::SingleQuotedString(_) = parser.peek_token_ref().token {
            return Some(parser.parse_value().map(Expr::Value));
        }
        let side = |n: usize| match &parser.peek_nth_token_ref(n).token {
            Token::Word(word) => trim_side(word.keyword),
            _ => None,
        };
        if is_word(parser, 0, Keyword::TRIM) && parser.peek_nth_token_ref(1).token == Token::LParen
        {
            let (side, from) = match side(2) {
                Some(side) => (Some(side), 3),
                None => (None, 2),
            };
            if is_word(parser, from, Keyword::FROM) {
                (0..=from).for_each(|_| parser.advance_token());
                return Some(trimmed(parser, side));
            }
        }
        if let Some(prefixed) = prefixed(parser, self.prec_value(Precedence::Between)) {
            return Some(prefixed);
        }
        if let Some(op) = prefix_operator(parser) {
            parser.advance_token();
            let operand = parser.parse_subexpr(self.prec_value(Precedence::PgOther));
            return Some(operand.map(|operand| Expr::UnaryOp {
                op,
                expr: Box::new(operand),
            }));
        }
        if let Some(query) = query_in_brackets(parser) {
            return Some(query.map(Expr::Subquery));
        }
        let words = typed_literal(parser)?;
        Some(literal_of_type(parser, words))
    }

    /// Parses `BETWEEN SYMMETRIC`, whose lower bound is marked; COLLATE after an operand that is
    /// not a single term; and `LIKE ALL`.
    fn parse_infix(
        &self,
        parser: &mut Parser<'_>,
        expr: &Expr,
        _precedence: u8,
    ) -> Option<Result<Expr, ParserError>> {
        if let Some(quantified) = of_values(parser, expr) {
            return Some(quantified);
        }
        if is_word(parser, 0, Keyword::COLLATE) {
            parser.advance_token();
            let collation = parser.parse_object_name(false);
            return Some(collation.map(|collation| Expr::Collate {
                expr: Box::new(expr.clone()),
                collation,
            }));
        }
        if is_isnull(parser) {
            parser.advance_token();
            return Some(Ok(Expr::IsNull(Box::new(expr.clone()))));
        }
        let negated = is_word(parser, 0, Keyword::NOT);
        let at = usize::from(negated);
        if let Some(compare_op) = like_symbol(parser, negated)
            && is_word(parser, at + 1, Keyword::ALL)
        {
            (0..at + 2).for_each(|_| parser.advance_token());
            return Some(like_all(parser, expr, compare_op));
        }
        let is_between = is_word(parser, at, Keyword::BETWEEN);
        if let Some(like) = like_pattern(self, parser, (expr, negated)) {
            return Some(like);
        }
        if !is_between {
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

    /// Returns true, because `TABLE t` is replaced by `FROM t` (`table_query`).
    fn supports_from_first_select(&self) -> bool {
        true
    }

    fn supports_left_associative_joins_without_parens(&self) -> bool {
        !self.nests_joins
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

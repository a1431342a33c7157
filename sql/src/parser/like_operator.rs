//! The operators LIKE and ILIKE: their pattern with ESCAPE, and their array with ALL.

use sqlparser::ast::{BinaryOperator, Expr, Ident, Value, ValueWithSpan};
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::Token;

use super::prefixes::{arguments, call};

pub(super) fn pattern_and_escape(
    parser: &mut Parser<'_>,
    precedence: u8,
) -> Result<(Expr, Option<ValueWithSpan>), ParserError> {
    let pattern = parser.parse_subexpr(precedence)?;
    if !parser.parse_keyword(Keyword::ESCAPE) {
        return Ok((pattern, None));
    }
    Ok(match parser.parse_subexpr(precedence)? {
        Expr::Value(literal) if !matches!(literal.value, Value::Placeholder(_)) => {
            (pattern, Some(literal))
        }
        escape => (
            call(Ident::new("like_escape"), arguments(vec![pattern, escape])),
            None,
        ),
    })
}

/// Parses the rest of an expression after `LIKE ALL`.
pub(super) fn like_all(
    parser: &mut Parser<'_>,
    left: &Expr,
    compare_op: BinaryOperator,
) -> Result<Expr, ParserError> {
    parser.expect_token(&Token::LParen)?;
    let right = parser.parse_expr()?;
    parser.expect_token(&Token::RParen)?;
    Ok(Expr::AllOp {
        left: Box::new(left.clone()),
        compare_op,
        right: Box::new(right),
    })
}

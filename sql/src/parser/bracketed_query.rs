//! Queries in parentheses that sqlparser takes for expressions.

use sqlparser::ast::{BinaryOperator, Expr, Query};
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::Token;

use super::lookahead::is_word;

/// The maximum number of parentheses that are searched for a query; the search takes quadratic
/// time.
const BRACKETS_MAX: usize = 64;

/// Parses a query that does not begin with a keyword of queries: `(VALUES (1))` or `((SELECT 1)
/// UNION SELECT 2)`.
pub(super) fn query_in_brackets(
    parser: &mut Parser<'_>,
) -> Option<Result<Box<Query>, ParserError>> {
    let opens = |n: usize| parser.peek_nth_token_ref(n).token == Token::LParen;
    // Beyond this many parentheses, the outermost one is taken as part of an expression.
    let brackets = (0..BRACKETS_MAX).find(|n| !opens(*n))?;
    let begins = |keyword| is_word(parser, brackets, keyword);
    let values = begins(Keyword::VALUES) && opens(brackets + 1);
    let of_set = begins(Keyword::SELECT) && brackets > 1;
    if brackets == 0 || !(values || of_set) || !holds_query(parser, brackets) {
        return None;
    }
    Some(bracketed_query(parser))
}

fn bracketed_query(parser: &mut Parser<'_>) -> Result<Box<Query>, ParserError> {
    parser.expect_token(&Token::LParen)?;
    let query = parser.parse_query()?;
    parser.expect_token(&Token::RParen)?;
    Ok(query)
}

/// Words that continue a query after a query in parentheses.
const QUERY_CONTINUATIONS: [Keyword; 8] = [
    Keyword::EXCEPT,
    Keyword::FETCH,
    Keyword::FOR,
    Keyword::INTERSECT,
    Keyword::LIMIT,
    Keyword::OFFSET,
    Keyword::ORDER,
    Keyword::UNION,
];

/// Returns whether the first of several opening parentheses encloses a query. The last of them
/// does.
///
/// The token after each closing parenthesis decides. Trying both ways takes time exponential in the
/// depth of the parentheses. A text without the closing parenthesis is an error either way.
fn holds_query(parser: &Parser<'_>, brackets: usize) -> bool {
    let mut depth = 0;
    for at in parser.index().. {
        match &parser.token_at(at).token {
            Token::LParen => depth += 1,
            Token::RParen if depth < 2 => return true,
            Token::RParen => {
                let is_expression = depth <= brackets && !continues_query(parser, at + 1);
                if is_expression {
                    return false;
                }
                depth -= 1;
            }
            Token::EOF => return true,
            _ => {}
        }
    }
    true
}

fn continues_query(parser: &Parser<'_>, mut at: usize) -> bool {
    while matches!(parser.token_at(at).token, Token::Whitespace(_)) {
        at += 1;
    }
    match &parser.token_at(at).token {
        Token::RParen | Token::EOF => true,
        Token::Word(word) => QUERY_CONTINUATIONS.contains(&word.keyword),
        _ => false,
    }
}

/// Parses `= ANY (VALUES (1), (2))`.
pub(super) fn of_values(parser: &mut Parser<'_>, left: &Expr) -> Option<Result<Expr, ParserError>> {
    let compare_op = match &parser.peek_nth_token_ref(0).token {
        Token::Eq => BinaryOperator::Eq,
        Token::Neq => BinaryOperator::NotEq,
        Token::Lt => BinaryOperator::Lt,
        Token::Gt => BinaryOperator::Gt,
        Token::LtEq => BinaryOperator::LtEq,
        Token::GtEq => BinaryOperator::GtEq,
        _ => return None,
    };
    let all = is_word(parser, 1, Keyword::ALL);
    let quantified = all || is_word(parser, 1, Keyword::ANY) || is_word(parser, 1, Keyword::SOME);
    let opens = parser.peek_nth_token_ref(2).token == Token::LParen;
    if !quantified || !opens || !is_word(parser, 3, Keyword::VALUES) {
        return None;
    }
    (0..2).for_each(|_| parser.advance_token());
    let right = match bracketed_query(parser) {
        Ok(right) => right,
        Err(error) => return Some(Err(error)),
    };
    let (left, right) = (Box::new(left.clone()), Box::new(Expr::Subquery(right)));
    Some(Ok(match all {
        true => Expr::AllOp {
            left,
            compare_op,
            right,
        },
        false => Expr::AnyOp {
            left,
            compare_op,
            right,
            is_some: false,
        },
    }))
}

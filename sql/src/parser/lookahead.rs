//! Questions about the next tokens of the parser, which consume none of them.

use sqlparser::ast::{TrimWhereField, UnaryOperator};
use sqlparser::keywords::Keyword;
use sqlparser::parser::Parser;
use sqlparser::tokenizer::Token;

pub(super) fn is_word(parser: &Parser<'_>, n: usize, keyword: Keyword) -> bool {
    matches!(&parser.peek_nth_token_ref(n).token, Token::Word(word) if word.keyword == keyword)
}

/// Returns whether ISNULL follows, which is not a keyword of sqlparser.
pub(super) fn is_isnull(parser: &Parser<'_>) -> bool {
    let Token::Word(word) = &parser.peek_nth_token_ref(0).token else {
        return false;
    };
    word.quote_style.is_none() && word.value.eq_ignore_ascii_case("isnull")
}

/// Returns whether the next token is an operator with PostgreSQL's precedence of "other operators",
/// to which sqlparser gives another precedence.
pub(super) fn is_other_operator(parser: &Parser<'_>) -> bool {
    let quoted = || parser.peek_nth_token_ref(1).token == Token::LParen;
    match &parser.peek_nth_token_ref(0).token {
        Token::Word(word) => word.keyword == Keyword::OPERATOR && quoted(),
        Token::Tilde
        | Token::TildeAsterisk
        | Token::ExclamationMarkTilde
        | Token::ExclamationMarkTildeAsterisk
        | Token::DoubleTilde
        | Token::DoubleTildeAsterisk
        | Token::ExclamationMarkDoubleTilde
        | Token::ExclamationMarkDoubleTildeAsterisk => true,
        _ => false,
    }
}

/// Returns a prefix operator to which sqlparser gives a higher precedence than to `+`.
pub(super) fn prefix_operator(parser: &Parser<'_>) -> Option<UnaryOperator> {
    match &parser.peek_nth_token_ref(0).token {
        Token::Tilde => Some(UnaryOperator::BitwiseNot),
        Token::AtSign => Some(UnaryOperator::PGAbs),
        Token::PGSquareRoot => Some(UnaryOperator::PGSquareRoot),
        Token::PGCubeRoot => Some(UnaryOperator::PGCubeRoot),
        _ => None,
    }
}

pub(super) fn trim_side(keyword: Keyword) -> Option<TrimWhereField> {
    match keyword {
        Keyword::BOTH => Some(TrimWhereField::Both),
        Keyword::LEADING => Some(TrimWhereField::Leading),
        Keyword::TRAILING => Some(TrimWhereField::Trailing),
        _ => None,
    }
}

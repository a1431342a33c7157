//! Expressions that begin with a keyword.
//!
//! If an error follows such a word, sqlparser reads the word again as a name. This takes time
//! exponential in the nesting depth. The words that cannot be names are therefore read here, once.

use sqlparser::ast::{
    CastKind, DataType, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList,
    FunctionArguments, Ident, ObjectName, TypedString,
};
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::Token;

/// Keywords of sqlparser that are functions, or nothing special, if a parenthesis follows.
const FUNCTIONS: [Keyword; 11] = [
    Keyword::BOX,
    Keyword::CEIL,
    Keyword::CIRCLE,
    Keyword::CONVERT,
    Keyword::FLOOR,
    Keyword::LINE,
    Keyword::LSEG,
    Keyword::PATH,
    Keyword::POINT,
    Keyword::POLYGON,
    Keyword::SUBSTR,
];

/// Parses an expression that begins with such a word; returns `None` for others. `between` is the
/// precedence of IN.
pub(super) fn prefixed(parser: &mut Parser<'_>, between: u8) -> Option<Result<Expr, ParserError>> {
    let Token::Word(word) = parser.peek_nth_token_ref(0).token.clone() else {
        return None;
    };
    if word.quote_style.is_some() {
        return None;
    }
    let opens = parser.peek_nth_token_ref(1).token == Token::LParen;
    let lists = parser.peek_nth_token_ref(1).token == Token::LBracket;
    let ident = Ident::new(word.value);
    match word.keyword {
        Keyword::CASE => Some(behind(parser, Parser::parse_case_expr)),
        Keyword::NOT => Some(behind(parser, Parser::parse_not)),
        Keyword::ARRAY if lists => Some(behind(parser, |parser| {
            parser.expect_token(&Token::LBracket)?;
            parser.parse_array_expr(true)
        })),
        _ if !opens => None,
        Keyword::ARRAY => Some(behind(parser, |parser| array_of(parser, ident))),
        Keyword::CAST => Some(behind(parser, |parser| {
            parser.parse_cast_expr(CastKind::Cast)
        })),
        Keyword::EXTRACT => Some(behind(parser, Parser::parse_extract_expr)),
        Keyword::INTERVAL => Some(behind(parser, rounded_interval)),
        Keyword::OVERLAY => Some(behind(parser, |parser| overlay(parser, ident))),
        Keyword::POSITION => Some(behind(parser, |parser| position(parser, between))),
        Keyword::SUBSTRING => Some(parser.parse_substring()),
        keyword if FUNCTIONS.contains(&keyword) => Some(behind(parser, |parser| {
            parser.parse_function(ObjectName::from(vec![ident]))
        })),
        _ => None,
    }
}

fn behind<'a>(
    parser: &mut Parser<'a>,
    read: impl FnOnce(&mut Parser<'a>) -> Result<Expr, ParserError>,
) -> Result<Expr, ParserError> {
    parser.advance_token();
    read(parser)
}

/// Parses `ARRAY(SELECT …)`.
fn array_of(parser: &mut Parser<'_>, name: Ident) -> Result<Expr, ParserError> {
    parser.expect_token(&Token::LParen)?;
    let query = parser.parse_query()?;
    parser.expect_token(&Token::RParen)?;
    Ok(call(name, FunctionArguments::Subquery(query)))
}

/// Parses `OVERLAY(x PLACING y FROM 1 FOR 2)`, or a plain call of the function.
fn overlay(parser: &mut Parser<'_>, name: Ident) -> Result<Expr, ParserError> {
    parser.expect_token(&Token::LParen)?;
    let first = parser.parse_expr()?;
    if !parser.parse_keyword(Keyword::PLACING) {
        let mut args = vec![first];
        while parser.consume_token(&Token::Comma) {
            args.push(parser.parse_expr()?);
        }
        parser.expect_token(&Token::RParen)?;
        return Ok(call(name, arguments(args)));
    }
    let what = parser.parse_expr()?;
    parser.expect_keyword(Keyword::FROM)?;
    let from = parser.parse_expr()?;
    let length = match parser.parse_keyword(Keyword::FOR) {
        true => Some(Box::new(parser.parse_expr()?)),
        false => None,
    };
    parser.expect_token(&Token::RParen)?;
    Ok(Expr::Overlay {
        expr: Box::new(first),
        overlay_what: Box::new(what),
        overlay_from: Box::new(from),
        overlay_for: length,
    })
}

/// Parses `POSITION(x IN y)`.
fn position(parser: &mut Parser<'_>, between: u8) -> Result<Expr, ParserError> {
    parser.expect_token(&Token::LParen)?;
    let expr = Box::new(parser.parse_subexpr(between)?);
    parser.expect_keyword(Keyword::IN)?;
    let r#in = Box::new(parser.parse_expr()?);
    parser.expect_token(&Token::RParen)?;
    Ok(Expr::Position { expr, r#in })
}

/// Parses `interval(0) '1.5 seconds'`.
fn rounded_interval(parser: &mut Parser<'_>) -> Result<Expr, ParserError> {
    parser.expect_token(&Token::LParen)?;
    let digits = parser.parse_literal_uint()?;
    parser.expect_token(&Token::RParen)?;
    Ok(Expr::TypedString(TypedString {
        data_type: DataType::Interval {
            fields: None,
            precision: Some(digits),
        },
        value: parser.parse_value()?,
        uses_odbc_syntax: false,
    }))
}

/// Returns a call without any clause.
pub(super) fn call(name: Ident, args: FunctionArguments) -> Expr {
    Expr::Function(Function {
        name: ObjectName::from(vec![name]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args,
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}

/// Returns arguments without names.
pub(super) fn arguments(args: Vec<Expr>) -> FunctionArguments {
    let unnamed = |arg: Expr| FunctionArg::Unnamed(FunctionArgExpr::Expr(arg));
    FunctionArguments::List(FunctionArgumentList {
        duplicate_treatment: None,
        args: args.into_iter().map(unnamed).collect(),
        clauses: Vec::new(),
    })
}

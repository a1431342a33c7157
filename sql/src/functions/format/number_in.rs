//! to_number: parses a text by a template.

use super::Outcome;
use super::number::{Shape, Token, tokens};
use crate::error::{SqlError, SqlState};
use crate::functions::decimal;
use crate::types::numeric;
use crate::value::Value;

pub(super) fn to_number(text: &str, template: &str) -> Outcome {
    let tokens = tokens(template);
    let shape = Shape::of(&tokens)?;
    let refused = |what: &str| {
        Err(SqlError::unsupported(format!(
            "\"{what}\" not supported for input"
        )))
    };
    let mut negative = false;
    let mut whole = String::new();
    let mut fraction = String::new();
    let mut after_point = false;
    let mut rest = text;
    for token in &tokens {
        match token {
            Token::Roman(_) => return refused("RN"),
            Token::Exponent => return refused("EEEE"),
            Token::Nine | Token::Zero | Token::Point | Token::Sign => {
                if !matches!(token, Token::Point) || !after_point {
                    rest = rest.trim_start();
                }
                // A sign can precede the digits. It can follow them only where the template has a
                // sign.
                if let Some(tail) = rest.strip_prefix('-').or(rest.strip_prefix('<')) {
                    negative = true;
                    rest = tail;
                } else if let Some(tail) = rest.strip_prefix('+') {
                    rest = tail;
                }
                if *token == Token::Sign {
                    continue;
                }
                let Some(c) = rest.chars().next() else {
                    continue;
                };
                match (c, token) {
                    ('.', _) if shape_has_point(&tokens) && !after_point => {
                        after_point = true;
                        rest = &rest[1..];
                        if *token != Token::Point
                            && let Some(digit) = rest.chars().next().filter(char::is_ascii_digit)
                        {
                            fraction.push(digit);
                            rest = &rest[1..];
                        }
                    }
                    (digit, Token::Nine | Token::Zero) if digit.is_ascii_digit() => {
                        match after_point {
                            true => fraction.push(digit),
                            false => whole.push(digit),
                        }
                        rest = &rest[1..];
                    }
                    _ => {}
                }
            }
            Token::Comma => rest = rest.strip_prefix(',').unwrap_or(rest),
            Token::Minus | Token::Plus | Token::PlusMinus => {
                if let Some(tail) = rest.strip_prefix('-') {
                    negative = true;
                    rest = tail;
                } else {
                    rest = rest.strip_prefix('+').unwrap_or(rest);
                }
            }
            Token::Currency | Token::Text(_) => {
                let next = rest.chars().next();
                if next.is_some_and(|c| !c.is_ascii_digit() && !matches!(c, '.' | '-' | '+')) {
                    rest = &rest[next.map_or(0, char::len_utf8)..];
                }
            }
            _ => {}
        }
    }
    if whole.is_empty() && fraction.is_empty() {
        return Err(SqlError::new(
            SqlState::INVALID_TEXT_REPRESENTATION,
            "invalid input syntax for type numeric: \" \"",
        ));
    }
    let sign = if negative { "-" } else { "" };
    let digits = if whole.is_empty() { "0" } else { &whole };
    let number = match fraction.is_empty() {
        true => numeric::parse(&format!("{sign}{digits}"))?,
        false => numeric::parse(&format!("{sign}{digits}.{fraction}"))?,
    };
    match shape.shift {
        None => Ok(Value::Numeric(number)),
        Some(shift) => {
            let power = numeric::parse(&format!("1{}", "0".repeat(shift.min(28))))?;
            decimal::div(&number, &power).map(Value::Numeric)
        }
    }
}

fn shape_has_point(tokens: &[Token]) -> bool {
    tokens.contains(&Token::Point)
}

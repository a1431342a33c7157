//! The limit on how deep a statement may be, told from its tokens before a tree is built.
//!
//! A syntax tree is as deep as its brackets nest, plus as many operators as are chained beside each
//! other at each open level (`1+1+1…` leans left). Dropping a tree recurses, so both are limited
//! here, for any text; the binder limits the depth of what it recurses over once more.

use super::lexer::{Kind, Token};
use crate::error::{SqlError, SqlState};

/// Open brackets and CASEs at one place.
const NESTING_MAX: usize = 200;
/// Operators between two commas, summed over the open levels.
const CHAIN_MAX: usize = 4000;

/// Words that make a tree deeper without a bracket.
const CHAINING: [&str; 22] = [
    "and",
    "or",
    "not",
    "is",
    "in",
    "like",
    "ilike",
    "similar",
    "between",
    "collate",
    "at",
    "union",
    "intersect",
    "except",
    "explain",
    "prior",
    "isnull",
    "notnull",
    "escape",
    "overlaps",
    "with",
    "join",
];

/// 54001.
#[cold]
pub(crate) fn too_deep() -> SqlError {
    SqlError::new(
        SqlState::STATEMENT_TOO_COMPLEX,
        "stack depth limit exceeded",
    )
    .hint("The statement nests or chains too many expressions; split it up.")
}

/// Checks one statement.
pub(crate) fn check(sql: &str, tokens: &[Token]) -> Result<(), SqlError> {
    // For each open level: is it a CASE, and how many operators has its current item chained.
    let mut levels: Vec<(bool, usize)> = vec![(false, 0)];
    let mut total = 0;
    for token in tokens {
        let chained = match token.kind {
            Kind::Open => {
                levels.push((false, 0));
                0
            }
            Kind::Close => {
                while levels.len() > 1 {
                    let Some((is_case, count)) = levels.pop() else {
                        break;
                    };
                    total -= count;
                    if !is_case {
                        break;
                    }
                }
                // What follows is chained to the bracket: `(…)(…)` or `a[1][2]`.
                1
            }
            Kind::Comma | Kind::Semicolon => {
                if let Some((_, count)) = levels.last_mut() {
                    total -= *count;
                    *count = 0;
                }
                0
            }
            Kind::Operator | Kind::Other => token.end - token.start,
            Kind::Cast => 1,
            Kind::Word if token.is(sql, "case") => {
                levels.push((true, 0));
                0
            }
            Kind::Word if token.is(sql, "end") && levels.last().is_some_and(|l| l.0) => {
                if let Some((_, count)) = levels.pop() {
                    total -= count;
                }
                1
            }
            Kind::Word => usize::from(token.is_one_of(sql, &CHAINING)),
            _ => 0,
        };
        if chained > 0 {
            total += chained;
            if let Some((_, count)) = levels.last_mut() {
                *count += chained;
            }
        }
        if levels.len() > NESTING_MAX || total > CHAIN_MAX {
            return Err(too_deep());
        }
    }
    Ok(())
}

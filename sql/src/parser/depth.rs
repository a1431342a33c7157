//! The limit on the depth of a statement. It is computed from the tokens, before a tree is built.
//!
//! A syntax tree is as deep as its parentheses nest, plus the number of chained operators at each
//! open level (`1+1+1…` leans left). Dropping a tree recurses, so both are limited here for any
//! text. The binder limits the depth of its own recursion separately.

use super::lexer::{Kind, Token};
use crate::error::SqlError;
use crate::stack::{is_roomy, too_deep};

/// The maximum number of open parentheses and CASEs on any stack.
const NESTING_SHALLOW: usize = 200;
/// The maximum number of open parentheses and CASEs, like that of PostgreSQL's parser.
const NESTING_MAX: usize = 10_000;
/// The maximum number of operators between two commas, summed over the open levels, on any stack.
const CHAIN_SHALLOW: usize = 4000;
/// The maximum number of operators between two commas, summed over the open levels.
const CHAIN_MAX: usize = 20_000;

/// Words that make a tree deeper without a parenthesis.
const CHAINING: [&str; 17] = [
    "and",
    "or",
    "not",
    "is",
    "in",
    "similar",
    "between",
    "at",
    "union",
    "intersect",
    "except",
    "explain",
    "prior",
    "escape",
    "overlaps",
    "with",
    "join",
];

/// Words whose left operand is copied during parsing: a chain of them takes quadratic time.
const COPYING: [&str; 5] = ["isnull", "notnull", "collate", "like", "ilike"];
/// The weight of such a word.
const COPYING_WEIGHT: usize = 10;

/// Checks the depth of one statement.
///
/// # Errors
/// 54001 if it is too deep for this stack (`stack`).
pub(crate) fn check(sql: &str, tokens: &[Token]) -> Result<(), SqlError> {
    // For each open level: whether it is a CASE, and the number of operators in its current item.
    let mut levels: Vec<(bool, usize)> = vec![(false, 0)];
    let mut total = 0;
    let (nesting_max, chain_max) = match is_roomy() {
        true => (NESTING_MAX, CHAIN_MAX),
        false => (NESTING_SHALLOW, CHAIN_SHALLOW),
    };
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
                // An operand after the parenthesis is chained to it: `(…)(…)` or `a[1][2]`.
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
            Kind::Word if token.is_one_of(sql, &COPYING) => COPYING_WEIGHT,
            Kind::Word => usize::from(token.is_one_of(sql, &CHAINING)),
            _ => 0,
        };
        if chained > 0 {
            total += chained;
            if let Some((_, count)) = levels.last_mut() {
                *count += chained;
            }
        }
        if levels.len() > nesting_max || total > chain_max {
            return Err(too_deep());
        }
    }
    Ok(())
}

//! The most expressions that sqlparser may begin to read in a text.
//!
//! sqlparser reads `IN (` and `FROM (` in one way and, where that fails, in another: nested ones
//! take time exponential in their depth. A text that needs much more than one reading is refused.

use std::cell::Cell;

use sqlparser::parser::ParserError;

/// Expressions that any text may begin.
const BASE: usize = 20_000;

/// Expressions that a text may begin for each of its tokens.
const PER_TOKEN: usize = 16;

thread_local! {
    static LEFT: Cell<usize> = const { Cell::new(BASE) };
}

/// Grants the reading of a text with so many tokens.
pub(super) fn grant(tokens: usize) {
    let granted = tokens.saturating_mul(PER_TOKEN).saturating_add(BASE);
    LEFT.set(granted);
}

/// Counts an expression.
///
/// # Errors
/// `RecursionLimitExceeded` beyond the budget: it ends all attempts of sqlparser.
pub(super) fn spend() -> Result<(), ParserError> {
    let left = LEFT.get().checked_sub(1);
    LEFT.set(left.ok_or(ParserError::RecursionLimitExceeded)?);
    Ok(())
}

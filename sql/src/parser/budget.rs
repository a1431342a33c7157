//! A limit on the number of expressions that sqlparser can begin to parse in one text.
//!
//! sqlparser parses `IN (` and `FROM (` in one way and, if that fails, in another. Nested ones take
//! time exponential in their depth. A text that needs much more work than one pass is rejected.

use std::cell::Cell;

use sqlparser::parser::ParserError;

/// The number of expressions that every text can begin.
const BASE: usize = 20_000;

/// The number of expressions that a text can begin for each of its tokens.
const PER_TOKEN: usize = 16;

thread_local! {
    static LEFT: Cell<usize> = const { Cell::new(BASE) };
}

/// Sets the budget for a text of `tokens` tokens.
pub(super) fn grant(tokens: usize) {
    let granted = tokens.saturating_mul(PER_TOKEN).saturating_add(BASE);
    LEFT.set(granted);
}

/// Counts an expression.
///
/// # Errors
/// `RecursionLimitExceeded` beyond the budget; it ends all attempts of sqlparser.
pub(super) fn spend() -> Result<(), ParserError> {
    let left = LEFT.get().checked_sub(1);
    LEFT.set(left.ok_or(ParserError::RecursionLimitExceeded)?);
    Ok(())
}

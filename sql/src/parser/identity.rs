//! The options of `GENERATED … AS IDENTITY (…)`, in any order, which the rest of the statement is parsed without.

use std::ops::Range;

use super::cursor::Cursor;
use super::lexer::{self, Kind, Token};
use super::utility::sequence_options;
use crate::bound::SequenceOptions;
use crate::error::SqlError;

/// The tokens of the options of each identity column, with their brackets.
pub(super) fn brackets(text: &str, tokens: &[Token]) -> Vec<Range<usize>> {
    let is = |i: usize, word: &str| tokens.get(i).is_some_and(|t: &Token| t.is(text, word));
    let kind = |i: usize| tokens.get(i).map(|token| token.kind);
    let opens =
        |i: &usize| is(*i, "as") && is(i + 1, "identity") && kind(i + 2) == Some(Kind::Open);
    let closes = |i: usize| {
        let close = (i + 3..tokens.len()).find(|j| kind(*j) == Some(Kind::Close))?;
        Some(i + 2..close + 1)
    };
    (0..tokens.len()).filter(opens).filter_map(closes).collect()
}

/// The options of the identity column whose name is at the character `column`.
pub(crate) fn identity_options(sql: &str, column: u32) -> Result<SequenceOptions, SqlError> {
    let tokens = lexer::tokens(sql)?;
    let is_identity = |i: &usize| {
        let token = &tokens[*i];
        token.is(sql, "identity") && lexer::position(sql, token.start) > column
    };
    let Some(identity) = (0..tokens.len()).find(is_identity) else {
        return Ok(SequenceOptions::default());
    };
    let mut own = brackets(sql, &tokens).into_iter();
    match own.find(|range| range.start == identity + 1) {
        None => Ok(SequenceOptions::default()),
        Some(range) => {
            let inner = &tokens[range.start + 1..range.end - 1];
            sequence_options(&mut Cursor::new(sql, inner))
        }
    }
}

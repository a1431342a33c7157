//! `CHECK (…) NO INHERIT`, which sqlparser does not read. It is replaced by ENFORCED, which
//! PostgreSQL 15 does not have.

use super::lexer::{Kind, Token, syntax_error};
use super::patch::put_padded;
use crate::error::SqlError;

/// The byte range of a NO INHERIT, including a NOT VALID before it.
pub(super) struct NoInherit {
    start: usize,
    end: usize,
    not_valid: bool,
}

/// Returns all NO INHERIT clauses of a text.
pub(super) fn found(text: &str, tokens: &[Token]) -> Result<Vec<NoInherit>, SqlError> {
    let is = |i: usize, word: &str| tokens.get(i).is_some_and(|t: &Token| t.is(text, word));
    let mut all = Vec::new();
    if !(is(0, "create") || is(0, "alter")) {
        return Ok(all);
    }
    for i in (0..tokens.len()).filter(|i| is(*i, "check")) {
        let Some(close) = closing(tokens, i + 1) else {
            continue;
        };
        let not_valid = is(close + 1, "not") && is(close + 2, "valid");
        let at = if not_valid { close + 3 } else { close + 1 };
        let not = usize::from(is(at, "not"));
        if is(at + not, "enforced") {
            return Err(syntax_error(text, tokens.get(at + not).copied()));
        }
        if is(at, "no") && is(at + 1, "inherit") {
            all.push(NoInherit {
                start: tokens[close + 1].start,
                end: tokens[at + 1].end,
                not_valid,
            });
        }
    }
    Ok(all)
}

fn closing(tokens: &[Token], open: usize) -> Option<usize> {
    let mut depth = 0usize;
    tokens.get(open).filter(|token| token.kind == Kind::Open)?;
    (open..tokens.len()).find(|i| {
        match tokens[*i].kind {
            Kind::Open => depth += 1,
            Kind::Close => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0
    })
}

/// Replaces the clauses.
pub(super) fn apply(patched: &mut String, all: &[NoInherit]) {
    for of in all {
        let words = match of.not_valid {
            true => "ENFORCED NOT VALID",
            false => "ENFORCED",
        };
        put_padded(patched, of.start..of.end, words);
    }
}

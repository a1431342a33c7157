//! What sqlparser reads in another spelling only.
//!
//! ```text
//! SUBSTRING(x SIMILAR p ESCAPE e)   is   SUBSTRING(x FROM p FOR e)
//! ORDER BY x USING <                is   ORDER BY x ASC
//! ```
//! No spelling is longer than what it stands for, so positions stay.

use std::ops::Range;

use super::lexer::{Kind, Token};

/// What is to be replaced, and by what.
pub(super) fn words(text: &str, tokens: &[Token]) -> Vec<(Range<usize>, &'static str)> {
    let is = |i: usize, word: &str| tokens.get(i).is_some_and(|t: &Token| t.is(text, word));
    let mut found = Vec::new();
    for (i, token) in tokens.iter().enumerate() {
        let before = &tokens[..i];
        if token.kind != Kind::Word || before.last().is_some_and(|t| t.kind == Kind::Dot) {
            continue;
        }
        if token.is(text, "using") {
            let next = tokens.get(i + 1).filter(|next| next.kind == Kind::Operator);
            let order = match next.map(|next| next.text(text)) {
                Some("<") => "ASC",
                Some(">") => "DESC",
                _ => continue,
            };
            found.push((token.start..tokens[i + 1].end, order));
        } else if token.is(text, "similar") && !is(i + 1, "to") && is_in_substring(text, before) {
            found.push((token.start..token.end, "FROM"));
            if let Some(escape) = escape_behind(text, &tokens[i + 1..]) {
                found.push((escape.start..escape.end, "FOR"));
            }
        }
    }
    found
}

/// Are the brackets that these tokens leave open last those of SUBSTRING, and is there something in them?
fn is_in_substring(text: &str, tokens: &[Token]) -> bool {
    let mut depth = 0_usize;
    for (i, token) in tokens.iter().enumerate().rev() {
        match token.kind {
            Kind::Close => depth += 1,
            Kind::Open if depth == 0 => {
                let function = tokens[..i].last();
                let is_empty = i + 1 == tokens.len();
                return !is_empty && function.is_some_and(|t| t.is(text, "substring"));
            }
            Kind::Open => depth -= 1,
            _ => {}
        }
    }
    false
}

/// The ESCAPE in the brackets that these tokens are in.
fn escape_behind<'t>(text: &str, tokens: &'t [Token]) -> Option<&'t Token> {
    let mut depth = 0_usize;
    for token in tokens {
        match token.kind {
            Kind::Open => depth += 1,
            Kind::Close => depth = depth.checked_sub(1)?,
            Kind::Word if depth == 0 && token.is(text, "escape") => return Some(token),
            _ => {}
        }
    }
    None
}

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
        if token.kind != Kind::Word {
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
        } else if token.is(text, "similar") && !is(i + 1, "to") {
            found.push((token.start..token.end, "FROM"));
            if let Some(escape) = escape_behind(text, &tokens[i + 1..]) {
                found.push((escape.start..escape.end, "FOR"));
            }
        }
    }
    found
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

//! `PARTITION BY HASH (column)` of CREATE TABLE. PostgreSQL has it before WITH and sqlparser after, so it
//! is parsed by itself and is blank where the rest is parsed.

use std::ops::Range;

use super::lexer::{Kind, Token};

/// The bytes of the clause and of the strategy with its columns, if the statement has one.
pub(super) fn clause(text: &str, tokens: &[Token]) -> Option<(Range<usize>, Range<usize>)> {
    let is = |i: usize, word: &str| tokens.get(i).is_some_and(|t: &Token| t.is(text, word));
    let creates_table = is(0, "create") && (1..4).any(|i| is(i, "table"));
    if !creates_table {
        return None;
    }
    let mut depth = 0usize;
    for (i, token) in tokens.iter().enumerate() {
        match token.kind {
            Kind::Open => depth += 1,
            Kind::Close => depth = depth.saturating_sub(1),
            _ if depth == 0 && is(i, "partition") && is(i + 1, "by") => {
                let strategy = tokens.get(i + 2)?;
                let end = closed(&tokens[i + 2..])?.end;
                return Some((token.start..end, strategy.start..end));
            }
            _ => {}
        }
    }
    None
}

/// The bracket that closes the first one.
fn closed(tokens: &[Token]) -> Option<&Token> {
    let mut depth = 0usize;
    tokens.iter().find(|token| match token.kind {
        Kind::Open => {
            depth += 1;
            false
        }
        Kind::Close => {
            depth = depth.saturating_sub(1);
            depth == 0
        }
        _ => false,
    })
}

/// `text` with blanks in the place of all that is not `kept`; lines and columns stay.
pub(super) fn only(text: &str, kept: Range<usize>) -> String {
    let blank = |part: &str| -> String {
        let of = |c: char| if c == '\n' { '\n' } else { ' ' };
        part.chars().map(of).collect()
    };
    let kept_text = &text[kept.clone()];
    blank(&text[..kept.start]) + kept_text + &blank(&text[kept.end..])
}

/// `text` with blanks in the place of `clause`.
pub(super) fn without(text: &str, clause: Range<usize>) -> String {
    let blank = only(&text[clause.clone()], 0..0);
    let mut rest = text.to_owned();
    rest.replace_range(clause, &blank);
    rest
}

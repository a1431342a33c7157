//! Assignments to elements of arrays and jsonb, `SET a[1] = …` and `INSERT INTO t (a[1], a[2]) …`,
//! which sqlparser does not read.
//!
//! ```text
//! SET a[i + 1] = 0   becomes   SET a.‹i + 1]› = 0
//! ```
//! The text in `‹›` is one name. It consists of the same characters, moved to a range that no text
//! uses (`MOVED`). The tree then has the subscripts in the right place, and all other text keeps
//! its position.

use std::ops::Range;

use sqlparser::ast;

use super::lexer::{Kind, Token};
use super::parse_expression;
use super::patch::put;
use crate::error::SqlError;
use crate::order::StableSort;

/// The offset of moved characters: a private-use plane of Unicode.
const MOVED: u32 = 0xF_0000;

/// Returns whether a character is a moved one.
pub(super) fn is_moved(ch: char) -> bool {
    u32::from(ch) >= MOVED
}

/// Returns the byte range of the subscripts of each target, from the first bracket to the last.
pub(super) fn targets(text: &str, tokens: &[Token]) -> Vec<Range<usize>> {
    let is = |i: usize, word: &str| tokens.get(i).is_some_and(|t: &Token| t.is(text, word));
    let bracket = |i: usize| tokens.get(i).is_some_and(|t| t.text(text) == "[");
    let mut found = Vec::new();
    if !(0..tokens.len()).any(bracket) {
        return found;
    }
    let mut depth = 0usize;
    // The parenthesis depths of the open SET clauses.
    let mut sets: Vec<usize> = Vec::new();
    for (i, token) in tokens.iter().enumerate() {
        match token.kind {
            Kind::Open => {
                if let Some(list) = column_list(text, tokens, i) {
                    items(text, tokens, list, &mut found);
                }
                depth += 1;
            }
            Kind::Close => {
                depth = depth.saturating_sub(1);
                sets.retain(|set| *set <= depth);
            }
            Kind::Word
                if ["from", "where", "returning", "when"]
                    .iter()
                    .any(|w| is(i, w)) =>
            {
                sets.retain(|set| *set < depth);
            }
            _ => {}
        }
        if token.is(text, "set") {
            sets.push(depth);
        }
        let begins = token.is(text, "set") || token.kind == Kind::Comma;
        if begins && sets.last() == Some(&depth) {
            match tokens.get(i + 1).is_some_and(|t| t.text(text) == "(") {
                true => items(text, tokens, i + 2..tokens.len(), &mut found),
                false => {
                    target(text, tokens, i + 1, &mut found);
                }
            }
        }
    }
    found
}

/// Returns the tokens in the parentheses at `open`, if they are the columns of an INSERT.
fn column_list(text: &str, tokens: &[Token], open: usize) -> Option<Range<usize>> {
    let is = |i: usize, word: &str| tokens.get(i).is_some_and(|t: &Token| t.is(text, word));
    if tokens[open].text(text) != "(" || open == 0 {
        return None;
    }
    let merges = is(open - 1, "insert");
    let inserts = || {
        let into = (1..open).rev().take(8).find(|i| is(*i, "into"))?;
        let end = name(tokens, into + 1);
        let end = if is(end, "as") { end + 2 } else { end };
        (is(into - 1, "insert") && end == open).then_some(())
    };
    (merges || inserts().is_some()).then_some(open + 1..tokens.len())
}

/// Collects the targets of a list in parentheses.
fn items(text: &str, tokens: &[Token], list: Range<usize>, found: &mut Vec<Range<usize>>) {
    let mut at = list.start;
    while at < list.end {
        let end = target(text, tokens, at, found);
        match tokens.get(end).map(|t| t.kind) {
            Some(Kind::Comma) => at = end + 1,
            _ => return,
        }
    }
}

/// Returns the first token after a qualified name.
fn name(tokens: &[Token], at: usize) -> usize {
    match is_name(tokens, at) {
        true => fields(tokens, at + 1),
        false => at,
    }
}

/// Returns the first token after any number of dots with names.
fn fields(tokens: &[Token], mut at: usize) -> usize {
    while tokens.get(at).is_some_and(|t| t.kind == Kind::Dot) && is_name(tokens, at + 1) {
        at += 2;
    }
    at
}

fn is_name(tokens: &[Token], at: usize) -> bool {
    let token = tokens.get(at);
    token.is_some_and(|t| matches!(t.kind, Kind::Word | Kind::QuotedIdent))
}

/// Collects the subscripts of the target at `at`; returns the first token after it.
fn target(text: &str, tokens: &[Token], at: usize, found: &mut Vec<Range<usize>>) -> usize {
    let bracket = |i: usize| tokens.get(i).is_some_and(|t| t.text(text) == "[");
    let mut end = name(tokens, at);
    if end == at {
        return at;
    }
    while bracket(end) {
        let open = end;
        let mut depth = 0usize;
        while let Some(token) = tokens.get(end) {
            match token.kind {
                Kind::Open => depth += 1,
                Kind::Close => depth -= 1,
                _ => {}
            }
            end += 1;
            // Consecutive subscripts form one range.
            if depth == 0 && !bracket(end) {
                break;
            }
        }
        found.push(tokens[open].start..tokens[end - 1].end);
        end = fields(tokens, end);
    }
    end
}

/// Replaces the subscripts by names, from the end of the text on, because the names have more
/// bytes.
pub(super) fn apply(patched: &mut String, targets: &[Range<usize>]) {
    let mut targets: Vec<&Range<usize>> = targets.iter().collect();
    targets.order_by_key(|range| std::cmp::Reverse(range.start));
    for range in targets {
        let inner = patched.get(range.start + 1..range.end).unwrap_or("");
        let moved = |ch: char| char::from_u32(u32::from(ch) + MOVED).unwrap_or(ch);
        let name: String = std::iter::once('.')
            .chain(inner.chars().map(moved))
            .collect();
        put(patched, range.clone(), &name);
    }
}

/// Returns the subscripts that a part of a target's name stands for; `None` for a plain name.
pub(crate) fn subscripts_of(ident: &ast::Ident) -> Result<Option<Vec<ast::Subscript>>, SqlError> {
    if ident.quote_style.is_some() || !ident.value.starts_with(is_moved) {
        return Ok(None);
    }
    // They are parsed at their original position, so errors report it.
    let start = ident.span.start;
    let (lines, blanks) = (start.line.saturating_sub(1), start.column.saturating_sub(3));
    let mut text = "\n".repeat(usize::try_from(lines).unwrap_or(0));
    text.push_str(&" ".repeat(usize::try_from(blanks).unwrap_or(0)));
    text.push_str("x[");
    let back = |ch: char| match is_moved(ch) {
        true => char::from_u32(u32::from(ch) - MOVED).unwrap_or(ch),
        false => ch,
    };
    text.extend(ident.value.chars().map(back));
    let ast::Expr::CompoundFieldAccess { access_chain, .. } = parse_expression(&text)? else {
        return Err(SqlError::internal("subscripts that are none"));
    };
    let subscripts = access_chain.into_iter().map(|access| match access {
        ast::AccessExpr::Subscript(subscript) => Ok(subscript),
        ast::AccessExpr::Dot(_) => Err(SqlError::internal("a field among subscripts")),
    });
    subscripts.collect::<Result<_, _>>().map(Some)
}

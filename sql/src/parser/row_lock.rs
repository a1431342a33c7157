//! `FOR NO KEY UPDATE` and `FOR KEY SHARE`, which sqlparser does not read. They become FOR UPDATE
//! and FOR SHARE with a mark before the first relation after OF.

use sqlparser::ast::ObjectName;

use super::dialect::EVERY_FIELD;
use super::lexer::{Kind, Token};
use super::patch::put;

/// A `NO KEY UPDATE` or `KEY SHARE` clause, including OF if that follows.
pub(super) struct WeakLock {
    start: usize,
    end: usize,
    word: &'static str,
    names: bool,
}

/// Returns the clauses of a text, in order.
pub(super) fn clauses(text: &str, tokens: &[Token]) -> Vec<WeakLock> {
    let is = |i: usize, word: &str| tokens.get(i).is_some_and(|t: &Token| t.is(text, word));
    let mut found = Vec::new();
    for i in (0..tokens.len()).filter(|i| is(*i, "for")) {
        let (word, last) = if is(i + 1, "no") && is(i + 2, "key") && is(i + 3, "update") {
            ("UPDATE", i + 3)
        } else if is(i + 1, "key") && is(i + 2, "share") {
            ("SHARE", i + 2)
        } else {
            continue;
        };
        let name = tokens.get(last + 2).map(|token| token.kind);
        let names = is(last + 1, "of") && matches!(name, Some(Kind::Word | Kind::QuotedIdent));
        found.push(WeakLock {
            start: tokens[i + 1].start,
            end: tokens[last + usize::from(names)].end,
            word,
            names,
        });
    }
    found
}

/// Rewrites the clauses for sqlparser. The text can grow by one byte for each.
pub(super) fn apply(patched: &mut String, clauses: &[WeakLock]) {
    for clause in clauses.iter().rev() {
        let dot = if clause.names { "." } else { "" };
        let mut text = format!("{} OF {EVERY_FIELD}{dot}", clause.word);
        let blanks = (clause.end - clause.start).saturating_sub(text.len());
        text.extend(std::iter::repeat_n(' ', blanks));
        put(patched, clause.start..clause.end, &text);
    }
}

/// Returns whether the relations after OF begin with the mark.
pub(crate) fn is_weak(of: &ObjectName) -> bool {
    let first = of.0.first().and_then(|part| part.as_ident());
    first.is_some_and(|ident| ident.value.starts_with(EVERY_FIELD))
}

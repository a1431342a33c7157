//! A column definition list without an alias: `FROM f() AS (a int, b text)`, which sqlparser does
//! not read. The function's name becomes its alias.

use std::ops::Range;

use sqlparser::ast::{self, TableFactor};

use super::dialect::EVERY_FIELD;
use super::lexer::{Kind, Token};
use super::patch::put;
use crate::walk::{TreeMut, VisitorMut};

/// The first words of a query in parentheses, as after the AS of a WITH.
const QUERIES: [&str; 8] = [
    "select", "values", "with", "table", "insert", "update", "delete", "merge",
];

/// Returns the byte range of each such AS.
pub(super) fn words(text: &str, tokens: &[Token]) -> Vec<Range<usize>> {
    let found = tokens.windows(4).filter(|four| {
        let named = match four[3].kind {
            Kind::QuotedIdent => true,
            Kind::Word => !QUERIES.iter().any(|word| four[3].is(text, word)),
            _ => false,
        };
        let bracket = |token: &Token, which: &str| token.text(text) == which;
        bracket(&four[0], ")") && four[1].is(text, "as") && bracket(&four[2], "(") && named
    });
    found.map(|four| four[1].start..four[1].end).collect()
}

/// Replaces each such AS by a name that users cannot write.
pub(super) fn apply(patched: &mut String, words: &[Range<usize>]) {
    for range in words {
        put(patched, range.clone(), &format!("{EVERY_FIELD} "));
    }
}

/// Names each such list after its function.
pub(super) fn name(tree: &mut impl TreeMut) {
    // The visitor never stops early.
    let _ = tree.walk_mut(&mut Namer);
}

struct Namer;

impl VisitorMut for Namer {
    fn table_factor(&mut self, factor: &mut TableFactor) {
        if let TableFactor::Table { name, alias, .. } | TableFactor::Function { name, alias, .. } =
            factor
            && let Some(alias) = alias
            && alias.name.value.starts_with(EVERY_FIELD)
            && let Some(ast::ObjectNamePart::Identifier(last)) = name.0.last()
        {
            alias.name = last.clone();
        }
    }
}

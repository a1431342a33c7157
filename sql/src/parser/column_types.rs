//! A column definition list without an alias, `FROM f() AS (a int, b text)`, which sqlparser does not read: the function's
//! name is its alias.

use std::ops::Range;

use sqlparser::ast::{self, TableFactor};

use super::dialect::EVERY_FIELD;
use super::lexer::{Kind, Token};
use super::patch::put;
use crate::walk::{TreeMut, VisitorMut};

/// What begins a query in brackets, as behind the AS of a WITH.
const QUERIES: [&str; 8] = [
    "select", "values", "with", "table", "insert", "update", "delete", "merge",
];

/// The bytes of each such AS.
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

/// Puts a name in the place of the words that nobody else writes.
pub(super) fn apply(patched: &mut String, words: &[Range<usize>]) {
    for range in words {
        put(patched, range.clone(), &format!("{EVERY_FIELD} "));
    }
}

/// Gives each such list the name of its function.
pub(super) fn name(tree: &mut impl TreeMut) {
    // It looks at everything.
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

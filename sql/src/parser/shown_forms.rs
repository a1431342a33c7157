//! Forms that PostgreSQL shows definitions in and that sqlparser does not read.
//!
//! ```text
//! FETCH FIRST (3) ROWS   RANGE '1 day'::interval PRECEDING   x OPERATOR(pg_catalog.=) ANY (…)
//! ```
//! What can be left out of them without a change of what they say is blanked out.

use super::lexer::{Kind, Token};

/// What is to be blanked out.
pub(super) fn words(text: &str, tokens: &[Token]) -> Vec<Token> {
    let is = |i: usize, word: &str| tokens.get(i).is_some_and(|t: &Token| t.is(text, word));
    let kind = |i: usize| tokens.get(i).map(|t: &Token| t.kind);
    let mut found = Vec::new();
    for i in 0..tokens.len() {
        if tokens[i].kind != Kind::Word {
            continue;
        }
        if is(i, "operator") && kind(i + 1) == Some(Kind::Open) {
            found.extend(operator(i, (text, tokens)));
        } else if is(i, "fetch")
            && (is(i + 1, "first") || is(i + 1, "next"))
            && kind(i + 2) == Some(Kind::Open)
            && kind(i + 4) == Some(Kind::Close)
        {
            found.extend([tokens[i + 2], tokens[i + 4]]);
        } else if (is(i, "preceding") || is(i, "following"))
            && i > 2
            && is(i - 1, "interval")
            && kind(i - 2) == Some(Kind::Cast)
            && kind(i - 3) == Some(Kind::String)
        {
            found.extend(&tokens[i - 2..i]);
        }
    }
    found
}

/// Before ANY, SOME and ALL, which sqlparser takes for functions then, an operator binds without the word, the brackets
/// and the schema as it would with them; without a schema it is read with them nowhere.
fn operator(i: usize, (text, tokens): (&str, &[Token])) -> Vec<Token> {
    let is = |i: usize, word: &str| tokens.get(i).is_some_and(|t: &Token| t.is(text, word));
    let kind = |i: usize| tokens.get(i).map(|t: &Token| t.kind);
    let qualified = is(i + 2, "pg_catalog") && kind(i + 3) == Some(Kind::Dot);
    let at = if qualified { i + 4 } else { i + 2 };
    let quantified = ["any", "some", "all"].iter().any(|word| is(at + 2, word));
    let closed = kind(at) == Some(Kind::Operator) && kind(at + 1) == Some(Kind::Close);
    let mut found = Vec::new();
    if closed && quantified {
        found.extend(&tokens[i..at]);
        found.push(tokens[at + 1]);
    }
    found
}

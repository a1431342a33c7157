//! Syntax in which PostgreSQL deparses definitions and that sqlparser does not read.
//!
//! ```text
//! FETCH FIRST (3) ROWS               RANGE '1 day'::interval PRECEDING
//! x OPERATOR(pg_catalog.=) ANY (…)   FROM t*
//! ```
//! The parts that can be omitted without a change of meaning are blanked out.

use super::lexer::{Kind, Token};

/// Returns the tokens to blank out.
pub(super) fn words(text: &str, tokens: &[Token]) -> Vec<Token> {
    let is = |i: usize, word: &str| tokens.get(i).is_some_and(|t: &Token| t.is(text, word));
    let kind = |i: usize| tokens.get(i).map(|t: &Token| t.kind);
    let mut found = Vec::new();
    for i in 0..tokens.len() {
        if is_star_of_table(text, tokens, i) {
            found.push(tokens[i]);
        }
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

/// Returns the tokens of OPERATOR(…) around an operator before ANY, SOME or ALL, which sqlparser
/// takes for functions there. Without OPERATOR, the parentheses and the schema, such an operator
/// has the same precedence.
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

/// Returns whether the token is the `*` of `FROM t*`, which includes descendant tables.
fn is_star_of_table(text: &str, tokens: &[Token], i: usize) -> bool {
    const BEHIND: [&str; 19] = [
        "where",
        "group",
        "having",
        "order",
        "limit",
        "offset",
        "fetch",
        "for",
        "union",
        "except",
        "intersect",
        "window",
        "join",
        "left",
        "right",
        "inner",
        "cross",
        "natural",
        "as",
    ];
    let kind = |i: usize| tokens.get(i).map(|t: &Token| t.kind);
    let is_name = |kind: Option<Kind>| matches!(kind, Some(Kind::Word | Kind::QuotedIdent));
    let is_star = tokens[i].kind == Kind::Operator && tokens[i].text(text) == "*";
    if !is_star || i < 2 || !is_name(kind(i - 1)) {
        return false;
    }
    let mut first = i - 1;
    while first >= 2 && kind(first - 1) == Some(Kind::Dot) && is_name(kind(first - 2)) {
        first -= 2;
    }
    let is_joined = first > 0 && tokens[first - 1].is(text, "join");
    let is_table = is_joined
        || (first > 0
            && tokens[first - 1].is(text, "from")
            && !(first > 1 && tokens[first - 2].is(text, "distinct")));
    let ends = match tokens.get(i + 1) {
        None => true,
        Some(next) if next.kind == Kind::Word => is_joined || next.is_one_of(text, &BEHIND),
        Some(next) => matches!(next.kind, Kind::Comma | Kind::Close | Kind::Semicolon),
    };
    is_table && ends
}

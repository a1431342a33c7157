//! Names inside expressions that the catalog keeps as text.
//!
//! A column is a word, or a quoted identifier, that no bracket, dot or string follows: so functions, relations and
//! typed literals are left alone. Words behind `::` are types.

use super::is_reserved;
use super::lexer::{self, Kind, Token};

/// Does the expression name the column `name`?
pub(crate) fn mentions(text: &str, name: &str) -> bool {
    !places(text, name).is_empty()
}

/// Does the text say the name, of whatever?
pub fn names(text: &str, name: &str) -> bool {
    let tokens = lexer::tokens(text).unwrap_or_default();
    tokens.iter().any(|token| match token.kind {
        Kind::Word => token.text(text).eq_ignore_ascii_case(name),
        Kind::QuotedIdent => unquoted(token.text(text)) == name,
        // As of `nextval('name')`.
        Kind::String => token
            .text(text)
            .to_lowercase()
            .contains(&name.to_lowercase()),
        _ => false,
    })
}

/// Does the text call the function `name`?
pub fn calls(text: &str, name: &str) -> bool {
    let tokens = lexer::tokens(text).unwrap_or_default();
    tokens.windows(2).any(|pair| {
        let named = match pair[0].kind {
            Kind::Word => pair[0].text(text).to_ascii_lowercase() == name,
            Kind::QuotedIdent => unquoted(pair[0].text(text)) == name,
            _ => false,
        };
        named && pair[1].text(text) == "("
    })
}

/// The expression with the column `from` called `to`.
pub(crate) fn renamed(text: &str, from: &str, to: &str) -> String {
    let mut renamed = text.to_owned();
    for token in places(text, from).into_iter().rev() {
        renamed.replace_range(token.start..token.end, &quoted(to));
    }
    renamed
}

fn places(text: &str, name: &str) -> Vec<Token> {
    let tokens = lexer::tokens(text).unwrap_or_default();
    let kind = |i: usize| tokens.get(i).map(|token: &Token| token.kind);
    let names = |token: &Token| match token.kind {
        Kind::Word => token.text(text).to_ascii_lowercase() == name,
        Kind::QuotedIdent => unquoted(token.text(text)) == name,
        _ => false,
    };
    let mut found = Vec::new();
    for (i, token) in tokens.iter().enumerate() {
        let is_column = !matches!(kind(i + 1), Some(Kind::Open | Kind::Dot | Kind::String))
            && (i == 0 || kind(i - 1) != Some(Kind::Cast));
        if is_column && names(token) {
            found.push(*token);
        }
    }
    found
}

fn unquoted(token: &str) -> String {
    let inner = token.get(1..token.len().saturating_sub(1));
    inner.unwrap_or_default().replace("\"\"", "\"")
}

/// An identifier as it is to be written.
pub fn quoted(name: &str) -> String {
    let plain = name
        .bytes()
        .all(|b| b.is_ascii_lowercase() || b == b'_' || b.is_ascii_digit());
    let begins = name.bytes().next().is_some_and(|b| !b.is_ascii_digit());
    match plain && begins && !is_reserved(name) {
        true => name.to_owned(),
        false => format!("\"{}\"", name.replace('"', "\"\"")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_found_and_nothing_else() {
        assert_eq!(renamed("a > 0 AND t.a < b", "a", "z"), "z > 0 AND t.z < b");
        assert_eq!(renamed("\"A\" + a(1)", "A", "B c"), "\"B c\" + a(1)");
        assert_eq!(
            renamed("'a' <> date '2000-01-01'", "date", "d"),
            "'a' <> date '2000-01-01'"
        );
        assert!(!mentions("x::a IS NULL", "a"));
        assert!(mentions("coalesce(A, 1)", "a"));
        assert_eq!(renamed("a", "a", "order"), "\"order\"");
    }
}

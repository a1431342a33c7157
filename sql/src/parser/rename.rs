//! Names inside expressions that the catalog stores as text.
//!
//! A column is a word or quoted identifier that no parenthesis, dot or string follows. Functions,
//! relations and typed literals are therefore not matched. Words after `::` are types.

use std::collections::BTreeSet;

use super::is_reserved;
use super::lexer::{self, Kind, Token};
use super::patch::{insert, put};

/// Returns the tokens IF EXISTS of an ALTER INDEX, which sqlparser does not accept there.
pub(super) fn index_if_exists<'t>(text: &str, tokens: &'t [Token]) -> &'t [Token] {
    let words = ["alter", "index", "if", "exists"];
    let fits = tokens.len() > 4 && words.iter().zip(tokens).all(|(word, t)| t.is(text, word));
    match fits {
        true => &tokens[2..4],
        false => &[],
    }
}

/// Returns whether the statement is ALTER INDEX IF EXISTS.
pub(crate) fn alters_index_if_exists(sql: &str) -> bool {
    let tokens = lexer::tokens(sql).unwrap_or_default();
    !index_if_exists(sql, &tokens).is_empty()
}

/// Returns whether the expression refers to the column `name`.
pub(crate) fn mentions(text: &str, name: &str) -> bool {
    !places(text, name).is_empty()
}

/// Returns whether the text contains the name, of any kind of object.
pub fn names(text: &str, name: &str) -> bool {
    let tokens = lexer::tokens(text).unwrap_or_default();
    tokens.iter().any(|token| match token.kind {
        Kind::Word => token.text(text).eq_ignore_ascii_case(name),
        Kind::QuotedIdent => unquoted(token.text(text)) == name,
        // For example in `nextval('name')`.
        Kind::String => token
            .text(text)
            .to_lowercase()
            .contains(&name.to_lowercase()),
        _ => false,
    })
}

/// Returns all names in the text, of any kind of object.
pub(crate) fn all_names(text: &str) -> BTreeSet<String> {
    let tokens = lexer::tokens(text).unwrap_or_default();
    let name = |token: &Token| match token.kind {
        Kind::Word => Some(token.text(text).to_ascii_lowercase()),
        Kind::QuotedIdent => Some(unquoted(token.text(text))),
        _ => None,
    };
    tokens.iter().filter_map(name).collect()
}

/// Returns whether the text calls the function `name`.
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

/// Adds the schema to each unqualified call of `name`.
pub(crate) fn with_schema(text: &str, name: &str, schema: &str) -> String {
    let tokens = lexer::tokens(text).unwrap_or_default();
    let mut out = text.to_owned();
    for i in (0..tokens.len()).rev() {
        let named = match tokens[i].kind {
            Kind::Word => tokens[i].text(text).to_ascii_lowercase() == name,
            Kind::QuotedIdent => unquoted(tokens[i].text(text)) == name,
            _ => false,
        };
        let called = tokens.get(i + 1).is_some_and(|next| next.text(text) == "(");
        let alone = i == 0 || tokens[i - 1].kind != Kind::Dot;
        if named && called && alone {
            insert(&mut out, tokens[i].start, &format!("{}.", quoted(schema)));
        }
    }
    out
}

/// Renames the column `from` to `to`.
pub(crate) fn renamed(text: &str, from: &str, to: &str) -> String {
    let mut renamed = text.to_owned();
    for token in places(text, from).into_iter().rev() {
        put(&mut renamed, token.start..token.end, &quoted(to));
    }
    renamed
}

/// Renames the schema `from` of the objects that `named` accepts. Returns `None` if a name may
/// refer to something else.
pub fn with_schema_renamed(
    text: &str,
    (from, to): (&str, &str),
    named: &dyn Fn(&str) -> bool,
) -> Option<String> {
    let tokens = lexer::tokens(text).unwrap_or_default();
    let name = |token: &Token| match token.kind {
        Kind::Word => Some(token.text(text).to_ascii_lowercase()),
        Kind::QuotedIdent => Some(unquoted(token.text(text))),
        _ => None,
    };
    let kind = |i: usize| tokens.get(i).map(|token: &Token| token.kind);
    let mut out = text.to_owned();
    for (i, token) in tokens.iter().enumerate().rev() {
        if token.kind == Kind::String {
            // For example in `nextval('schema.name')`.
            let inside = super::cursor::unquoted(token.text(text));
            let parts = lexer::tokens(&inside).unwrap_or_default();
            let is_name = parts.len() == 3 && parts[1].kind == Kind::Dot;
            if is_name && kind(i + 1) != Some(Kind::String) {
                let object = renamed_schema(&inside, &parts, (from, to), named);
                if let Some(object) = object {
                    let literal = format!("'{}'", object.replace('\'', "''"));
                    put(&mut out, token.start..token.end, &literal);
                }
            }
            continue;
        }
        if name(token).as_deref() != Some(from) || (i > 0 && kind(i - 1) == Some(Kind::Dot)) {
            continue;
        }
        let behind = tokens.get(i + 2).and_then(name);
        let qualifies = kind(i + 1) == Some(Kind::Dot);
        match (qualifies, behind) {
            (true, Some(object)) if named(&object) => {
                put(&mut out, token.start..token.end, &quoted(to));
            }
            _ => return None,
        }
    }
    Some(out)
}

/// Renames the schema of a name of three tokens, if `named` accepts the object.
fn renamed_schema(
    text: &str,
    parts: &[Token],
    (from, to): (&str, &str),
    named: &dyn Fn(&str) -> bool,
) -> Option<String> {
    let name = |token: &Token| match token.kind {
        Kind::Word => Some(token.text(text).to_ascii_lowercase()),
        Kind::QuotedIdent => Some(unquoted(token.text(text))),
        _ => None,
    };
    let (schema, object) = (name(&parts[0])?, name(&parts[2])?);
    let object = (schema == from && named(&object)).then_some(parts[2].text(text))?;
    Some(format!("{}.{object}", quoted(to)))
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

/// Returns an identifier with quotes if it needs them.
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
        let all = |_: &str| true;
        assert_eq!(
            with_schema_renamed("r.f(a, r.t, 'r.q'::regclass) <> 'r'", ("r", "New"), &all),
            Some("\"New\".f(a, \"New\".t, '\"New\".q'::regclass) <> 'r'".to_owned())
        );
        assert_eq!(
            with_schema_renamed("SELECT r.a FROM t AS r", ("r", "n"), &all),
            None
        );
        assert_eq!(
            with_schema("f(a) AND s.f(f) AND \"f\" (1)", "f", "S"),
            "\"S\".f(a) AND s.f(f) AND \"S\".\"f\" (1)"
        );
    }
}

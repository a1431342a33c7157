//! `JOIN … USING (a, b) AS alias`, which sqlparser does not read. The alias becomes the last name
//! of the list, with a mark before it.

use super::dialect::EVERY_FIELD;
use super::lexer::{Kind, Token};
use super::patch::put_padded;

/// The byte range of `) AS alias` and the marked name.
pub(super) struct Alias {
    start: usize,
    end: usize,
    name: String,
}

/// Returns all such aliases of a text.
pub(super) fn aliases(text: &str, tokens: &[Token]) -> Vec<Alias> {
    let is = |i: usize, word: &str| tokens.get(i).is_some_and(|t: &Token| t.is(text, word));
    let named = |i: usize| {
        let kind = tokens.get(i).map(|token: &Token| token.kind);
        matches!(kind, Some(Kind::Word | Kind::QuotedIdent))
    };
    let mut found = Vec::new();
    for i in (0..tokens.len()).filter(|i| is(*i, "using")) {
        let opens = tokens.get(i + 1).is_some_and(|t| t.text(text) == "(");
        let mut at = i + 2;
        while opens && named(at) && tokens.get(at + 1).is_some_and(|t| t.kind == Kind::Comma) {
            at += 2;
        }
        let closes = tokens.get(at + 1).filter(|t| t.text(text) == ")");
        if let (true, true, Some(close)) = (opens && named(at), is(at + 2, "as"), closes)
            && named(at + 3)
        {
            let alias = tokens[at + 3];
            let name = alias.text(text);
            found.push(Alias {
                start: close.start,
                end: alias.end,
                name: match alias.kind {
                    Kind::QuotedIdent => format!("\"{EVERY_FIELD}{}", &name[1..]),
                    _ => format!("{EVERY_FIELD}{name}"),
                },
            });
        }
    }
    found
}

/// Moves the aliases into the lists; the length of the text stays the same.
pub(super) fn apply(patched: &mut String, aliases: &[Alias]) {
    for of in aliases {
        put_padded(patched, of.start..of.end, &format!(",{})", of.name));
    }
}

/// Returns the alias if the last name of a USING is one.
pub(crate) fn using_alias(name: &str) -> Option<&str> {
    name.strip_prefix(EVERY_FIELD)
}

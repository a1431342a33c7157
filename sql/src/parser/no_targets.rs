//! A SELECT without targets: `SELECT WHERE true`, `EXISTS (SELECT)`. sqlparser reads an empty list
//! only before FROM. Before any other end of the list, a name that users cannot write stands for
//! the list until the tree is made.

use sqlparser::ast::{Expr, Select, SelectItem};
use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token as SqlToken, TokenWithSpan, Word};

use super::lexer::{Kind, Token};
use super::retoken::{is, is_at};
use crate::walk::{TreeMut, VisitorMut};

/// The words other than FROM that can follow an empty list.
const ENDS: [&str; 16] = [
    "except",
    "fetch",
    "for",
    "group",
    "having",
    "intersect",
    "into",
    "limit",
    "offset",
    "on",
    "order",
    "returning",
    "union",
    "where",
    "window",
    "with",
];

/// Inserts the name after each SELECT without targets.
pub(super) fn insert(tokens: &mut Vec<TokenWithSpan>) {
    // There SELECT is a privilege or an event.
    let others = [Keyword::GRANT, Keyword::REVOKE, Keyword::ALTER];
    if others.iter().any(|first| is_at(tokens, 0, *first)) {
        return;
    }
    let ends = |token: Option<&TokenWithSpan>| match token.map(|token| &token.token) {
        None | Some(SqlToken::RParen | SqlToken::SemiColon | SqlToken::EOF) => true,
        Some(SqlToken::Word(word)) => word.quote_style.is_none() && is_end(&word.value),
        Some(_) => false,
    };
    let lacks = |at: &usize| {
        let before = at.checked_sub(1);
        let begins = is(&tokens[*at], Keyword::SELECT)
            || (is(&tokens[*at], Keyword::ALL)
                && before.is_some_and(|before| is(&tokens[before], Keyword::SELECT)));
        begins && ends(tokens.get(at + 1))
    };
    let lacking: Vec<usize> = (0..tokens.len()).filter(lacks).collect();
    if lacking.is_empty() {
        return;
    }
    let mut whole = Vec::with_capacity(tokens.len() + lacking.len());
    let mut lacking = lacking.into_iter().peekable();
    for (at, token) in tokens.drain(..).enumerate() {
        let span = token.span;
        whole.push(token);
        if lacking.next_if_eq(&at).is_some() {
            whole.push(TokenWithSpan {
                token: SqlToken::Word(Word {
                    value: String::new(),
                    quote_style: None,
                    keyword: Keyword::NoKeyword,
                }),
                span,
            });
        }
    }
    *tokens = whole;
}

/// Removes the names that [`insert`] has inserted.
pub(super) fn remove(tree: &mut impl TreeMut, text: &str, tokens: &[Token]) {
    let ends = |token: Option<&Token>| match token {
        None => true,
        Some(token) if token.kind == Kind::Word => is_end(token.text(text)),
        Some(token) => matches!(token.kind, Kind::Close | Kind::Semicolon),
    };
    let lacks = |at: usize| {
        let all = tokens.get(at + 1).is_some_and(|next| next.is(text, "all"));
        tokens[at].is(text, "select") && ends(tokens.get(at + 1 + usize::from(all)))
    };
    if (0..tokens.len()).any(lacks) {
        // The visitor never stops early.
        let _ = tree.walk_mut(&mut Emptied);
    }
}

fn is_end(word: &str) -> bool {
    ENDS.iter().any(|end| word.eq_ignore_ascii_case(end))
}

struct Emptied;

impl VisitorMut for Emptied {
    fn select(&mut self, select: &mut Select) {
        let [SelectItem::UnnamedExpr(Expr::Identifier(name))] = &select.projection[..] else {
            return;
        };
        if name.value.is_empty() && name.quote_style.is_none() {
            select.projection.clear();
        }
    }
}

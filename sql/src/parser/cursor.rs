//! Walking the tokens of a statement that we parse ourselves.

use super::lexer::{Kind, Token, syntax_error};
use crate::error::SqlError;

/// A place in a statement's tokens.
pub(super) struct Cursor<'a> {
    pub(super) sql: &'a str,
    tokens: &'a [Token],
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(sql: &'a str, tokens: &'a [Token]) -> Cursor<'a> {
        Cursor { sql, tokens, at: 0 }
    }

    pub(super) fn peek(&self) -> Option<Token> {
        self.tokens.get(self.at).copied()
    }

    pub(super) fn next_token(&mut self) -> Option<Token> {
        let token = self.peek();
        self.at += usize::from(token.is_some());
        token
    }

    /// 42601 at the current token.
    pub(super) fn unexpected(&self) -> SqlError {
        syntax_error(self.sql, self.peek())
    }

    /// Is the current token this keyword?
    pub(super) fn sees(&self, keyword: &str) -> bool {
        self.peek().is_some_and(|t| t.is(self.sql, keyword))
    }

    /// Are the current tokens these keywords?
    pub(super) fn sees_all(&self, keywords: &[&str]) -> bool {
        keywords.iter().enumerate().all(|(i, keyword)| {
            self.tokens
                .get(self.at + i)
                .is_some_and(|t| t.is(self.sql, keyword))
        })
    }

    /// Takes the keyword if it is here.
    pub(super) fn accept(&mut self, keyword: &str) -> bool {
        let seen = self.sees(keyword);
        self.at += usize::from(seen);
        seen
    }

    /// Takes the keywords if they are all here.
    pub(super) fn accept_all(&mut self, keywords: &[&str]) -> bool {
        let seen = self.sees_all(keywords);
        if seen {
            self.at += keywords.len();
        }
        seen
    }

    /// Takes the keyword, or 42601.
    pub(super) fn expect(&mut self, keyword: &str) -> Result<(), SqlError> {
        match self.accept(keyword) {
            true => Ok(()),
            false => Err(self.unexpected()),
        }
    }

    /// Takes a token of this kind if it is here.
    pub(super) fn accept_kind(&mut self, kind: Kind) -> Option<Token> {
        let token = self.peek().filter(|t| t.kind == kind)?;
        self.at += 1;
        Some(token)
    }

    /// Takes a token of this kind, or 42601.
    pub(super) fn expect_kind(&mut self, kind: Kind) -> Result<Token, SqlError> {
        self.accept_kind(kind).ok_or_else(|| self.unexpected())
    }

    /// Takes an operator if it is here.
    pub(super) fn accept_operator(&mut self, operator: &str) -> bool {
        let seen = self
            .peek()
            .is_some_and(|t| t.kind == Kind::Operator && t.text(self.sql) == operator);
        self.at += usize::from(seen);
        seen
    }

    /// Takes an identifier, folded to lower case unless quoted.
    pub(super) fn identifier(&mut self) -> Result<String, SqlError> {
        let token = self.peek();
        match token.map(|t| (t.kind, t.text(self.sql))) {
            Some((Kind::Word, text)) => {
                self.at += 1;
                Ok(text.to_ascii_lowercase())
            }
            Some((Kind::QuotedIdent, text)) => {
                self.at += 1;
                Ok(text[1..text.len() - 1].replace("\"\"", "\""))
            }
            _ => Err(self.unexpected()),
        }
    }

    /// Takes a name with its schema.
    pub(super) fn qualified(&mut self) -> Result<(Option<String>, String), SqlError> {
        let first = self.identifier()?;
        if self.accept_kind(Kind::Dot).is_none() {
            return Ok((None, first));
        }
        Ok((Some(first), self.identifier()?))
    }

    /// Takes a string literal.
    pub(super) fn string(&mut self) -> Result<String, SqlError> {
        let token = self.peek();
        match token.map(|t| (t.kind, t.text(self.sql))) {
            Some((Kind::String, text)) => {
                self.at += 1;
                Ok(unquoted(text))
            }
            Some((Kind::OtherString, text)) => {
                self.at += 1;
                escaped(text).ok_or_else(|| syntax_error(self.sql, token))
            }
            _ => Err(self.unexpected()),
        }
    }

    /// 42601 unless all is read.
    pub(super) fn end(&self) -> Result<(), SqlError> {
        match self.peek() {
            None => Ok(()),
            Some(_) => Err(self.unexpected()),
        }
    }

    /// The text from the current token to the end.
    pub(super) fn rest(&self) -> &'a str {
        match self.peek() {
            Some(token) => self.sql.get(token.start..).unwrap_or(""),
            None => "",
        }
    }

    /// The bytes between this opening bracket, the current token, and its closing one, which is
    /// taken too.
    pub(super) fn bracketed(&mut self) -> Result<(usize, usize), SqlError> {
        let open = self.expect_kind(Kind::Open)?;
        let mut depth = 1usize;
        while let Some(token) = self.next_token() {
            match token.kind {
                Kind::Open => depth += 1,
                Kind::Close => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                return Ok((open.end, token.start));
            }
        }
        Err(self.unexpected())
    }
}

/// The text of a `'…'` literal.
pub(super) fn unquoted(literal: &str) -> String {
    let inner = literal
        .strip_prefix('\'')
        .and_then(|l| l.strip_suffix('\''))
        .unwrap_or(literal);
    inner.replace("''", "'")
}

/// The text of an `E'…'` literal with the plain escapes.
fn escaped(literal: &str) -> Option<String> {
    let inner = literal.get(2..literal.len().checked_sub(1)?)?;
    if !literal.starts_with(['e', 'E']) {
        return None;
    }
    let mut out = String::new();
    let mut chars = inner.chars();
    while let Some(c) = chars.next() {
        match c {
            '\'' => {
                chars.next();
                out.push('\'');
            }
            '\\' => out.push(match chars.next()? {
                'b' => '\u{8}',
                'f' => '\u{c}',
                'n' => '\n',
                'r' => '\r',
                't' => '\t',
                // The numeric escapes are not for option values.
                'x' | 'u' | 'U' | '0'..='9' => return None,
                other => other,
            }),
            c => out.push(c),
        }
    }
    Some(out)
}

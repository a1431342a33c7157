//! A cursor over the tokens of statements that this parser reads without sqlparser.

use std::borrow::Cow;

use super::lexer::{Kind, Token, syntax_error};
use crate::error::SqlError;

/// The maximum length of an identifier.
const NAME_BYTES_MAX: usize = 63;

/// Cuts an identifier at its maximum length.
fn truncated(mut name: String) -> String {
    name.truncate(name.floor_char_boundary(NAME_BYTES_MAX));
    name
}

/// A position in a statement's tokens.
pub(crate) struct Cursor<'a> {
    pub(crate) sql: &'a str,
    tokens: Cow<'a, [Token]>,
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(sql: &'a str, tokens: &'a [Token]) -> Cursor<'a> {
        Cursor {
            sql,
            tokens: Cow::Borrowed(tokens),
            at: 0,
        }
    }

    /// Creates a cursor that owns its tokens.
    pub(crate) fn owning(sql: &'a str, tokens: Vec<Token>) -> Cursor<'a> {
        Cursor {
            sql,
            tokens: Cow::Owned(tokens),
            at: 0,
        }
    }

    pub(crate) fn peek(&self) -> Option<Token> {
        self.tokens.get(self.at).copied()
    }

    pub(crate) fn next_token(&mut self) -> Option<Token> {
        let token = self.peek();
        self.at += usize::from(token.is_some());
        token
    }

    /// Returns whether the current token is the last one.
    pub(crate) fn is_last(&self) -> bool {
        self.at + 1 == self.tokens.len()
    }

    /// Returns the token `n` positions after the current one.
    pub(crate) fn peek_after(&self, n: usize) -> Option<Token> {
        self.tokens.get(self.at + n).copied()
    }

    /// Consumes tokens up to one outside parentheses that `ends` accepts, which is not consumed.
    /// Returns the consumed text.
    pub(crate) fn text_until(&mut self, ends: &dyn Fn(&str, &Token) -> bool) -> &'a str {
        let (mut depth, mut range) = (0usize, None);
        while let Some(token) = self.peek() {
            if depth == 0 && ends(self.sql, &token) {
                break;
            }
            match token.kind {
                Kind::Open => depth += 1,
                Kind::Close if depth == 0 => break,
                Kind::Close => depth -= 1,
                _ => {}
            }
            let start = range.map_or(token.start, |(start, _)| start);
            range = Some((start, token.end));
            self.at += 1;
        }
        let text = range.and_then(|(start, end)| self.sql.get(start..end));
        text.unwrap_or("")
    }

    /// Returns error 42601 at the current token.
    pub(crate) fn unexpected(&self) -> SqlError {
        syntax_error(self.sql, self.peek())
    }

    /// Returns whether the current token is this keyword.
    pub(crate) fn sees(&self, keyword: &str) -> bool {
        self.peek().is_some_and(|t| t.is(self.sql, keyword))
    }

    /// Returns whether the next tokens are these keywords.
    pub(crate) fn sees_all(&self, keywords: &[&str]) -> bool {
        keywords.iter().enumerate().all(|(i, keyword)| {
            self.tokens
                .get(self.at + i)
                .is_some_and(|t| t.is(self.sql, keyword))
        })
    }

    /// Consumes the keyword if it is the current token.
    pub(crate) fn accept(&mut self, keyword: &str) -> bool {
        let seen = self.sees(keyword);
        self.at += usize::from(seen);
        seen
    }

    /// Consumes the keywords if they are the next tokens.
    pub(crate) fn accept_all(&mut self, keywords: &[&str]) -> bool {
        let seen = self.sees_all(keywords);
        if seen {
            self.at += keywords.len();
        }
        seen
    }

    /// Consumes the keyword.
    ///
    /// # Errors
    /// 42601 if it is not the current token.
    pub(crate) fn expect(&mut self, keyword: &str) -> Result<(), SqlError> {
        match self.accept(keyword) {
            true => Ok(()),
            false => Err(self.unexpected()),
        }
    }

    /// Consumes the current token if it is of this kind.
    pub(crate) fn accept_kind(&mut self, kind: Kind) -> Option<Token> {
        let token = self.peek().filter(|t| t.kind == kind)?;
        self.at += 1;
        Some(token)
    }

    /// Consumes a token of this kind.
    ///
    /// # Errors
    /// 42601 if the current token is of another kind.
    pub(crate) fn expect_kind(&mut self, kind: Kind) -> Result<Token, SqlError> {
        self.accept_kind(kind).ok_or_else(|| self.unexpected())
    }

    /// Consumes the operator if it is the current token.
    pub(crate) fn accept_operator(&mut self, operator: &str) -> bool {
        let seen = self
            .peek()
            .is_some_and(|t| t.kind == Kind::Operator && t.text(self.sql) == operator);
        self.at += usize::from(seen);
        seen
    }

    /// Consumes an identifier, folded to lower case unless quoted, and truncated to its maximum
    /// length.
    pub(crate) fn identifier(&mut self) -> Result<String, SqlError> {
        let token = self.peek();
        match token.map(|t| (t.kind, t.text(self.sql))) {
            Some((Kind::Word, text)) => {
                self.at += 1;
                Ok(truncated(text.to_ascii_lowercase()))
            }
            Some((Kind::QuotedIdent, text)) => {
                self.at += 1;
                let name = text[1..text.len() - 1].replace("\"\"", "\"");
                Ok(truncated(name))
            }
            _ => Err(self.unexpected()),
        }
    }

    /// Consumes a name with an optional schema.
    pub(crate) fn qualified(&mut self) -> Result<(Option<String>, String), SqlError> {
        let first = self.identifier()?;
        if self.accept_kind(Kind::Dot).is_none() {
            return Ok((None, first));
        }
        Ok((Some(first), self.identifier()?))
    }

    /// Consumes a string literal.
    pub(crate) fn string(&mut self) -> Result<String, SqlError> {
        let token = self.peek();
        match token.map(|t| (t.kind, t.text(self.sql))) {
            Some((Kind::String, text)) => {
                self.at += 1;
                Ok(unquoted(text))
            }
            Some((Kind::OtherString, text)) if text.starts_with('$') => {
                self.at += 1;
                let tag = text[1..].find('$').map_or(0, |end| end + 2);
                Ok(text.get(tag..text.len() - tag).unwrap_or("").to_owned())
            }
            Some((Kind::OtherString, text)) => {
                self.at += 1;
                escaped(text).ok_or_else(|| syntax_error(self.sql, token))
            }
            _ => Err(self.unexpected()),
        }
    }

    /// Checks that all tokens are consumed.
    ///
    /// # Errors
    /// 42601 at the current token.
    pub(crate) fn end(&self) -> Result<(), SqlError> {
        match self.peek() {
            None => Ok(()),
            Some(_) => Err(self.unexpected()),
        }
    }

    /// Returns the text from the current token to the end.
    pub(crate) fn rest(&self) -> &'a str {
        match self.peek() {
            Some(token) => self.sql.get(token.start..).unwrap_or(""),
            None => "",
        }
    }

    /// Returns the whole text with blanks before the current token, so positions stay the same.
    pub(crate) fn rest_in_place(&self) -> String {
        let start = self.peek().map_or(self.sql.len(), |token| token.start);
        let (before, rest) = self.sql.split_at(start);
        let blank = |c: char| if c == '\n' { c } else { ' ' };
        before.chars().map(blank).chain(rest.chars()).collect()
    }

    /// Consumes the parentheses that open at the current token, with their contents. Returns the
    /// byte range between them.
    pub(crate) fn bracketed(&mut self) -> Result<(usize, usize), SqlError> {
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

/// Returns the text of a `'…'` literal.
pub(crate) fn unquoted(literal: &str) -> String {
    let inner = literal
        .strip_prefix('\'')
        .and_then(|l| l.strip_suffix('\''))
        .unwrap_or(literal);
    inner.replace("''", "'")
}

/// Returns the text of an `E'…'` literal that has only simple escapes.
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
                // Option values do not use numeric escapes.
                'x' | 'u' | 'U' | '0'..='9' => return None,
                other => other,
            }),
            c => out.push(c),
        }
    }
    Some(out)
}

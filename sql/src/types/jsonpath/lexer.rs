//! The lexer of jsonpath.

use crate::error::{SqlError, SqlState};
use crate::types::json::plain_number;

/// A token of a jsonpath.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token {
    /// An unquoted name.
    Name(String),
    /// A quoted string.
    Text(String),
    /// `$name`
    Variable(String),
    /// A number, as jsonb writes it.
    Number(String),
    /// An operator or punctuation character.
    Sign(&'static str),
}

/// A token and its byte range.
pub(super) struct Word {
    pub(super) token: Token,
    pub(super) from: usize,
    pub(super) to: usize,
}

/// The operators; longer ones come first.
const SIGNS: [&str; 32] = [
    "**", "&&", "||", "==", "!=", "<>", "<=", ">=", "?", "%", "$", ".", "[", "]", "{", "}", "(",
    ")", "|", "&", "!", "=", "<", ">", "@", "#", ",", "*", ":", "-", "+", "/",
];

fn is_special(c: char) -> bool {
    c.is_ascii_whitespace() || "?%$.[]{}()|&!=<>@#,*:-+/\\\"".contains(c)
}

/// Returns error 42601 at a position of the text.
pub(super) fn unexpected(text: &str, from: usize, to: usize) -> SqlError {
    let what = match text.get(from..to).filter(|near| !near.is_empty()) {
        Some(near) => format!("syntax error at or near \"{near}\" of jsonpath input"),
        None => "syntax error at end of jsonpath input".to_owned(),
    };
    SqlError::new(SqlState::SYNTAX_ERROR, what)
}

/// Returns all tokens of a text.
pub(super) fn words(text: &str) -> Result<Vec<Word>, SqlError> {
    let mut lexer = Lexer { text, at: 0 };
    let mut words = Vec::new();
    loop {
        lexer.blanks()?;
        let from = lexer.at;
        if from == text.len() {
            return Ok(words);
        }
        let token = lexer.token()?;
        words.push(Word {
            token,
            from,
            to: lexer.at,
        });
    }
}

struct Lexer<'a> {
    text: &'a str,
    at: usize,
}

impl Lexer<'_> {
    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += c.len_utf8();
        Some(c)
    }

    fn wrong(&self, what: &str) -> SqlError {
        SqlError::new(SqlState::SYNTAX_ERROR, format!("{what} of jsonpath input"))
    }

    fn blanks(&mut self) -> Result<(), SqlError> {
        loop {
            let rest = self.rest();
            let trimmed = rest.trim_start_matches(|c: char| c.is_ascii_whitespace());
            self.at += rest.len() - trimmed.len();
            if !self.rest().starts_with("/*") {
                return Ok(());
            }
            let Some(end) = self.rest().find("*/") else {
                return Err(self.wrong("unexpected end of comment at end"));
            };
            self.at += end + 2;
        }
    }

    fn token(&mut self) -> Result<Token, SqlError> {
        let rest = self.rest();
        let digits = |s: &str| s.starts_with(|c: char| c.is_ascii_digit());
        if digits(rest) || (rest.starts_with('.') && digits(&rest[1..])) {
            return self.number();
        }
        if let Some(behind) = rest.strip_prefix('$') {
            let quoted = behind.starts_with('"');
            if quoted || behind.starts_with(|c| !is_special(c) || c == '\\') {
                self.at += 1;
                let name = if quoted { self.string()? } else { self.name()? };
                return Ok(Token::Variable(name));
            }
        }
        if rest.starts_with('"') {
            return Ok(Token::Text(self.string()?));
        }
        let mut signs = SIGNS.iter();
        if let Some(sign) = signs.find(|sign| rest.starts_with(**sign)) {
            self.at += sign.len();
            return Ok(Token::Sign(sign));
        }
        Ok(Token::Name(self.name()?))
    }

    fn number(&mut self) -> Result<Token, SqlError> {
        let from = self.at;
        let digits = |lexer: &mut Self| {
            while lexer.peek().is_some_and(|c| c.is_ascii_digit()) {
                lexer.at += 1;
            }
        };
        digits(self);
        if self.peek() == Some('.') {
            self.at += 1;
            digits(self);
        }
        let exponent = self.rest().strip_prefix(['e', 'E']);
        let exponent = exponent.map(|rest| rest.strip_prefix(['+', '-']).unwrap_or(rest));
        if exponent.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit())) {
            self.at += 1;
            if matches!(self.peek(), Some('+' | '-')) {
                self.at += 1;
            }
            digits(self);
        }
        if self.peek().is_some_and(|c| !is_special(c)) {
            let more = self.rest().chars().next().map_or(0, char::len_utf8);
            let near = &self.text[from..self.at + more];
            return Err(self.wrong(&format!(
                "trailing junk after numeric literal at or near \"{near}\""
            )));
        }
        let (_, whole, fraction) = plain_number(&self.text[from..self.at])?;
        let whole = if whole.is_empty() { "0" } else { &whole };
        Ok(Token::Number(match fraction.is_empty() {
            true => whole.to_owned(),
            false => format!("{whole}.{fraction}"),
        }))
    }

    fn name(&mut self) -> Result<String, SqlError> {
        let mut name = String::new();
        while let Some(c) = self.peek() {
            match c {
                '\\' => {
                    self.at += 1;
                    self.escape(&mut name)?;
                }
                c if is_special(c) => break,
                c => {
                    self.at += c.len_utf8();
                    name.push(c);
                }
            }
        }
        Ok(name)
    }

    fn string(&mut self) -> Result<String, SqlError> {
        self.at += 1;
        let mut text = String::new();
        loop {
            match self.next() {
                None => return Err(self.wrong("unexpected end of quoted string at end")),
                Some('"') => return Ok(text),
                Some('\\') => self.escape(&mut text)?,
                Some(c) => text.push(c),
            }
        }
    }

    /// Reads an escape after its backslash.
    fn escape(&mut self, out: &mut String) -> Result<(), SqlError> {
        let Some(c) = self.next() else {
            return Err(self.wrong("unexpected end after backslash at end"));
        };
        out.push(match c {
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'v' => '\u{b}',
            'x' => self.hex(2, "invalid hexadecimal character sequence")?,
            'u' => self.unicode()?,
            c => c,
        });
        Ok(())
    }

    fn hex(&mut self, digits: usize, what: &str) -> Result<char, SqlError> {
        let code = self.code(digits).and_then(char::from_u32);
        match code {
            Some('\0') => Err(crate::types::json::no_nul()),
            Some(c) => Ok(c),
            None => Err(self.wrong(&format!("{what} at or near \"{}\"", self.rest()))),
        }
    }

    fn code(&mut self, digits: usize) -> Option<u32> {
        let code = u32::from_str_radix(self.rest().get(..digits)?, 16).ok()?;
        self.at += digits;
        Some(code)
    }

    fn unicode(&mut self) -> Result<char, SqlError> {
        const INVALID: &str = "invalid Unicode escape sequence";
        if self.rest().starts_with('{') {
            let end = self.rest().find('}').unwrap_or(0);
            self.at += 1;
            let found = self.hex(end.saturating_sub(1).clamp(1, 6), INVALID)?;
            self.at += 1;
            return Ok(found);
        }
        let before = self.at;
        let high = self.code(4).filter(|code| (0xD800..0xDC00).contains(code));
        if let Some(high) = high
            && self.rest().starts_with("\\u")
        {
            self.at += 2;
            let low = self.code(4).filter(|code| (0xDC00..0xE000).contains(code));
            let both = low.map(|low| 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00));
            return both
                .and_then(char::from_u32)
                .ok_or_else(|| self.wrong(INVALID));
        }
        self.at = before;
        self.hex(4, INVALID)
    }
}

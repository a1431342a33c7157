//! A fast lexer over SQL text: the boundaries and kinds of tokens.
//!
//! It allocates nothing and knows no grammar. Statement splitting, the depth limit, literal lifting
//! and the statements that are parsed here use it. All other text goes to sqlparser, whose own
//! lexer reads it again.

use crate::error::{SqlError, SqlState};

/// The kind of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A keyword or an identifier without quotes.
    Word,
    /// `"identifier"`
    QuotedIdent,
    /// Digits only.
    Integer,
    /// A number with a point or an exponent.
    Decimal,
    /// `'text'`
    String,
    /// `E'text'`, `B'…'`, `X'…'`, `N'…'`, `U&'…'` or `$tag$text$tag$`
    OtherString,
    /// `$1`
    Param,
    /// `(` or `[`
    Open,
    /// `)` or `]`
    Close,
    /// `,`
    Comma,
    /// `;`
    Semicolon,
    /// `.`
    Dot,
    /// `::`
    Cast,
    /// Operator characters.
    Operator,
    /// Any other character.
    Other,
}

/// One token: bytes `start..end` of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) kind: Kind,
    pub(crate) start: usize,
    pub(crate) end: usize,
}

impl Token {
    /// Returns the token's text.
    pub(crate) fn text<'a>(&self, sql: &'a str) -> &'a str {
        sql.get(self.start..self.end).unwrap_or("")
    }

    /// Returns whether the token is this keyword.
    pub(crate) fn is(&self, sql: &str, keyword: &str) -> bool {
        self.kind == Kind::Word && self.is_one_of(sql, &[keyword])
    }

    /// Returns whether the token's text is one of these words, in any case.
    pub(crate) fn is_one_of(&self, sql: &str, words: &[&str]) -> bool {
        let text = sql.as_bytes().get(self.start..self.end);
        let text = text.unwrap_or_default();
        let mut words = words.iter();
        words.any(|word| text.eq_ignore_ascii_case(word.as_bytes()))
    }
}

/// An iterator over the tokens of a text.
#[derive(Clone)]
pub(crate) struct Lexer<'a> {
    sql: &'a str,
    at: usize,
}

/// The bits of [`CLASSES`].
const BLANK: u8 = 1;
const WORD_START: u8 = 2;
const WORD: u8 = 4;
const OPERATOR: u8 = 8;

/// The classes of each byte. The lexer looks up every byte of every statement here.
static CLASSES: [u8; 256] = {
    let mut classes = [0; 256];
    let mut b = 0;
    while b < classes.len() {
        classes[b] = match b as u8 {
            b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c => BLANK,
            b'a'..=b'z' | b'A'..=b'Z' | b'_' | 0x80.. => WORD_START | WORD,
            b'0'..=b'9' | b'$' => WORD,
            b'+' | b'-' | b'*' | b'/' | b'<' | b'>' | b'=' | b'~' | b'!' | b'@' | b'#' | b'%'
            | b'^' | b'&' | b'|' | b'`' | b'?' => OPERATOR,
            _ => 0,
        };
        b += 1;
    }
    classes
};

#[inline(always)]
fn is_of(b: u8, class: u8) -> bool {
    CLASSES[b as usize] & class != 0
}

impl<'a> Lexer<'a> {
    pub(crate) fn new(sql: &'a str) -> Lexer<'a> {
        Lexer { sql, at: 0 }
    }

    /// Returns a byte of the text; 0 after the end.
    #[inline(always)]
    fn byte(&self, i: usize) -> u8 {
        self.sql.as_bytes().get(i).copied().unwrap_or(0)
    }

    /// Skips all bytes of a class. The 0 at the end belongs to no class.
    #[inline(always)]
    fn skip(&mut self, class: u8) {
        let mut at = self.at;
        while is_of(self.byte(at), class) {
            at += 1;
        }
        self.at = at;
    }

    /// Returns the next token; `None` at the end.
    pub(crate) fn next_token(&mut self) -> Result<Option<Token>, SqlError> {
        self.skip_blank()?;
        let start = self.at;
        if start >= self.sql.len() {
            return Ok(None);
        }
        let first = self.byte(start);
        let kind = match first {
            b'\'' => {
                self.quoted(start, start, b'\'', false)?;
                Kind::String
            }
            b'"' => {
                self.quoted(start, start, b'"', false)?;
                if self.at == start + 2 {
                    return Err(lexical(self.sql, start, "zero-length delimited identifier"));
                }
                Kind::QuotedIdent
            }
            b'0'..=b'9' => self.number(start)?,
            b'.' if self.byte(start + 1).is_ascii_digit() => self.number(start)?,
            b'$' => self.dollar(start)?,
            b'(' | b'[' | b'{' => self.single(Kind::Open),
            b')' | b']' | b'}' => self.single(Kind::Close),
            b',' => self.single(Kind::Comma),
            b';' => self.single(Kind::Semicolon),
            b'.' => self.single(Kind::Dot),
            b':' if self.byte(start + 1) == b':' => {
                self.at += 2;
                Kind::Cast
            }
            b if is_of(b, WORD_START) => self.word(start)?,
            b if is_of(b, OPERATOR) => {
                self.operator();
                Kind::Operator
            }
            _ => self.single(Kind::Other),
        };
        Ok(Some(Token {
            kind,
            start,
            end: self.at,
        }))
    }

    fn single(&mut self, kind: Kind) -> Kind {
        self.at += 1;
        kind
    }

    /// Skips white space and comments; block comments nest.
    fn skip_blank(&mut self) -> Result<(), SqlError> {
        loop {
            self.skip(BLANK);
            match (self.byte(self.at), self.byte(self.at + 1)) {
                (b'-', b'-') => {
                    let rest = &self.sql.as_bytes()[self.at..];
                    let length = rest.iter().position(|b| matches!(b, b'\n' | b'\r'));
                    self.at += length.unwrap_or(rest.len());
                }
                (b'/', b'*') => self.block_comment()?,
                _ => return Ok(()),
            }
        }
    }

    fn block_comment(&mut self) -> Result<(), SqlError> {
        let start = self.at;
        let mut depth = 0usize;
        while self.at < self.sql.len() {
            match (self.byte(self.at), self.byte(self.at + 1)) {
                (b'/', b'*') => {
                    depth += 1;
                    self.at += 2;
                }
                (b'*', b'/') => {
                    depth -= 1;
                    self.at += 2;
                    if depth == 0 {
                        return Ok(());
                    }
                }
                _ => self.at += 1,
            }
        }
        Err(lexical(self.sql, start, "unterminated /* comment"))
    }

    /// Reads up to the closing quote; the opening one is at `open`.
    fn quoted(
        &mut self,
        start: usize,
        open: usize,
        quote: u8,
        backslash: bool,
    ) -> Result<(), SqlError> {
        self.at = open + 1;
        loop {
            match self.byte(self.at) {
                b if b == quote && self.byte(self.at + 1) == quote => self.at += 2,
                b if b == quote => {
                    self.at += 1;
                    return Ok(());
                }
                b'\\' if backslash && self.at + 1 < self.sql.len() => self.at += 2,
                _ if self.at >= self.sql.len() => {
                    let what = match quote {
                        b'"' => "unterminated quoted identifier",
                        _ => "unterminated quoted string",
                    };
                    self.at = self.sql.len();
                    return Err(lexical(self.sql, start, what));
                }
                _ => self.at += 1,
            }
        }
    }

    fn number(&mut self, start: usize) -> Result<Kind, SqlError> {
        let mut kind = Kind::Integer;
        self.digits();
        // `1..2` is a number and two dots.
        if self.byte(self.at) == b'.' && self.byte(self.at + 1) != b'.' {
            kind = Kind::Decimal;
            self.at += 1;
            self.digits();
        }
        if matches!(self.byte(self.at), b'e' | b'E') {
            let sign = matches!(self.byte(self.at + 1), b'+' | b'-') as usize;
            if self.byte(self.at + 1 + sign).is_ascii_digit() {
                kind = Kind::Decimal;
                self.at += 1 + sign;
                self.digits();
            }
        }
        self.no_junk(start, "numeric literal")?;
        Ok(kind)
    }

    /// Checks that no word begins directly after a number or parameter.
    ///
    /// # Errors
    /// 42601 with PostgreSQL's "trailing junk" message.
    fn no_junk(&self, start: usize, behind: &str) -> Result<(), SqlError> {
        if !is_of(self.byte(self.at), WORD_START) {
            return Ok(());
        }
        let rest = &self.sql[start..];
        let length = rest
            .bytes()
            .take_while(|b| is_of(*b, WORD) || *b == b'.')
            .count();
        let what = format!(
            "trailing junk after {behind} at or near \"{}\"",
            &rest[..length]
        );
        Err(SqlError::new(SqlState::SYNTAX_ERROR, what).at(position(self.sql, start)))
    }

    #[inline(always)]
    fn digits(&mut self) {
        while self.byte(self.at).is_ascii_digit() {
            self.at += 1;
        }
    }

    /// Reads `$1` or a dollar-quoted string.
    fn dollar(&mut self, start: usize) -> Result<Kind, SqlError> {
        self.at += 1;
        if self.byte(self.at).is_ascii_digit() {
            self.digits();
            self.no_junk(start, "parameter")?;
            return Ok(Kind::Param);
        }
        while is_of(self.byte(self.at), WORD) && self.byte(self.at) != b'$' {
            self.at += 1;
        }
        if self.byte(self.at) != b'$' {
            self.at = start + 1;
            return Ok(Kind::Other);
        }
        self.at += 1;
        let tag = &self.sql[start..self.at];
        match self.sql[self.at..].find(tag) {
            Some(length) => {
                self.at += length + tag.len();
                Ok(Kind::OtherString)
            }
            None => Err(lexical(
                self.sql,
                start,
                "unterminated dollar-quoted string",
            )),
        }
    }

    fn word(&mut self, start: usize) -> Result<Kind, SqlError> {
        let prefix = self.byte(start).to_ascii_lowercase();
        let (next, third) = (self.byte(start + 1), self.byte(start + 2));
        match (prefix, next, third) {
            (b'e' | b'b' | b'x' | b'n', b'\'', _) => {
                self.quoted(start, start + 1, b'\'', prefix == b'e')?;
                return Ok(Kind::OtherString);
            }
            (b'u', b'&', quote @ (b'\'' | b'"')) => {
                self.quoted(start, start + 2, quote, false)?;
                return Ok(if quote == b'"' {
                    Kind::QuotedIdent
                } else {
                    Kind::OtherString
                });
            }
            _ => {}
        }
        self.skip(WORD);
        Ok(Kind::Word)
    }

    fn operator(&mut self) {
        self.at += 1;
        loop {
            let (b, next) = (self.byte(self.at), self.byte(self.at + 1));
            let comment = matches!((b, next), (b'-', b'-') | (b'/', b'*'));
            if comment || !is_of(b, OPERATOR) {
                return;
            }
            self.at += 1;
        }
    }
}

/// Returns all tokens of a text.
pub(crate) fn tokens(sql: &str) -> Result<Vec<Token>, SqlError> {
    let mut lexer = Lexer::new(sql);
    let mut out = Vec::new();
    while let Some(token) = lexer.next_token()? {
        out.push(token);
    }
    Ok(out)
}

/// Converts a byte offset to a position in characters, from 1.
pub(crate) fn position(sql: &str, byte: usize) -> u32 {
    let before = sql.get(..byte).unwrap_or(sql);
    u32::try_from(before.chars().count() + 1).unwrap_or(u32::MAX)
}

/// Returns error 42601 for text that is not a token. Like PostgreSQL, the message shows the rest of
/// the text.
#[cold]
fn lexical(sql: &str, start: usize, what: &str) -> SqlError {
    SqlError::new(
        SqlState::SYNTAX_ERROR,
        format!("{what} at or near \"{}\"", &sql[start..]),
    )
    .at(position(sql, start))
}

/// Returns error 42601 at a token, or at the end of the text.
#[cold]
pub(crate) fn syntax_error(sql: &str, token: Option<Token>) -> SqlError {
    match token {
        Some(token) => SqlError::new(
            SqlState::SYNTAX_ERROR,
            format!("syntax error at or near \"{}\"", token.text(sql)),
        )
        .at(position(sql, token.start)),
        None => SqlError::new(SqlState::SYNTAX_ERROR, "syntax error at end of input")
            .at(position(sql, sql.len())),
    }
}

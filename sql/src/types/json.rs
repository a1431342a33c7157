//! JSON: its parser, and the canonical form of jsonb.
//!
//! Both types are stored as text. That of json is the original text. The canonical form of jsonb
//! has its keys sorted by length and then by bytes, without duplicates (the last one wins). Numbers
//! have the form of `numeric`, and one blank follows each `,` and `:`. An element of such a text is
//! again in this form, so access to an element returns a slice.
//!
//! Failure: no text makes the parser panic; documents nest at most `DEPTH_MAX` deep (54001).

mod number;
mod order;

use std::borrow::Cow;

use crate::error::{SqlError, SqlState};

pub use number::plain as plain_number;
pub use order::{compare, hash, push_key};

/// The maximum nesting depth of a document.
const DEPTH_MAX: usize = 1000;

/// An element of a document, or a whole document.
#[derive(Clone, Debug)]
pub struct Json<'a> {
    /// The text of the element.
    pub raw: &'a str,
    /// The kind and contents.
    pub is: Kind<'a>,
}

/// The kind and contents of an element.
#[derive(Clone, Debug)]
pub enum Kind<'a> {
    /// null
    Null,
    /// true or false
    Bool(bool),
    /// A number; its text is [`Json::raw`].
    Number,
    /// A string, without its quotes and escapes.
    Text(Cow<'a, str>),
    /// The elements of an array.
    Array(Vec<Json<'a>>),
    /// The keys and values of an object, in the order of the text.
    Object(Vec<(Cow<'a, str>, Json<'a>)>),
}

impl<'a> Json<'a> {
    /// Returns the value of a key; the last one of duplicates.
    pub fn get(&self, key: &str) -> Option<&Json<'a>> {
        match &self.is {
            Kind::Object(pairs) => pairs.iter().rev().find(|(k, _)| k == key).map(|(_, v)| v),
            _ => None,
        }
    }

    /// Returns an element of an array by its index; a negative index counts from the end.
    pub fn at(&self, index: i64) -> Option<&Json<'a>> {
        match &self.is {
            Kind::Array(elements) => {
                let from_end = index.unsigned_abs() as usize;
                match index {
                    0.. => elements.get(index as usize),
                    _ => elements.get(elements.len().checked_sub(from_end)?),
                }
            }
            _ => None,
        }
    }

    /// Returns the key or element that a step of a path selects.
    pub fn step(&self, step: &str) -> Option<&Json<'a>> {
        match &self.is {
            Kind::Array(_) => self.at(step.trim_start().parse().ok()?),
            _ => self.get(step),
        }
    }

    /// Returns the text of a string without its quotes, or the text of any other element; `None`
    /// for null.
    pub fn text(&self) -> Option<&str> {
        match &self.is {
            Kind::Null => None,
            Kind::Text(text) => Some(text),
            _ => Some(self.raw),
        }
    }

    /// Returns the name of the type, as in `json_typeof`.
    pub fn type_name(&self) -> &'static str {
        match self.is {
            Kind::Null => "null",
            Kind::Bool(_) => "boolean",
            Kind::Number => "number",
            Kind::Text(_) => "string",
            Kind::Array(_) => "array",
            Kind::Object(_) => "object",
        }
    }
}

/// Checks that a text is JSON and returns it.
///
/// # Errors
/// 22P02 if it is not JSON.
pub fn check(text: &str) -> Result<&str, SqlError> {
    parse(text)?;
    Ok(text)
}

/// Converts a text to the canonical form of jsonb.
pub fn normal(text: &str) -> Result<String, SqlError> {
    let mut out = String::with_capacity(text.len());
    write(&parse(text)?, &mut out)?;
    Ok(out)
}

/// Reads the binary form of jsonb: a version byte and the text.
pub(super) fn from_binary(bytes: &[u8]) -> Result<String, SqlError> {
    match bytes.split_first() {
        Some((1, text)) => normal(super::check_utf8(text)?),
        Some((version, _)) => Err(SqlError::internal(format!(
            "unsupported jsonb version number {version}"
        ))),
        None => Err(super::invalid_binary()),
    }
}

pub(super) fn to_binary(text: &str, out: &mut Vec<u8>) {
    out.push(1);
    out.extend_from_slice(text.as_bytes());
}

/// Appends a document in the canonical form of jsonb.
pub fn write(json: &Json<'_>, out: &mut String) -> Result<(), SqlError> {
    match &json.is {
        Kind::Null | Kind::Bool(_) => out.push_str(json.raw),
        Kind::Number => number::write(json.raw, out)?,
        Kind::Text(text) => {
            refuse_nul(text)?;
            quote(text, out);
        }
        Kind::Array(elements) => {
            out.push('[');
            for (i, element) in elements.iter().enumerate() {
                if i > 0 {
                    out.push_str(", ");
                }
                write(element, out)?;
            }
            out.push(']');
        }
        Kind::Object(pairs) => {
            out.push('{');
            for (i, (key, value)) in sorted(pairs).into_iter().enumerate() {
                if i > 0 {
                    out.push_str(", ");
                }
                refuse_nul(key)?;
                quote(key, out);
                out.push_str(": ");
                write(value, out)?;
            }
            out.push('}');
        }
    }
    Ok(())
}

/// Returns each key once, with its last value, in the order of jsonb.
fn sorted<'p, 'a>(pairs: &'p [(Cow<'a, str>, Json<'a>)]) -> Vec<(&'p str, &'p Json<'a>)> {
    let mut sorted: Vec<(&str, &Json<'a>)> = pairs.iter().map(|(k, v)| (&**k, v)).collect();
    let ordered = |a: &str, b: &str| (a.len(), a).cmp(&(b.len(), b));
    sorted.sort_by(|(a, _), (b, _)| ordered(a, b));
    // The sort is stable: of equal keys, the last one in the text is the last one here.
    sorted.reverse();
    sorted.dedup_by(|(a, _), (b, _)| a == b);
    sorted.reverse();
    sorted
}

fn refuse_nul(text: &str) -> Result<(), SqlError> {
    if text.contains('\0') {
        return Err(no_nul());
    }
    Ok(())
}

/// Returns error 22P05: text cannot contain the character 0.
#[cold]
pub fn no_nul() -> SqlError {
    SqlError::new(
        SqlState::new(b"22P05"),
        "unsupported Unicode escape sequence",
    )
    .detail("\\u0000 cannot be converted to text.")
}

/// Appends a string with quotes and escapes.
pub fn quote(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c < ' ' => out.push_str(&format!("\\u{:04x}", c as u32)),
            c => out.push(c),
        }
    }
    out.push('"');
}

/// Parses a document.
pub fn parse(text: &str) -> Result<Json<'_>, SqlError> {
    let mut reader = JsonParser { text, at: 0 };
    let json = reader.value(0)?;
    reader.blanks();
    match reader.at == text.len() {
        true => Ok(json),
        false => Err(reader.expected("end of input")),
    }
}

struct JsonParser<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> JsonParser<'a> {
    fn byte(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn blanks(&mut self) {
        while matches!(self.byte(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    #[cold]
    fn invalid(&self, detail: &str) -> SqlError {
        SqlError::new(
            SqlState::INVALID_TEXT_REPRESENTATION,
            "invalid input syntax for type json",
        )
        .detail(detail)
    }

    /// Returns error 22P02: something else is expected at the current position.
    #[cold]
    fn expected(&self, what: &str) -> SqlError {
        let rest = &self.text[self.at..];
        let Some(first) = rest.chars().next() else {
            return self.invalid("The input string ended unexpectedly.");
        };
        let word = rest
            .find(|c: char| !c.is_ascii_alphanumeric() && c != '_' && !c.is_alphabetic())
            .unwrap_or(rest.len());
        let token = &rest[..word.max(first.len_utf8())];
        match first.is_alphanumeric() && !first.is_ascii_digit() {
            true => self.invalid(&format!("Token \"{token}\" is invalid.")),
            false => self.invalid(&format!("Expected {what}, but found \"{token}\".")),
        }
    }

    fn value(&mut self, depth: usize) -> Result<Json<'a>, SqlError> {
        if depth > DEPTH_MAX {
            return Err(crate::stack::too_deep());
        }
        self.blanks();
        let start = self.at;
        let is = match self.byte() {
            Some(b'{') => self.object(depth)?,
            Some(b'[') => self.array(depth)?,
            Some(b'"') => Kind::Text(self.string()?),
            Some(b'-' | b'0'..=b'9') => {
                self.number()?;
                Kind::Number
            }
            _ if self.word("null") => Kind::Null,
            _ if self.word("true") => Kind::Bool(true),
            _ if self.word("false") => Kind::Bool(false),
            _ => return Err(self.expected("JSON value")),
        };
        Ok(Json {
            raw: &self.text[start..self.at],
            is,
        })
    }

    fn word(&mut self, word: &str) -> bool {
        let rest = &self.text[self.at..];
        let ends = |rest: &str| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_');
        match rest.strip_prefix(word) {
            Some(behind) if ends(behind) => {
                self.at += word.len();
                true
            }
            _ => false,
        }
    }

    fn object(&mut self, depth: usize) -> Result<Kind<'a>, SqlError> {
        let mut pairs = Vec::new();
        self.at += 1;
        self.blanks();
        if self.byte() == Some(b'}') {
            self.at += 1;
            return Ok(Kind::Object(pairs));
        }
        loop {
            self.blanks();
            if self.byte() != Some(b'"') {
                return Err(self.expected("string"));
            }
            let key = self.string()?;
            self.blanks();
            if self.byte() != Some(b':') {
                return Err(self.expected("\":\""));
            }
            self.at += 1;
            pairs.push((key, self.value(depth + 1)?));
            self.blanks();
            match self.byte() {
                Some(b',') => self.at += 1,
                Some(b'}') => {
                    self.at += 1;
                    return Ok(Kind::Object(pairs));
                }
                _ => return Err(self.expected("\",\" or \"}\"")),
            }
        }
    }

    fn array(&mut self, depth: usize) -> Result<Kind<'a>, SqlError> {
        let mut elements = Vec::new();
        self.at += 1;
        self.blanks();
        if self.byte() == Some(b']') {
            self.at += 1;
            return Ok(Kind::Array(elements));
        }
        loop {
            elements.push(self.value(depth + 1)?);
            self.blanks();
            match self.byte() {
                Some(b',') => self.at += 1,
                Some(b']') => {
                    self.at += 1;
                    return Ok(Kind::Array(elements));
                }
                _ => return Err(self.expected("\",\" or \"]\"")),
            }
        }
    }

    fn number(&mut self) -> Result<(), SqlError> {
        let start = self.at;
        if self.byte() == Some(b'-') {
            self.at += 1;
        }
        let whole = self.digits();
        let zero_first = whole > 1 && self.text.as_bytes()[self.at - whole] == b'0';
        let mut good = whole > 0 && !zero_first;
        if self.byte() == Some(b'.') {
            self.at += 1;
            good &= self.digits() > 0;
        }
        if matches!(self.byte(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.byte(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            good &= self.digits() > 0;
        }
        let runs_on = self
            .byte()
            .is_some_and(|b| b.is_ascii_alphanumeric() || b == b'_' || b >= 0x80);
        if good && !runs_on {
            return Ok(());
        }
        let rest = &self.text[start..];
        let end = rest
            .find(|c: char| c.is_whitespace() || matches!(c, ',' | ']' | '}' | ':'))
            .unwrap_or(rest.len());
        Err(self.invalid(&format!("Token \"{}\" is invalid.", &rest[..end])))
    }

    fn digits(&mut self) -> usize {
        let start = self.at;
        while self.byte().is_some_and(|b| b.is_ascii_digit()) {
            self.at += 1;
        }
        self.at - start
    }

    fn string(&mut self) -> Result<Cow<'a, str>, SqlError> {
        self.at += 1;
        let start = self.at;
        let mut made: Option<String> = None;
        loop {
            let Some(b) = self.byte() else {
                return Err(self.invalid("The input string ended unexpectedly."));
            };
            match b {
                b'"' => {
                    let raw = &self.text[start..self.at];
                    self.at += 1;
                    return Ok(made.map_or(Cow::Borrowed(raw), Cow::Owned));
                }
                b'\\' => {
                    let so_far = &self.text[start..self.at];
                    let mut text = made.take().unwrap_or_else(|| so_far.to_owned());
                    text.push(self.escaped()?);
                    made = Some(text);
                }
                0..0x20 => {
                    return Err(
                        self.invalid(&format!("Character with value 0x{b:02x} must be escaped."))
                    );
                }
                _ => {
                    let c = self.text[self.at..].chars().next().unwrap_or_default();
                    if let Some(text) = &mut made {
                        text.push(c);
                    }
                    self.at += c.len_utf8();
                }
            }
        }
    }

    /// Reads an escape sequence.
    fn escaped(&mut self) -> Result<char, SqlError> {
        self.at += 1;
        let c = match self.byte() {
            Some(b'"') => '"',
            Some(b'\\') => '\\',
            Some(b'/') => '/',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => {
                self.at += 1;
                return self.unicode();
            }
            Some(_) => {
                let c = self.text[self.at..].chars().next().unwrap_or_default();
                return Err(self.invalid(&format!("Escape sequence \"\\{c}\" is invalid.")));
            }
            None => return Err(self.invalid("The input string ended unexpectedly.")),
        };
        self.at += 1;
        Ok(c)
    }

    fn unicode(&mut self) -> Result<char, SqlError> {
        let high = self.four_digits()?;
        let code = match high {
            0xd800..0xdc00 => {
                let low = match self.text[self.at..].strip_prefix("\\u") {
                    Some(_) => {
                        self.at += 2;
                        self.four_digits()?
                    }
                    None => 0,
                };
                if !(0xdc00..0xe000).contains(&low) {
                    return Err(self.invalid("Unicode low surrogate must follow a high surrogate."));
                }
                0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00)
            }
            0xdc00..0xe000 => {
                return Err(self.invalid("Unicode low surrogate must follow a high surrogate."));
            }
            code => code,
        };
        char::from_u32(code).ok_or_else(|| self.invalid("A character that does not exist."))
    }

    fn four_digits(&mut self) -> Result<u32, SqlError> {
        let digits = self
            .text
            .get(self.at..self.at + 4)
            .filter(|d| d.bytes().all(|b| b.is_ascii_hexdigit()));
        match digits.and_then(|d| u32::from_str_radix(d, 16).ok()) {
            Some(code) => {
                self.at += 4;
                Ok(code)
            }
            None => Err(self.invalid("\"\\u\" must be followed by four hexadecimal digits.")),
        }
    }
}

//! Input of arrays: `{1,2}`, `{{a,"b c"},{NULL,d}}`, `[2:3]={x,y}`.

use super::array::{DIMENSIONS_MAX, check_bounds, is_blank, too_many_dimensions};
use super::{Type, TypeKind, text_in_at};
use crate::error::{SqlError, SqlState};
use crate::settings::Settings;
use crate::value::{Array, Dimension, Value};

pub(super) fn parse(
    text: &str,
    element: TypeKind,
    settings: &Settings,
    now: Option<i64>,
) -> Result<Array, SqlError> {
    let mut reader = ArrayParser {
        text,
        at: 0,
        dims: Vec::new(),
        values: Vec::new(),
        element: Type::of(element),
        settings,
        now,
    };
    let bounds = reader.bounds()?;
    if reader.peek() != Some(b'{') {
        let detail = match bounds.is_empty() {
            true => "Array value must start with \"{\" or dimension information.",
            false => "Array contents must start with \"{\".",
        };
        return Err(reader.malformed(detail));
    }
    reader.level(0)?;
    reader.blanks();
    if reader.at < text.len() {
        return Err(reader.malformed("Junk after closing right brace."));
    }
    if reader.values.is_empty() {
        return Ok(Array::default());
    }
    let mut dims: Vec<Dimension> = reader
        .dims
        .iter()
        .map(|len| Dimension {
            len: len.unwrap_or(0),
            lower: 1,
        })
        .collect();
    if !bounds.is_empty() {
        let same = bounds.len() == dims.len()
            && bounds
                .iter()
                .zip(&dims)
                .all(|(bound, dim)| bound.len == dim.len);
        if !same {
            return Err(reader.malformed("Specified array dimensions do not match array contents."));
        }
        check_bounds(&bounds)?;
        dims = bounds;
    }
    Ok(Array {
        dims,
        values: reader.values,
    })
}

struct ArrayParser<'a> {
    text: &'a str,
    at: usize,
    /// The length of each dimension, known after its first row has ended.
    dims: Vec<Option<i32>>,
    values: Vec<Value>,
    element: Type,
    settings: &'a Settings,
    now: Option<i64>,
}

impl ArrayParser<'_> {
    #[cold]
    fn malformed(&self, detail: &str) -> SqlError {
        SqlError::new(
            SqlState::INVALID_TEXT_REPRESENTATION,
            format!("malformed array literal: \"{}\"", self.text),
        )
        .detail(detail)
    }

    fn byte(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn blanks(&mut self) {
        while self.byte().is_some_and(is_blank) {
            self.at += 1;
        }
    }

    /// Skips blanks and returns the next byte.
    fn peek(&mut self) -> Option<u8> {
        self.blanks();
        self.byte()
    }

    /// Reads the optional bounds `[l:u][l:u]=`.
    fn bounds(&mut self) -> Result<Vec<Dimension>, SqlError> {
        let mut bounds = Vec::new();
        while self.peek() == Some(b'[') {
            let body = &self.text[self.at + 1..];
            let Some(end) = body.find(']') else {
                return Err(self.malformed("Missing \"]\" after array dimensions."));
            };
            let number = |text: &str| text.trim().parse::<i32>().ok();
            let parsed = match body[..end].split_once(':') {
                Some((lower, upper)) => number(lower).zip(number(upper)),
                None => number(&body[..end]).map(|upper| (1, upper)),
            };
            let Some((lower, upper)) = parsed else {
                return Err(
                    self.malformed("\"[\" must introduce explicitly-specified array dimensions.")
                );
            };
            if upper < lower {
                return Err(SqlError::new(
                    SqlState::new(b"2202E"),
                    "upper bound cannot be less than lower bound",
                ));
            }
            let len = upper.checked_sub(lower).and_then(|l| l.checked_add(1));
            let len = len.ok_or_else(|| self.malformed("Array bound is out of integer range."))?;
            bounds.push(Dimension { len, lower });
            if bounds.len() > DIMENSIONS_MAX {
                return Err(too_many_dimensions(bounds.len()));
            }
            self.at += end + 2;
        }
        if !bounds.is_empty() {
            if self.peek() != Some(b'=') {
                return Err(self.malformed("Missing \"=\" after array dimensions."));
            }
            self.at += 1;
        }
        Ok(bounds)
    }

    /// Reads one pair of braces at nesting level `depth`.
    fn level(&mut self, depth: usize) -> Result<(), SqlError> {
        if depth >= DIMENSIONS_MAX {
            return Err(too_many_dimensions(depth + 1));
        }
        const MISMATCH: &str =
            "Multidimensional arrays must have sub-arrays with matching dimensions.";
        if self.dims.len() == depth {
            // After the first row has ended, no deeper level can begin.
            self.dims.push(None);
        }
        self.at += 1;
        let mut count = 0i32;
        let mut nested = None;
        if self.peek() == Some(b'}') {
            self.at += 1;
        } else {
            loop {
                let opens = match self.peek() {
                    None => return Err(self.malformed("Unexpected end of input.")),
                    Some(b) => b == b'{',
                };
                if *nested.get_or_insert(opens) != opens {
                    return Err(self.malformed(match opens {
                        true => "Unexpected \"{\" character.",
                        false => "Unexpected array element.",
                    }));
                }
                match opens {
                    true => self.level(depth + 1)?,
                    false if self.dims.len() > depth + 1 => {
                        return Err(self.malformed(MISMATCH));
                    }
                    false => self.element()?,
                }
                count = count.saturating_add(1);
                match self.peek() {
                    Some(b',') => self.at += 1,
                    Some(b'}') => {
                        self.at += 1;
                        break;
                    }
                    Some(_) => return Err(self.malformed("Unexpected array element.")),
                    None => return Err(self.malformed("Unexpected end of input.")),
                }
            }
        }
        match self.dims[depth] {
            Some(len) if len != count => Err(self.malformed(MISMATCH)),
            Some(_) if nested == Some(false) && self.dims.len() > depth + 1 => {
                Err(self.malformed(MISMATCH))
            }
            _ => {
                self.dims[depth] = Some(count);
                Ok(())
            }
        }
    }

    fn element(&mut self) -> Result<(), SqlError> {
        let mut text = Vec::new();
        let mut quoted = false;
        // The length without trailing blanks, except escaped ones.
        let mut kept = 0;
        let mut in_quotes = false;
        let mut closed = false;
        loop {
            let Some(b) = self.byte() else {
                return Err(self.malformed("Unexpected end of input."));
            };
            match b {
                b'\\' => {
                    self.at += 1;
                    let Some(escaped) = self.byte() else {
                        return Err(self.malformed("Unexpected end of input."));
                    };
                    text.push(escaped);
                    kept = text.len();
                    quoted = true;
                }
                b'"' => {
                    closed = in_quotes;
                    in_quotes = !in_quotes;
                    if in_quotes && (kept > 0 || quoted) {
                        return Err(self.malformed("Unexpected array element."));
                    }
                    quoted = true;
                    kept = text.len();
                }
                _ if in_quotes => {
                    text.push(b);
                    kept = text.len();
                }
                b',' | b'}' => break,
                b if closed && !is_blank(b) => {
                    return Err(self.malformed("Unexpected array element."));
                }
                b'{' => return Err(self.malformed("Unexpected \"{\" character.")),
                b => {
                    text.push(b);
                    if !is_blank(b) {
                        kept = text.len();
                    }
                }
            }
            self.at += 1;
        }
        text.truncate(kept);
        if text.is_empty() && !quoted {
            return Err(self.malformed("Unexpected array element."));
        }
        let text = String::from_utf8(text).unwrap_or_default();
        let value = match !quoted && text.eq_ignore_ascii_case("null") {
            true => Value::Null,
            false => text_in_at(&self.element, &text, self.settings, self.now)?,
        };
        self.values.push(value);
        Ok(())
    }
}

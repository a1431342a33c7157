//! Masks passwords in statement texts, so that they do not appear in a log.
//!
//! A secret is the string after the word PASSWORD: `'…'`, `E'…'`, `U&'…'` or `$tag$…$tag$`,
//! independent of the text around it. A string without an end extends to the end of the text. The
//! text need not be valid SQL: a text with a syntax error must not reveal a password either.

use std::borrow::Cow;
use std::ops::Range;

/// The text that replaces a secret.
const MASK: &str = "'********'";
const WORD: &[u8] = b"password";

/// Returns `text` with its secrets masked.
pub(crate) fn mask(text: &str) -> Cow<'_, str> {
    let mut masked = String::new();
    let mut done = 0;
    for secret in Secrets::of(text) {
        masked.push_str(&text[done..secret.start]);
        masked.push_str(MASK);
        done = secret.end;
    }
    match done {
        0 => Cow::Borrowed(text),
        done => {
            masked.push_str(&text[done..]);
            Cow::Owned(masked)
        }
    }
}

/// Returns the secrets of a statement as they are written, and the parts between their quotes.
pub(crate) fn secrets_of(statement: &str) -> Vec<String> {
    let mut all = Vec::new();
    for secret in Secrets::of(statement) {
        let written = &statement[secret];
        all.push(written.to_owned());
        let pieces = written.split(['\'', '$']).filter(|piece| {
            // A very short word would mask large parts of the message.
            piece.len() > 3 && !piece.trim().is_empty()
        });
        all.extend(pieces.map(str::to_owned));
    }
    all
}

/// Returns `text`, a message about a statement, without the statement's secrets.
pub(crate) fn hide<'a>(text: &'a str, secrets: &[String]) -> Cow<'a, str> {
    let mut hidden = Cow::Borrowed(text);
    for secret in secrets {
        if hidden.contains(secret.as_str()) {
            hidden = Cow::Owned(hidden.replace(secret.as_str(), MASK));
        }
    }
    hidden
}

/// An iterator over the positions of secrets in a text.
struct Secrets<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Secrets<'a> {
    fn of(text: &'a str) -> Secrets<'a> {
        Secrets { text, at: 0 }
    }

    /// Returns the end of the next word PASSWORD.
    fn next_word(&self) -> Option<usize> {
        let bytes = self.text.as_bytes();
        let mut windows = bytes.get(self.at..)?.windows(WORD.len());
        let found = windows.position(|window| window.eq_ignore_ascii_case(WORD))?;
        Some(self.at + found + WORD.len())
    }
}

impl Iterator for Secrets<'_> {
    type Item = Range<usize>;

    fn next(&mut self) -> Option<Range<usize>> {
        let bytes = self.text.as_bytes();
        loop {
            let word_end = self.next_word()?;
            self.at = word_end;
            let mut start = skip_space(bytes, word_end);
            // `password = '…'` and `password := '…'` are options with other syntax.
            while matches!(bytes.get(start), Some(b'=' | b':' | b'"' | b'>')) {
                start = skip_space(bytes, start + 1);
            }
            if let Some(mut end) = string_end(self.text, start) {
                // Adjacent strings form one string.
                while let Some(next) = string_end(self.text, skip_space(bytes, end)) {
                    end = next;
                }
                self.at = end;
                return Some(start..end);
            }
        }
    }
}

/// Skips spaces and comments.
fn skip_space(bytes: &[u8], mut at: usize) -> usize {
    loop {
        match bytes.get(at..).unwrap_or_default() {
            [b, ..] if b.is_ascii_whitespace() => at += 1,
            [b'-', b'-', rest @ ..] => {
                let line = rest.iter().position(|b| *b == b'\n');
                at += 2 + line.unwrap_or(rest.len());
            }
            [b'/', b'*', rest @ ..] => {
                let end = rest.windows(2).position(|two| two == b"*/");
                at += 2 + end.map_or(rest.len(), |end| end + 2);
            }
            _ => return at,
        }
    }
}

/// Returns the end of the string that begins at `start`; `None` if none begins there.
fn string_end(text: &str, start: usize) -> Option<usize> {
    let bytes = text.as_bytes();
    let (quote, escapes) = match bytes.get(start..)? {
        [b'\'', ..] => (start, false),
        [b'E' | b'e', b'\'', ..] => (start + 1, true),
        [b'N' | b'n', b'\'', ..] => (start + 1, false),
        [b'U' | b'u', b'&', b'\'', ..] => (start + 2, false),
        [b'$', ..] => return dollar_end(text, start),
        _ => return None,
    };
    let quotes = run_of_quotes(&bytes[quote..]);
    if quotes.is_multiple_of(2)
        && let Some(end) = nested_end(bytes, quote + quotes, quotes)
    {
        return Some(end);
    }
    let mut at = quote + 1;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'\\' if escapes => at += 2,
            b'\'' if bytes.get(at + 1) == Some(&b'\'') => at += 2,
            b'\'' => return Some(at + 1),
            _ => at += 1,
        }
    }
    Some(text.len())
}

/// Returns the number of quotes at the start of `bytes`.
fn run_of_quotes(bytes: &[u8]) -> usize {
    bytes.iter().take_while(|byte| **byte == b'\'').count()
}

/// Returns the end of a string inside another string, where several quotes stand for each quote:
/// the next run of at least as many quotes. Returns `None` if there is none.
fn nested_end(bytes: &[u8], start: usize, quotes: usize) -> Option<usize> {
    let mut at = start;
    while at < bytes.len() {
        match run_of_quotes(&bytes[at..]) {
            0 => at += 1,
            run if run >= quotes => return Some(at + quotes),
            run => at += run,
        }
    }
    None
}

/// Returns the end of the dollar-quoted string that begins at `start`; `None` if none begins there.
fn dollar_end(text: &str, start: usize) -> Option<usize> {
    let rest = &text[start + 1..];
    let tag_end = rest.find('$')?;
    let is_tag = rest[..tag_end]
        .chars()
        .enumerate()
        .all(|(at, c)| c == '_' || c.is_alphabetic() || at > 0 && c.is_ascii_digit());
    if !is_tag {
        return None;
    }
    let delimiter = &text[start..start + tag_end + 2];
    let body = start + delimiter.len();
    let end = text[body..].find(delimiter);
    Some(end.map_or(text.len(), |end| body + end + delimiter.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_masked_in_any_spelling() {
        for (text, masked) in [
            (
                "ALTER ROLE a PASSWORD 's3cret'",
                "ALTER ROLE a PASSWORD '********'",
            ),
            (
                "create user a encrypted Password E'it\\'s' login",
                "create user a encrypted Password '********' login",
            ),
            (
                "ALTER USER a WITH PASSWORD /* new */ $x$a$b$x$;SELECT 1",
                "ALTER USER a WITH PASSWORD /* new */ '********';SELECT 1",
            ),
            (
                "ALTER ROLE a PASSWORD -- é\n 'a''b', b PASSWORD U&'\\0061'",
                "ALTER ROLE a PASSWORD -- é\n '********', b PASSWORD '********'",
            ),
            (
                "ALTER ROLE a PASSWORD 'not ended",
                "ALTER ROLE a PASSWORD '********'",
            ),
            (
                "DO $$ BEGIN EXECUTE 'ALTER ROLE a PASSWORD ''s3cret'''; END $$",
                "DO $$ BEGIN EXECUTE 'ALTER ROLE a PASSWORD '********'",
            ),
            // The mask covers more than the password rather than less.
            (
                "SELECT f('EXECUTE ''ALTER ROLE a PASSWORD ''''s3''cret'''' '' ')",
                "SELECT f('EXECUTE ''ALTER ROLE a PASSWORD '********'",
            ),
            (
                "ALTER ROLE a PASSWORD ''",
                "ALTER ROLE a PASSWORD '********'",
            ),
            (
                "ALTER ROLE a PASSWORD '' LOGIN; SELECT 'x'",
                "ALTER ROLE a PASSWORD '********' LOGIN; SELECT 'x'",
            ),
            (
                "ALTER ROLE a PASSWORD 'one'\n'two' LOGIN",
                "ALTER ROLE a PASSWORD '********' LOGIN",
            ),
            ("SELECT password FROM t", "SELECT password FROM t"),
            ("ALTER ROLE a PASSWORD NULL", "ALTER ROLE a PASSWORD NULL"),
            ("SELECT 'é' AS passwort", "SELECT 'é' AS passwort"),
            ("password", "password"),
            ("password $1 $2", "password $1 $2"),
        ] {
            assert_eq!(mask(text), masked, "{text}");
        }
    }

    #[test]
    fn messages_hide_secrets_of_statement() {
        let statement = "ALTER ROLE a PASSWORD 's3cret' x";
        let message = "syntax error at or near \"s3cret\"";
        let hidden = hide(message, &secrets_of(statement));
        assert_eq!(hidden, "syntax error at or near \"'********'\"");
        assert_eq!(hide(message, &[]), message);
        let secrets = secrets_of("ALTER ROLE a PASSWORD 's3cret' 'other'");
        let hidden = hide("syntax error at or near \"'other'\"", &secrets);
        assert!(!hidden.contains("other"), "{hidden}");
    }
}

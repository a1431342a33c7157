//! Splits COPY input into records and fields, in whatever pieces it arrives.
//!
//! ```text
//! text   fields between delimiters, backslash escapes, a record ends at a newline without a
//!        backslash before it; the line \. ends the data
//! csv    fields between delimiters, quotes around fields with delimiters or newlines in them,
//!        a quote is escaped inside quotes; the line \. ends the data
//! ```

use fencepost_sql::bound::{CopyFormat, CopyOptions};
use fencepost_sql::error::{SqlError, SqlState};
use memchr::memchr;

/// One field: the range of its bytes, and whether they were quoted. A quoted field is not NULL.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Field {
    /// The start of its bytes in [`Record::bytes`].
    pub start: usize,
    /// The end of its bytes in [`Record::bytes`].
    pub end: usize,
    /// Whether it was in quotes.
    pub quoted: bool,
    /// Whether it is NULL.
    pub null: bool,
}

/// The fields of a record.
#[derive(Clone, Debug, Default)]
pub struct Record {
    /// The bytes of all fields, without escapes and quotes.
    pub bytes: Vec<u8>,
    /// The fields, in order.
    pub fields: Vec<Field>,
}

impl Record {
    /// Returns the bytes of field `i`.
    pub fn field(&self, i: usize) -> &[u8] {
        let field = &self.fields[i];
        &self.bytes[field.start..field.end]
    }
}

/// Splits a stream of bytes into lines that are whole records.
#[derive(Debug, Default)]
pub struct RecordSplitter {
    pending: Vec<u8>,
    /// The start of the next record in `pending`.
    start: usize,
    /// The position in `pending` before which no record ends.
    scanned: usize,
    in_quotes: bool,
    escaped: bool,
    ended: bool,
}

impl RecordSplitter {
    /// Adds bytes that arrived.
    pub fn push(&mut self, data: &[u8]) {
        if !self.ended {
            self.pending.drain(..self.start);
            self.scanned -= self.start;
            self.start = 0;
            self.pending.extend_from_slice(data);
        }
    }

    /// Reads the next whole line, without its end, into `line`. `last` states that no more bytes
    /// will arrive.
    pub fn next(&mut self, options: &CopyOptions, last: bool, line: &mut Vec<u8>) -> bool {
        line.clear();
        if self.ended || self.start == self.pending.len() {
            return false;
        }
        let found = match options.format {
            CopyFormat::Csv => self.find_csv_end(options),
            _ => self.find_text_end(),
        };
        let Some(end) = found.or(last.then_some(self.pending.len())) else {
            return false;
        };
        let mut body = &self.pending[self.start..end];
        if body.last() == Some(&b'\r') {
            body = &body[..body.len() - 1];
        }
        line.extend_from_slice(body);
        self.start = (end + 1).min(self.pending.len());
        self.scanned = self.start;
        self.escaped = false;
        if line == b"\\." {
            self.ended = true;
            return false;
        }
        true
    }

    fn find_text_end(&mut self) -> Option<usize> {
        loop {
            let newline = memchr(b'\n', &self.pending[self.scanned..])? + self.scanned;
            let body = &self.pending[self.start..newline];
            let backslashes = body.iter().rev().take_while(|b| **b == b'\\').count();
            // An even number of backslashes before the newline is data; with an odd number, the
            // last one escapes the newline.
            if backslashes % 2 == 0 {
                return Some(newline);
            }
            self.scanned = newline + 1;
        }
    }

    fn find_csv_end(&mut self, options: &CopyOptions) -> Option<usize> {
        while let Some(&byte) = self.pending.get(self.scanned) {
            let at = self.scanned;
            self.scanned += 1;
            if self.in_quotes && byte == options.escape && options.escape != options.quote {
                self.escaped = !self.escaped;
                continue;
            }
            if byte == options.quote && !self.escaped {
                self.in_quotes = !self.in_quotes;
            } else if byte == b'\n' && !self.in_quotes {
                return Some(at);
            }
            self.escaped = false;
        }
        None
    }
}

/// Splits a line into fields.
pub fn fields(line: &[u8], options: &CopyOptions, record: &mut Record) -> Result<(), SqlError> {
    record.bytes.clear();
    record.fields.clear();
    match options.format {
        CopyFormat::Csv => csv_fields(line, options, record),
        _ => {
            text_fields(line, options, record);
            Ok(())
        }
    }
}

fn text_fields(line: &[u8], options: &CopyOptions, record: &mut Record) {
    let mut at = 0;
    loop {
        let start = record.bytes.len();
        let raw_start = at;
        while at < line.len() && line[at] != options.delimiter {
            if line[at] == b'\\' && at + 1 < line.len() {
                at = unescape(line, at + 1, &mut record.bytes);
            } else {
                record.bytes.push(line[at]);
                at += 1;
            }
        }
        let null = line[raw_start..at] == *options.null.as_bytes();
        record.fields.push(Field {
            start,
            end: record.bytes.len(),
            quoted: false,
            null,
        });
        if at >= line.len() {
            return;
        }
        at += 1;
    }
}

/// Decodes the escape whose letter is at `at`. Returns the position after it.
fn unescape(line: &[u8], at: usize, out: &mut Vec<u8>) -> usize {
    let digits = |max: usize, from: usize, radix: u32| {
        let mut value = 0u32;
        let mut end = from;
        while end < line.len() && end < from + max {
            let Some(digit) = char::from(line[end]).to_digit(radix) else {
                break;
            };
            value = value * radix + digit;
            end += 1;
        }
        (value as u8, end)
    };
    let letter = line[at];
    let plain = match letter {
        b'b' => 8,
        b'f' => 12,
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'v' => 11,
        b'0'..=b'7' => {
            let (value, end) = digits(3, at, 8);
            out.push(value);
            return end;
        }
        b'x' => {
            let (value, end) = digits(2, at + 1, 16);
            if end > at + 1 {
                out.push(value);
                return end;
            }
            b'x'
        }
        other => other,
    };
    out.push(plain);
    at + 1
}

fn csv_fields(line: &[u8], options: &CopyOptions, record: &mut Record) -> Result<(), SqlError> {
    let mut at = 0;
    loop {
        let start = record.bytes.len();
        let mut quoted = false;
        let mut in_quotes = false;
        while at < line.len() && (in_quotes || line[at] != options.delimiter) {
            let byte = line[at];
            let next = line.get(at + 1).copied();
            let escapes = next.is_some_and(|n| n == options.quote || n == options.escape);
            if in_quotes && byte == options.escape && escapes {
                record.bytes.extend(next);
                at += 2;
                continue;
            }
            if byte == options.quote {
                quoted = true;
                in_quotes = !in_quotes;
            } else {
                record.bytes.push(byte);
            }
            at += 1;
        }
        if in_quotes {
            return Err(SqlError::new(
                SqlState::BAD_COPY_FILE_FORMAT,
                "unterminated CSV quoted field",
            ));
        }
        let null = !quoted && record.bytes[start..] == *options.null.as_bytes();
        record.fields.push(Field {
            start,
            end: record.bytes.len(),
            quoted,
            null,
        });
        if at >= line.len() {
            return Ok(());
        }
        at += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn csv() -> CopyOptions {
        CopyOptions {
            format: CopyFormat::Csv,
            delimiter: b',',
            null: String::new(),
            ..CopyOptions::default()
        }
    }

    fn read(input: &[u8], piece: usize, options: &CopyOptions) -> Vec<Vec<Option<String>>> {
        let mut lines = RecordSplitter::default();
        let mut line = Vec::new();
        let mut record = Record::default();
        let mut rows = Vec::new();
        let mut take = |lines: &mut RecordSplitter, last| {
            while lines.next(options, last, &mut line) {
                fields(&line, options, &mut record).expect("well-formed");
                let row = (0..record.fields.len()).map(|i| {
                    let text = String::from_utf8_lossy(record.field(i)).into_owned();
                    (!record.fields[i].null).then_some(text)
                });
                rows.push(row.collect());
            }
        };
        for chunk in input.chunks(piece) {
            lines.push(chunk);
            take(&mut lines, false);
        }
        take(&mut lines, true);
        rows
    }

    fn row(fields: &[Option<&str>]) -> Vec<Option<String>> {
        fields.iter().map(|f| f.map(str::to_owned)).collect()
    }

    #[test]
    fn text_is_read_from_pieces_of_any_size() {
        let input = b"1\ta\\tb\t\\N\n2\t\\\\N\t\\x41\\101\\\nx\r\n\\.\nignored\n";
        for piece in 1..input.len() {
            let rows = read(input, piece, &CopyOptions::default());
            let expected = [
                row(&[Some("1"), Some("a\tb"), None]),
                row(&[Some("2"), Some("\\N"), Some("AA\nx")]),
            ];
            assert_eq!(rows, expected, "pieces of {piece}");
        }
    }

    #[test]
    fn csv_is_read_from_pieces_of_any_size() {
        let input = b"1,\"a,\"\"b\"\"\nc\",\n2,\"\",x\n\\.\n";
        for piece in 1..input.len() {
            let rows = read(input, piece, &csv());
            let expected = [
                row(&[Some("1"), Some("a,\"b\"\nc"), None]),
                row(&[Some("2"), Some(""), Some("x")]),
            ];
            assert_eq!(rows, expected, "pieces of {piece}");
        }
    }
}

//! PostgreSQL's binary format of COPY, for input and output.
//!
//! ```text
//! file    signature (11 bytes), flags (4), length of extension (4), extension, tuples, -1 (2)
//! tuple   number of fields (2), fields
//! field   length (4), bytes; of length -1 it is NULL and has none
//! ```
//!
//! Numbers are big-endian. Data that ends between two tuples may lack the -1.

use fencepost_sql::error::{SqlError, SqlState};
use fencepost_sql::row::{ROW_BYTES_MAX, row_too_big};
use fencepost_sql::types::{Type, binary_out};
use fencepost_sql::value::Value;

use super::records::{Field, Record};

const SIGNATURE: &[u8; 11] = b"PGCOPY\n\xff\r\n\0";
/// Length of the header before its extension, in bytes.
const HEADER_BYTES: usize = SIGNATURE.len() + 8;
/// The flag for tuples with oids, which old servers wrote.
const OIDS_FLAG: u32 = 1 << 16;
/// The flags that a reader must not ignore.
const CRITICAL_FLAGS: u32 = 0xFFFF_0000;

/// Splits a stream of bytes into tuples. Memory is used only for bytes that have arrived, whatever
/// length is announced.
#[derive(Debug)]
pub struct Tuples {
    columns: usize,
    pending: Vec<u8>,
    /// The start of the next tuple in `pending`.
    start: usize,
    /// The bytes of the header's extension that are still to be skipped; `None` before the header.
    extension: Option<usize>,
    ended: bool,
}

impl Tuples {
    /// Creates the state for a stream of tuples with `columns` fields.
    pub fn new(columns: usize) -> Tuples {
        Tuples {
            columns,
            pending: Vec::new(),
            start: 0,
            extension: None,
            ended: false,
        }
    }

    /// Adds bytes that arrived.
    pub fn push(&mut self, data: &[u8]) {
        self.pending.drain(..self.start);
        self.start = 0;
        self.pending.extend_from_slice(data);
    }

    /// Skips the header. Returns false while it is incomplete. `last` states that no more bytes
    /// will arrive.
    pub fn begin(&mut self, last: bool) -> Result<bool, SqlError> {
        let mut extension = match self.extension {
            Some(extension) => extension,
            None => match extension_length(&self.pending[self.start..], last)? {
                Some(extension) => {
                    self.start += HEADER_BYTES;
                    extension
                }
                None => return Ok(false),
            },
        };
        let skipped = extension.min(self.pending.len() - self.start);
        self.start += skipped;
        extension -= skipped;
        self.extension = Some(extension);
        if last && extension > 0 {
            return Err(bad_format("invalid COPY file header (wrong length)"));
        }
        Ok(extension == 0)
    }

    /// Reads the next tuple after the header into `tuple`. For an invalid tuple, reads enough for
    /// [`check_count`] and [`fields`] to report the error. `last` states that no more bytes will
    /// arrive.
    pub fn next(&mut self, last: bool, tuple: &mut Vec<u8>) -> Result<bool, SqlError> {
        tuple.clear();
        // A single byte at the end is ignored, as in PostgreSQL.
        if !self.ended && field_count(&self.pending[self.start..]) == Some(-1) {
            self.start += 2;
            self.ended = true;
        }
        let left = &self.pending[self.start..];
        if self.ended && !left.is_empty() {
            return Err(bad_format("received copy data after EOF marker"));
        }
        if field_count(left).is_none() {
            return Ok(false);
        }
        let end = tuple_end(left, self.columns)?.filter(|end| *end <= left.len());
        let Some(end) = end.or(last.then_some(left.len())) else {
            return Ok(false);
        };
        tuple.extend_from_slice(&left[..end]);
        self.start += end;
        Ok(true)
    }
}

/// Returns the length of the header's extension, once all bytes before it have arrived.
fn extension_length(bytes: &[u8], last: bool) -> Result<Option<usize>, SqlError> {
    let missing = |what: &str| match last {
        true => Err(bad_format(what)),
        false => Ok(None),
    };
    let unknown = "COPY file signature not recognized";
    let known = bytes.len().min(SIGNATURE.len());
    if bytes[..known] != SIGNATURE[..known] {
        return Err(bad_format(unknown));
    }
    if known < SIGNATURE.len() {
        return missing(unknown);
    }
    let Some(flags) = number(bytes, SIGNATURE.len()) else {
        return missing("invalid COPY file header (missing flags)");
    };
    if flags & OIDS_FLAG != 0 {
        return Err(bad_format("invalid COPY file header (WITH OIDS)"));
    }
    if flags & CRITICAL_FLAGS != 0 {
        let message = "unrecognized critical flags in COPY file header";
        return Err(bad_format(message));
    }
    let no_length = "invalid COPY file header (missing length)";
    let Some(length) = number(bytes, SIGNATURE.len() + 4) else {
        return missing(no_length);
    };
    match usize::try_from(length.cast_signed()) {
        Ok(length) => Ok(Some(length)),
        Err(_) => Err(bad_format(no_length)),
    }
}

/// Returns the end of the tuple at the start of `bytes`, or the position of an error; `None` if
/// more bytes are needed. Returns error 54000 if the announced length exceeds that of any row.
fn tuple_end(bytes: &[u8], columns: usize) -> Result<Option<usize>, SqlError> {
    let mut end = 2;
    if check_count(bytes, columns).is_err() {
        return Ok(Some(end));
    }
    for _ in 0..columns {
        let Some(length) = number(bytes, end) else {
            return Ok(None);
        };
        end += 4;
        match field_length(length) {
            Ok(length) => end += length.unwrap_or(0),
            Err(_) => return Ok(Some(end)),
        }
        if end > ROW_BYTES_MAX {
            return Err(row_too_big(end));
        }
    }
    Ok(Some(end))
}

fn field_count(bytes: &[u8]) -> Option<i16> {
    bytes.first_chunk().copied().map(i16::from_be_bytes)
}

/// Returns the length of a field; `None` for NULL.
fn field_length(length: u32) -> Result<Option<usize>, SqlError> {
    match length.cast_signed() {
        -1 => Ok(None),
        length => match usize::try_from(length) {
            Ok(length) => Ok(Some(length)),
            Err(_) => Err(bad_format("invalid field size")),
        },
    }
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    bytes
        .get(at..)?
        .first_chunk()
        .copied()
        .map(u32::from_be_bytes)
}

/// Returns an error unless the tuple has `columns` fields.
pub fn check_count(tuple: &[u8], columns: usize) -> Result<(), SqlError> {
    let count = field_count(tuple).unwrap_or(0);
    match usize::try_from(count) == Ok(columns) {
        true => Ok(()),
        false => {
            let what = format!("row field count is {count}, expected {columns}");
            Err(bad_format(what))
        }
    }
}

/// Reads the fields of a tuple that has `columns` fields. After an error, the record has the fields
/// before the invalid one.
pub fn fields(tuple: &[u8], columns: usize, record: &mut Record) -> Result<(), SqlError> {
    record.bytes.clear();
    record.fields.clear();
    let cut_off = || bad_format("unexpected EOF in COPY data");
    let mut at = 2;
    for _ in 0..columns {
        let length = field_length(number(tuple, at).ok_or_else(cut_off)?)?;
        let start = record.bytes.len();
        let from = at + 4;
        at = from + length.unwrap_or(0);
        record
            .bytes
            .extend_from_slice(tuple.get(from..at).ok_or_else(cut_off)?);
        record.fields.push(Field {
            start,
            end: record.bytes.len(),
            quoted: false,
            null: length.is_none(),
        });
    }
    Ok(())
}

/// Appends the header.
pub fn header(out: &mut Vec<u8>) {
    out.extend_from_slice(SIGNATURE);
    out.extend_from_slice(&[0; 8]);
}

/// Appends the trailer.
pub fn trailer(out: &mut Vec<u8>) {
    out.extend_from_slice(&(-1i16).to_be_bytes());
}

/// Appends a row of at most 1,600 columns with these types.
pub fn row(row: &[Value], types: &[Type], out: &mut Vec<u8>) {
    out.extend_from_slice(&(row.len() as i16).to_be_bytes());
    for (value, ty) in row.iter().zip(types) {
        let at = out.len();
        out.extend_from_slice(&(-1i32).to_be_bytes());
        if !value.is_null() {
            binary_out(value, ty, out);
            let length = (out.len() - at - 4) as i32;
            out[at..at + 4].copy_from_slice(&length.to_be_bytes());
        }
    }
}

fn bad_format(message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::BAD_COPY_FILE_FORMAT, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(rows: &[[Value; 2]]) -> Vec<u8> {
        let mut out = Vec::new();
        header(&mut out);
        for values in rows {
            row(values, &[Type::INT4, Type::TEXT], &mut out);
        }
        trailer(&mut out);
        out
    }

    /// Returns the tuples of `bytes` that arrive in pieces, or the error.
    fn read(bytes: &[u8], piece: usize) -> Result<Vec<[Option<Vec<u8>>; 2]>, String> {
        let (mut tuples, mut tuple) = (Tuples::new(2), Vec::new());
        let (mut record, mut found) = (Record::default(), Vec::new());
        let pieces = bytes.chunks(piece).map(|data| (data, false));
        for (data, last) in pieces.chain([(&b""[..], true)]) {
            let mut take = || -> Result<(), SqlError> {
                tuples.push(data);
                while tuples.begin(last)? && tuples.next(last, &mut tuple)? {
                    check_count(&tuple, 2)?;
                    fields(&tuple, 2, &mut record)?;
                    let field =
                        |nth: usize| (!record.fields[nth].null).then(|| record.field(nth).to_vec());
                    found.push([field(0), field(1)]);
                }
                Ok(())
            };
            take().map_err(|error| error.message().to_owned())?;
        }
        Ok(found)
    }

    #[test]
    fn tuples_are_decoded_from_any_pieces() {
        let rows = [
            [Value::Int4(7), Value::text("seven")],
            [Value::Null, Value::text("")],
        ];
        let expected = [
            [Some(vec![0, 0, 0, 7]), Some(b"seven".to_vec())],
            [None, Some(Vec::new())],
        ];
        let bytes = file(&rows);
        let mut extended = bytes.clone();
        extended[18] = 3;
        extended.splice(19..19, *b"new");
        for piece in 1..=extended.len() {
            assert_eq!(read(&bytes, piece).as_deref(), Ok(&expected[..]));
            assert_eq!(read(&extended, piece).as_deref(), Ok(&expected[..]));
        }
        // The trailer may be missing.
        let unmarked = &bytes[..bytes.len() - 2];
        assert_eq!(read(unmarked, 5).as_deref(), Ok(&expected[..]));
    }

    #[test]
    fn malformed_binary_copy_is_reported() {
        let whole = file(&[[Value::Int4(7), Value::text("x")]]);
        let with = |at: usize, bytes: &[u8]| {
            let mut changed = whole.clone();
            changed[at..at + bytes.len()].copy_from_slice(bytes);
            changed
        };
        let cut = |length: usize| whole[..length].to_vec();
        let behind = [&whole[..], b"\0"].concat();
        for (bytes, expected) in [
            (Vec::new(), "COPY file signature not recognized"),
            (b"1\tx\n".to_vec(), "COPY file signature not recognized"),
            (cut(8), "COPY file signature not recognized"),
            (cut(14), "invalid COPY file header (missing flags)"),
            (cut(18), "invalid COPY file header (missing length)"),
            (with(12, &[1]), "invalid COPY file header (WITH OIDS)"),
            (
                with(12, &[2]),
                "unrecognized critical flags in COPY file header",
            ),
            (
                with(15, &[0xFF]),
                "invalid COPY file header (missing length)",
            ),
            (with(15, &[0x7F]), "invalid COPY file header (wrong length)"),
            (with(19, &[0, 3]), "row field count is 3, expected 2"),
            (with(19, &[0xFF, 0xFE]), "row field count is -2, expected 2"),
            (with(21, &[0xFF; 3]), "invalid field size"),
            (
                with(21, &[0x7F, 0xFF, 0xFF, 0xFF]),
                "row is too big: size 2147483653, maximum size 268435456",
            ),
            (cut(23), "unexpected EOF in COPY data"),
            (cut(26), "unexpected EOF in COPY data"),
            (cut(33), "unexpected EOF in COPY data"),
            (behind, "received copy data after EOF marker"),
        ] {
            for piece in [1, 4, 100] {
                assert_eq!(read(&bytes, piece), Err(expected.to_owned()), "{bytes:?}");
            }
        }
    }
}

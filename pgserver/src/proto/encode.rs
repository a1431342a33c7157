//! Messages of the row path, appended to an output buffer: BindComplete, RowDescription, NoData,
//! DataRow, CopyData, CommandComplete and ReadyForQuery. [`super::backend`] has all others. libpq
//! has each run of a prepared statement described, so descriptions are of the row path, too.
//!
//! Every message is written once, front to back; its length is patched in when its end is known.
//! pgwire would allocate and copy each value (`agreement` holds the two codecs against each other).

use pgwire::messages::response::TransactionStatus;

/// The longest message the protocol can carry.
pub const MESSAGE_BYTES_MAX: usize = i32::MAX as usize - 1;

/// A column of a RowDescription.
#[derive(Debug, Clone, Copy)]
pub struct Column<'a> {
    /// Its name.
    pub name: &'a str,
    /// The table it is of, or 0.
    pub table: u32,
    /// Its number in the table, or 0.
    pub attribute: i16,
    /// The oid of its type.
    pub type_oid: u32,
    /// The size of its type, negative when it varies.
    pub type_size: i16,
    /// The modifier of its type, or -1.
    pub typmod: i32,
    /// Whether it is sent in binary.
    pub binary: bool,
}

/// Appends a message whose body `body` writes.
#[inline]
pub fn message(out: &mut Vec<u8>, tag: u8, body: impl FnOnce(&mut Vec<u8>)) {
    let start = begin(out, tag);
    body(out);
    end(out, start);
}

/// Appends a type byte and room for the length; the answer goes to [`end`].
#[inline]
pub fn begin(out: &mut Vec<u8>, tag: u8) -> usize {
    out.extend_from_slice(&[tag, 0, 0, 0, 0]);
    out.len() - 4
}

/// Patches the length of the message that [`begin`] opened.
#[inline]
pub fn end(out: &mut [u8], start: usize) {
    let length = (out.len() - start) as u32;
    out[start..start + 4].copy_from_slice(&length.to_be_bytes());
}

fn i16(out: &mut Vec<u8>, value: i16) {
    out.extend_from_slice(&value.to_be_bytes());
}

fn i32(out: &mut Vec<u8>, value: i32) {
    out.extend_from_slice(&value.to_be_bytes());
}

/// Appends a zero-ended text; zero bytes within it become blanks.
fn cstring(out: &mut Vec<u8>, text: &str) {
    let start = out.len();
    out.extend_from_slice(text.as_bytes());
    for byte in &mut out[start..] {
        if *byte == 0 {
            *byte = b' ';
        }
    }
    out.push(0);
}

/// ReadyForQuery.
#[inline]
pub fn ready_for_query(out: &mut Vec<u8>, status: TransactionStatus) {
    out.extend_from_slice(&[b'Z', 0, 0, 0, 5, status as u8]);
}

/// BindComplete.
#[inline]
pub fn bind_complete(out: &mut Vec<u8>) {
    out.extend_from_slice(&[b'2', 0, 0, 0, 4]);
}

/// NoData.
#[inline]
pub fn no_data(out: &mut Vec<u8>) {
    out.extend_from_slice(&[b'n', 0, 0, 0, 4]);
}

/// RowDescription.
pub fn row_description<'a>(out: &mut Vec<u8>, columns: impl ExactSizeIterator<Item = Column<'a>>) {
    message(out, b'T', |out| {
        i16(out, columns.len() as i16);
        for column in columns {
            cstring(out, column.name);
            i32(out, column.table as i32);
            i16(out, column.attribute);
            i32(out, column.type_oid as i32);
            i16(out, column.type_size);
            i32(out, column.typmod);
            i16(out, i16::from(column.binary));
        }
    });
}

/// CommandComplete.
#[inline]
pub fn command_complete(out: &mut Vec<u8>, tag: impl FnOnce(&mut Vec<u8>)) {
    message(out, b'C', |out| {
        tag(out);
        out.push(0);
    });
}

/// Opens a DataRow of `columns` columns; each is added by [`null`] or [`field`].
#[inline]
pub fn begin_row(out: &mut Vec<u8>, columns: usize) -> usize {
    let start = begin(out, b'D');
    i16(out, columns as i16);
    start
}

/// A NULL in a row.
#[inline]
pub fn null(out: &mut Vec<u8>) {
    i32(out, -1);
}

/// A value in a row, which `value` writes.
#[inline]
pub fn field<T>(out: &mut Vec<u8>, value: impl FnOnce(&mut Vec<u8>) -> T) -> T {
    out.extend_from_slice(&[0; 4]);
    let start = out.len();
    let answer = value(out);
    let length = (out.len() - start) as u32;
    out[start - 4..start].copy_from_slice(&length.to_be_bytes());
    answer
}

/// CopyData.
pub fn copy_data(out: &mut Vec<u8>, data: &[u8]) {
    message(out, b'd', |out| out.extend_from_slice(data));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_patched() {
        let mut out = Vec::new();
        let row = begin_row(&mut out, 2);
        field(&mut out, |out| out.extend_from_slice(b"abc"));
        null(&mut out);
        end(&mut out, row);
        ready_for_query(&mut out, TransactionStatus::Transaction);
        let wanted = b"D\0\0\0\x11\0\x02\0\0\0\x03abc\xff\xff\xff\xffZ\0\0\0\x05T";
        assert_eq!(out, wanted);
    }
}

//! Messages of the row path, appended to an output buffer: BindComplete, RowDescription, NoData,
//! DataRow, CopyData, CommandComplete and ReadyForQuery. [`super::backend`] has all others. libpq
//! describes each run of a prepared statement, so descriptions belong to the row path, too.
//!
//! Every message is written once, front to back; its length is written when its end is known.
//! pgwire would allocate and copy each value (`agreement` compares the two codecs).

use pgwire::messages::response::TransactionStatus;

/// The size limit of a message in the protocol, in bytes.
pub const MESSAGE_BYTES_MAX: usize = i32::MAX as usize - 1;

/// A column of a RowDescription.
#[derive(Debug, Clone, Copy)]
pub struct Column<'a> {
    /// The name of the column.
    pub name: &'a str,
    /// The oid of the column's table, or 0.
    pub table: u32,
    /// The number of the column in the table, from 1, or 0.
    pub attribute: i16,
    /// The oid of the column's type.
    pub type_oid: u32,
    /// The size of the type in bytes, negative if it varies.
    pub type_size: i16,
    /// The modifier of the type, or -1.
    pub typmod: i32,
    /// Whether the column is sent in binary.
    pub binary: bool,
}

/// Appends a message whose body `body` writes.
#[inline]
pub fn message(out: &mut Vec<u8>, tag: u8, body: impl FnOnce(&mut Vec<u8>)) {
    let start = begin(out, tag);
    body(out);
    end(out, start);
}

/// Appends a type byte and space for the length. Returns the position for [`end`].
#[inline]
pub fn begin(out: &mut Vec<u8>, tag: u8) -> usize {
    out.extend_from_slice(&[tag, 0, 0, 0, 0]);
    out.len() - 4
}

/// Writes the length of the message that [`begin`] opened at `start`.
///
/// # Panics
/// If `start` is not a position that [`begin`] has returned for `out`.
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

/// Appends a zero-terminated text; zero bytes inside it become spaces.
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

/// Appends ReadyForQuery.
#[inline]
pub fn ready_for_query(out: &mut Vec<u8>, status: TransactionStatus) {
    out.extend_from_slice(&[b'Z', 0, 0, 0, 5, status as u8]);
}

/// Appends BindComplete.
#[inline]
pub fn bind_complete(out: &mut Vec<u8>) {
    out.extend_from_slice(&[b'2', 0, 0, 0, 4]);
}

/// Appends NoData.
#[inline]
pub fn no_data(out: &mut Vec<u8>) {
    out.extend_from_slice(&[b'n', 0, 0, 0, 4]);
}

/// Appends RowDescription.
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

/// Appends CommandComplete.
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

/// Appends a NULL to a row.
#[inline]
pub fn null(out: &mut Vec<u8>) {
    i32(out, -1);
}

/// Appends a value to a row. `value` writes its bytes.
#[inline]
pub fn field<T>(out: &mut Vec<u8>, value: impl FnOnce(&mut Vec<u8>) -> T) -> T {
    out.extend_from_slice(&[0; 4]);
    let start = out.len();
    let answer = value(out);
    let length = (out.len() - start) as u32;
    out[start - 4..start].copy_from_slice(&length.to_be_bytes());
    answer
}

/// Appends CopyData.
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

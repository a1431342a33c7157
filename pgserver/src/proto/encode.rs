//! Messages of the server, appended to an output buffer.
//!
//! Every message is written once, front to back; its length is patched in when its end is known.

use super::startup::PROTOCOL_VERSION;

/// The longest message the protocol can carry.
pub const MESSAGE_BYTES_MAX: usize = i32::MAX as usize - 1;

/// What ReadyForQuery reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ready {
    /// Outside a transaction block.
    Idle,
    /// In a transaction block.
    InBlock,
    /// In a transaction block that failed.
    Failed,
}

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

/// Appends a zero-ended text; zero bytes within it become blanks.
pub fn cstring(out: &mut Vec<u8>, text: &str) {
    let start = out.len();
    out.extend_from_slice(text.as_bytes());
    for byte in &mut out[start..] {
        if *byte == 0 {
            *byte = b' ';
        }
    }
    out.push(0);
}

fn i16(out: &mut Vec<u8>, value: i16) {
    out.extend_from_slice(&value.to_be_bytes());
}

fn i32(out: &mut Vec<u8>, value: i32) {
    out.extend_from_slice(&value.to_be_bytes());
}

fn empty(out: &mut Vec<u8>, tag: u8) {
    out.extend_from_slice(&[tag, 0, 0, 0, 4]);
}

/// AuthenticationOk.
pub fn authentication_ok(out: &mut Vec<u8>) {
    message(out, b'R', |out| i32(out, 0));
}

/// AuthenticationSASL with the mechanisms offered.
pub fn authentication_sasl(out: &mut Vec<u8>, mechanisms: &[&str]) {
    message(out, b'R', |out| {
        i32(out, 10);
        mechanisms.iter().for_each(|name| cstring(out, name));
        out.push(0);
    });
}

/// AuthenticationSASLContinue.
pub fn authentication_sasl_continue(out: &mut Vec<u8>, data: &str) {
    message(out, b'R', |out| {
        i32(out, 11);
        out.extend_from_slice(data.as_bytes());
    });
}

/// AuthenticationSASLFinal.
pub fn authentication_sasl_final(out: &mut Vec<u8>, data: &str) {
    message(out, b'R', |out| {
        i32(out, 12);
        out.extend_from_slice(data.as_bytes());
    });
}

/// NegotiateProtocolVersion: 3.0 is spoken, and these options are not known.
pub fn negotiate_protocol_version(out: &mut Vec<u8>, unknown_options: &[String]) {
    message(out, b'v', |out| {
        i32(out, PROTOCOL_VERSION as i32);
        i32(out, unknown_options.len() as i32);
        unknown_options.iter().for_each(|name| cstring(out, name));
    });
}

/// ParameterStatus.
pub fn parameter_status(out: &mut Vec<u8>, name: &str, value: &str) {
    message(out, b'S', |out| {
        cstring(out, name);
        cstring(out, value);
    });
}

/// NotificationResponse.
pub fn notification(out: &mut Vec<u8>, pid: i32, channel: &str, payload: &str) {
    message(out, b'A', |out| {
        i32(out, pid);
        cstring(out, channel);
        cstring(out, payload);
    });
}

/// BackendKeyData.
pub fn backend_key_data(out: &mut Vec<u8>, pid: i32, secret: i32) {
    message(out, b'K', |out| {
        i32(out, pid);
        i32(out, secret);
    });
}

/// ReadyForQuery.
#[inline]
pub fn ready_for_query(out: &mut Vec<u8>, ready: Ready) {
    let status = match ready {
        Ready::Idle => b'I',
        Ready::InBlock => b'T',
        Ready::Failed => b'E',
    };
    out.extend_from_slice(&[b'Z', 0, 0, 0, 5, status]);
}

/// ParseComplete.
#[inline]
pub fn parse_complete(out: &mut Vec<u8>) {
    empty(out, b'1');
}

/// BindComplete.
#[inline]
pub fn bind_complete(out: &mut Vec<u8>) {
    empty(out, b'2');
}

/// CloseComplete.
pub fn close_complete(out: &mut Vec<u8>) {
    empty(out, b'3');
}

/// NoData.
pub fn no_data(out: &mut Vec<u8>) {
    empty(out, b'n');
}

/// EmptyQueryResponse.
pub fn empty_query_response(out: &mut Vec<u8>) {
    empty(out, b'I');
}

/// PortalSuspended.
pub fn portal_suspended(out: &mut Vec<u8>) {
    empty(out, b's');
}

/// CommandComplete.
#[inline]
pub fn command_complete(out: &mut Vec<u8>, tag: impl FnOnce(&mut Vec<u8>)) {
    message(out, b'C', |out| {
        tag(out);
        out.push(0);
    });
}

/// ParameterDescription.
pub fn parameter_description(out: &mut Vec<u8>, types: impl ExactSizeIterator<Item = u32>) {
    message(out, b't', |out| {
        i16(out, types.len() as i16);
        types.for_each(|oid| i32(out, oid as i32));
    });
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

/// CopyInResponse (`G`) or CopyOutResponse (`H`) of so many columns, in text or in binary.
pub fn copy_response(out: &mut Vec<u8>, tag: u8, (columns, binary): (usize, bool)) {
    message(out, tag, |out| {
        out.push(u8::from(binary));
        i16(out, columns as i16);
        (0..columns).for_each(|_| i16(out, i16::from(binary)));
    });
}

/// CopyData.
pub fn copy_data(out: &mut Vec<u8>, data: &[u8]) {
    message(out, b'd', |out| out.extend_from_slice(data));
}

/// CopyDone.
pub fn copy_done(out: &mut Vec<u8>) {
    empty(out, b'c');
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
        ready_for_query(&mut out, Ready::InBlock);
        let wanted = b"D\0\0\0\x11\0\x02\0\0\0\x03abc\xff\xff\xff\xffZ\0\0\0\x05T";
        assert_eq!(out, wanted);
    }

    #[test]
    fn a_row_description_carries_every_field() {
        let mut out = Vec::new();
        let column = Column {
            name: "id",
            table: 16_384,
            attribute: 1,
            type_oid: 23,
            type_size: 4,
            typmod: -1,
            binary: true,
        };
        row_description(&mut out, [column].into_iter());
        let wanted = b"T\0\0\0\x1b\0\x01id\0\0\0\x40\0\0\x01\0\0\0\x17\0\x04\xff\xff\xff\xff\0\x01";
        assert_eq!(out, wanted);
    }
}

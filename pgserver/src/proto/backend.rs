//! Messages of the server outside the row path: pgwire's types, appended to the output buffer.
//!
//! pgwire copies strings unchanged, so a zero byte in a string would end its field and begin
//! another. The functions here create messages whose strings have no zero bytes.

use bytes::BytesMut;
use pgwire::messages::Message;
use pgwire::messages::copy::{CopyInResponse, CopyOutResponse};
use pgwire::messages::data::ParameterDescription;
use pgwire::messages::response::NotificationResponse;
use pgwire::messages::startup::{NegotiateProtocolVersion, ParameterStatus};
use tracing::warn;

use super::startup::PROTOCOL_VERSION;

/// The length limit of a string in a message, in bytes. A report with the most strings of this
/// length is still smaller than the 2 GiB that the protocol allows.
const STRING_BYTES_MAX: usize = 64 << 20;

/// Appends a message.
///
/// A message above pgwire's limit for its type is omitted, because clients would close the
/// connection. The limit of ParameterStatus is 30,000 bytes; no reported setting reaches it.
pub fn append(out: &mut Vec<u8>, message: &impl Message) {
    let mut encoded = BytesMut::with_capacity(1 + message.message_length());
    match message.encode(&mut encoded) {
        Ok(()) => out.extend_from_slice(&encoded),
        Err(error) => warn!(%error, "a message was not sent to a client"),
    }
}

/// Returns a string for a message: spaces replace zero bytes, and a string of more than 64 MiB is
/// cut.
pub fn string(text: &str) -> String {
    text[..text.floor_char_boundary(STRING_BYTES_MAX)].replace('\0', " ")
}

/// Returns the reply to a start-up packet of another minor version: the server uses 3.0, and does
/// not know these options.
pub fn negotiate_protocol_version(unknown_options: Vec<String>) -> NegotiateProtocolVersion {
    NegotiateProtocolVersion::new(PROTOCOL_VERSION as i32, unknown_options)
}

/// Returns a ParameterStatus.
pub fn parameter_status(name: &str, value: &str) -> ParameterStatus {
    ParameterStatus::new(string(name), string(value))
}

/// Returns a NotificationResponse of the session `pid`.
pub fn notification(pid: i32, channel: &str, payload: &str) -> NotificationResponse {
    NotificationResponse::new(pid, string(channel), string(payload))
}

/// Returns the ParameterDescription of a statement with parameters of these types.
pub fn parameter_description(types: impl Iterator<Item = u32>) -> ParameterDescription {
    ParameterDescription::new(types.collect())
}

/// Returns the CopyInResponse for this number of columns, in text or in binary.
pub fn copy_in((columns, binary): (usize, bool)) -> CopyInResponse {
    let format = i16::from(binary);
    CopyInResponse::new(format as i8, columns as i16, vec![format; columns])
}

/// Returns the CopyOutResponse for this number of columns, in text or in binary.
pub fn copy_out((columns, binary): (usize, bool)) -> CopyOutResponse {
    let format = i16::from(binary);
    CopyOutResponse::new(format as i8, columns as i16, vec![format; columns])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_byte_cannot_forge_a_field() {
        let mut out = b"before".to_vec();
        append(&mut out, &parameter_status("a\0b", "c"));
        assert_eq!(out, b"beforeS\0\0\0\x0aa b\0c\0");
    }

    #[test]
    fn too_long_setting_is_not_sent() {
        let mut out = Vec::new();
        append(&mut out, &parameter_status("x", &"y".repeat(30_000)));
        assert!(out.is_empty());
    }

    #[test]
    fn long_string_is_cut_between_characters() {
        let long = "é".repeat(STRING_BYTES_MAX / 2 + 1);
        assert_eq!(string(&format!("x{long}")).len(), STRING_BYTES_MAX - 1);
    }

    #[test]
    fn copy_response_has_a_format_for_each_column() {
        let mut out = Vec::new();
        append(&mut out, &copy_in((2, true)));
        append(&mut out, &copy_out((1, false)));
        assert_eq!(
            out,
            b"G\0\0\0\x0b\x01\0\x02\0\x01\0\x01H\0\0\0\x09\0\0\x01\0\0"
        );
    }
}

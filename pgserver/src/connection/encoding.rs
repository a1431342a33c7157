//! Conversion of text for clients whose encoding is not UTF-8.
//!
//! ```text
//!   frame ──decode_frame──▶ text in UTF-8 ──▶ session ──▶ messages in UTF-8 ──encode_*──▶ client
//! ```
//! Parameters and rows are converted value by value, because only text values need it. COPY text
//! data is converted in whole lines, so that no character is cut.

use crate::engine::{Encoding, SqlError, Type, is_textual};
use crate::proto::frame::Frame;

/// The bytes after the name of a column in a RowDescription.
const COLUMN_BYTES: usize = 18;

/// Returns the body of a message with its strings in UTF-8; `None` if it is the same.
///
/// # Errors
/// 22021 or 22P05 for bytes that are not valid text.
pub(super) fn decode_frame(
    encoding: Encoding,
    frame: &Frame<'_>,
) -> Result<Option<Vec<u8>>, SqlError> {
    let (skipped, strings) = match frame.tag {
        b'Q' | b'E' | b'f' => (0, 1),
        b'P' | b'B' => (0, 2),
        b'D' | b'C' => (1, 1),
        _ => return Ok(None),
    };
    let mut rest = frame.body.get(skipped..).unwrap_or_default();
    let mut body = frame.body[..frame.body.len() - rest.len()].to_vec();
    for _ in 0..strings {
        let Some(end) = rest.iter().position(|byte| *byte == 0) else {
            // The message decoder reports the error.
            return Ok(None);
        };
        body.extend_from_slice(encoding.decode(&rest[..end])?.as_bytes());
        body.push(0);
        rest = &rest[end + 1..];
    }
    body.extend_from_slice(rest);
    Ok(Some(body))
}

/// Returns a parameter in UTF-8; `None` if it is not text.
///
/// # Errors
/// 22021 or 22P05 for bytes that are not valid text.
pub(super) fn decode_parameter(
    encoding: Encoding,
    bytes: &[u8],
    (ty, binary): (&Type, bool),
) -> Result<Option<String>, SqlError> {
    if binary && !is_textual(ty) {
        return Ok(None);
    }
    encoding.decode(bytes).map(Some)
}

/// Converts the text at the end of `out`, from `start` on.
///
/// # Errors
/// 22P05 for a character that the client's encoding does not have.
pub(super) fn encode_tail(
    encoding: Encoding,
    out: &mut Vec<u8>,
    start: usize,
) -> Result<(), SqlError> {
    if out[start..].is_ascii() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&out.split_off(start)).into_owned();
    encoding.encode(&text, out)
}

/// Converts the strings of the last message of `out`, which begins at `start`. The strings are its
/// body without the first `fixed` bytes. Characters that the client's encoding lacks become
/// question marks.
pub(super) fn encode_strings(encoding: Encoding, out: &mut Vec<u8>, start: usize, fixed: usize) {
    let strings = start + 5 + fixed;
    if out.get(strings..).is_none_or(<[u8]>::is_ascii) {
        return;
    }
    let text = String::from_utf8_lossy(&out.split_off(strings)).into_owned();
    encoding.encode_lossy(&text, out);
    set_length(out, start);
}

/// Converts the names in the RowDescription that begins at `start`.
///
/// # Errors
/// 22P05 for a character that the client's encoding does not have.
pub(super) fn encode_names(
    encoding: Encoding,
    out: &mut Vec<u8>,
    start: usize,
) -> Result<(), SqlError> {
    let message = out.split_off(start);
    // The type byte, the length, and the number of columns.
    let (head, mut rest) = message.split_at(message.len().min(7));
    out.extend_from_slice(head);
    while let Some(end) = rest.iter().position(|byte| *byte == 0) {
        let (name, behind) = rest.split_at(end);
        let (fixed, next) = behind.split_at(behind.len().min(1 + COLUMN_BYTES));
        encoding.encode(&String::from_utf8_lossy(name), out)?;
        out.extend_from_slice(fixed);
        rest = next;
    }
    set_length(out, start);
    Ok(())
}

/// Writes the length of the last message of `out`, which begins at `start`.
fn set_length(out: &mut [u8], start: usize) {
    let length = (out.len() - start - 1) as u32;
    out[start + 1..start + 5].copy_from_slice(&length.to_be_bytes());
}

/// A decoder for COPY FROM STDIN text data, with the incomplete last line.
#[derive(Debug, Default)]
pub(super) struct CopyText {
    rest: Vec<u8>,
}

impl CopyText {
    /// Returns the lines that `data` completes, in UTF-8.
    ///
    /// # Errors
    /// 22021 or 22P05 for bytes that are not valid text.
    pub(super) fn lines(&mut self, encoding: Encoding, data: &[u8]) -> Result<String, SqlError> {
        // No multi-byte character contains a line break byte.
        let end = data.iter().rposition(|byte| *byte == b'\n');
        let end = end.map_or(0, |at| at + 1);
        let mut lines = std::mem::take(&mut self.rest);
        if end > 0 {
            lines.extend_from_slice(&data[..end]);
            self.rest.extend_from_slice(&data[end..]);
            return encoding.decode(&lines);
        }
        lines.extend_from_slice(data);
        self.rest = lines;
        Ok(String::new())
    }

    /// Returns the last line, which has no line break.
    ///
    /// # Errors
    /// See [`Self::lines`].
    pub(super) fn last(&mut self, encoding: Encoding) -> Result<String, SqlError> {
        encoding.decode(&std::mem::take(&mut self.rest))
    }
}

//! Splits a byte stream into frames: one type byte, a length that includes itself, a body.
//!
//! Failure: an unknown type is refused at its first byte and a bad length at its fourth, before the
//! decoder waits for the body.

use super::ProtoError;

/// The size limit, in bytes, of messages that contain only names and numbers.
pub const SMALL_MESSAGE_BYTES_MAX: usize = 10_000;

/// The size of a frame's type and length, in bytes.
pub const HEADER_BYTES: usize = 5;

/// One complete frame in the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    /// The type byte.
    pub tag: u8,
    /// The bytes after the length.
    pub body: &'a [u8],
}

impl Frame<'_> {
    /// Returns the number of input bytes that the frame takes.
    pub fn size(&self) -> usize {
        HEADER_BYTES + self.body.len()
    }
}

/// Returns the first frame of `input`, or `None` while it is incomplete. `bytes_max` is the limit
/// of the length field of messages that carry texts or data.
///
/// # Errors
/// [`ProtoError::UnknownType`] or [`ProtoError::Length`]; the connection ends.
#[inline]
pub fn split(input: &[u8], bytes_max: usize) -> Result<Option<Frame<'_>>, ProtoError> {
    let Some(&tag) = input.first() else {
        return Ok(None);
    };
    let limit = match tag {
        b'Q' | b'P' | b'B' | b'd' | b'F' | b'p' => bytes_max,
        b'C' | b'D' | b'E' | b'H' | b'S' | b'X' | b'c' | b'f' => SMALL_MESSAGE_BYTES_MAX,
        other => return Err(ProtoError::UnknownType(other)),
    };
    let Some(&length) = input[1..].first_chunk::<4>() else {
        return Ok(None);
    };
    let length = u32::from_be_bytes(length) as usize;
    if length < 4 || length > limit {
        return Err(ProtoError::Length);
    }
    Ok(input
        .get(HEADER_BYTES..1 + length)
        .map(|body| Frame { tag, body }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: usize = 1 << 20;

    #[test]
    fn frame_is_complete_only_with_last_byte() {
        let input = b"Q\0\0\0\x06a\0S\0\0\0\x04";
        for cut in 0..7 {
            assert_eq!(split(&input[..cut], LIMIT), Ok(None));
        }
        let first = split(input, LIMIT).expect("well formed").expect("whole");
        assert_eq!(
            (first.tag, first.body, first.size()),
            (b'Q', &b"a\0"[..], 7)
        );
        let second = split(&input[7..], LIMIT)
            .expect("well formed")
            .expect("whole");
        assert_eq!((second.tag, second.body), (b'S', &b""[..]));
    }

    #[test]
    fn bad_headers_are_refused_early() {
        assert_eq!(split(b"?", LIMIT), Err(ProtoError::UnknownType(b'?')));
        assert_eq!(split(b"Q\xff\xff\xff\xff", LIMIT), Err(ProtoError::Length));
        assert_eq!(split(b"Q\0\0\0\x03", LIMIT), Err(ProtoError::Length));
        assert_eq!(split(b"E\0\0\x40\0", LIMIT), Err(ProtoError::Length));
        assert_eq!(split(b"Q\0\x20\0\0", LIMIT), Err(ProtoError::Length));
    }
}

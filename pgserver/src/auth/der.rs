//! The subset of DER (X.690) that certificates need here.

pub(super) const SEQUENCE: u8 = 0x30;
pub(super) const SET: u8 = 0x31;
pub(super) const OBJECT_IDENTIFIER: u8 = 0x06;

/// Returns the tag of the first element.
pub(super) fn tag(bytes: &[u8]) -> Option<u8> {
    bytes.first().copied()
}

/// Returns the content of the first element, and the bytes after it. Returns `None` unless it has
/// this tag.
pub(super) fn element(bytes: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (&[found, short], rest) = bytes.split_first_chunk::<2>()?;
    let (length, rest) = match short {
        0..=0x7f => (usize::from(short), rest),
        // The low bits are the number of length bytes; no certificate needs more than four.
        0x81..=0x84 => {
            let (length, rest) = rest.split_at_checked(usize::from(short & 0x7f))?;
            let number = length
                .iter()
                .fold(0_u32, |n, byte| n << 8 | u32::from(*byte));
            (usize::try_from(number).ok()?, rest)
        }
        _ => return None,
    };
    match found == tag {
        true => rest.split_at_checked(length),
        false => None,
    }
}

/// Returns the bytes after the first element, or `None` if the element is incomplete.
pub(super) fn behind(bytes: &[u8]) -> Option<&[u8]> {
    let (_, rest) = element(bytes, tag(bytes)?)?;
    Some(rest)
}

//! As much of DER (X.690) as certificates need here.

pub(super) const SEQUENCE: u8 = 0x30;
pub(super) const SET: u8 = 0x31;
pub(super) const OBJECT_IDENTIFIER: u8 = 0x06;

/// The tag of the element at the start.
pub(super) fn tag(bytes: &[u8]) -> Option<u8> {
    bytes.first().copied()
}

/// The content of the element at the start, and what comes behind it; `None` unless it has the tag.
pub(super) fn element(bytes: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (&[found, short], rest) = bytes.split_first_chunk::<2>()?;
    let (length, rest) = match short {
        0..=0x7f => (usize::from(short), rest),
        // The length is in as many bytes as this says; no certificate needs more than four.
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

/// Returns the bytes behind the first element; `None` if there is no whole element.
pub(super) fn behind(bytes: &[u8]) -> Option<&[u8]> {
    let (_, rest) = element(bytes, tag(bytes)?)?;
    Some(rest)
}

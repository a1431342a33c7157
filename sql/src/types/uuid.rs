//! The text form of uuid.

use crate::error::SqlError;

/// Reads 32 hex digits, with optional hyphens after groups of four and optional braces around them.
pub(super) fn parse(text: &str) -> Result<[u8; 16], SqlError> {
    read(text.as_bytes()).ok_or_else(|| super::invalid_input("uuid", text))
}

fn read(bytes: &[u8]) -> Option<[u8; 16]> {
    let mut rest = match bytes {
        [b'{', inner @ .., b'}'] => inner,
        [b'{', ..] => return None,
        all => all,
    };
    let mut uuid = [0u8; 16];
    for (i, byte) in uuid.iter_mut().enumerate() {
        let [high, low, tail @ ..] = rest else {
            return None;
        };
        let digit = |b: u8| (b as char).to_digit(16);
        *byte = (digit(*high)? << 4 | digit(*low)?) as u8;
        rest = tail;
        if let ([b'-', tail @ ..], true, true) = (rest, i % 2 == 1, i < 15) {
            rest = tail;
        }
    }
    rest.is_empty().then_some(uuid)
}

pub(super) fn format(bytes: &[u8; 16], out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    for (i, b) in bytes.iter().enumerate() {
        if matches!(i, 4 | 6 | 8 | 10) {
            out.push(b'-');
        }
        out.push(HEX[usize::from(b >> 4)]);
        out.push(HEX[usize::from(b & 15)]);
    }
}

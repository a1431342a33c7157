//! The text types: encoding, length limits, blank padding.

use crate::error::{SqlError, SqlState};
use crate::types::Type;

/// The maximum length of an identifier, in bytes.
const NAME_BYTES_MAX: usize = 63;

/// Checks that bytes from the client are UTF-8 without NUL, and returns them as text.
///
/// # Errors
/// 22021 if they are not.
pub fn check_utf8(bytes: &[u8]) -> Result<&str, SqlError> {
    let bad_at = match std::str::from_utf8(bytes) {
        Ok(text) => match bytes.iter().position(|b| *b == 0) {
            None => return Ok(text),
            Some(at) => at,
        },
        Err(e) => e.valid_up_to(),
    };
    let length = match bytes[bad_at] {
        0xc0..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf7 => 4,
        _ => 1,
    };
    let digits: Vec<String> = bytes[bad_at..]
        .iter()
        .take(length)
        .map(|b| format!("0x{b:02x}"))
        .collect();
    Err(SqlError::new(
        SqlState::CHARACTER_NOT_IN_REPERTOIRE,
        format!(
            "invalid byte sequence for encoding \"UTF8\": {}",
            digits.join(" ")
        ),
    ))
}

/// Truncates an identifier to 63 bytes at a character boundary.
pub(super) fn clip_name(text: &str) -> &str {
    if text.len() <= NAME_BYTES_MAX {
        return text;
    }
    &text[..text.floor_char_boundary(NAME_BYTES_MAX)]
}

/// Truncates a "char" to one byte or character. `\ooo` is the byte with that octal number; one that
/// is not a character by itself stays as it is written.
pub(super) fn clip_char(text: &str) -> &str {
    const ASCII: [u8; 128] = {
        let mut all = [0; 128];
        let mut byte = 0;
        while byte < 128 {
            all[byte as usize] = byte;
            byte += 1;
        }
        all
    };
    if let [b'\\', a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7'] = text.as_bytes() {
        let byte = usize::from((a - b'0') * 64 + (b - b'0') * 8 + (c - b'0'));
        return match byte {
            0 => "",
            1..128 => str::from_utf8(&ASCII[byte..=byte]).unwrap_or(""),
            _ => text,
        };
    }
    text.chars().next().map_or("", |c| &text[..c.len_utf8()])
}

/// Returns the "char" with a code, which is a signed byte.
///
/// # Errors
/// 22003 if the code is not one.
pub(crate) fn char_of_code(code: i32) -> Result<String, SqlError> {
    match i8::try_from(code) {
        Ok(0) => Ok(String::new()),
        Ok(code @ 1..) => Ok(char::from(code.unsigned_abs()).to_string()),
        Ok(code) => Ok(format!("\\{:03o}", code as u8)),
        Err(_) => Err(SqlError::new(
            SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
            "\"char\" out of range",
        )),
    }
}

/// Returns the code of a "char".
pub(crate) fn code_of_char(text: &str) -> i32 {
    let byte = match text.strip_prefix('\\') {
        Some(octal) if octal.len() == 3 => u8::from_str_radix(octal, 8).unwrap_or(b'\\'),
        _ => text.bytes().next().unwrap_or(0),
    };
    i32::from(byte as i8)
}

/// Appends blanks up to the length of a `char(n)`.
pub(super) fn pad(text: &str, ty: &Type, out: &mut Vec<u8>) {
    if let Some(length) = ty.length() {
        let have = text.chars().count();
        if have < length {
            out.resize(out.len() + length - have, b' ');
        }
    }
}

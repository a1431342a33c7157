//! Sealed bytes: a stored value with its kind, its format version and a checksum.
//!
//! ```text
//! | magic 4 | version 2 | body | crc32c of all before 4 |
//! ```
//!
//! *Failure.* Unsealing detects every change of one byte of sealed bytes.

use crate::codec::{DecodeError, Reader, Wire, Writer};

const CRC_BYTES: usize = 4;

/// Returns `body` between its header and its checksum.
pub fn seal(magic: [u8; 4], version: u16, body: &[u8]) -> Vec<u8> {
    let mut out = Writer::default();
    magic.put(&mut out);
    version.put(&mut out);
    out.raw(body);
    crc32c::crc32c(out.bytes()).put(&mut out);
    out.into_bytes()
}

/// Returns the body of sealed bytes.
///
/// # Errors
/// [`DecodeError`] if the magic or the version differs, or the bytes are damaged.
pub fn unseal(magic: [u8; 4], version: u16, bytes: &[u8]) -> Result<&[u8], DecodeError> {
    let sealed = bytes.len().checked_sub(CRC_BYTES);
    let (sealed, crc) = bytes.split_at(sealed.ok_or(DecodeError::Short)?);
    let mut from = Reader::new(sealed);
    if <[u8; 4]>::take(&mut from)? != magic {
        return Err(DecodeError::Foreign);
    }
    if u32::decode(crc)? != crc32c::crc32c(sealed) {
        return Err(DecodeError::Checksum);
    }
    let found = u16::take(&mut from)?;
    if found != version {
        return Err(DecodeError::Version(found));
    }
    Ok(from.rest())
}

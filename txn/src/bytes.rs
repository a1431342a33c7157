//! Encoding of bytes in records and messages, which consist of words.

const WORD_BYTES: usize = 8;

/// Appends bytes; pads the last word with zeros.
pub(crate) fn put(out: &mut Vec<u64>, bytes: &[u8]) {
    let from = out.len();
    out.resize(from + bytes.len().div_ceil(WORD_BYTES), 0);
    bytemuck::cast_slice_mut::<u64, u8>(&mut out[from..])[..bytes.len()].copy_from_slice(bytes);
}

/// Returns the first `count` bytes of words; `None` if there are fewer.
pub(crate) fn first(words: &[u64], count: usize) -> Option<&[u8]> {
    bytemuck::cast_slice::<u64, u8>(words).get(..count)
}

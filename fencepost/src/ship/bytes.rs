//! Encodes numbers, texts and rows as bytes. Decoding returns `None` if the input is too short.

/// Appends a text with its length.
pub(super) fn put_text(out: &mut Vec<u8>, text: &str) {
    put_bytes(out, text.as_bytes());
}

/// Appends bytes with their length.
pub(super) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_u64(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

pub(super) fn put_u64(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(&number.to_le_bytes());
}

pub(super) fn put_u32(out: &mut Vec<u8>, number: u32) {
    out.extend_from_slice(&number.to_le_bytes());
}

/// Appends the words of a row; the first word contains the row's length.
pub(super) fn put_words(out: &mut Vec<u8>, words: &[u64]) {
    words.iter().for_each(|word| put_u64(out, *word));
}

/// A cursor that decodes a message.
pub(super) struct MessageDecoder<'a>(pub &'a [u8]);

impl<'a> MessageDecoder<'a> {
    fn take(&mut self, bytes: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(bytes)?;
        self.0 = rest;
        Some(taken)
    }

    pub fn byte(&mut self) -> Option<u8> {
        self.take(1).map(|byte| byte[0])
    }

    pub fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }

    pub fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    pub fn bytes(&mut self) -> Option<&'a [u8]> {
        let bytes = usize::try_from(self.u64()?).ok()?;
        self.take(bytes)
    }

    pub fn text(&mut self) -> Option<&'a str> {
        std::str::from_utf8(self.bytes()?).ok()
    }

    /// Reads the words of a row into `out`.
    pub fn row(&mut self, out: &mut Vec<u64>) -> Option<()> {
        let first = self.0.first_chunk().map(|word| u64::from_le_bytes(*word))?;
        let words = fencepost_sql::row::row_words(&[first]).max(1);
        let bytes = self.take(words.checked_mul(8)?)?;
        out.clear();
        let (words, _) = bytes.as_chunks();
        out.extend(words.iter().map(|word| u64::from_le_bytes(*word)));
        Some(())
    }
}

//! A cursor over the body of one message that never reads past its end.

use super::ProtoError;

/// Reads the fields of a message body from left to right.
#[derive(Debug, Clone, Copy)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Returns a reader at the start of `body`.
    pub fn new(body: &'a [u8]) -> Self {
        Reader { rest: body }
    }

    /// Returns the bytes not yet read.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Reads the next `count` bytes.
    ///
    /// # Errors
    /// [`ProtoError::Format`] if fewer are left; nothing is read then.
    #[inline]
    pub fn bytes(&mut self, count: usize) -> Result<&'a [u8], ProtoError> {
        match self.rest.split_at_checked(count) {
            Some((head, tail)) => {
                self.rest = tail;
                Ok(head)
            }
            None => Err(ProtoError::Format("insufficient data left in message")),
        }
    }

    /// Reads one byte.
    ///
    /// # Errors
    /// [`ProtoError::Format`] at the end of the message.
    #[inline]
    pub fn byte(&mut self) -> Result<u8, ProtoError> {
        match self.rest.split_first() {
            Some((byte, tail)) => {
                self.rest = tail;
                Ok(*byte)
            }
            None => Err(ProtoError::Format("no data left in message")),
        }
    }

    /// Reads a big-endian 16-bit number.
    ///
    /// # Errors
    /// As of [`Self::bytes`].
    #[inline]
    pub fn u16(&mut self) -> Result<u16, ProtoError> {
        let b = self.bytes(2)?;
        Ok(u16::from_be_bytes([b[0], b[1]]))
    }

    /// Reads a big-endian 32-bit number.
    ///
    /// # Errors
    /// As of [`Self::bytes`].
    #[inline]
    pub fn i32(&mut self) -> Result<i32, ProtoError> {
        let b = self.bytes(4)?;
        Ok(i32::from_be_bytes([b[0], b[1], b[2], b[3]]))
    }

    /// Reads the bytes up to a zero byte, which is skipped.
    ///
    /// # Errors
    /// [`ProtoError::Format`] if no zero byte is left.
    #[inline]
    pub fn cstring_bytes(&mut self) -> Result<&'a [u8], ProtoError> {
        match self.rest.iter().position(|b| *b == 0) {
            Some(end) => {
                let text = &self.rest[..end];
                self.rest = &self.rest[end + 1..];
                Ok(text)
            }
            None => Err(ProtoError::Format("invalid string in message")),
        }
    }

    /// Reads a zero-terminated UTF-8 text.
    ///
    /// # Errors
    /// [`ProtoError::Format`] if no zero byte is left, [`ProtoError::Encoding`] for other bytes
    /// than UTF-8.
    #[inline]
    pub fn cstring(&mut self) -> Result<&'a str, ProtoError> {
        let bytes = self.cstring_bytes()?;
        std::str::from_utf8(bytes).map_err(|_| ProtoError::encoding(bytes))
    }

    /// Checks that everything has been read.
    ///
    /// # Errors
    /// [`ProtoError::Format`] if bytes are left.
    #[inline]
    pub fn end(&self) -> Result<(), ProtoError> {
        if self.rest.is_empty() {
            Ok(())
        } else {
            Err(ProtoError::Format("invalid message format"))
        }
    }
}

//! The encoding of messages and stored values: little-endian, without padding, lists with their
//! count.
//!
//! *Invariants.* A [`Reader`] never reads past its bytes and allocates at most a small multiple of
//! their length. Invalid bytes give a [`DecodeError`], never a panic.

use thiserror::Error;

use crate::ids::{Address, ClusterId, ConfigurationId, FailureDomain};
use fencepost_fabric::MachineId;

/// The reason why bytes cannot be decoded. The sender is at fault: drop the message, or refuse to
/// use the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum DecodeError {
    /// The bytes end too early.
    #[error("the bytes end too early")]
    Short,
    /// There are bytes after the end.
    #[error("there are bytes after the end")]
    Trailing,
    /// The checksum does not match the bytes.
    #[error("the checksum does not match")]
    Checksum,
    /// The bytes are another kind of value.
    #[error("this is something else")]
    Foreign,
    /// The format's version is not the one that this program reads.
    #[error("format version {0} is not known here")]
    Version(u16),
    /// A field has an invalid value.
    #[error("invalid {0}")]
    Invalid(&'static str),
}

/// A value that can be encoded as bytes.
pub trait Wire: Sized {
    /// Appends the encoded value.
    fn put(&self, out: &mut Writer);

    /// Decodes a value from the front of `from`.
    ///
    /// # Errors
    /// [`DecodeError`] if the front is not such a value.
    fn take(from: &mut Reader<'_>) -> Result<Self, DecodeError>;

    /// Returns the encoded value alone.
    fn encode(&self) -> Vec<u8> {
        let mut out = Writer::default();
        self.put(&mut out);
        out.into_bytes()
    }

    /// Decodes a value from all of `bytes`.
    ///
    /// # Errors
    /// [`DecodeError`] if the bytes are not such a value, or other bytes follow it.
    fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut from = Reader::new(bytes);
        let value = Self::take(&mut from)?;
        from.end()?;
        Ok(value)
    }
}

/// A buffer to which values are encoded.
#[derive(Debug, Default)]
pub struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    /// Appends bytes as they are.
    pub fn raw(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Returns the bytes written so far.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns all bytes written.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

/// A position in bytes that are being decoded.
#[derive(Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Returns a reader at the start of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Reads the next `len` bytes.
    ///
    /// # Errors
    /// [`DecodeError::Short`] if fewer bytes remain.
    pub fn raw(&mut self, len: usize) -> Result<&'a [u8], DecodeError> {
        let (taken, rest) = self.rest.split_at_checked(len).ok_or(DecodeError::Short)?;
        self.rest = rest;
        Ok(taken)
    }

    /// Returns the bytes that remain.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Checks that no bytes remain.
    ///
    /// # Errors
    /// [`DecodeError::Trailing`] if bytes remain.
    pub fn end(&self) -> Result<(), DecodeError> {
        match self.rest {
            [] => Ok(()),
            _ => Err(DecodeError::Trailing),
        }
    }
}

macro_rules! wire_integers {
    ($($integer:ty),*) => {$(
        impl Wire for $integer {
            fn put(&self, out: &mut Writer) {
                out.raw(&self.to_le_bytes());
            }

            fn take(from: &mut Reader<'_>) -> Result<Self, DecodeError> {
                let bytes = from.raw(size_of::<Self>())?;
                Ok(Self::from_le_bytes(bytes.try_into().map_err(|_| DecodeError::Short)?))
            }
        }
    )*};
}

wire_integers!(u8, u16, u32, u64, u128);

/// Implements [`Wire`] for newtypes: their encoding is that of the inner value.
macro_rules! wire_newtypes {
    ($($newtype:ty: $inner:ty),*) => {$(
        impl $crate::codec::Wire for $newtype {
            fn put(&self, out: &mut $crate::codec::Writer) {
                $crate::codec::Wire::put(&self.0, out);
            }

            fn take(
                from: &mut $crate::codec::Reader<'_>,
            ) -> Result<Self, $crate::codec::DecodeError> {
                Ok(Self(<$inner as $crate::codec::Wire>::take(from)?))
            }
        }
    )*};
}

wire_newtypes!(MachineId: u32, ConfigurationId: u64, ClusterId: u128);

macro_rules! wire_names {
    ($($name:ty: $what:literal),*) => {$(
        impl Wire for $name {
            fn put(&self, out: &mut Writer) {
                // A name is at most 255 bytes long.
                (self.as_str().len() as u8).put(out);
                out.raw(self.as_str().as_bytes());
            }

            fn take(from: &mut Reader<'_>) -> Result<Self, DecodeError> {
                let len = u8::take(from)?;
                let name = std::str::from_utf8(from.raw(usize::from(len))?);
                let name = name.map_err(|_| DecodeError::Invalid($what))?;
                Self::new(name).map_err(|_| DecodeError::Invalid($what))
            }
        }
    )*};
}

wire_names!(Address: "address", FailureDomain: "failure domain");

/// Implements [`Wire`] for structs: their encoding is that of their fields, in the listed order.
macro_rules! wire_structs {
    ($($name:ident { $($field:ident),* }),*) => {$(
        impl $crate::codec::Wire for $name {
            fn put(&self, out: &mut $crate::codec::Writer) {
                $($crate::codec::Wire::put(&self.$field, out);)*
            }

            fn take(
                from: &mut $crate::codec::Reader<'_>,
            ) -> Result<Self, $crate::codec::DecodeError> {
                Ok(Self { $($field: $crate::codec::Wire::take(from)?),* })
            }
        }
    )*};
}

/// Implements [`Wire`] for an enum: the number of the variant, then its fields in the listed order,
/// or its only unnamed field.
macro_rules! wire_enum {
    ($name:ident, $what:literal:
        $($number:literal $variant:ident $({ $($field:ident),* })? $(( $only:ident ))?),*) => {
        impl $crate::codec::Wire for $name {
            fn put(&self, out: &mut $crate::codec::Writer) {
                match self {
                    $(Self::$variant $({ $($field),* })? $(($only))? => {
                        $crate::codec::Wire::put(&($number as u8), out);
                        $($($crate::codec::Wire::put($field, out);)*)?
                        $($crate::codec::Wire::put($only, out);)?
                    })*
                }
            }

            fn take(
                from: &mut $crate::codec::Reader<'_>,
            ) -> Result<Self, $crate::codec::DecodeError> {
                Ok(match <u8 as $crate::codec::Wire>::take(from)? {
                    $($number => {
                        $(let $only = $crate::codec::Wire::take(from)?;)?
                        Self::$variant
                            $({ $($field: $crate::codec::Wire::take(from)?),* })?
                            $(($only))?
                    })*
                    _ => return Err($crate::codec::DecodeError::Invalid($what)),
                })
            }
        }
    };
}

pub(crate) use {wire_enum, wire_newtypes, wire_structs};

impl Wire for bool {
    fn put(&self, out: &mut Writer) {
        u8::from(*self).put(out);
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, DecodeError> {
        match u8::take(from)? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(DecodeError::Invalid("truth value")),
        }
    }
}

impl<const N: usize> Wire for [u8; N] {
    fn put(&self, out: &mut Writer) {
        out.raw(self);
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, DecodeError> {
        from.raw(N)?.try_into().map_err(|_| DecodeError::Short)
    }
}

impl<T: Wire> Wire for Option<T> {
    fn put(&self, out: &mut Writer) {
        self.is_some().put(out);
        if let Some(value) = self {
            value.put(out);
        }
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, DecodeError> {
        match bool::take(from)? {
            false => Ok(None),
            true => T::take(from).map(Some),
        }
    }
}

impl<T: Wire> Wire for Vec<T> {
    fn put(&self, out: &mut Writer) {
        // Lists hold machines and regions, whose counts fit in 32 bits.
        (self.len() as u32).put(out);
        for value in self {
            value.put(out);
        }
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let count = u32::take(from)? as usize;
        // Every value takes at least one byte: a larger count is invalid, and is refused before any
        // allocation.
        if count > from.rest.len() {
            return Err(DecodeError::Short);
        }
        let mut values = Vec::new();
        for _ in 0..count {
            values.push(T::take(from)?);
        }
        Ok(values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_longer_than_its_bytes_is_refused_before_allocation() {
        let mut out = Writer::default();
        u32::MAX.put(&mut out);
        assert_eq!(Vec::<u8>::decode(out.bytes()), Err(DecodeError::Short));
    }

    #[test]
    fn bytes_after_the_end_are_refused() {
        assert_eq!(u16::decode(&[1, 2, 3]), Err(DecodeError::Trailing));
        assert_eq!(u16::decode(&[1, 2]), Ok(513));
        let invalid = DecodeError::Invalid("truth value");
        assert_eq!(Option::<u8>::decode(&[2, 0]), Err(invalid));
        assert_eq!(bool::decode(&[2]), Err(invalid));
    }
}

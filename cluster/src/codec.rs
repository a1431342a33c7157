//! Bytes of messages and stored values: little-endian, without padding, lists with their count.
//!
//! *Invariants.* A [`Reader`] never reads past its bytes and never takes more memory than a small
//! multiple of them, whatever they say; what it cannot read is a [`DecodeError`], never a panic.

use thiserror::Error;

use crate::ids::{Address, ClusterId, ConfigurationId, FailureDomain};
use fencepost_fabric::MachineId;

/// Why bytes are not what they should be. The sender is at fault: drop the message, or refuse to
/// use the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum DecodeError {
    /// The bytes end too early.
    #[error("the bytes end too early")]
    Short,
    /// There are bytes after the end.
    #[error("there are bytes after the end")]
    Trailing,
    /// The checksum is of other bytes.
    #[error("the checksum does not match")]
    Checksum,
    /// Not this kind of value at all.
    #[error("this is something else")]
    Foreign,
    /// A later version of the program wrote this.
    #[error("format version {0} is not known here")]
    Version(u16),
    /// A field has a value that it may not have.
    #[error("invalid {0}")]
    Invalid(&'static str),
}

/// A value with a form in bytes.
pub trait Wire: Sized {
    /// Appends the value.
    fn put(&self, out: &mut Writer);

    /// Takes a value off the front.
    ///
    /// # Errors
    /// [`DecodeError`] when the front is no such value.
    fn take(from: &mut Reader<'_>) -> Result<Self, DecodeError>;

    /// The value alone, as bytes.
    fn encode(&self) -> Vec<u8> {
        let mut out = Writer::default();
        self.put(&mut out);
        out.into_bytes()
    }

    /// The value that `bytes` are, all of them.
    ///
    /// # Errors
    /// [`DecodeError`] when they are no such value, or something follows it.
    fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut from = Reader::new(bytes);
        let value = Self::take(&mut from)?;
        from.end()?;
        Ok(value)
    }
}

/// Bytes under construction.
#[derive(Debug, Default)]
pub struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    /// Appends bytes as they are.
    pub fn raw(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// What has been put so far.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// What has been put.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

/// Bytes being taken apart.
#[derive(Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// A reader at the start of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// The next `len` bytes.
    ///
    /// # Errors
    /// [`DecodeError::Short`] when there are fewer.
    pub fn raw(&mut self, len: usize) -> Result<&'a [u8], DecodeError> {
        let (taken, rest) = self.rest.split_at_checked(len).ok_or(DecodeError::Short)?;
        self.rest = rest;
        Ok(taken)
    }

    /// What is left.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Nothing may be left.
    ///
    /// # Errors
    /// [`DecodeError::Trailing`] when something is.
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

/// The bytes of types around another one: its bytes.
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

/// The bytes of structs: their fields in the order in which they stand here.
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

/// The bytes of an enum: the number of the variant, and its fields in the order in which they stand here, or the
/// only one that has no name.
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
                        Self::$variant $({ $($field: $crate::codec::Wire::take(from)?),* })? $(($only))?
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
        // Lists are of machines and regions, which are counted in 32 bits.
        (self.len() as u32).put(out);
        for value in self {
            value.put(out);
        }
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let count = u32::take(from)? as usize;
        // Every value has a byte at least: a count beyond that is a lie, found before it costs.
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
    fn a_list_longer_than_its_bytes_is_refused_before_it_costs() {
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

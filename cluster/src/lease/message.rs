//! The three messages of leases and their encoding.
//!
//! ```text
//! | configuration 8 | number of a request 8 | granted number 8 | duration in µs 4 | kind 4 |
//! ```
//!
//! A number that a kind of message does not have is 0.

use crate::codec::{DecodeError, Reader, Wire};
use crate::ids::ConfigurationId;

/// A datagram about leases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseMessage {
    /// The configuration that the sender has applied.
    pub configuration: ConfigurationId,
    /// The request or grant.
    pub body: LeaseBody,
}

/// The request or grant in a lease message between a machine and the CM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseBody {
    /// The sender requests a lease.
    Request {
        /// The number of the sender's request.
        number: u64,
        /// The sender's lease duration; a receiver with another duration grants nothing.
        duration_us: u32,
    },
    /// The CM grants a request of the machine, and requests a lease itself.
    GrantAndRequest {
        /// The number of the granted request.
        granted: u64,
        /// The duration granted; it counts from the time at which the request was sent.
        duration_us: u32,
        /// The number of the sender's own request.
        number: u64,
    },
    /// The sender grants a request.
    Grant {
        /// The number of the granted request.
        granted: u64,
        /// The duration granted; it counts from the time at which the request was sent.
        duration_us: u32,
    },
}

impl LeaseMessage {
    /// The length of an encoded message.
    pub const BYTES: usize = 32;

    /// Encodes the message without allocating.
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let (number, granted, duration_us, kind) = match self.body {
            LeaseBody::Request {
                number,
                duration_us,
            } => (number, 0, duration_us, 1u32),
            LeaseBody::GrantAndRequest {
                granted,
                duration_us,
                number,
            } => (number, granted, duration_us, 2),
            LeaseBody::Grant {
                granted,
                duration_us,
            } => (0, granted, duration_us, 3),
        };
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(&self.configuration.0.to_le_bytes());
        bytes[8..16].copy_from_slice(&number.to_le_bytes());
        bytes[16..24].copy_from_slice(&granted.to_le_bytes());
        bytes[24..28].copy_from_slice(&duration_us.to_le_bytes());
        bytes[28..].copy_from_slice(&kind.to_le_bytes());
        bytes
    }

    /// Decodes a message.
    ///
    /// # Errors
    /// [`DecodeError`] if the bytes are not a lease message.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut from = Reader::new(bytes);
        let configuration = Wire::take(&mut from)?;
        let (number, granted) = (u64::take(&mut from)?, u64::take(&mut from)?);
        let (duration_us, kind) = (u32::take(&mut from)?, u32::take(&mut from)?);
        from.end()?;
        let body = match (kind, number, granted) {
            (1, number, 0) => LeaseBody::Request {
                number,
                duration_us,
            },
            (2, number, granted) => LeaseBody::GrantAndRequest {
                granted,
                duration_us,
                number,
            },
            (3, 0, granted) => LeaseBody::Grant {
                granted,
                duration_us,
            },
            _ => return Err(DecodeError::Invalid("lease message")),
        };
        Ok(Self {
            configuration,
            body,
        })
    }
}

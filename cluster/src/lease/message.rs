//! The three messages of leases, and their bytes.
//!
//! ```text
//! | configuration 8 | number of a request 8 | number that is granted 8 | duration in µs 4 | kind 4 |
//! ```
//!
//! A number that a kind does not have is 0.

use crate::codec::{DecodeError, Reader, Wire};
use crate::ids::ConfigurationId;

/// A datagram about leases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseMessage {
    /// The configuration that its sender is in.
    pub configuration: ConfigurationId,
    /// What it says.
    pub body: LeaseBody,
}

/// What machine and CM say to each other about leases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseBody {
    /// Grant me a lease.
    Request {
        /// Which request this is of its sender.
        number: u64,
        /// The sender's duration of leases; who has another grants nothing.
        duration_us: u32,
    },
    /// The CM's answer to a request: granted; grant me one.
    GrantAndRequest {
        /// The request that is granted.
        granted: u64,
        /// For how long; it counts from when the request was sent.
        duration_us: u32,
        /// Which request this is of its sender.
        number: u64,
    },
    /// Granted.
    Grant {
        /// The request that is granted.
        granted: u64,
        /// For how long; it counts from when the request was sent.
        duration_us: u32,
    },
}

impl LeaseMessage {
    /// The bytes of a message.
    pub const BYTES: usize = 32;

    /// The message as bytes, without taking memory.
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

    /// The message that bytes are.
    ///
    /// # Errors
    /// [`DecodeError`] when they are none.
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

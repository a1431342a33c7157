//! The PostgreSQL protocol as bytes: no sockets, no engine.
//!
//! ```text
//!   bytes --frame::split--> Frame --client_message::decode--> ClientMessage (borrowed)
//!   encode::*        appends the messages of the row path, lengths patched afterwards
//!   backend::append  appends any other message of the server: pgwire's types
//! ```
//!
//! The decoders are not pgwire's. Those copy, panic on truncated bodies, and read past the end of a
//! message. They also replace bytes that are not UTF-8. PostgreSQL refuses such messages with 08P01
//! and 22021.
//!
//! No decoder allocates memory by the value of a length field: a frame is complete only when its
//! bytes have arrived, and every count is checked against the bytes that follow it.

#[cfg(test)]
mod agreement;
pub mod backend;
pub mod client_message;
pub mod encode;
pub mod frame;
pub mod reader;
pub mod startup;

use thiserror::Error;

/// The reason why bytes of a client are not a message.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ProtoError {
    /// The first byte of a frame is no message type; the connection ends.
    #[error("invalid frontend message type {0}")]
    UnknownType(u8),
    /// The length of a frame is below four or above the limit; the connection ends.
    #[error("invalid message length")]
    Length,
    /// The body does not have the fields of its type; the message fails and the connection
    /// continues.
    #[error("{0}")]
    Format(&'static str),
    /// Describe or Close of neither a statement nor a portal; the message fails and the connection
    /// continues.
    #[error("invalid {message} message subtype {subtype}")]
    Subtype {
        /// The message, in capitals.
        message: &'static str,
        /// The byte in the place of `S` or `P`.
        subtype: u8,
    },
    /// A text is not UTF-8; the statement fails and the connection continues.
    #[error("invalid byte sequence for encoding \"UTF8\": {0}")]
    Encoding(String),
    /// The start-up packet cannot be served; the connection ends.
    #[error("{0}")]
    Startup(String),
}

impl ProtoError {
    /// Returns the SQLSTATE that the client gets.
    pub fn sqlstate(&self) -> &'static str {
        match self {
            ProtoError::Encoding(_) => "22021",
            _ => "08P01",
        }
    }

    /// Returns whether the session cannot continue, because the start of the next message is
    /// unknown.
    pub fn is_fatal(&self) -> bool {
        match self {
            ProtoError::Format(_) | ProtoError::Subtype { .. } | ProtoError::Encoding(_) => false,
            ProtoError::UnknownType(_) | ProtoError::Length | ProtoError::Startup(_) => true,
        }
    }

    pub(crate) fn encoding(bytes: &[u8]) -> ProtoError {
        let bad = match std::str::from_utf8(bytes) {
            Ok(_) => 0,
            Err(e) => e.valid_up_to(),
        };
        let digits: Vec<String> = bytes
            .iter()
            .skip(bad)
            .take(4)
            .map(|b| format!("0x{b:02x}"))
            .collect();
        ProtoError::Encoding(digits.join(" "))
    }
}

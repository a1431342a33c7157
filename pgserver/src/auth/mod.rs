//! Password checks with SCRAM-SHA-256 (RFC 5802, RFC 7677), with and without channel binding.
//!
//! ```text
//!   client                                server
//!   SASLInitialResponse  n,,n=,r=C   ──>  Scram::first   (message: what the client may say)
//!                 r=CS,s=salt,i=4096 <──
//!   SASLResponse  c=…,r=CS,p=proof   ──>  Exchange::last (exchange: the proof)
//!                        v=signature <──
//! ```
//!
//! - AUTH-1: who is unknown, or has no password, is asked for one as anyone is, with a salt that stays the same, and no proof
//!   fits.
//! - AUTH-2: a client that could have bound the exchange to the certificate and was made to think that it cannot is refused
//!   (`binding`).

mod binding;
mod certificate;
mod der;
mod exchange;
mod message;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::hmac;

use crate::engine::{ITERATIONS, Verifier};
use crate::proto::ProtoError;
use crate::proto::reader::Reader;
use crate::random::{self, NoRandom};

use binding::Binding;
pub(crate) use binding::EndPoint;
pub(crate) use certificate::common_name;
pub(crate) use exchange::Exchange;
use message::ClientFirst;

/// The mechanism offered to every client.
pub(crate) const MECHANISM: &str = "SCRAM-SHA-256";
/// The mechanism offered over TLS as well: it binds the exchange to the server's certificate.
pub(crate) const MECHANISM_PLUS: &str = "SCRAM-SHA-256-PLUS";

/// As many bytes as PostgreSQL's.
const NONCE_BYTES: usize = 18;
const SALT_BYTES: usize = 16;

/// Why an exchange failed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ScramError {
    /// The messages are not SCRAM.
    Protocol(String),
    /// The client wants what there is none of.
    Unsupported(&'static str),
    /// What the client says of channel binding does not fit the server.
    Binding(&'static str),
    /// The proof does not fit, or there is no such user.
    Password,
    /// There is no nonce to be had.
    Random,
}

impl From<ProtoError> for ScramError {
    fn from(error: ProtoError) -> Self {
        ScramError::Protocol(error.to_string())
    }
}

impl From<NoRandom> for ScramError {
    fn from(NoRandom: NoRandom) -> Self {
        ScramError::Random
    }
}

/// One server's side of password checks.
pub(crate) struct Scram {
    end_point: Option<EndPoint>,
    decoy: hmac::Key,
}

impl Scram {
    /// `end_point` is that of the server's certificate, where exchanges can be bound to it.
    pub(crate) fn new(end_point: Option<EndPoint>) -> Result<Scram, NoRandom> {
        let decoy = random::bytes::<32>()?;
        Ok(Scram {
            end_point,
            decoy: hmac::Key::new(hmac::HMAC_SHA256, &decoy),
        })
    }

    /// What to offer over a connection with or without TLS.
    pub(crate) fn mechanisms(&self, tls: bool) -> &'static [&'static str] {
        match self.end_point_under(tls) {
            Some(_) => &[MECHANISM_PLUS, MECHANISM],
            None => &[MECHANISM],
        }
    }

    fn end_point_under(&self, tls: bool) -> Option<&EndPoint> {
        self.end_point.as_ref().filter(|_| tls)
    }

    /// Answers SASLInitialResponse with the server's first message.
    pub(crate) fn first(
        &self,
        body: &[u8],
        user: &str,
        tls: bool,
        verifier: Option<Verifier>,
    ) -> Result<(String, Exchange), ScramError> {
        let mut reader = Reader::new(body);
        let mechanism = reader.cstring()?;
        let length = reader.i32()?;
        let data = reader.bytes(usize::try_from(length).unwrap_or(0))?;
        reader.end()?;
        let end_point = self.end_point_under(tls);
        let bound = match mechanism {
            MECHANISM => false,
            MECHANISM_PLUS if end_point.is_some() => true,
            _ => {
                let message = "client selected an invalid SASL authentication mechanism";
                return Err(ScramError::Protocol(message.into()));
            }
        };
        let first = ClientFirst::parse(data)?;
        let binding = Binding::agree(first.flag, bound, end_point)?;
        let known = verifier.is_some();
        let verifier = verifier.unwrap_or_else(|| self.decoy_of(user));
        let nonce = STANDARD.encode(random::bytes::<NONCE_BYTES>()?);
        Ok(Exchange::begin(&first, &nonce, binding, verifier, known))
    }

    /// A verifier that nothing fits, with the same salt each time the same name is tried.
    fn decoy_of(&self, user: &str) -> Verifier {
        let tag = hmac::sign(&self.decoy, user.as_bytes());
        Verifier {
            iterations: ITERATIONS,
            salt: tag.as_ref()[..SALT_BYTES].to_vec(),
            stored_key: [0; 32],
            server_key: [0; 32],
        }
    }
}

#[cfg(test)]
mod tests;

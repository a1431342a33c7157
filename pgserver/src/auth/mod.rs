//! Password checks with SCRAM-SHA-256 (RFC 5802, RFC 7677), with and without channel binding.
//!
//! ```text
//!   client                                server
//!   SASLInitialResponse  n,,n=,r=C   ──>  Scram::first   (first: what pgwire does not check)
//!                 r=CS,s=salt,i=4096 <──
//!   SASLResponse  c=…,r=CS,p=proof   ──>  Exchange::last
//!                        v=signature <──
//! ```
//!
//! The exchange is pgwire's `ScramServerAuth`, with the verifiers of the roles. pgwire binds
//! exchanges to certificates that are signed by RSA with SHA-1, SHA-256, SHA-384 or SHA-512, or by
//! ECDSA with SHA-256 or SHA-384. With any other certificate SCRAM-SHA-256-PLUS is not offered. The
//! body of SASLInitialResponse is decoded here, because pgwire's decoder panics on a truncated one.
//!
//! - AUTH-1: an unknown role, or one without a password, is asked for a password like any other
//!   role. Its salt stays the same, and no proof is accepted.
//! - AUTH-2: a client that supports channel binding, but was told that the server does not, is
//!   refused (`first`).

mod certificate;
mod der;
mod first;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use pgwire::api::auth::sasl::scram::{
    ScramSecret, ScramServerAuth, ScramServerAuthWaitingForClientFinal,
};
use pgwire::api::auth::sasl::{SCRAM_SHA_256_METHOD, SCRAM_SHA_256_PLUS_METHOD};
use pgwire::error::PgWireError;
use ring::hmac;

use crate::engine::{ITERATIONS, Verifier};
use crate::proto::ProtoError;
use crate::proto::reader::Reader;
use crate::random::{self, NoRandom};

pub(crate) use certificate::common_name;
use first::Binding;

/// The length of a salt in bytes, as in PostgreSQL.
const SALT_BYTES: usize = 16;
/// pgwire's reason if the client repeats another channel binding.
const BINDING_MISMATCH: &str = "Channel binding mismatch";
/// pgwire's reason if the client repeats another nonce.
const NONCE_MISMATCH: &str = "Nonce mismatch";

/// The reason why an exchange failed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ScramError {
    /// The messages are not SCRAM.
    Protocol(String),
    /// The client requires an extension that is not supported.
    Unsupported(&'static str),
    /// The client's channel binding does not fit the server.
    Binding(&'static str),
    /// The proof is wrong, or there is no such role.
    Password,
}

impl From<ProtoError> for ScramError {
    fn from(error: ProtoError) -> Self {
        ScramError::Protocol(error.to_string())
    }
}

/// Returns an error without pgwire's text, because that quotes the client's message with its proof.
fn malformed() -> ScramError {
    ScramError::Protocol("malformed SCRAM message".into())
}

/// Returns a message as text. As in PostgreSQL, a zero byte is an error.
fn text(message: &[u8]) -> Result<&str, ScramError> {
    let text = str::from_utf8(message).ok();
    text.filter(|text| !text.contains('\0'))
        .ok_or_else(malformed)
}

/// The server's side of password checks.
pub(crate) struct Scram {
    plain: ScramServerAuth,
    /// The exchange with channel binding; `None` if pgwire cannot bind to the server's certificate.
    bound: Option<ScramServerAuth>,
    decoy: hmac::Key,
}

/// An exchange between the two messages of the client.
pub(crate) struct Exchange {
    waiting: ScramServerAuthWaitingForClientFinal,
    binding: Binding,
    /// False for a decoy, which accepts no proof (AUTH-1).
    known: bool,
}

impl Scram {
    /// Creates the server's side. `certificate` is the server's, in DER.
    pub(crate) fn new(certificate: Option<&[u8]>) -> Result<Scram, NoRandom> {
        let decoy = random::bytes::<32>()?;
        Ok(Scram {
            plain: ScramServerAuth::new(),
            bound: certificate.and_then(bound_to),
            decoy: hmac::Key::new(hmac::HMAC_SHA256, &decoy),
        })
    }

    /// Returns the mechanisms to offer over a connection with or without TLS.
    pub(crate) fn mechanisms(&self, tls: bool) -> &'static [&'static str] {
        match self.bound_under(tls) {
            Some(_) => &[SCRAM_SHA_256_PLUS_METHOD, SCRAM_SHA_256_METHOD],
            None => &[SCRAM_SHA_256_METHOD],
        }
    }

    fn bound_under(&self, tls: bool) -> Option<&ScramServerAuth> {
        self.bound.as_ref().filter(|_| tls)
    }

    /// Returns the server's first message for a SASLInitialResponse.
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
        let (auth, binding) = match (mechanism, self.bound_under(tls)) {
            (SCRAM_SHA_256_METHOD, None) => (&self.plain, Binding::Unavailable),
            (SCRAM_SHA_256_METHOD, Some(bound)) => (bound, Binding::Declined),
            (SCRAM_SHA_256_PLUS_METHOD, Some(bound)) => (bound, Binding::Bound),
            _ => {
                let message = "client selected an invalid SASL authentication mechanism";
                return Err(ScramError::Protocol(message.into()));
            }
        };
        first::check(data, binding)?;
        let known = verifier.is_some();
        let verifier = verifier.unwrap_or_else(|| self.decoy_of(user));
        let begun = auth.on_client_first_message_with_secret(data, secret(verifier));
        let (text, waiting) = begun.map_err(|_| malformed())?;
        let exchange = Exchange {
            waiting,
            binding,
            known,
        };
        Ok((text, exchange))
    }

    /// Returns a verifier that accepts no proof. The same name gets the same salt each time.
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

impl Exchange {
    /// Returns the server's final message for a SASLResponse.
    pub(crate) fn last(&self, body: &[u8]) -> Result<String, ScramError> {
        let answer = self.waiting.on_client_final_message(text(body)?.as_bytes());
        match answer {
            Ok(text) if self.known => Ok(text),
            Ok(_) | Err(PgWireError::InvalidPassword(_)) => Err(ScramError::Password),
            Err(PgWireError::InvalidScramMessage(why)) => Err(self.refusal(&why)),
            Err(_) => Err(malformed()),
        }
    }

    /// Returns PostgreSQL's error for pgwire's reason.
    fn refusal(&self, why: &str) -> ScramError {
        match (why, self.binding) {
            (BINDING_MISMATCH, Binding::Bound) => {
                ScramError::Binding("SCRAM channel binding check failed")
            }
            (BINDING_MISMATCH, _) => {
                let message = "unexpected SCRAM channel-binding attribute in client-final-message";
                ScramError::Protocol(message.into())
            }
            (NONCE_MISMATCH, _) => ScramError::Protocol("invalid SCRAM response".into()),
            _ => malformed(),
        }
    }
}

/// Returns an exchange that is bound to a certificate in DER. Returns `None` if pgwire has no hash
/// for its signature.
fn bound_to(certificate: &[u8]) -> Option<ScramServerAuth> {
    // pgwire takes PEM. The file may contain more than the certificate that TLS sends.
    let encoded = STANDARD.encode(certificate);
    let pem = format!("-----BEGIN CERTIFICATE-----\n{encoded}\n-----END CERTIFICATE-----\n");
    let mut auth = ScramServerAuth::new();
    auth.configure_certificate(pem.as_bytes()).ok()?;
    Some(auth)
}

fn secret(verifier: Verifier) -> ScramSecret {
    ScramSecret::Verifier {
        salt: verifier.salt,
        iterations: verifier.iterations.get() as usize,
        stored_key: verifier.stored_key.to_vec(),
        server_key: verifier.server_key.to_vec(),
    }
}

#[cfg(test)]
mod tests;

//! SCRAM-SHA-256: the exchange that proves a role's password.
//!
//! The exchange itself is pgwire's state machine, and the verifiers are the roles'; this module
//! joins them, and keeps unknown users from being told apart.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use pgwire::api::auth::sasl::scram::{
    ScramSecret, ScramServerAuth, ScramServerAuthWaitingForClientFinal, gen_salted_password,
    random_nonce,
};

use crate::engine::{ITERATIONS, Verifier};
use crate::proto::ProtoError;
use crate::proto::reader::Reader;

/// The mechanism offered to every client.
pub(crate) const MECHANISM: &str = "SCRAM-SHA-256";
/// The mechanism offered over TLS as well: it binds the exchange to the server's certificate.
pub(crate) const MECHANISM_PLUS: &str = "SCRAM-SHA-256-PLUS";

/// A verifier as pgwire's state machine takes it.
fn secret(verifier: &Verifier) -> ScramSecret {
    ScramSecret::Verifier {
        salt: verifier.salt.clone(),
        iterations: verifier.iterations.get() as usize,
        stored_key: verifier.stored_key.to_vec(),
        server_key: verifier.server_key.to_vec(),
    }
}

/// Sixteen random bytes.
pub(crate) fn entropy() -> [u8; 16] {
    let mut bytes = [0; 16];
    let nonce = STANDARD.decode(random_nonce()).unwrap_or_default();
    for (byte, random) in bytes.iter_mut().zip(nonce) {
        *byte = random;
    }
    bytes
}

/// One server's side of password checks.
pub(crate) struct Scram {
    plain: ScramServerAuth,
    bound: Option<ScramServerAuth>,
    decoy: [u8; 16],
}

/// An exchange between the two messages of the client.
pub(crate) struct Exchange {
    waiting: ScramServerAuthWaitingForClientFinal,
    known: bool,
}

/// Why an exchange failed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ScramError {
    /// The messages are not SCRAM.
    Protocol(String),
    /// The proof does not fit, or there is no such user.
    Password,
}

impl From<ProtoError> for ScramError {
    fn from(error: ProtoError) -> Self {
        ScramError::Protocol(error.to_string())
    }
}

impl Scram {
    /// `certificate` is the PEM text of the server's certificate, for channel binding.
    pub(crate) fn new(certificate: Option<&[u8]>) -> Scram {
        let bound = certificate.and_then(|pem| {
            let mut auth = ScramServerAuth::new();
            auth.configure_certificate(pem).ok().map(|()| auth)
        });
        Scram {
            plain: ScramServerAuth::new(),
            bound,
            decoy: entropy(),
        }
    }

    /// What to offer over a connection with or without TLS.
    pub(crate) fn mechanisms(&self, tls: bool) -> &'static [&'static str] {
        match tls && self.bound.is_some() {
            true => &[MECHANISM_PLUS, MECHANISM],
            false => &[MECHANISM],
        }
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
        let auth = match (mechanism, &self.bound) {
            (MECHANISM_PLUS, Some(bound)) if tls => bound,
            (MECHANISM, Some(bound)) if tls => bound,
            (MECHANISM, _) => &self.plain,
            _ => return Err(ScramError::Protocol("unknown SASL mechanism".into())),
        };
        let known = verifier.is_some();
        let verifier = verifier.unwrap_or_else(|| self.decoy_of(user));
        let (text, waiting) = auth
            .on_client_first_message_with_secret(data, secret(&verifier))
            .map_err(|e| ScramError::Protocol(e.to_string()))?;
        Ok((text, Exchange { waiting, known }))
    }

    /// A verifier that nothing fits, with the same salt each time the same name is tried.
    fn decoy_of(&self, user: &str) -> Verifier {
        let mut salt = gen_salted_password(user, &self.decoy, 1);
        salt.truncate(16);
        Verifier {
            iterations: ITERATIONS,
            salt,
            stored_key: [0; 32],
            server_key: [0; 32],
        }
    }
}

impl Exchange {
    /// Answers SASLResponse with the server's final message.
    pub(crate) fn last(&self, body: &[u8]) -> Result<String, ScramError> {
        use pgwire::error::PgWireError;
        match self.waiting.on_client_final_message(body) {
            Ok(text) if self.known => Ok(text),
            Ok(_) | Err(PgWireError::InvalidPassword(_)) => Err(ScramError::Password),
            Err(error) => Err(ScramError::Protocol(error.to_string())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_decoy_keeps_its_salt() {
        let scram = Scram::new(None);
        assert_eq!(scram.decoy_of("ann"), scram.decoy_of("ann"));
        assert_ne!(scram.decoy_of("ann").salt, scram.decoy_of("bob").salt);
    }

    proptest! {
        #[test]
        fn random_answers_never_panic(body in prop::collection::vec(any::<u8>(), 0..80), text in ".{0,60}") {
            let scram = Scram::new(None);
            let _ = scram.first(&body, "ann", false, None);
            let mut framed = b"SCRAM-SHA-256\0".to_vec();
            framed.extend_from_slice(&(text.len() as u32).to_be_bytes());
            framed.extend_from_slice(text.as_bytes());
            let _ = scram.first(&framed, "ann", false, None);
            let mut good = b"SCRAM-SHA-256\0\0\0\0\x0bn,,n=a,r=xy".to_vec();
            good[17] = 11;
            let (_, exchange) = scram.first(&good, "ann", false, None).expect("a first message");
            let _ = exchange.last(&body);
            let _ = exchange.last(text.as_bytes());
        }
    }
}

//! Passwords as SCRAM-SHA-256 verifiers: what a server keeps to check one without knowing it.
//!
//! The exchange itself is pgwire's state machine; this module holds the verifiers, their text form
//! (PostgreSQL's `rolpassword`) and the part that keeps unknown users from being told apart.

use std::collections::HashMap;
use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use pgwire::api::auth::sasl::scram::{
    SCRAM_ITERATIONS, ScramSecret, ScramServerAuth, ScramServerAuthWaitingForClientFinal,
    gen_salted_password, random_nonce,
};

use crate::proto::ProtoError;
use crate::proto::reader::Reader;

/// The mechanism offered to every client.
pub(crate) const MECHANISM: &str = "SCRAM-SHA-256";
/// The mechanism offered over TLS as well: it binds the exchange to the server's certificate.
pub(crate) const MECHANISM_PLUS: &str = "SCRAM-SHA-256-PLUS";

/// Where passwords are looked up.
pub trait AuthSource: Send + Sync {
    /// The verifier of `user`; `None` when there is no such role or it may not log in.
    fn verifier(&self, user: &str) -> Option<Verifier>;
}

/// What is kept of a password.
#[derive(Clone, PartialEq, Eq)]
pub struct Verifier {
    iterations: usize,
    salt: Vec<u8>,
    stored_key: Vec<u8>,
    server_key: Vec<u8>,
}

impl Verifier {
    /// The verifier of a password, with a fresh salt.
    pub fn of_password(password: &str) -> Verifier {
        let salt = entropy().to_vec();
        let salted = gen_salted_password(password, &salt, SCRAM_ITERATIONS);
        match ScramSecret::verifier_from_salted_password(salt, salted, SCRAM_ITERATIONS) {
            ScramSecret::Verifier {
                salt,
                iterations,
                stored_key,
                server_key,
            } => Verifier {
                iterations,
                salt,
                stored_key,
                server_key,
            },
            ScramSecret::SaltedPassword {
                salt,
                salted_password,
            } => Verifier {
                iterations: SCRAM_ITERATIONS,
                salt,
                stored_key: salted_password,
                server_key: Vec::new(),
            },
        }
    }

    /// Reads `SCRAM-SHA-256$<iterations>:<salt>$<stored key>:<server key>`.
    pub fn parse(text: &str) -> Option<Verifier> {
        let (head, keys) = text.strip_prefix("SCRAM-SHA-256$")?.split_once('$')?;
        let (iterations, salt) = head.split_once(':')?;
        let (stored_key, server_key) = keys.split_once(':')?;
        let verifier = Verifier {
            iterations: iterations.parse().ok().filter(|n| *n > 0)?,
            salt: STANDARD.decode(salt).ok()?,
            stored_key: STANDARD.decode(stored_key).ok()?,
            server_key: STANDARD.decode(server_key).ok()?,
        };
        (verifier.stored_key.len() == 32 && verifier.server_key.len() == 32).then_some(verifier)
    }

    fn secret(&self) -> ScramSecret {
        ScramSecret::Verifier {
            salt: self.salt.clone(),
            iterations: self.iterations,
            stored_key: self.stored_key.clone(),
            server_key: self.server_key.clone(),
        }
    }
}

impl fmt::Display for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "SCRAM-SHA-256${}:{}${}:{}",
            self.iterations,
            STANDARD.encode(&self.salt),
            STANDARD.encode(&self.stored_key),
            STANDARD.encode(&self.server_key)
        )
    }
}

impl fmt::Debug for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Verifier(..)")
    }
}

/// Passwords known from the start.
#[derive(Debug, Clone, Default)]
pub struct Passwords {
    verifiers: HashMap<String, Verifier>,
}

impl Passwords {
    /// No passwords.
    pub fn new() -> Self {
        Passwords::default()
    }

    /// With the password of `user`.
    pub fn with(mut self, user: impl Into<String>, password: &str) -> Self {
        self.verifiers
            .insert(user.into(), Verifier::of_password(password));
        self
    }
}

impl AuthSource for Passwords {
    fn verifier(&self, user: &str) -> Option<Verifier> {
        self.verifiers.get(user).cloned()
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
            .on_client_first_message_with_secret(data, verifier.secret())
            .map_err(|e| ScramError::Protocol(e.to_string()))?;
        Ok((text, Exchange { waiting, known }))
    }

    /// A verifier that nothing fits, with the same salt each time the same name is tried.
    fn decoy_of(&self, user: &str) -> Verifier {
        let mut salt = gen_salted_password(user, &self.decoy, 1);
        salt.truncate(16);
        Verifier {
            iterations: SCRAM_ITERATIONS,
            salt,
            stored_key: vec![0; 32],
            server_key: vec![0; 32],
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
    fn a_verifier_survives_its_text() {
        let verifier = Verifier::of_password("secret");
        assert_eq!(
            Verifier::parse(&verifier.to_string()),
            Some(verifier.clone())
        );
        assert_eq!(format!("{verifier:?}"), "Verifier(..)");
        assert_ne!(
            verifier,
            Verifier::of_password("secret"),
            "the salts differ"
        );
    }

    #[test]
    fn texts_that_are_no_verifier() {
        for text in [
            "",
            "md5abc",
            "SCRAM-SHA-256$0:YQ==$YQ==:YQ==",
            "SCRAM-SHA-256$1:?$:",
            "SCRAM-SHA-256$4096:YQ==$YQ==:YQ==",
        ] {
            assert_eq!(Verifier::parse(text), None, "{text}");
        }
    }

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

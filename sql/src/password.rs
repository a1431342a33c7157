//! SCRAM-SHA-256 verifiers: the data by which a password is checked without storing it.
//!
//! The text form is PostgreSQL's `rolpassword`: `SCRAM-SHA-256$<iterations>:<salt>$<stored
//! key>:<server key>`, the last three in base64.

use std::borrow::Cow;
use std::fmt;
use std::num::NonZeroU32;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::{digest, hmac, pbkdf2};

const KEY_BYTES: usize = 32;

/// The iteration count for new passwords, as in PostgreSQL.
pub const ITERATIONS: NonZeroU32 = NonZeroU32::new(4096).unwrap();

/// A SCRAM-SHA-256 verifier.
#[derive(Clone, PartialEq, Eq)]
pub struct Verifier {
    /// The iteration count of the hash.
    pub iterations: NonZeroU32,
    /// The salt of the hash.
    pub salt: Vec<u8>,
    /// The key that verifies the client's proof.
    pub stored_key: [u8; KEY_BYTES],
    /// The key with which the server signs its own proof.
    pub server_key: [u8; KEY_BYTES],
}

impl Verifier {
    /// Computes the verifier of a password; `salt` must be fresh.
    pub fn of_password(password: &str, salt: [u8; 16]) -> Verifier {
        // A password that SASLprep rejects is used unchanged, as PostgreSQL and libpq do.
        let normal = stringprep::saslprep(password).unwrap_or(Cow::Borrowed(password));
        let mut salted = [0; KEY_BYTES];
        let algorithm = pbkdf2::PBKDF2_HMAC_SHA256;
        pbkdf2::derive(algorithm, ITERATIONS, &salt, normal.as_bytes(), &mut salted);
        let key = hmac::Key::new(hmac::HMAC_SHA256, &salted);
        let client_key = hmac::sign(&key, b"Client Key");
        let stored_key = digest::digest(&digest::SHA256, client_key.as_ref());
        let server_key = hmac::sign(&key, b"Server Key");
        Verifier {
            iterations: ITERATIONS,
            salt: salt.to_vec(),
            stored_key: array(stored_key.as_ref()).unwrap_or_default(),
            server_key: array(server_key.as_ref()).unwrap_or_default(),
        }
    }

    /// Parses `password` as a verifier's text form; otherwise computes the verifier of the
    /// password.
    pub fn of_text(password: &str, salt: [u8; 16]) -> Verifier {
        Verifier::parse(password).unwrap_or_else(|| Verifier::of_password(password, salt))
    }

    /// Parses the text form; returns `None` for any other text.
    pub fn parse(text: &str) -> Option<Verifier> {
        let (head, keys) = text.strip_prefix("SCRAM-SHA-256$")?.split_once('$')?;
        let (iterations, salt) = head.split_once(':')?;
        let (stored_key, server_key) = keys.split_once(':')?;
        Some(Verifier {
            iterations: iterations.parse().ok()?,
            salt: STANDARD.decode(salt).ok()?,
            stored_key: array(&STANDARD.decode(stored_key).ok()?)?,
            server_key: array(&STANDARD.decode(server_key).ok()?)?,
        })
    }
}

fn array(bytes: &[u8]) -> Option<[u8; KEY_BYTES]> {
    bytes.try_into().ok()
}

impl fmt::Display for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "SCRAM-SHA-256${}:{}${}:{}",
            self.iterations,
            STANDARD.encode(&self.salt),
            STANDARD.encode(self.stored_key),
            STANDARD.encode(self.server_key)
        )
    }
}

impl fmt::Debug for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Verifier(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scram_verifier_matches_postgresql() {
        // The rolpassword of a role with the password "correct horse" and this salt.
        let text = "SCRAM-SHA-256$4096:je6l9rsU0ThF4b5kzigWVQ==$7dF6yAYBjAYHE9dsXGUP10m53GRPISv8EnXZkZRUvRM=:4YzjozLgzhhK2/216TkdCIWu8MnQW5NxDGad8nRJ1E4=";
        let parsed = Verifier::parse(text).expect("a verifier");
        let salt = parsed.salt.clone().try_into().expect("16 bytes");
        assert_eq!(Verifier::of_password("correct horse", salt), parsed);
        assert_eq!(parsed.to_string(), text);
        assert_eq!(format!("{parsed:?}"), "Verifier(..)");
        assert_ne!(Verifier::of_password("correct horse", [0; 16]), parsed);
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
}

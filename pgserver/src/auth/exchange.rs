//! One exchange: the server's first message, the client's proof, the server's signature (RFC 5802, section 3).
//!
//! ```text
//!   AuthMessage     = client-first-message-bare "," server-first-message "," client-final-message-without-proof
//!   ClientKey       = ClientProof XOR HMAC(StoredKey, AuthMessage)      it fits where H(ClientKey) = StoredKey
//!   ServerSignature = HMAC(ServerKey, AuthMessage)
//! ```

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::{digest, hmac};

use super::ScramError;
use super::binding::Binding;
use super::message::{ClientFinal, ClientFirst, malformed};
use crate::engine::Verifier;

/// An exchange between the two messages of the client.
pub(crate) struct Exchange {
    verifier: Verifier,
    /// Without it no proof fits (AUTH-1).
    known: bool,
    binding: Binding,
    nonce: String,
    /// What both sides have said, with the comma behind it.
    said: String,
}

impl Exchange {
    /// The server's first message, and what waits for the client's last one. `nonce` is the server's half.
    pub(super) fn begin(
        first: &ClientFirst<'_>,
        nonce: &str,
        binding: Binding,
        verifier: Verifier,
        known: bool,
    ) -> (String, Exchange) {
        let nonce = format!("{}{nonce}", first.nonce);
        let salt = STANDARD.encode(&verifier.salt);
        let text = format!("r={nonce},s={salt},i={}", verifier.iterations);
        let exchange = Exchange {
            known,
            binding: binding.of_header(first.header),
            nonce,
            said: format!("{},{text},", first.bare),
            verifier,
        };
        (text, exchange)
    }

    /// Answers SASLResponse with the server's final message.
    pub(crate) fn last(&self, body: &[u8]) -> Result<String, ScramError> {
        let last = ClientFinal::parse(body)?;
        self.binding.check(&last.binding)?;
        if last.nonce != self.nonce {
            return Err(malformed("the nonce does not match"));
        }
        let said = format!("{}{}", self.said, last.without_proof);
        let stored_key = hmac::Key::new(hmac::HMAC_SHA256, &self.verifier.stored_key);
        let mut client_key = last.proof;
        for (byte, mask) in client_key
            .iter_mut()
            .zip(hmac::sign(&stored_key, said.as_bytes()).as_ref())
        {
            *byte ^= mask;
        }
        // Of a hash nothing is learned by how long comparing it takes.
        let fits =
            digest::digest(&digest::SHA256, &client_key).as_ref() == self.verifier.stored_key;
        if !fits || !self.known {
            return Err(ScramError::Password);
        }
        let server_key = hmac::Key::new(hmac::HMAC_SHA256, &self.verifier.server_key);
        let signature = hmac::sign(&server_key, said.as_bytes());
        Ok(format!("v={}", STANDARD.encode(signature)))
    }
}

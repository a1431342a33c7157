//! What a client says in an exchange: attributes of one letter, with commas between them (RFC 5802, section 7).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::ScramError;

const PROOF_BYTES: usize = 32;

/// What a client says of channel binding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flag<'a> {
    /// It cannot bind, or does not want to.
    No,
    /// It can, and thinks that the server cannot.
    ServerCannot,
    /// It binds in this way.
    Bound(&'a str),
}

/// client-first-message.
pub(super) struct ClientFirst<'a> {
    pub(super) flag: Flag<'a>,
    /// What comes before `bare`, as it was sent.
    pub(super) header: &'a str,
    /// What the proof is of.
    pub(super) bare: &'a str,
    pub(super) nonce: &'a str,
}

/// client-final-message.
pub(super) struct ClientFinal<'a> {
    pub(super) binding: Vec<u8>,
    pub(super) nonce: &'a str,
    /// What the proof is of.
    pub(super) without_proof: &'a str,
    pub(super) proof: [u8; PROOF_BYTES],
}

pub(super) fn malformed(what: &str) -> ScramError {
    ScramError::Protocol(format!("malformed SCRAM message: {what}"))
}

fn text(data: &[u8]) -> Result<&str, ScramError> {
    match str::from_utf8(data) {
        Ok(text) if !data.contains(&0) => Ok(text),
        _ => Err(malformed("not a text")),
    }
}

/// Takes what is up to the next comma.
fn piece<'a>(rest: &mut &'a str) -> Result<&'a str, ScramError> {
    let split = rest.split_once(',');
    let (piece, behind) = split.ok_or_else(|| malformed("it ends too early"))?;
    *rest = behind;
    Ok(piece)
}

/// The value of an attribute.
fn value(piece: &str, name: char) -> Result<&str, ScramError> {
    let value = piece.strip_prefix(name).and_then(|v| v.strip_prefix('='));
    value.ok_or_else(|| malformed(&format!("attribute \"{name}\" expected")))
}

fn decoded(value: &str, name: char) -> Result<Vec<u8>, ScramError> {
    let bytes = STANDARD.decode(value);
    bytes.map_err(|_| malformed(&format!("attribute \"{name}\" is no base64")))
}

impl<'a> ClientFirst<'a> {
    /// `gs2-cbind-flag "," [authzid] "," [m=…,] n=… "," r=… [, extensions]`. The name is of no account: who logs in was said in
    /// the start-up packet.
    pub(super) fn parse(data: &'a [u8]) -> Result<ClientFirst<'a>, ScramError> {
        let all = text(data)?;
        let mut rest = all;
        let flag = match piece(&mut rest)? {
            "n" => Flag::No,
            "y" => Flag::ServerCannot,
            other => Flag::Bound(value(other, 'p')?),
        };
        if !piece(&mut rest)?.is_empty() {
            let what = "client uses authorization identity, but it is not supported";
            return Err(ScramError::Unsupported(what));
        }
        let bare = rest;
        if bare.starts_with('m') {
            let what = "client requires an unsupported SCRAM extension";
            return Err(ScramError::Unsupported(what));
        }
        value(piece(&mut rest)?, 'n')?;
        let nonce = value(rest.split(',').next().unwrap_or_default(), 'r')?;
        if nonce.is_empty() || !nonce.bytes().all(|b| b.is_ascii_graphic()) {
            return Err(malformed("non-printable characters in SCRAM nonce"));
        }
        Ok(ClientFirst {
            flag,
            header: &all[..all.len() - bare.len()],
            bare,
            nonce,
        })
    }
}

impl<'a> ClientFinal<'a> {
    /// `c=… "," r=… [, extensions] "," p=…`, the proof last.
    pub(super) fn parse(data: &'a [u8]) -> Result<ClientFinal<'a>, ScramError> {
        let all = text(data)?;
        let split = all.rsplit_once(',');
        let (without_proof, proof) = split.ok_or_else(|| malformed("it ends too early"))?;
        let mut pieces = without_proof.split(',');
        let binding = value(pieces.next().unwrap_or_default(), 'c')?;
        let nonce = value(pieces.next().unwrap_or_default(), 'r')?;
        let proof = decoded(value(proof, 'p')?, 'p')?;
        Ok(ClientFinal {
            binding: decoded(binding, 'c')?,
            nonce,
            without_proof,
            proof: proof
                .try_into()
                .map_err(|_| malformed("the proof does not have 32 bytes"))?,
        })
    }
}

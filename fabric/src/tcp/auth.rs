//! The handshake of a connection: both ends prove that they know the cluster's secret, and exchange
//! their identities.
//!
//! ```text
//! caller                                                       listener
//! START   magic, version, whether in TLS ──────────────────────────────► version? TLS here, too?
//!         ◄── OK, or a refusal
//!                          [TLS, if both want it: super::tls]
//! HELLO   lane, cluster, from, to, incarnation, nonce ─────────────────► cluster? mine?
//!         ◄── OK, incarnation, nonce, proof of the listener, or a refusal
//! proof of the caller, or a refusal ──►                                    right? a member?
//!         ◄── OK, or a refusal
//! ```
//! A proof is an HMAC-SHA256 with the secret over the prover's role, the TLS session, the hello and
//! the answer to it. So a proof cannot be used again or for the other end. The secret is never
//! sent. Without TLS the data after the handshake is neither encrypted nor signed: use TLS on
//! networks to which others can write.

use std::io::{self, Read, Write};

use ::ring::rand::{SecureRandom, SystemRandom};
use ::ring::{digest, hmac};

use super::tls::CertificateFault;
use crate::machine::MachineId;

const MAGIC: [u8; 4] = *b"FNCP";
/// The version of the handshake and of the frames after it.
const VERSION: u16 = 2;
/// A value in place of a lane: the caller asks the listener to connect to it.
pub(super) const ASKS: usize = 0xFF;
/// A value in place of a lane: the caller uses the control channel, for any caller and any listener
/// ([`super::aside`]).
pub(super) const ASIDE: u8 = 0xFE;
const START_BYTES: usize = 4 + 2 + 1;
const HELLO_BYTES: usize = 1 + 16 + 4 + 4 + 8 + NONCE_BYTES;
const ANSWER_BYTES: usize = 8 + NONCE_BYTES;
const NONCE_BYTES: usize = 32;
const PROOF_BYTES: usize = 32;

/// The reason why two machines do not connect.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HandshakeError {
    /// The other end does not know this cluster's secret.
    #[error("the secret is another one")]
    WrongSecret,
    /// The other end belongs to another cluster.
    #[error("the machine belongs to another cluster")]
    OtherCluster,
    /// The other end uses another version of the protocol, or another protocol.
    #[error("another version of the protocol")]
    Version,
    /// This machine is not a member of the other end's configuration.
    #[error("not a member of the configuration")]
    NotMember,
    /// Another machine answers at the address.
    #[error("another machine is at this address")]
    OtherMachine,
    /// One of the two uses TLS, and the other does not.
    #[error("one of the machines is set up for TLS, and the other is not")]
    TlsAtOneEnd,
    /// This machine does not accept the certificate of the other end.
    #[error("the certificate of the other machine {0}")]
    TheirCertificate(CertificateFault),
    /// The other end does not accept the certificate of this machine.
    #[error("the certificate of this machine {0}, says the other")]
    OwnCertificate(CertificateFault),
    /// The connection broke or could not be opened.
    #[error("{0}")]
    Io(String),
}

impl From<io::Error> for HandshakeError {
    fn from(error: io::Error) -> Self {
        let inner = error.get_ref();
        match inner.and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
            Some(error) => error.into(),
            None => HandshakeError::Io(error.to_string()),
        }
    }
}

/// The refusals by their number in messages, from 1; 0 is no refusal.
const REFUSALS: [HandshakeError; 6] = [
    HandshakeError::WrongSecret,
    HandshakeError::OtherCluster,
    HandshakeError::Version,
    HandshakeError::NotMember,
    HandshakeError::OtherMachine,
    HandshakeError::TlsAtOneEnd,
];
const OK: u8 = 0;

/// The identity that this machine proves to others.
#[derive(Debug)]
pub(super) struct Identity {
    pub(super) me: MachineId,
    pub(super) cluster: u128,
    /// A random number, drawn each time that the machine starts.
    pub(super) incarnation: u64,
    secret: hmac::Key,
    random: SystemRandom,
}

/// The identity of the other end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Peer {
    pub(super) machine: MachineId,
    pub(super) incarnation: u64,
    pub(super) lane: u8,
}

impl Peer {
    /// Returns whether the peer only asks to be connected to.
    pub(super) fn asks(self) -> bool {
        usize::from(self.lane) == ASKS
    }

    /// Returns whether the peer uses the control channel, and need not be a member.
    pub(super) fn is_aside(self) -> bool {
        self.lane == ASIDE
    }
}

/// Returns the number of a cluster, a hash of `parts` that identify it, such as its name and its
/// machines.
pub fn cluster_id(parts: &[&str]) -> u128 {
    let mut context = digest::Context::new(&digest::SHA256);
    for part in parts {
        context.update(&(part.len() as u64).to_le_bytes());
        context.update(part.as_bytes());
    }
    let digest = context.finish();
    let (first, _) = digest.as_ref().split_at(size_of::<u128>());
    first
        .iter()
        .fold(0, |id, byte| (id << 8) | u128::from(*byte))
}

impl Identity {
    /// Returns the identity of a machine that has just started.
    ///
    /// # Errors
    /// If the system gives no random numbers.
    pub(super) fn new(me: MachineId, cluster: u128, secret: &[u8]) -> io::Result<Self> {
        let random = SystemRandom::new();
        let incarnation = u64::from_le_bytes(draw(&random)?);
        Ok(Identity {
            me,
            cluster,
            incarnation,
            secret: hmac::Key::new(hmac::HMAC_SHA256, secret),
            random,
        })
    }

    /// Returns the HMAC state of the proof of the role `who` in a handshake.
    fn proof(&self, who: &[u8], session: &[u8], hello: &[u8], answer: &[u8]) -> hmac::Context {
        let mut context = hmac::Context::with_key(&self.secret);
        context.update(who);
        context.update(session);
        context.update(hello);
        context.update(answer);
        context
    }

    /// Checks the proof of the other end, in constant time.
    fn proves(&self, who: &[u8], session: &[u8], said: [&[u8]; 2], proof: &[u8]) -> bool {
        let [hello, answer] = said;
        let message = [who, session, hello, answer].concat();
        hmac::verify(&self.secret, &message, proof).is_ok()
    }

    fn hello(&self, to: MachineId, lane: u8) -> io::Result<Vec<u8>> {
        let mut hello = Vec::with_capacity(HELLO_BYTES);
        hello.push(lane);
        hello.extend_from_slice(&self.cluster.to_le_bytes());
        hello.extend_from_slice(&self.me.0.to_le_bytes());
        hello.extend_from_slice(&to.0.to_le_bytes());
        hello.extend_from_slice(&self.incarnation.to_le_bytes());
        hello.extend_from_slice(&draw::<NONCE_BYTES>(&self.random)?);
        Ok(hello)
    }
}

const CALLER: &[u8] = b"fencepost caller";
const LISTENER: &[u8] = b"fencepost listener";

fn start(tls: bool) -> [u8; START_BYTES] {
    let mut start = [0; START_BYTES];
    start[..4].copy_from_slice(&MAGIC);
    start[4..6].copy_from_slice(&VERSION.to_le_bytes());
    start[6] = u8::from(tls);
    start
}

/// Starts the handshake as the caller: the other end must use the same protocol version, and TLS if
/// `tls`.
///
/// # Errors
/// The reason for the refusal.
pub(super) fn begin(stream: &mut (impl Read + Write), tls: bool) -> Result<(), HandshakeError> {
    stream.write_all(&start(tls))?;
    status(stream)
}

/// Starts the handshake as the listener; the counterpart of [`begin`].
///
/// # Errors
/// The reason for the refusal.
pub(super) fn begun(stream: &mut (impl Read + Write), tls: bool) -> Result<(), HandshakeError> {
    let started: [u8; START_BYTES] = take(stream)?;
    if started[..6] != start(tls)[..6] {
        return refuse(stream, HandshakeError::Version);
    }
    if started != start(tls) {
        return refuse(stream, HandshakeError::TlsAtOneEnd);
    }
    Ok(stream.write_all(&[OK])?)
}

/// Carries out the caller's side of the handshake with `to`, in the TLS session that `session`
/// identifies.
///
/// # Errors
/// The reason for the refusal.
pub(super) fn call(
    identity: &Identity,
    session: &[u8],
    to: MachineId,
    lane: u8,
    stream: &mut (impl Read + Write),
) -> Result<Peer, HandshakeError> {
    let hello = identity.hello(to, lane)?;
    stream.write_all(&hello)?;
    status(stream)?;
    let answer: [u8; ANSWER_BYTES] = take(stream)?;
    let proof: [u8; PROOF_BYTES] = take(stream)?;
    if !identity.proves(LISTENER, session, [&hello, &answer], &proof) {
        return refuse(stream, HandshakeError::WrongSecret);
    }
    let mine = identity.proof(CALLER, session, &hello, &answer).sign();
    stream.write_all(&[&[OK], mine.as_ref()].concat())?;
    status(stream)?;
    let (incarnation, _) = take_u64(&answer)?;
    Ok(Peer {
        machine: to,
        incarnation,
        lane,
    })
}

/// Carries out the listener's side of the handshake; `admit` decides about the identified caller.
///
/// # Errors
/// The reason for the refusal.
pub(super) fn listen<T>(
    identity: &Identity,
    session: &[u8],
    stream: &mut (impl Read + Write),
    admit: impl FnOnce(Peer) -> Result<T, HandshakeError>,
) -> Result<T, HandshakeError> {
    let hello: [u8; HELLO_BYTES] = take(stream)?;
    let peer = match judge(identity, &hello) {
        Ok(peer) => peer,
        Err(error) => return refuse(stream, error),
    };
    let mut answer = identity.incarnation.to_le_bytes().to_vec();
    answer.extend_from_slice(&draw::<NONCE_BYTES>(&identity.random)?);
    let mine = identity.proof(LISTENER, session, &hello, &answer).sign();
    stream.write_all(&[&[OK], answer.as_slice(), mine.as_ref()].concat())?;
    status(stream)?;
    let proof: [u8; PROOF_BYTES] = take(stream)?;
    if !identity.proves(CALLER, session, [&hello, &answer], &proof) {
        return refuse(stream, HandshakeError::WrongSecret);
    }
    // Membership is checked last, so that only callers with the secret learn it.
    match admit(peer) {
        Ok(admitted) => {
            stream.write_all(&[OK])?;
            Ok(admitted)
        }
        Err(error) => refuse(stream, error),
    }
}

/// Returns the sender of a hello, if it may connect.
fn judge(identity: &Identity, hello: &[u8; HELLO_BYTES]) -> Result<Peer, HandshakeError> {
    let (lane, rest) = hello.split_first().ok_or(HandshakeError::Version)?;
    let rest = rest
        .strip_prefix(&identity.cluster.to_le_bytes())
        .ok_or(HandshakeError::OtherCluster)?;
    let (machines, rest) = take_u64(rest)?;
    let (incarnation, _) = take_u64(rest)?;
    let (from, to) = (machines as u32, (machines >> 32) as u32);
    if *lane != ASIDE && to != identity.me.0 {
        return Err(HandshakeError::OtherMachine);
    }
    Ok(Peer {
        machine: MachineId(from),
        incarnation,
        lane: *lane,
    })
}

fn take_u64(bytes: &[u8]) -> Result<(u64, &[u8]), HandshakeError> {
    let (word, rest) = bytes
        .split_first_chunk::<8>()
        .ok_or(HandshakeError::Version)?;
    Ok((u64::from_le_bytes(*word), rest))
}

fn take<const N: usize>(stream: &mut impl Read) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    stream.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn draw<const N: usize>(random: &SystemRandom) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    let filled = random.fill(&mut bytes);
    filled.map_err(|_| io::Error::other("the system gives no randomness"))?;
    Ok(bytes)
}

/// Reads whether the other end continues.
fn status(stream: &mut impl Read) -> Result<(), HandshakeError> {
    let [number] = take(stream)?;
    if number == OK {
        return Ok(());
    }
    let refusal = REFUSALS.get(usize::from(number) - 1);
    Err(refusal.cloned().unwrap_or(HandshakeError::Version))
}

/// Sends the reason for a refusal to the other end.
fn refuse<T>(stream: &mut impl Write, error: HandshakeError) -> Result<T, HandshakeError> {
    let number = REFUSALS.iter().position(|refusal| *refusal == error);
    let number = number.map_or(u8::MAX, |number| number as u8 + 1);
    // The other end may have closed the connection.
    let _ = stream.write_all(&[number]);
    Err(error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    fn identity(me: u32, cluster: u128, secret: &[u8]) -> Identity {
        Identity::new(MachineId(me), cluster, secret).expect("randomness")
    }

    /// The result of a handshake at one end.
    type HandshakeResult = Result<Peer, HandshakeError>;

    /// Runs a handshake and returns the results of both ends; the listener admits the caller if
    /// `admit`.
    fn shake(
        caller: &Identity,
        to: u32,
        listener: &Identity,
        admit: bool,
    ) -> (HandshakeResult, HandshakeResult) {
        let (mut local, mut remote) = UnixStream::pair().expect("a pair");
        std::thread::scope(|scope| {
            let called = scope.spawn(move || call(caller, b"", MachineId(to), 3, &mut local));
            let heard = listen(listener, b"", &mut remote, |peer| {
                admit.then_some(peer).ok_or(HandshakeError::NotMember)
            });
            drop(remote);
            (called.join().expect("no panic"), heard)
        })
    }

    #[test]
    fn machines_of_one_cluster_know_each_other() {
        let (a, b) = (identity(1, 5, b"secret"), identity(2, 5, b"secret"));
        let (called, heard) = shake(&a, 2, &b, true);
        let peer = |identity: &Identity| Peer {
            machine: identity.me,
            incarnation: identity.incarnation,
            lane: 3,
        };
        assert_eq!((called, heard), (Ok(peer(&b)), Ok(peer(&a))));
        assert_ne!(a.incarnation, b.incarnation);
    }

    #[test]
    fn each_refusal_is_reported_at_both_ends() {
        let a = identity(1, 5, b"secret");
        for (listener, to, admit, error) in [
            (
                identity(2, 6, b"secret"),
                2,
                true,
                HandshakeError::OtherCluster,
            ),
            (
                identity(2, 5, b"secret"),
                3,
                true,
                HandshakeError::OtherMachine,
            ),
            (
                identity(2, 5, b"Secret"),
                2,
                true,
                HandshakeError::WrongSecret,
            ),
            (
                identity(2, 5, b"secret"),
                2,
                false,
                HandshakeError::NotMember,
            ),
        ] {
            let (called, heard) = shake(&a, to, &listener, admit);
            assert_eq!((called, heard), (Err(error.clone()), Err(error)));
        }
    }

    #[test]
    fn another_version_is_refused_and_rubbish_too() {
        let mut other = start(false);
        other[4] += 1;
        for bytes in [&other[..], &b"GET / HTTP/1.1\r\n"[..]] {
            let (mut local, mut remote) = UnixStream::pair().expect("a pair");
            local.write_all(bytes).expect("fits");
            let heard = begun(&mut remote, false);
            assert_eq!(heard, Err(HandshakeError::Version));
            assert_eq!(status(&mut local), Err(HandshakeError::Version));
        }
    }

    #[test]
    fn tls_at_one_end_is_refused() {
        for tls in [false, true] {
            let (mut local, mut remote) = UnixStream::pair().expect("a pair");
            local.write_all(&start(tls)).expect("fits");
            let heard = begun(&mut remote, !tls);
            assert_eq!(heard, Err(HandshakeError::TlsAtOneEnd));
            assert_eq!(status(&mut local), Err(HandshakeError::TlsAtOneEnd));
        }
    }

    #[test]
    fn proofs_are_of_one_session() {
        let (a, b) = (identity(1, 5, b"secret"), identity(2, 5, b"secret"));
        let (mut local, mut remote) = UnixStream::pair().expect("a pair");
        std::thread::scope(|scope| {
            let heard = scope.spawn(|| listen(&b, b"one", &mut remote, Ok));
            let called = call(&a, b"another", b.me, 0, &mut local);
            assert_eq!(called, Err(HandshakeError::WrongSecret));
            let heard = heard.join().expect("no panic");
            assert_eq!(heard, Err(HandshakeError::WrongSecret));
        });
    }

    #[test]
    fn replayed_handshake_is_refused() {
        let (a, b) = (identity(1, 5, b"secret"), identity(2, 5, b"secret"));
        let (mut local, mut remote) = UnixStream::pair().expect("a pair");
        std::thread::scope(|scope| {
            let heard = scope.spawn(|| listen(&b, b"", &mut remote, Ok));
            let hello = a.hello(b.me, 0).expect("randomness");
            local.write_all(&hello).expect("fits");
            let said: [u8; 1 + ANSWER_BYTES + PROOF_BYTES] = take(&mut local).expect("an answer");
            let (_, proof) = said.split_at(1 + ANSWER_BYTES);
            local.write_all(&[&[OK], proof].concat()).expect("fits");
            let heard = heard.join().expect("no panic");
            assert_eq!(heard, Err(HandshakeError::WrongSecret));
        });
    }
}

//! The control channel: questions outside the fabric, from any process that knows the secret,
//! member or not.
//!
//! ```text
//! asker ── handshake, lane ASIDE ─► listener ─► thread per line: question ─► Answerer ─► answer
//! question, answer    | length (4) | bytes |        little-endian
//! ```
//! Services that must work for non-members, too, use this channel: the agreement on configurations,
//! and the admission of joining machines. No operation of the fabric waits for it.
//!
//! # Failure
//! A broken line is dropped. An idle line that breaks is opened again once, because the other end
//! may have closed it. A question may have arrived although there is no answer. While one caller is
//! connecting to a machine, other callers get an error at once. So a machine that does not respond
//! blocks one caller and not all.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::auth::{ASIDE, HandshakeError, Identity};
use super::tls::{self, BlockingTls, Session, TcpTls};
use crate::machine::MachineId;

/// The largest size of a question or answer.
const LONGEST: u32 = 1 << 24;
/// The time after which an idle line is closed.
const IDLE: Duration = Duration::from_secs(60);
/// The id of a caller without one, and of the listener, whose id the caller does not know.
const ANYBODY: MachineId = MachineId(0);

/// A service that answers questions of other machines, on threads of the fabric.
pub trait ControlService: fmt::Debug + Send + Sync {
    /// Returns the answer to a question. The call may block: it delays no other caller. An answer
    /// of more than 16 MiB closes the caller's connection instead.
    fn answer(&self, question: &[u8]) -> Vec<u8>;
}

/// A client of the control channel, which need not be a machine of the network.
#[derive(Debug)]
pub struct ControlClient {
    identity: Identity,
    tls: Option<TcpTls>,
    /// Idle lines, by their addresses.
    idle: Mutex<HashMap<String, Vec<ControlConnection>>>,
    calling: Mutex<HashSet<String>>,
}

/// A connection with an answering machine.
#[derive(Debug)]
struct ControlConnection {
    stream: TcpStream,
    session: Option<Session>,
}

/// A guard that marks an address as being connected to.
struct ConnectGuard<'a>(&'a ControlClient, &'a str);

impl Drop for ConnectGuard<'_> {
    fn drop(&mut self) {
        self.0.calling.lock().remove(self.1);
    }
}

impl ControlClient {
    /// Returns a client with the cluster's secret.
    ///
    /// # Errors
    /// If the system gives no random numbers.
    pub fn new(cluster: u128, secret: &[u8], tls: Option<TcpTls>) -> io::Result<ControlClient> {
        Ok(ControlClient {
            identity: Identity::new(ANYBODY, cluster, secret)?,
            tls,
            idle: Mutex::default(),
            calling: Mutex::default(),
        })
    }

    /// Returns the answer of the machine at an address (`host:port`). Blocks: connecting and each
    /// read or write may take `patience`. Any thread may call it.
    ///
    /// # Errors
    /// The reason for the missing answer; the question may have arrived. [`HandshakeError::Io`]
    /// also if another thread is connecting to the address (try again), or if the question is
    /// longer than 16 MiB. [`HandshakeError::NotMember`] if the machine answers no questions yet.
    pub fn ask(
        &self,
        address: &str,
        question: &[u8],
        patience: Duration,
    ) -> Result<Vec<u8>, HandshakeError> {
        let known = self.idle.lock().get_mut(address).and_then(Vec::pop);
        if let Some(mut line) = known
            && let Ok(answer) = line.ask(question, patience)
        {
            self.keep(address, line);
            return Ok(answer);
        }
        let mut line = self.call(address, patience)?;
        let answer = line.ask(question, patience)?;
        self.keep(address, line);
        Ok(answer)
    }

    fn keep(&self, address: &str, line: ControlConnection) {
        let mut idle = self.idle.lock();
        idle.entry(address.to_owned()).or_default().push(line);
    }

    fn call(&self, address: &str, patience: Duration) -> Result<ControlConnection, HandshakeError> {
        if !self.calling.lock().insert(address.to_owned()) {
            return Err(HandshakeError::Io(format!("{address} is being called")));
        }
        let _calling = ConnectGuard(self, address);
        let mut stream = Err(io::ErrorKind::AddrNotAvailable.into());
        for found in address.to_socket_addrs()? {
            stream = TcpStream::connect_timeout(&found, patience);
            if stream.is_ok() {
                break;
            }
        }
        let stream = stream?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(patience))?;
        stream.set_write_timeout(Some(patience))?;
        let tls = self.tls.as_ref();
        let (_, session) = tls::call(&self.identity, tls, ANYBODY, ASIDE, &stream)?;
        Ok(ControlConnection { stream, session })
    }
}

impl ControlConnection {
    fn ask(&mut self, question: &[u8], patience: Duration) -> io::Result<Vec<u8>> {
        self.stream.set_read_timeout(Some(patience))?;
        self.stream.set_write_timeout(Some(patience))?;
        self.say(question)?;
        let answer = self.hear()?;
        answer.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }

    fn say(&mut self, words: &[u8]) -> io::Result<()> {
        let length = u32::try_from(words.len()).ok();
        let length = length.filter(|length| *length <= LONGEST);
        let length = length.ok_or(io::ErrorKind::InvalidInput)?.to_le_bytes();
        // One write, so that length and question share a packet.
        let said = [&length[..], words].concat();
        match &mut self.session {
            Some(session) => BlockingTls(session, &self.stream).write_all(&said),
            None => (&self.stream).write_all(&said),
        }
    }

    /// Reads the next message of the other end; `None` after it has closed the line.
    fn hear(&mut self) -> io::Result<Option<Vec<u8>>> {
        match &mut self.session {
            Some(session) => hear(&mut BlockingTls(session, &self.stream)),
            None => hear(&mut &self.stream),
        }
    }
}

fn hear(stream: &mut impl Read) -> io::Result<Option<Vec<u8>>> {
    let mut length = [0; 4];
    if stream.read(&mut length[..1])? == 0 {
        return Ok(None);
    }
    stream.read_exact(&mut length[1..])?;
    let length = u32::from_le_bytes(length);
    if length > LONGEST {
        return Err(io::ErrorKind::InvalidData.into());
    }
    // The buffer grows with the bytes that arrive, not with the announced length.
    let mut words = Vec::new();
    stream.take(length.into()).read_to_end(&mut words)?;
    match words.len() == length as usize {
        true => Ok(Some(words)),
        false => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

/// Answers the questions on a line, until it ends.
pub(super) fn serve(
    answerer: &Arc<dyn ControlService>,
    stream: TcpStream,
    session: Option<Session>,
) -> io::Result<()> {
    stream.set_read_timeout(Some(IDLE))?;
    let mut line = ControlConnection { stream, session };
    while let Some(question) = line.hear()? {
        line.say(&answerer.answer(&question))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::TcpFabric;
    use super::super::tests::{config, start};
    use super::*;

    const TIME_LIMIT: Duration = Duration::from_secs(20);

    /// An answerer that returns each question twice.
    #[derive(Debug)]
    struct EchoService;

    impl ControlService for EchoService {
        fn answer(&self, question: &[u8]) -> Vec<u8> {
            question.repeat(2)
        }
    }

    fn answering(me: u32) -> TcpFabric {
        let fabric = start(&config(me));
        fabric.answer_with(Arc::new(EchoService));
        fabric
    }

    fn asker() -> ControlClient {
        let config = config(1);
        ControlClient::new(config.cluster, &config.secret, None).expect("randomness")
    }

    #[test]
    fn client_with_secret_is_answered_without_membership() {
        let fabric = answering(1);
        let address = fabric.address().to_string();
        let asker = asker();
        let long = vec![7; 1 << 20];
        for question in [&b"one"[..], b"", &long] {
            let answer = asker.ask(&address, question, TIME_LIMIT);
            assert_eq!(answer, Ok(question.repeat(2)));
        }
        assert_eq!(asker.idle.lock()[&address].len(), 1, "one line for all");
        std::thread::scope(|scope| {
            for n in 0..20_u8 {
                let (asker, address) = (&asker, &address);
                scope.spawn(move || {
                    // One thread at a time connects; the others get an error and try again.
                    while asker.ask(address, &[n], TIME_LIMIT) != Ok(vec![n, n]) {}
                });
            }
        });
    }

    #[test]
    fn ended_connection_is_reopened() {
        let mut fabric = answering(1);
        let address = fabric.address().to_string();
        let asker = asker();
        for _ in 0..3 {
            assert_eq!(asker.ask(&address, b"x", TIME_LIMIT), Ok(b"xx".to_vec()));
            drop(fabric);
            assert!(asker.ask(&address, b"x", TIME_LIMIT).is_err());
            let listen = address.clone();
            fabric = start(&super::super::TcpConfig {
                listen,
                ..config(2)
            });
            fabric.answer_with(Arc::new(EchoService));
        }
    }

    #[test]
    fn unauthorized_client_learns_the_reason() {
        let fabric = answering(1);
        let address = fabric.address().to_string();
        let config = config(1);
        let other = ControlClient::new(config.cluster, b"another secret of others", None);
        let other = other.expect("randomness");
        let refused = other.ask(&address, b"x", TIME_LIMIT);
        assert_eq!(refused, Err(HandshakeError::WrongSecret));
        let silent = start(&super::super::tests::config(2));
        let silent = silent.address().to_string();
        let refused = asker().ask(&silent, b"x", TIME_LIMIT);
        assert_eq!(refused, Err(HandshakeError::NotMember));
    }

    #[test]
    fn too_long_message_ends_the_connection() {
        let mut long = &(LONGEST + 1).to_le_bytes()[..];
        assert!(hear(&mut long).is_err());
        let mut torn = &[&9_u32.to_le_bytes()[..], b"torn"].concat()[..];
        assert!(hear(&mut torn).is_err());
        assert!(hear(&mut &[1_u8, 0][..]).is_err());
        assert!(matches!(hear(&mut &[][..]), Ok(None)));
    }
}

//! Lets callers in.
//!
//! ```text
//! accept ─► handshake, a thread for each ─┬► the link of the peer: a connection of its, or it asks to be called
//!                                         └► who has questions is answered, member or not
//! ```
//! # Failure
//! What cannot be accepted for want of threads or descriptors is closed, and the peer calls again.

use std::io::Read;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use super::Shared;
use super::aside::{self, Answerer};
use super::auth::{HandshakeError, Peer};
use super::link::Link;
use super::tls::{self, Session};

/// Reads from a caller that was refused.
const PARTING_READS: usize = 16;

/// The listener's life: until the fabric shuts the socket down.
pub(super) fn accept(shared: &Arc<Shared>, listener: &TcpListener) {
    loop {
        let accepted = listener.accept();
        if shared.callers.is_closed() {
            return;
        }
        let Ok((stream, _)) = accepted else {
            // Most likely there are no descriptors; waiting for some must not take a processor.
            std::thread::sleep(Duration::from_millis(10));
            continue;
        };
        if let Some(caller) = shared.callers.enter(stream) {
            let (greeter, greeted) = (Arc::clone(shared), Arc::clone(&caller));
            let life = move || {
                // Whyever it was refused: the peer calls again if it wants to.
                let met = greet(&greeter, &greeted);
                if met.is_err() {
                    part(&greeted);
                }
                greeter.callers.leave(&greeted);
                if let Ok(Some(questions)) = met {
                    questions.answer(&greeter);
                }
            };
            let name = shared.name("greeter");
            if shared.threads.spawn(name, life).is_err() {
                shared.callers.leave(&caller);
            }
        }
    }
}

/// What a caller wants.
enum Wants {
    /// A peer, a connection, of one of its calls.
    Connection(Arc<Link>, Peer, u64),
    /// Anybody, answers.
    Answers(Arc<dyn Answerer>),
}

/// A caller that has questions.
struct Questions {
    answerer: Arc<dyn Answerer>,
    stream: TcpStream,
    session: Option<Session>,
}

impl Questions {
    fn answer(self, shared: &Shared) {
        // Until the fabric ends; one too many is hung up.
        let Some(asker) = self
            .stream
            .try_clone()
            .ok()
            .and_then(|s| shared.askers.enter(s))
        else {
            return;
        };
        // Whyever it ends: the other end calls again if it wants to.
        let _ = aside::serve(&self.answerer, self.stream, self.session);
        shared.askers.leave(&asker);
    }
}

/// Learns who calls; of who has questions, the line for them.
fn greet(shared: &Arc<Shared>, stream: &TcpStream) -> Result<Option<Questions>, HandshakeError> {
    super::prepare(stream, shared.silence)?;
    let admit = |peer: Peer| {
        if peer.is_aside() {
            let answerer = shared.answerer.get().cloned();
            return answerer
                .map(Wants::Answers)
                .ok_or(HandshakeError::NotMember);
        }
        let link = shared.link(peer.machine);
        let link = link.ok_or(HandshakeError::NotMember)?;
        let call = link.admit(shared, peer)?;
        Ok(Wants::Connection(link, peer, call))
    };
    let tls = shared.tls.as_ref();
    match tls::listen(&shared.identity, tls, stream, admit)? {
        (Wants::Answers(answerer), session) => Ok(Some(Questions {
            answerer,
            stream: stream.try_clone()?,
            session,
        })),
        (Wants::Connection(link, peer, call), session) => {
            if !peer.asks() {
                stream.set_nonblocking(true)?;
                link.called(shared, (peer, call), stream.try_clone()?, session);
            }
            Ok(None)
        }
    }
}

/// Lets a caller read why it was refused: what it has sent and nobody reads would break the connection.
fn part(mut stream: &TcpStream) {
    let _ = stream.shutdown(Shutdown::Write);
    let mut left = (0..PARTING_READS).map(|_| stream.read(&mut [0; 4096]));
    let _ = left.find(|read| !matches!(read, Ok(1..)));
}

//! The listener: accepts inbound connections.
//!
//! ```text
//! accept ─► handshake, one thread each ─┬► the peer's link: a connection, or a request to connect
//!                                       └► the control channel, for members and outsiders
//! ```
//! # Failure
//! A connection for which no thread or descriptor is available is closed, and the peer tries again.

use std::io::Read;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use super::Shared;
use super::auth::{HandshakeError, Peer};
use super::control_channel::{self, ControlService};
use super::peer_connections::PeerConnections;
use super::tls::{self, Session};

/// The number of reads from a refused caller.
const PARTING_READS: usize = 16;

/// Accepts connections until the fabric shuts the socket down.
pub(super) fn accept(shared: &Arc<Shared>, listener: &TcpListener) {
    loop {
        let accepted = listener.accept();
        if shared.callers.is_closed() {
            return;
        }
        let Ok((stream, _)) = accepted else {
            // Most likely no descriptors are free; the pause avoids a busy loop.
            std::thread::sleep(Duration::from_millis(10));
            continue;
        };
        if let Some(caller) = shared.callers.enter(stream) {
            let (greeter, greeted) = (Arc::clone(shared), Arc::clone(&caller));
            let incarnation = move || {
                // The reason of a refusal is not needed here: the peer may try again.
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
            if shared.threads.spawn(name, incarnation).is_err() {
                shared.callers.leave(&caller);
            }
        }
    }
}

/// The purpose of an inbound connection.
enum ConnectionPurpose {
    /// A peer's connection for its link, with the number of the peer's attempt.
    Connection(Arc<PeerConnections>, Peer, u64),
    /// The control channel, for any caller.
    Answers(Arc<dyn ControlService>),
}

/// A caller on the control channel.
struct InboundControl {
    answerer: Arc<dyn ControlService>,
    stream: TcpStream,
    session: Option<Session>,
}

impl InboundControl {
    fn answer(self, shared: &Shared) {
        // The set closes the line at the end of the fabric; a line beyond its limit is closed at
        // once.
        let Some(asker) = self
            .stream
            .try_clone()
            .ok()
            .and_then(|s| shared.askers.enter(s))
        else {
            return;
        };
        // The reason why the line ended is not needed here: the caller may connect again.
        let _ = control_channel::serve(&self.answerer, self.stream, self.session);
        shared.askers.leave(&asker);
    }
}

/// Carries out the handshake with a caller; returns its line if it uses the control channel.
fn greet(
    shared: &Arc<Shared>,
    stream: &TcpStream,
) -> Result<Option<InboundControl>, HandshakeError> {
    super::prepare(stream, shared.silence)?;
    let admit = |peer: Peer| {
        if peer.is_aside() {
            let answerer = shared.answerer.get().cloned();
            return answerer
                .map(ConnectionPurpose::Answers)
                .ok_or(HandshakeError::NotMember);
        }
        let link = shared.link(peer.machine);
        let link = link.ok_or(HandshakeError::NotMember)?;
        let call = link.admit(shared, peer)?;
        Ok(ConnectionPurpose::Connection(link, peer, call))
    };
    let tls = shared.tls.as_ref();
    match tls::listen(&shared.identity, tls, stream, admit)? {
        (ConnectionPurpose::Answers(answerer), session) => Ok(Some(InboundControl {
            answerer,
            stream: stream.try_clone()?,
            session,
        })),
        (ConnectionPurpose::Connection(link, peer, call), session) => {
            if !peer.asks() {
                stream.set_nonblocking(true)?;
                link.called(shared, (peer, call), stream.try_clone()?, session);
            }
            Ok(None)
        }
    }
}

/// Lets a caller read why it was refused: unread data from the caller would reset the connection.
fn part(mut stream: &TcpStream) {
    let _ = stream.shutdown(Shutdown::Write);
    let mut left = (0..PARTING_READS).map(|_| stream.read(&mut [0; 4096]));
    let _ = left.find(|read| !matches!(read, Ok(1..)));
}

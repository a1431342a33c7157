//! Lets callers in.
//!
//! ```text
//! accept ─► handshake, a thread for each ─► the link of the peer: a connection of its, or it asks to be called
//! ```
//! # Failure
//! What cannot be accepted for want of threads or descriptors is closed, and the peer calls again.

use std::io::Read;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use super::Shared;
use super::auth::{HandshakeError, Peer};
use super::link::Link;
use super::tls;

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
                if greet(&greeter, &greeted).is_err() {
                    part(&greeted);
                }
                greeter.callers.leave(&greeted);
            };
            let name = shared.name("greeter");
            if shared.threads.spawn(name, life).is_err() {
                shared.callers.leave(&caller);
            }
        }
    }
}

fn greet(shared: &Arc<Shared>, stream: &TcpStream) -> Result<(), HandshakeError> {
    super::prepare(stream, shared.silence)?;
    let admit = |peer: Peer| {
        let link = shared.link(peer.machine);
        let link = link.ok_or(HandshakeError::NotMember)?;
        link.admit(shared, peer)?;
        Ok((link, peer))
    };
    let tls = shared.tls.as_ref();
    let ((link, peer), session): ((Arc<Link>, Peer), _) =
        tls::listen(&shared.identity, tls, stream, admit)?;
    if !peer.asks() {
        stream.set_nonblocking(true)?;
        link.called(shared, peer, stream.try_clone()?, session);
    }
    Ok(())
}

/// Lets a caller read why it was refused: what it has sent and nobody reads would break the connection.
fn part(mut stream: &TcpStream) {
    let _ = stream.shutdown(Shutdown::Write);
    let mut left = (0..PARTING_READS).map(|_| stream.read(&mut [0; 4096]));
    let _ = left.find(|read| !matches!(read, Ok(1..)));
}

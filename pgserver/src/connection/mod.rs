//! One client, from its first packet to its last.
//!
//! ```text
//!   serve = opening::open (packets without type, log-in) then Dialogue::run (messages)
//! ```
//!
//! Invariants
//! - CONN-1: replies gather and are sent when the input has no whole message left or when they are
//!   larger than 64 KiB. Replies of finished requests are also sent when a later request waits.
//! - CONN-2: a message is handled to its end before the next one is looked at.
//! - CONN-3: however the task ends, its session is dropped, which aborts what it had open.

mod batch;
mod copy;
mod dialogue;
mod drive;
mod encoding;
mod extended;
mod lock_vigil;
mod logging;
mod opening;
mod report;
mod simple;
mod sink;
mod turn;

use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use crate::engine::Prepared;
use crate::io::Io;
use crate::log::{Client, Entry, emit};
use crate::proto::ProtoError;
use crate::socket::{Accepted, Socket};
use crate::worker::{Place, Stage};
use dialogue::Dialogue;
use opening::Opened;

/// How long a client may take to hear why its connection ends.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Why a connection ends, or leaves its worker.
pub(crate) enum Ending {
    /// The client said good-bye, or there is nobody left to talk to.
    Gone,
    /// The last words, in the output buffer, are still to be sent.
    LastWords,
    /// It goes on with this worker.
    Moves(usize, Box<Rest>),
}

/// A session between two requests, with all that it needs to go on, but for its connection.
pub(crate) struct Rest {
    opened: Opened,
    unnamed: Option<Arc<Prepared>>,
    moves: u32,
}

/// A client that moves from one worker to another.
pub(crate) struct Moved {
    stream: TcpStream,
    client: Box<Client>,
    rest: Box<Rest>,
}

impl From<std::io::Error> for Ending {
    fn from(_: std::io::Error) -> Self {
        Ending::Gone
    }
}

/// Serves one client.
pub(crate) async fn serve(accepted: Accepted, place: Place) {
    let Ok(peer) = accepted.peer() else { return };
    let Ok(socket) = Socket::adopt(accepted) else {
        return;
    };
    let client = Box::new(Client::new(peer));
    if place.worker.shared.tells_connections() {
        emit(
            &client,
            &Entry::log(&format!("connection received: {peer}", peer = client.peer)),
        );
    }
    let mut io = Io::new(socket, client, &place);
    match Box::pin(opening::open(&mut io, &place)).await {
        Ok(opened) => {
            let rest = Rest {
                opened,
                unnamed: None,
                moves: 0,
            };
            talk(io, rest, place).await;
        }
        Err(ending) => end(io, ending, &place).await,
    }
}

/// Goes on with a client that another worker has served.
pub(crate) async fn resume(moved: Box<Moved>, place: Place) {
    let Moved {
        stream,
        client,
        rest,
    } = *moved;
    if let Ok(socket) = Socket::resume(stream) {
        let io = Io::new(socket, client, &place);
        talk(io, *rest, place).await;
    }
}

async fn talk(mut io: Io, rest: Rest, place: Place) {
    let ending = Dialogue::new(rest, &place).run(&mut io).await;
    end(io, ending, &place).await;
}

async fn end(mut io: Io, ending: Ending, place: &Place) {
    if io.client.tells_end && !matches!(ending, Ending::Moves(..)) {
        let message = io.client.disconnected();
        emit(&io.client, &Entry::log(&message));
    }
    match ending {
        Ending::Gone => {}
        Ending::LastWords => {
            if io.send().await.is_ok() && place.worker.stage() == Stage::Running {
                // Whether the peer heard them is its own affair.
                let _ = timeout(LAST_WORDS, Box::pin(io.close())).await;
            }
        }
        Ending::Moves(lane, rest) => {
            let (socket, client) = io.into_parts();
            if let Some(stream) = socket.release() {
                let moved = Moved {
                    stream,
                    client,
                    rest,
                };
                place.worker.hand_over(lane, Box::new(moved));
            }
        }
    }
}

/// Writes the last words of a broken protocol.
fn broken(io: &mut Io, error: &ProtoError) -> Ending {
    report::fatal(io, error.sqlstate(), &error.to_string());
    Ending::LastWords
}

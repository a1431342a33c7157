//! One client connection, from its first packet to its end.
//!
//! ```text
//!   serve = opening::open (packets without type, log-in) then Dialogue::run (messages)
//! ```
//!
//! Invariants
//! - CONN-1: replies are collected. They are sent when the input has no complete message left, or
//!   when they exceed 64 KiB. Replies of finished requests are also sent while a later request
//!   waits.
//! - CONN-2: a message is handled completely before the next one is read.
//! - CONN-3: when the task ends for any reason, its session is dropped, which aborts its open
//!   transaction.

mod batch;
mod copy;
mod drive;
mod encoding;
mod extended;
mod lock_vigil;
mod logging;
mod opening;
mod report;
mod simple;
mod sink;
mod state_machine;
mod yielding;

use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use crate::engine::PreparedStatement;
use crate::io::Io;
use crate::log::{Client, Entry, emit};
use crate::proto::ProtoError;
use crate::socket::{AcceptedStream, Socket};
use crate::worker::{Stage, TaskEntry};
use opening::StartedSession;
use state_machine::ClientSession;

/// The longest wait until a client has received its final error.
const FINAL_ERROR_TIME: Duration = Duration::from_secs(1);

/// The reason why a connection ends, or leaves its worker.
pub(crate) enum CloseReason {
    /// The client has terminated, or is lost.
    ClientLost,
    /// The final error, in the output buffer, still has to be sent.
    FinalError,
    /// The connection moves to this worker.
    Moves(usize, Box<IdleSession>),
}

/// A session between two requests, with the state that it needs to continue, except its connection.
pub(crate) struct IdleSession {
    opened: StartedSession,
    unnamed: Option<Arc<PreparedStatement>>,
    moves: u32,
}

/// A client that moves from one worker to another.
pub(crate) struct MigratingClient {
    stream: TcpStream,
    client: Box<Client>,
    rest: Box<IdleSession>,
}

impl From<std::io::Error> for CloseReason {
    fn from(_: std::io::Error) -> Self {
        CloseReason::ClientLost
    }
}

/// Serves one client.
pub(crate) async fn serve(accepted: AcceptedStream, place: TaskEntry) {
    let Ok(peer) = accepted.peer() else { return };
    let Ok(socket) = Socket::adopt(accepted) else {
        return;
    };
    let client = Box::new(Client::new(peer));
    if place.worker.shared.logs_connections() {
        emit(
            &client,
            &Entry::log(&format!("connection received: {peer}", peer = client.peer)),
        );
    }
    let mut io = Io::new(socket, client, &place);
    match Box::pin(opening::open(&mut io, &place)).await {
        Ok(opened) => {
            let rest = IdleSession {
                opened,
                unnamed: None,
                moves: 0,
            };
            talk(io, rest, place).await;
        }
        Err(ending) => end(io, ending, &place).await,
    }
}

/// Continues to serve a client of another worker.
pub(crate) async fn resume(moved: Box<MigratingClient>, place: TaskEntry) {
    let MigratingClient {
        stream,
        client,
        rest,
    } = *moved;
    if let Ok(socket) = Socket::resume(stream) {
        let io = Io::new(socket, client, &place);
        talk(io, *rest, place).await;
    }
}

async fn talk(mut io: Io, rest: IdleSession, place: TaskEntry) {
    let ending = ClientSession::new(rest, &place).run(&mut io).await;
    end(io, ending, &place).await;
}

async fn end(mut io: Io, ending: CloseReason, place: &TaskEntry) {
    if io.client.tells_end && !matches!(ending, CloseReason::Moves(..)) {
        let message = io.client.disconnected();
        emit(&io.client, &Entry::log(&message));
    }
    match ending {
        CloseReason::ClientLost => {}
        CloseReason::FinalError => {
            if io.send().await.is_ok() && place.worker.stage() == Stage::Running {
                // A failed send or close of the final error does not matter.
                let _ = timeout(FINAL_ERROR_TIME, Box::pin(io.close())).await;
            }
        }
        CloseReason::Moves(lane, rest) => {
            let (socket, client) = io.into_parts();
            if let Some(stream) = socket.release() {
                let moved = MigratingClient {
                    stream,
                    client,
                    rest,
                };
                place.worker.move_to_worker(lane, Box::new(moved));
            }
        }
    }
}

/// Writes the final error after a protocol violation.
fn broken(io: &mut Io, error: &ProtoError) -> CloseReason {
    report::fatal(io, error.sqlstate(), &error.to_string());
    CloseReason::FinalError
}

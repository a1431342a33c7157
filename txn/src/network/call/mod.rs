//! Calls: a machine asks a peer to do something, and waits for what it answers.
//!
//! ```text
//! caller                                      the peer
//! call(peer, service, request) ─► line ═════► poller ─► handler of the service (serve)
//! future ◄─ poller ◄═════════════════ line ◄─ Answer::send, from any thread, when it is known
//! ```
//! Requests and answers are bytes of at most [`MESSAGE_BYTES_MAX`]; they go over rings of their own, in
//! parts (`message.rs`), so that a long one delays no commit. A future that is dropped is an answer that
//! nobody reads; the request is not taken back.
//!
//! # Failure
//! A line breaks when a write to the peer is lost, when the connection to it is, when the peer says that
//! its own has broken, and when either machine closes. Calls then end with [`CallError::Lost`], or
//! [`CallError::Unreachable`] where nothing of the request was written. A killed process of the same host is not
//! noticed so.

mod line;
mod message;

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use fencepost_fabric::ring::{self, RingReader};
use fencepost_fabric::{Completion, Event, Fabric, FabricError, MachineId};
use foldhash::HashMap;
use parking_lot::RwLock;

use super::{Network, Peer};
use crate::machine::Machine;
use crate::record::BadRecord;
use line::{CALL_WORDS, Queued};
pub(super) use line::{CALLS, Line};
pub use message::MESSAGE_BYTES_MAX;
use message::{Gathering, How, Incoming, Kind};

/// How long a machine that closes tries to write what its peers wait for.
const LAST_WORDS: Duration = Duration::from_millis(200);
const NAP: Duration = Duration::from_micros(200);

/// Why a call was not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The request did not reach the peer, nor will it.
    #[error("the machine cannot be reached")]
    Unreachable,
    /// The connection was lost; whether the peer did what it was asked is not known.
    #[error("the connection to the machine was lost")]
    Lost,
    /// The request is longer than a message may be; nothing was sent.
    #[error("a request to another machine is longer than {MESSAGE_BYTES_MAX} bytes")]
    TooLong,
    /// The answer is.
    #[error("the answer of another machine is longer than {MESSAGE_BYTES_MAX} bytes")]
    AnswerTooLong,
    /// Nobody serves such requests there; nothing was done.
    #[error("the machine does not serve such requests")]
    NoService,
    /// Whoever was to answer has ended without.
    #[error("the machine did not answer")]
    NotAnswered,
}

/// How a call ends.
type Ended = Result<Vec<u8>, CallError>;

/// What a service does with a request. It runs on the thread of whoever polls, so it only hands the
/// work on.
pub type Handler = Arc<dyn Fn(MachineId, Vec<u8>, Answer) + Send + Sync>;

/// The handlers of a machine.
pub(super) type Services = RwLock<HashMap<u8, Handler>>;

/// The answer that a request waits for. Dropped unsent it ends the call with
/// [`CallError::NotAnswered`].
pub struct Answer {
    line: Weak<Line>,
    ticket: u64,
    sent: bool,
}

impl Answer {
    /// Answers.
    pub fn send(mut self, answer: &[u8]) {
        match answer.len() > MESSAGE_BYTES_MAX {
            true => self.end(How::TooLong, &[]),
            false => self.end(How::Answered, answer),
        }
    }

    fn end(&mut self, how: How, answer: &[u8]) {
        self.sent = true;
        if let Some(line) = self.line.upgrade() {
            line.answer(self.ticket, how, answer);
        }
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        if !self.sent {
            self.end(How::Dropped, &[]);
        }
    }
}

/// A call under way.
#[must_use = "the request of a call that is dropped may never be sent"]
pub struct Call(Stage);

enum Stage {
    /// There is no room for the request yet.
    Waiting(Arc<Line>, u8, Vec<u8>),
    /// Sent, with its ticket.
    Sent(Arc<Line>, u64, Completion<Ended>),
    /// Over, with the answer until that is taken.
    Over(Option<CallError>),
}

impl Future for Call {
    type Output = Ended;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Ended> {
        loop {
            let next = match &mut self.0 {
                Stage::Over(error) => match error.take() {
                    Some(error) => return Poll::Ready(Err(error)),
                    None => return Poll::Pending,
                },
                Stage::Waiting(line, service, request) => {
                    match line.request(*service, request, Some(cx.waker())) {
                        Queued::Yes(ticket, ended) => Stage::Sent(Arc::clone(line), ticket, ended),
                        Queued::Later => return Poll::Pending,
                        Queued::Never => Stage::Over(Some(CallError::Unreachable)),
                    }
                }
                Stage::Sent(_, _, ended) => {
                    let Poll::Ready(ended) = Pin::new(ended).poll(cx) else {
                        return Poll::Pending;
                    };
                    self.0 = Stage::Over(None);
                    return Poll::Ready(ended.unwrap_or(Err(CallError::Lost)));
                }
            };
            self.0 = next;
        }
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        if let Stage::Sent(line, ticket, _) = &self.0 {
            line.forget(*ticket);
        }
    }
}

impl Machine {
    /// Asks `peer` for what `service` answers to `request`. The request goes out at once where there is
    /// room for it, else when the future is polled. A machine does not call itself.
    pub fn call(&self, peer: MachineId, service: u8, request: &[u8]) -> Call {
        if request.len() > MESSAGE_BYTES_MAX {
            return Call(Stage::Over(Some(CallError::TooLong)));
        }
        let peer = self.network().and_then(|network| network.peer(peer));
        let Some(Peer { line, .. }) = peer else {
            return Call(Stage::Over(Some(CallError::Unreachable)));
        };
        let line = Arc::clone(line);
        Call(match line.request(service, request, None) {
            Queued::Yes(ticket, ended) => Stage::Sent(line, ticket, ended),
            Queued::Later => Stage::Waiting(line, service, request.to_vec()),
            Queued::Never => Stage::Over(Some(CallError::Unreachable)),
        })
    }

    /// From now on `handler` gets the requests of peers for `service`. Nothing happens where a machine
    /// is alone.
    pub fn serve(&self, service: u8, handler: Handler) {
        if let Some(network) = self.network() {
            network.services.write().insert(service, handler);
        }
    }
}

/// What this machine receives of one peer's calls.
pub(super) struct Arriving {
    ring: RingReader,
    gathering: Gathering,
}

impl Arriving {
    pub fn new(fabric: &Arc<dyn Fabric>, peer: MachineId) -> Result<Arriving, FabricError> {
        Ok(Arriving {
            ring: ring::receive(fabric, peer, CALLS, CALL_WORDS)?,
            gathering: Gathering::default(),
        })
    }

    /// Whether no message is in the making.
    pub fn is_at_rest(&self) -> bool {
        self.gathering.is_empty()
    }

    /// Takes at most `most` records, and writes on what waits for room; whether anything had come.
    pub fn poll(
        &mut self,
        network: &Network,
        record: &mut Vec<u64>,
        most: usize,
    ) -> Result<bool, BadRecord> {
        let from = self.ring.from();
        let Some(peer) = network.peer(from) else {
            return Ok(false);
        };
        let mut any = false;
        for _ in 0..most {
            let next = self.ring.next(record);
            let torn = |_| BadRecord("a ring holds no record");
            let Some((tag, kept)) = next.map_err(torn)? else {
                break;
            };
            any = true;
            let whole = self.gathering.record(tag, record);
            self.ring.release(kept);
            if let Some(whole) = whole? {
                network.arrived(peer, whole)?;
            }
        }
        peer.line.pump();
        Ok(any)
    }
}

impl Network {
    fn arrived(&self, peer: &Peer, incoming: Incoming) -> Result<(), BadRecord> {
        let Incoming {
            ticket,
            kind,
            message,
        } = incoming;
        let service = match kind {
            Kind::Request(service) => service,
            Kind::Answer(how) => {
                let ended = match how {
                    How::Answered => Ok(message),
                    How::NoService => Err(CallError::NoService),
                    How::Dropped => Err(CallError::NotAnswered),
                    How::TooLong => Err(CallError::AnswerTooLong),
                };
                peer.line.answered(ticket, ended);
                return Ok(());
            }
        };
        if !peer.line.asked() {
            return Err(BadRecord("more calls than a machine may make"));
        }
        let handler = self.services.read().get(&service).map(Arc::clone);
        match handler {
            None => peer.line.answer(ticket, How::NoService, &[]),
            Some(handler) => {
                let answer = Answer {
                    line: Arc::downgrade(&peer.line),
                    ticket,
                    sent: false,
                };
                handler(peer.id, message, answer);
            }
        }
        Ok(())
    }

    /// Breaks the lines to peers that cannot be reached, and says so.
    pub(super) fn look_after_lines(&self) {
        for event in self.fabric.take_events() {
            if let Event::Lost(peer) = event
                && let Some(peer) = self.peer(peer)
                // Before both are there, connections come and go.
                && peer.link.was_up()
            {
                peer.line.break_off();
                self.severed(peer);
            }
        }
        for peer in &self.peers {
            peer.line.pump();
            if peer.link.was_up() && !peer.line.is_broken() && self.has_given_up(peer) {
                peer.line.break_off();
            }
            if peer.line.is_broken() {
                self.say_given_up(peer.id);
            }
        }
    }

    /// The machine closes: what peers wait for goes out if that is soon, then all lines break.
    pub(super) fn hang_up(&self) {
        let deadline = Instant::now() + LAST_WORDS;
        for peer in &self.peers {
            while peer.line.pump() && Instant::now() < deadline {
                std::thread::sleep(NAP);
            }
            peer.line.break_off();
            self.say_given_up(peer.id);
        }
        self.services.write().clear();
    }
}

//! Calls: a machine sends a request to a peer, and waits for the answer.
//!
//! ```text
//! caller                                      the peer
//! call(peer, service, request) ─► channel ══► poller ─► handler of the service (serve)
//! future ◄─ poller ◄══════════════ channel ◄─ Answer::send, from any thread, when it is known
//! ```
//! Requests and answers are bytes of at most [`MESSAGE_BYTES_MAX`]. They go over rings of their
//! own, in parts (`message.rs`), so that a long message delays no commit. If the future is dropped,
//! the answer is ignored; the request is not cancelled.
//!
//! # Failure
//! The channel to a peer breaks if a write or the connection to the peer is lost, or if either
//! machine closes. It also breaks if the peer reports that its own channel has broken. Calls then
//! end with [`CallError::Lost`], or with [`CallError::Unreachable`] if no part of the request was
//! written. The death of a process on the same host is not noticed this way.

mod channel;
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
use channel::{CALL_WORDS, QueueOutcome};
pub(super) use channel::{CALLS, CallChannel};
pub use message::MESSAGE_BYTES_MAX;
use message::{AnswerStatus, Incoming, Kind, MessageAssembler};

/// How long a closing machine tries to write the pending messages.
const LAST_WORDS: Duration = Duration::from_millis(200);
const BACKOFF: Duration = Duration::from_micros(200);

/// The reason why a call was not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The request did not reach the peer, and will not.
    #[error("the machine cannot be reached")]
    Unreachable,
    /// The connection was lost; the peer may have carried out the request or not.
    #[error("the connection to the machine was lost")]
    Lost,
    /// The request is longer than a message may be; nothing was sent.
    #[error("a request to another machine is longer than {MESSAGE_BYTES_MAX} bytes")]
    TooLong,
    /// The answer is longer than a message may be.
    #[error("the answer of another machine is longer than {MESSAGE_BYTES_MAX} bytes")]
    AnswerTooLong,
    /// The peer has no such service; nothing was done.
    #[error("the machine does not serve such requests")]
    NoService,
    /// The handler has ended without an answer.
    #[error("the machine did not answer")]
    NotAnswered,
}

/// The result of a call.
type CallResult = Result<Vec<u8>, CallError>;

/// The handler of a service. It runs on the polling thread, so it must only hand the work on.
pub type Handler = Arc<dyn Fn(MachineId, Vec<u8>, Answer) + Send + Sync>;

/// The handlers of a machine.
pub(super) type Services = RwLock<HashMap<u8, Handler>>;

/// The handle for answering a request. Dropping it without an answer ends the call with
/// [`CallError::NotAnswered`].
pub struct Answer {
    channel: Weak<CallChannel>,
    ticket: u64,
    sent: bool,
}

impl Answer {
    /// Sends the answer, from any thread, without waiting. An answer longer than
    /// [`MESSAGE_BYTES_MAX`] ends the call with [`CallError::AnswerTooLong`] instead.
    pub fn send(mut self, answer: &[u8]) {
        match answer.len() > MESSAGE_BYTES_MAX {
            true => self.end(AnswerStatus::TooLong, &[]),
            false => self.end(AnswerStatus::Answered, answer),
        }
    }

    fn end(&mut self, how: AnswerStatus, answer: &[u8]) {
        self.sent = true;
        if let Some(channel) = self.channel.upgrade() {
            channel.answer(self.ticket, how, answer);
        }
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        if !self.sent {
            self.end(AnswerStatus::Dropped, &[]);
        }
    }
}

/// A call in progress.
#[must_use = "the request of a call that is dropped may never be sent"]
pub struct Call(Stage);

enum Stage {
    /// The channel has no space for the request yet.
    Waiting(Arc<CallChannel>, u8, Vec<u8>),
    /// The request is sent under this ticket.
    Sent(Arc<CallChannel>, u64, Completion<CallResult>),
    /// The call is over; contains an error that was not returned yet.
    Over(Option<CallError>),
}

impl Future for Call {
    type Output = CallResult;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<CallResult> {
        loop {
            let next = match &mut self.0 {
                Stage::Over(error) => match error.take() {
                    Some(error) => return Poll::Ready(Err(error)),
                    None => return Poll::Pending,
                },
                Stage::Waiting(channel, service, request) => {
                    match channel.request(*service, request, Some(cx.waker())) {
                        QueueOutcome::Yes(ticket, ended) => {
                            Stage::Sent(Arc::clone(channel), ticket, ended)
                        }
                        QueueOutcome::Later => return Poll::Pending,
                        QueueOutcome::Never => Stage::Over(Some(CallError::Unreachable)),
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
        if let Stage::Sent(channel, ticket, _) = &self.0 {
            channel.forget(*ticket);
        }
    }
}

impl Machine {
    /// Sends `request` for `service` to `peer`. The request goes out at once if there is space for
    /// it, otherwise when the future is polled. A machine does not call itself.
    ///
    /// # Errors
    /// Of the future: nothing was done for [`CallError::Unreachable`], which is also the answer for
    /// a machine that is no peer, [`CallError::TooLong`] and [`CallError::NoService`]. The peer may
    /// have carried out the request for [`CallError::Lost`], [`CallError::AnswerTooLong`] and
    /// [`CallError::NotAnswered`].
    pub fn call(&self, peer: MachineId, service: u8, request: &[u8]) -> Call {
        if request.len() > MESSAGE_BYTES_MAX {
            return Call(Stage::Over(Some(CallError::TooLong)));
        }
        let peer = self.network().and_then(|network| network.peer(peer));
        let Some(Peer { channel, .. }) = peer else {
            return Call(Stage::Over(Some(CallError::Unreachable)));
        };
        let channel = Arc::clone(channel);
        Call(match channel.request(service, request, None) {
            QueueOutcome::Yes(ticket, ended) => Stage::Sent(channel, ticket, ended),
            QueueOutcome::Later => Stage::Waiting(channel, service, request.to_vec()),
            QueueOutcome::Never => Stage::Over(Some(CallError::Unreachable)),
        })
    }

    /// Registers `handler` for the requests of peers for `service`, in place of an earlier one.
    /// Does nothing on a machine that is alone.
    pub fn serve(&self, service: u8, handler: Handler) {
        if let Some(network) = self.network() {
            network.services.write().insert(service, handler);
        }
    }
}

/// The receiver of one peer's calls.
pub(super) struct CallReceiver {
    ring: RingReader,
    gathering: MessageAssembler,
}

impl CallReceiver {
    pub fn new(fabric: &Arc<dyn Fabric>, peer: MachineId) -> Result<CallReceiver, FabricError> {
        Ok(CallReceiver {
            ring: ring::receive(fabric, peer, CALLS, CALL_WORDS)?,
            gathering: MessageAssembler::default(),
        })
    }

    /// Returns whether no message is received in part.
    pub fn is_at_rest(&self) -> bool {
        self.gathering.is_empty()
    }

    /// Processes at most `most` records, and writes pending messages. Returns whether any record
    /// had arrived.
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
            let Some((tag, held_record)) = next.map_err(torn)? else {
                break;
            };
            any = true;
            let whole = self.gathering.record(tag, record);
            self.ring.release(held_record);
            if let Some(whole) = whole? {
                network.arrived(peer, whole)?;
            }
        }
        peer.channel.pump();
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
                    AnswerStatus::Answered => Ok(message),
                    AnswerStatus::NoService => Err(CallError::NoService),
                    AnswerStatus::Dropped => Err(CallError::NotAnswered),
                    AnswerStatus::TooLong => Err(CallError::AnswerTooLong),
                };
                peer.channel.answered(ticket, ended);
                return Ok(());
            }
        };
        if !peer.channel.asked() {
            return Err(BadRecord("more calls than a machine may make"));
        }
        let handler = self.services.read().get(&service).map(Arc::clone);
        match handler {
            None => peer.channel.answer(ticket, AnswerStatus::NoService, &[]),
            Some(handler) => {
                let answer = Answer {
                    channel: Arc::downgrade(&peer.channel),
                    ticket,
                    sent: false,
                };
                handler(peer.id, message, answer);
            }
        }
        Ok(())
    }

    /// Breaks the channels to unreachable peers, and publishes that.
    pub(super) fn look_after_lines(&self) {
        for event in self.fabric.take_events() {
            if let Event::Lost(peer) = event
                && let Some(peer) = self.peer(peer)
                // While the machines start, connections come and go.
                && peer.sender.was_up()
            {
                peer.channel.break_off();
                self.severed(peer);
            }
        }
        for peer in &self.peers {
            peer.channel.pump();
            if peer.sender.was_up() && !peer.channel.is_broken() && self.has_given_up(peer) {
                peer.channel.break_off();
            }
            if peer.channel.is_broken() {
                self.say_given_up(peer.id);
            }
        }
    }

    /// Closes all channels, after a short time for the pending messages.
    pub(super) fn hang_up(&self) {
        let deadline = Instant::now() + LAST_WORDS;
        for peer in &self.peers {
            while peer.channel.pump() && Instant::now() < deadline {
                std::thread::sleep(BACKOFF);
            }
            peer.channel.break_off();
            self.say_given_up(peer.id);
        }
        self.services.write().clear();
    }
}

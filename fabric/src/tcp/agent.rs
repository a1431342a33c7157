//! The handler of one peer's requests: it applies them to this machine's memory, as a network card
//! with one-sided operations does.
//!
//! ```text
//! request ─► memory of this machine ─► replies, in the order of requests
//!       bell ─► rung once, after all received requests have been applied
//! ```
//! # Failure
//! A malformed request ends its connection. So do requests whose replies exceed the amount that a
//! peer within [`super::connection`]'s limits can ask for.

use std::io;
use std::sync::Arc;

use super::connection::{REPLY_BYTES_MAX, WAITING};
use super::frame::{self, Request, Target};
use super::one_sided_agent::OneSidedAgent;
use crate::direct;
use crate::fabric::FabricError;
use crate::machine::MachineId;
use crate::memory::Memory;
use crate::registry::Registry;

/// The largest number of bytes of replies to one peer: twice the amount that the peer may ask for
/// before it waits. The peer may exceed that limit by one operation while its attendant works
/// (AGENT-3).
const REPLIES_MAX: usize = BEYOND * (2 * REPLY_BYTES_MAX + WAITING * frame::SHORT_REPLY_BYTES);
const BEYOND: usize = 2;
/// The size to which an idle agent shrinks its buffer.
const RETAINED_WORDS: usize = 32 << 10;

/// The handler of one peer's requests.
#[derive(Debug)]
pub(super) struct Agent {
    registry: Arc<Registry>,
    lane_agent: Arc<OneSidedAgent>,
    from: MachineId,
    /// The replies that have not been taken yet.
    replies: Vec<u8>,
    /// Whether there are replies other than acknowledgements of writes.
    answers: bool,
    /// The writes that were applied and have no reply yet.
    done: u32,
    rung: bool,
    words: Vec<u64>,
}

impl Agent {
    /// Returns a handler that applies the requests of `from` to the memory in `registry`, and
    /// passes bells to `one_sided_agent`.
    pub(super) fn new(
        registry: &Arc<Registry>,
        card: &Arc<OneSidedAgent>,
        from: MachineId,
    ) -> Self {
        Agent {
            registry: Arc::clone(registry),
            lane_agent: Arc::clone(card),
            from,
            replies: Vec::new(),
            answers: false,
            done: 0,
            rung: false,
            words: Vec::new(),
        }
    }

    /// Returns whether replies wait to be taken.
    pub(super) fn has_replies(&self) -> bool {
        !self.replies.is_empty()
    }

    /// Returns whether the replies may wait for operations that the attendant is about to post: all
    /// of them are acknowledgements.
    pub(super) fn may_wait(&self) -> bool {
        !self.answers && self.lane_agent.is_to_attend()
    }

    /// Moves the replies to the empty `batch`.
    pub(super) fn take_replies(&mut self, batch: &mut Vec<u8>) {
        std::mem::swap(batch, &mut self.replies);
        self.answers = false;
    }

    /// Finishes a batch of requests after all received ones have been applied.
    ///
    /// # Errors
    /// If the peer asks for more than the limits permit.
    pub(super) fn arrived(&mut self) -> io::Result<()> {
        frame::put_done(&mut self.replies, &mut self.done);
        self.words.shrink_to(RETAINED_WORDS);
        if std::mem::take(&mut self.rung) {
            self.lane_agent.call();
        }
        if self.replies.len() > REPLIES_MAX {
            let why = "more replies than may be asked for";
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        }
        Ok(())
    }

    /// Applies a request.
    pub(super) fn apply(&mut self, request: Request<'_>) {
        let memory = |target: Target, to_write| -> Result<Arc<Memory>, FabricError> {
            self.registry.memory(target.segment, self.from, to_write)
        };
        let refused = match request {
            Request::Write(target, words) => {
                self.words.clear();
                self.words.extend(words.iter());
                let written = memory(target, true).and_then(|memory| {
                    direct::now(direct::write(&memory, target.word, &self.words))
                });
                written.map(|()| self.done += 1)
            }
            Request::Read(target, words) => memory(target, false)
                .and_then(|memory| direct::now(direct::read(&memory, target.word, words)))
                .map(|words| {
                    self.answers = true;
                    frame::put_done(&mut self.replies, &mut self.done);
                    frame::put_words(&mut self.replies, &words);
                }),
            Request::Swap(target, expected, new) => memory(target, true)
                .and_then(|memory| direct::now(direct::cas(&memory, target.word, expected, new)))
                .map(|was| {
                    self.answers = true;
                    frame::put_done(&mut self.replies, &mut self.done);
                    frame::put_was(&mut self.replies, was);
                }),
            // A bell has no reply, and is rung after all requests that arrived with it.
            Request::Bell => {
                self.rung = true;
                Ok(())
            }
        };
        if let Err(error) = refused {
            self.answers = true;
            frame::put_done(&mut self.replies, &mut self.done);
            frame::put_refused(&mut self.replies, &error);
        }
    }
}

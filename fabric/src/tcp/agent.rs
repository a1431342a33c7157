//! The agent: plays the network card for the peer of a connection, whose requests it applies.
//!
//! ```text
//! request ─► memory of this machine ─► replies, in the order of requests
//!       bell ─► rung once, when all that has arrived is applied
//! ```
//! # Failure
//! A malformed request ends its connection, and so do requests whose replies come to more than a peer that
//! keeps to [`super::connection`]'s limits asks for.

use std::io;
use std::sync::Arc;

use super::card::Card;
use super::connection::{REPLY_BYTES_MAX, WAITING};
use super::frame::{self, Request, Target};
use crate::direct;
use crate::fabric::FabricError;
use crate::machine::MachineId;
use crate::memory::Memory;
use crate::registry::Registry;

/// Bytes of replies that a peer has coming to it at most: as often what it may ask for before it waits, and one
/// operation more, as it may go beyond that while its attendant works (CARD-3).
const REPLIES_MAX: usize = BEYOND * (2 * REPLY_BYTES_MAX + WAITING * frame::SHORT_REPLY_BYTES);
const BEYOND: usize = 2;
/// What an idle agent keeps of its buffer.
const KEPT_WORDS: usize = 32 << 10;

/// What applies the requests of one peer.
#[derive(Debug)]
pub(super) struct Agent {
    registry: Arc<Registry>,
    card: Arc<Card>,
    from: MachineId,
    /// Replies that wait to be taken.
    replies: Vec<u8>,
    /// Whether there are others than acks among them.
    answers: bool,
    /// Writes that were applied and are not in the replies yet.
    done: u32,
    rung: bool,
    words: Vec<u64>,
}

impl Agent {
    /// Applies what `from` asks for to the memory in `registry`; its bells call for what `card` calls.
    pub(super) fn new(registry: &Arc<Registry>, card: &Arc<Card>, from: MachineId) -> Self {
        Agent {
            registry: Arc::clone(registry),
            card: Arc::clone(card),
            from,
            replies: Vec::new(),
            answers: false,
            done: 0,
            rung: false,
            words: Vec::new(),
        }
    }

    /// Whether replies wait to be taken.
    pub(super) fn has_replies(&self) -> bool {
        !self.replies.is_empty()
    }

    /// Whether they may wait for what the attendant is about to post: nobody has asked for anything but acks.
    pub(super) fn may_wait(&self) -> bool {
        !self.answers && self.card.is_to_attend()
    }

    /// Puts the replies into `batch`, which is empty.
    pub(super) fn take_replies(&mut self, batch: &mut Vec<u8>) {
        std::mem::swap(batch, &mut self.replies);
        self.answers = false;
    }

    /// All that has arrived is applied.
    ///
    /// # Errors
    /// Where the peer asks for more than it may.
    pub(super) fn arrived(&mut self) -> io::Result<()> {
        frame::put_done(&mut self.replies, &mut self.done);
        self.words.shrink_to(KEPT_WORDS);
        if std::mem::take(&mut self.rung) {
            self.card.call();
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
            // It has no reply, and is rung after all that has come with it.
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

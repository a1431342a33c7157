//! The sending side of a coordinator machine to one participant: its log and its message queue
//! there.
//!
//! # Invariants
//! * LINK-1: space for every record of a commit, including its TRUNCATE, is reserved before the
//!   first is written (SOSP'15 §4). So no commit gets stuck for want of log space.
//! * LINK-2: a transaction is truncated after all primaries have acknowledged its COMMIT-PRIMARY.
//!   Its id goes out with the next record, in the same one-sided write, or on its own when nothing
//!   follows.
//! * LINK-3: a write that is lost with a connection leaves a hole. The reader never sees records
//!   behind a hole, though the memory acknowledges them. So no ack counts on a sender that is not
//!   whole.

mod readiness;
mod truncation;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use fencepost_cluster::ConfigurationId;
use fencepost_fabric::ring;
use fencepost_fabric::{Completer, Completion, Fabric, FabricError};
use fencepost_fabric::{MachineId, RingFull, RingWriter};
use parking_lot::Mutex;

use super::disk;
use super::traffic::{PostKind, TrafficCounters};
use super::truncated::Numbers;
use crate::record::{self, TxnId};

/// Lane of the logs.
pub(super) const LOG: u16 = 0;
/// Lane of the message queues.
pub(super) const MESSAGES: u16 = 1;
/// Words of a message queue.
pub(super) const MESSAGE_WORDS: usize = 1 << 14;

/// The sender to one peer.
pub(crate) struct PeerSender {
    fabric: Arc<dyn Fabric>,
    counting: Arc<TrafficCounters>,
    peer: MachineId,
    log: Mutex<LogEnd>,
    messages: Mutex<MessageEnd>,
    /// Whether the peer is known to have its receiving ends. Before that nothing is sent: staged
    /// log records wait, and messages are owed.
    ready: Arc<AtomicBool>,
    /// Reads of the peer's ends that [`Self::probe`] has begun.
    probing: Mutex<Vec<Completion<Box<[u64]>>>>,
    broken: AtomicBool,
    durable: Mutex<DurablePosition>,
    /// The peer has reported that its disk is full.
    full: AtomicBool,
    /// How many connections to the peer were lost, and how many before the first write to it
    /// (LINK-3).
    losses: Arc<AtomicU64>,
    losses_before: AtomicU64,
}

/// The position of the log up to which the peer's disk has it, as the peer reports, and the waiters
/// for more.
#[derive(Default)]
struct DurablePosition {
    upto: u64,
    /// No more of the log will become durable.
    ended: bool,
    /// Ordered by position.
    waiting: VecDeque<(u64, Completer<()>)>,
}

struct MessageEnd {
    ring: RingWriter,
    /// Messages that must arrive and found no space: tag and words.
    owed: VecDeque<(u8, Vec<u64>)>,
}

struct LogEnd {
    ring: RingWriter,
    /// The end of the last record that a commit may wait for until it is on the peer's disk.
    prepared: u64,
    /// Transactions that the peer may forget, with their numbers.
    truncated: Vec<(u64, TxnId)>,
    /// The ends of the TRUNCATE records that the peer has not released, and the first number of
    /// each.
    posted: VecDeque<(u64, u64)>,
    /// The source of the low bound in TRUNCATE records.
    numbers: Arc<Numbers>,
    /// The number behind the last truncation that the peer remembers, if it was not yet told to
    /// forget.
    remembered: Option<u64>,
    /// The number of postponed TRUNCATEs with only the low bound ([`PeerSender::tell_low`]).
    spared: u32,
}

impl PeerSender {
    pub(super) fn new(
        fabric: &Arc<dyn Fabric>,
        counting: &Arc<TrafficCounters>,
        peer: MachineId,
        log_words: usize,
        numbers: &Arc<Numbers>,
    ) -> Result<PeerSender, FabricError> {
        Ok(PeerSender {
            fabric: Arc::clone(fabric),
            counting: Arc::clone(counting),
            peer,
            log: Mutex::new(LogEnd {
                ring: marked(ring::send(fabric, peer, LOG, log_words)?),
                prepared: 0,
                truncated: Vec::new(),
                posted: VecDeque::new(),
                numbers: Arc::clone(numbers),
                remembered: None,
                spared: 0,
            }),
            messages: Mutex::new(MessageEnd {
                ring: ring::send(fabric, peer, MESSAGES, MESSAGE_WORDS)?,
                owed: VecDeque::new(),
            }),
            ready: Arc::default(),
            probing: Mutex::default(),
            broken: AtomicBool::new(false),
            durable: Mutex::default(),
            full: AtomicBool::new(false),
            losses: fabric.losses(peer),
            losses_before: AtomicU64::new(0),
        })
    }

    /// Begins the next configuration: drops reservations and truncations of earlier ones, and
    /// writes a mark where they end (SOSP'15 §5.3 step 2).
    pub fn begin_configuration(&self, id: ConfigurationId) {
        let mut log = self.log.lock();
        log.truncated.clear();
        log.ring.renounce();
        // This space was reserved from the beginning.
        log.ring.push_reserved(record::CONFIGURATION, &[&[id.0]]);
        if self.is_ready() {
            drop(log.ring.flush());
        }
        log.mark();
    }

    /// Reserves space for records of these sizes, all or none. Size 0 needs none.
    pub fn reserve(&self, sizes: &[usize]) -> Result<(), RingFull> {
        if !self.is_ready() {
            return Err(RingFull);
        }
        let mut log = self.log.lock();
        for (at, words) in sizes.iter().enumerate() {
            if *words == 0 {
                continue;
            }
            if let Err(full) = log.ring.reserve(*words) {
                let promised = sizes[..at].iter().filter(|words| **words > 0);
                promised.for_each(|words| log.ring.give_back(*words));
                // Truncations make space at the peer.
                self.flush(&mut log);
                return Err(full);
            }
        }
        Ok(())
    }

    /// Takes a reservation back.
    pub fn give_back(&self, words: usize) {
        self.log.lock().ring.give_back(words);
    }

    /// Writes a record for which at least its size was reserved, and takes the reservations in
    /// `promised` back; an entry of 0 words is none. Returns the ack.
    pub fn append(&self, tag: u8, body: &[u64], promised: &[usize]) -> Completion<()> {
        let mut log = self.log.lock();
        log.stage_truncated();
        let promised = promised.iter().filter(|words| **words > 0);
        promised.for_each(|words| log.ring.give_back(*words));
        if log.ring.push(tag, &[body]).is_err() {
            // Happens only if the peer has withdrawn space that it had granted.
            self.give_up();
            return Completion::done(Err(FabricError::Lost));
        }
        log.note(tag);
        self.counting.count(PostKind::of_record(tag));
        log.ring.flush()
    }

    /// Completes when the peer's disk has every log record that a commit may wait for.
    pub fn durable(&self) -> Completion<()> {
        let position = self.log.lock().prepared;
        let mut durable = self.durable.lock();
        if durable.ended {
            return Completion::done(Err(FabricError::Lost));
        }
        if durable.upto >= position {
            return Completion::done(Ok(()));
        }
        let (completer, waiting) = Completion::pending();
        let at = durable
            .waiting
            .partition_point(|(other, _)| *other <= position);
        durable.waiting.insert(at, (position, completer));
        waiting
    }

    /// Returns whether nothing more of the log becomes durable at the peer.
    pub fn cannot_keep(&self) -> bool {
        self.durable.lock().ended
    }

    /// Returns whether the peer has reported that its disk is full.
    pub fn is_full(&self) -> bool {
        self.full.load(Ordering::Acquire)
    }

    /// Records whether the peer's disk is full.
    pub fn set_full(&self, full: bool) {
        self.full.store(full, Ordering::Release);
    }

    /// Records that the peer's disk has the log up to a position; [`disk::NEVER`] means that no
    /// more will become durable.
    pub fn is_durable(&self, upto: u64) {
        let mut durable = self.durable.lock();
        match upto {
            disk::NEVER => durable.ended = true,
            upto => durable.upto = durable.upto.max(upto),
        }
        let count = durable
            .waiting
            .partition_point(|(position, _)| *position <= upto);
        let there: Vec<_> = durable.waiting.drain(..count).collect();
        drop(durable);
        for (_, waiting) in there {
            waiting.complete(match upto {
                disk::NEVER => Err(FabricError::Lost),
                _ => Ok(()),
            });
        }
    }

    /// Writes a record for which no space was reserved.
    ///
    /// # Errors
    /// [`RingFull`]; nothing is written.
    pub fn append_unpromised(&self, tag: u8, body: &[u64]) -> Result<Completion<()>, RingFull> {
        if !self.is_ready() {
            return Err(RingFull);
        }
        let mut log = self.log.lock();
        log.stage_truncated();
        let pushed = log.ring.push(tag, &[body]);
        // Truncations make space at the peer.
        if pushed.is_ok() {
            log.note(tag);
        }
        let done = log.ring.flush();
        pushed.map(|()| {
            self.counting.count(PostKind::of_record(tag));
            done
        })
    }

    /// Returns whether nothing is left to write: no truncation, no message, and no reservation of
    /// space.
    pub fn is_at_rest(&self) -> bool {
        let (log, messages) = (self.log.lock(), self.messages.lock());
        log.truncated.is_empty() && !log.is_promised() && messages.owed.is_empty()
    }

    /// Sends a message.
    ///
    /// # Errors
    /// [`RingFull`]: the peer does not read its messages, or has no end yet.
    pub fn send(&self, tag: u8, body: &[u64]) -> Result<(), RingFull> {
        if !self.is_ready() {
            return Err(RingFull);
        }
        let mut messages = self.messages.lock();
        messages.ring.push(tag, &[body])?;
        drop(messages.ring.flush());
        self.counting.count(PostKind::of_message(tag));
        Ok(())
    }

    /// Sends a message that must arrive, later if there is no space now.
    pub fn send_surely(&self, tag: u8, body: &[u64]) {
        self.counting.count(PostKind::of_message(tag));
        let mut messages = self.messages.lock();
        messages.owed.push_back((tag, body.to_vec()));
        if self.is_ready() {
            messages.pay();
        }
    }

    /// Sends the messages that found no space before.
    pub fn pay(&self) {
        if self.is_ready() {
            self.messages.lock().pay();
        }
    }
}

impl MessageEnd {
    fn pay(&mut self) {
        while let Some((tag, body)) = self.owed.front() {
            if self.ring.push(*tag, &[body]).is_err() {
                break;
            }
            self.owed.pop_front();
        }
        drop(self.ring.flush());
    }
}

/// Words of a transaction in a TRUNCATE: its number and id.
const TRUNCATED_WORDS: usize = 1 + TxnId::WORDS;
/// Words of the TRUNCATE that is reserved for every transaction, with the low bound.
pub(super) const TRUNCATE_WORDS: usize = 1 + TRUNCATED_WORDS;

/// Words of the mark of a configuration.
const MARK_WORDS: usize = 1;

/// Reserves space in a new log for the mark of the next configuration.
fn marked(mut ring: RingWriter) -> RingWriter {
    // An empty ring has the space.
    let _ = ring.reserve(MARK_WORDS);
    ring
}

impl LogEnd {
    /// Notes that a record of this kind has been written.
    fn note(&mut self, tag: u8) {
        if record::is_evidence(tag) {
            self.prepared = self.ring.position();
        }
    }

    /// Reserves space for the mark of the next configuration.
    fn mark(&mut self) {
        let _ = self.ring.reserve(MARK_WORDS);
    }

    /// Returns whether more is reserved than the mark needs.
    fn is_promised(&self) -> bool {
        self.ring.promised() > ring::promise(MARK_WORDS)
    }
}

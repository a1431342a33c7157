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

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use fencepost_cluster::ConfigurationId;
use fencepost_fabric::ring;
use fencepost_fabric::{Completer, Completion, Fabric, FabricError};
use fencepost_fabric::{MachineId, RingFull, RingWriter};
use fencepost_fabric::{Place, SegmentId};
use parking_lot::Mutex;

use super::call::CALLS;
use super::disk;
use super::traffic::{PostKind, TrafficCounters};
use super::truncated::Numbers;
use crate::fault::{self, Fault};
use crate::record::{self, TxnId};

/// Lane of the logs.
pub(super) const LOG: u16 = 0;
/// Lane of the message queues.
pub(super) const MESSAGES: u16 = 1;
/// All rings to a peer.
const LANES: [u16; 3] = [LOG, MESSAGES, CALLS];
/// Words of a message queue.
pub(super) const MESSAGE_WORDS: usize = 1 << 14;
/// Ids of one TRUNCATE record.
const TRUNCATED_AT_ONCE: usize = 64;

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

    /// Returns whether the peer can be written to. Waits for its receiving ends if necessary.
    pub async fn is_up(&self) -> bool {
        if !self.ready.load(Ordering::Acquire) {
            for lane in LANES {
                if self.look(lane).await.is_err() {
                    return false;
                }
            }
            self.begin();
        }
        !self.broken.load(Ordering::Relaxed)
    }

    /// Marks the peer as ready and sends everything that waited for that.
    fn begin(&self) {
        let mut log = self.log.lock();
        if !self.is_ready() {
            let losses = self.losses.load(Ordering::Acquire);
            self.losses_before.store(losses, Ordering::Release);
        }
        // Under the lock: a caller that stages a record later also flushes it.
        self.ready.store(true, Ordering::Release);
        drop(log.ring.flush());
        drop(log);
        self.pay();
    }

    /// Returns the flag that tells whether the peer has its receiving ends, for its channel of
    /// calls.
    pub(super) fn ready(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.ready)
    }

    fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Acquire)
    }

    /// Returns whether the peer is not ready yet and is to be probed.
    pub fn is_awaited(&self) -> bool {
        !self.is_ready() && !self.broken.load(Ordering::Relaxed)
    }

    /// Reads the peer's end of a ring.
    fn look(&self, lane: u16) -> Completion<Box<[u64]>> {
        let end = Place {
            machine: self.peer,
            segment: SegmentId::new(SegmentId::RING, lane, self.fabric.me().0),
            word: 0,
        };
        self.fabric.read(end, 1)
    }

    /// Does the same as [`Self::is_up`] without waiting: begins or continues to probe, and may
    /// return `true` later.
    pub fn probe(&self) -> bool {
        if !self.ready.load(Ordering::Acquire) {
            let mut probing = self.probing.lock();
            if probing.is_empty() {
                probing.extend(LANES.map(|lane| self.look(lane)));
            }
            while let Some(look) = probing.last_mut() {
                match look.take() {
                    None => return false,
                    Some(Ok(_)) => drop(probing.pop()),
                    Some(Err(_)) => {
                        probing.clear();
                        return false;
                    }
                }
            }
            drop(probing);
            self.begin();
        }
        self.was_up()
    }

    /// Returns whether no connection was lost since the first write to the peer (LINK-3). If so
    /// after an ack, the peer will see the record that it acknowledged.
    pub fn is_whole(&self) -> bool {
        let losses = self.losses.load(Ordering::Acquire);
        losses == self.losses_before.load(Ordering::Acquire)
            || fault::injected(Fault::TrustAcksBehindHoles)
    }

    /// Returns whether the peer was reachable at the last write.
    pub fn was_up(&self) -> bool {
        self.ready.load(Ordering::Acquire) && !self.broken.load(Ordering::Relaxed)
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

    /// Marks the peer as lost: no further write to it arrives.
    pub fn give_up(&self) {
        self.broken.store(true, Ordering::Relaxed);
    }

    /// SlotReservations space for records of these sizes, all or none. Size 0 needs none.
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

    /// Queues a transaction that the peer may forget. Numbers must come in order.
    pub fn truncate(&self, number: u64, id: TxnId) {
        self.log.lock().truncated.push((number, id));
    }

    /// Returns the first number of a transaction that the peer may not have truncated, or may not
    /// have truncated on its disk if `on_disk` (DISK-3).
    pub fn oldest_truncated(&self, on_disk: bool) -> Option<u64> {
        let mut log = self.log.lock();
        let released = match on_disk {
            true => self.durable.lock().upto,
            false => log.ring.released(),
        };
        while log
            .posted
            .pop_front_if(|(end, _)| *end <= released)
            .is_some()
        {}
        let posted = log.posted.front().map(|(_, number)| *number);
        posted.or_else(|| log.truncated.first().map(|(number, _)| *number))
    }

    /// Sends the low bound periodically if no TRUNCATE does. Truncations that a peer remembers keep
    /// its disk's log from being cut.
    pub fn tell_low(&self) {
        /// Calls between two such records.
        const SPARED: u32 = 512;
        let mut log = self.log.lock();
        let low = log.numbers.low();
        if log.remembered.is_none_or(|upto| upto > low) || !log.truncated.is_empty() {
            return;
        }
        log.spared += 1;
        // A full ring has traffic, which carries the bound.
        if log.spared > SPARED && log.ring.push(record::TRUNCATE, &[&[low]]).is_ok() {
            (log.spared, log.remembered) = (0, None);
            drop(log.ring.flush());
            self.counting.count(PostKind::Truncate);
        }
    }

    /// Writes the queued truncations, if no record has carried them.
    pub fn flush_truncated(&self) {
        self.flush(&mut self.log.lock());
    }

    fn flush(&self, log: &mut LogEnd) {
        if log.flush_truncated() {
            self.counting.count(PostKind::Truncate);
        }
    }

    /// Returns whether truncations are queued that no record has carried.
    pub fn has_truncated(&self) -> bool {
        !self.log.lock().truncated.is_empty()
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

/// SlotReservations space in a new log for the mark of the next configuration.
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

    /// SlotReservations space for the mark of the next configuration.
    fn mark(&mut self) {
        let _ = self.ring.reserve(MARK_WORDS);
    }

    /// Returns whether more is reserved than the mark needs.
    fn is_promised(&self) -> bool {
        self.ring.promised() > ring::promise(MARK_WORDS)
    }

    fn stage_truncated(&mut self) {
        while !self.truncated.is_empty() {
            let many = self.truncated.len().min(TRUNCATED_AT_ONCE);
            let mut words = Vec::with_capacity(1 + many * TRUNCATED_WORDS);
            words.push(self.numbers.low());
            let first = self.truncated[0].0;
            for (number, id) in self.truncated.drain(..many) {
                self.remembered = Some(number + 1);
                words.push(number);
                words.extend(id.words());
            }
            // Together they need no more space than was reserved for each.
            (0..many).for_each(|_| self.ring.give_back(TRUNCATE_WORDS));
            if self.ring.reserve(words.len()).is_err() {
                // Happens only if the peer has withdrawn space that it had granted. The sender
                // cannot recover from that.
                return;
            }
            self.ring.push_reserved(record::TRUNCATE, &[&words]);
            self.posted.push_back((self.ring.position(), first));
        }
    }

    /// Writes the queued truncations. Returns whether there were any.
    fn flush_truncated(&mut self) -> bool {
        let any = !self.truncated.is_empty();
        if any {
            self.stage_truncated();
            drop(self.ring.flush());
        }
        any
    }
}

#[cfg(test)]
mod tests {
    use fencepost_fabric::ring::RingReader;
    use fencepost_fabric::{Member, SimKnobs, SimNet, TapVerdict};

    use super::*;

    const A: MachineId = MachineId(1);
    const B: MachineId = MachineId(2);
    const WORDS: usize = 1 << 10;

    /// Reads the new records of the log and returns the first word of each ABORT.
    fn seen(log: &mut RingReader) -> Vec<u64> {
        let (mut seen, mut record) = (Vec::new(), Vec::new());
        while let Ok(Some((tag, held_record))) = log.next(&mut record) {
            if tag == record::ABORT {
                seen.push(record[0]);
            }
            log.release(held_record);
        }
        seen
    }

    #[test]
    fn acknowledgement_behind_gap_does_not_count() {
        let net = SimNet::new(1, SimKnobs::default());
        let members = [A, B].map(|id| Member {
            id,
            address: String::new(),
        });
        let [a, b] = [A, B].map(|id| {
            let fabric: Arc<dyn Fabric> = Arc::new(net.join(id).expect("new"));
            fabric.set_members(&members).expect("a member");
            fabric
        });
        let ends = LANES.map(|lane| ring::receive(&b, A, lane, WORDS).expect("memory"));
        let [mut log, ..] = ends;
        let run = || while net.step().is_some() {};
        run();
        let (counting, numbers) = (Arc::default(), Arc::default());
        let sender = PeerSender::new(&a, &counting, B, WORDS, &numbers).expect("memory");
        while !sender.probe() {
            net.step().expect("its answer comes");
        }
        let append = |number| {
            sender
                .append_unpromised(record::ABORT, &[number])
                .expect("room")
        };
        let mut before = append(1);
        run();
        assert_eq!((before.take(), seen(&mut log)), (Some(Ok(())), vec![1]));
        assert!(sender.is_whole());
        let breaks = Arc::new(AtomicBool::new(true));
        net.tap(Box::new(move |_, _, _| {
            match breaks.swap(false, Ordering::Relaxed) {
                true => TapVerdict::Breaks,
                false => TapVerdict::Goes,
            }
        }));
        let mut lost = append(2);
        run();
        assert_eq!(lost.take(), Some(Err(FabricError::Lost)));
        let mut after = append(3);
        run();
        assert_eq!(after.take(), Some(Ok(())), "the memory has it");
        assert_eq!(seen(&mut log), [0; 0], "the peer receives no record");
        assert!(!sender.is_whole(), "LINK-3");
    }
}

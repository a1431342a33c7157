//! Rings: FIFO queues from one machine to another, as logs and as message queues (NSDI'14 §3.1).
//!
//! # Picture
//! ```text
//!             head                read                 tail          in the receiver's memory,
//! | zeroes ... | kept | kept | ... | new | new | zeroes ...  |       written by the sender alone
//!
//! record  | tag (8) | words (56) | word | word | ...      the first word is never zero
//! pad     | PAD     | words      |                         to the end of the ring
//! ```
//! Positions count words from the beginning of time; a position's place is its remainder by the ring's
//! capacity. The sender knows the tail, and has a copy of the head that the receiver writes to it when
//! it has released half of the ring, or an eighth and finds nothing more to read. Several records go out as one write, whose first word is
//! visible last ([`crate::fabric`], FAB-2).
//!
//! # Invariants
//! * RING-1: everything between tail and head + capacity is zero: the receiver zeroes what it releases
//!   before it tells the sender.
//! * RING-2: the sender never writes beyond head + capacity.
//!
//! # Failure
//! A header that no sender writes is [`Malformed`]: the sender is not to be trusted any more. The ring of a
//! machine that is no member any more can be read to its end: what was not written whole is not seen. Then it is
//! dropped, and its memory never used for anything else; a machine that comes with the same number gets another.
//! Where memory outlives processes ([`crate::Fabric::keeps`]) the receiver writes down how far it has released a ring
//! before it zeroes what it releases, so that what it has not is found afterwards ([`left_in`]).

use std::collections::VecDeque;
use std::sync::Arc;

use crate::completion::Completion;
use crate::fabric::{Fabric, FabricError};
use crate::machine::MachineId;
use crate::memory::Memory;
use crate::segment::{Place, SegmentId, Writer};
use crate::sync::{Ordering, fence};

/// Tag of what fills a ring to its end; records may have any other.
pub const PAD: u8 = 0xFF;
const TAG_SHIFT: u32 = 56;
const LENGTH_MASK: u64 = (1 << TAG_SHIFT) - 1;

/// What the sender's ring at a receiver contains is no record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed record in the ring of {0}")]
pub struct Malformed(pub MachineId);

/// There is no room in the ring now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the ring is full")]
pub struct RingFull;

/// Words that a record of `words` words takes in a ring.
pub const fn record_words(words: usize) -> usize {
    words + 1
}

/// The largest record that a ring of `capacity` words is sure to take once it is empty.
pub const fn longest_record(capacity: usize) -> usize {
    // Twice that, and what the receiver has released and not told of, is the ring.
    capacity / 4 - 1
}

/// The records in what a sender writes into a ring at once, with their tags; nothing but the pads is left out.
pub fn records(mut written: &[u64]) -> impl Iterator<Item = (u8, &[u64])> {
    std::iter::from_fn(move || {
        loop {
            let (header, rest) = written.split_first()?;
            let (tag, length) = ((header >> TAG_SHIFT) as u8, header & LENGTH_MASK);
            let words = usize::try_from(length).ok()?.checked_sub(1)?;
            let (record, rest) = rest.split_at_checked(words)?;
            written = rest;
            if tag != PAD {
                return Some((tag, record));
            }
        }
    })
}

/// The sender's end.
pub struct RingWriter {
    fabric: Arc<dyn Fabric>,
    to: MachineId,
    ring: SegmentId,
    /// Word 0 is the receiver's head as it last told.
    head: Arc<Memory>,
    capacity: usize,
    tail: u64,
    /// Records that have not been posted, the first at `tail - staged.len()`.
    staged: Vec<u64>,
    /// Words that are promised to records still to come.
    reserved: usize,
}

/// The receiver's end.
pub struct RingReader {
    fabric: Arc<dyn Fabric>,
    from: MachineId,
    memory: Arc<Memory>,
    head_at: Place,
    /// Where the next record begins.
    read: u64,
    head: u64,
    /// The head as the sender was told.
    told: u64,
    /// Ends of records handed out and not released, with whether they are done with.
    kept: VecDeque<(u64, bool)>,
    first_kept: u64,
    /// Where memory is kept: word 0 is the head.
    written_down: Option<Arc<Memory>>,
}

/// A record that was read, until it is released.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Kept(u64);

/// Provides the receiver's end of the ring from `from`, of `capacity` words (a power of two), on `lane`.
///
/// # Errors
/// As [`Fabric::provide`].
pub fn receive(
    fabric: &Arc<dyn Fabric>,
    from: MachineId,
    lane: u16,
    capacity: usize,
) -> Result<RingReader, FabricError> {
    if !capacity.is_power_of_two() {
        return Err(FabricError::Refused("a ring's capacity is a power of two"));
    }
    let ring = SegmentId::new(SegmentId::RING, lane, from.0);
    let memory = fabric.provide(ring, capacity, Writer::Peer(from))?;
    let released = SegmentId::new(SegmentId::RELEASED, lane, from.0);
    let written_down = fabric
        .keeps()
        .then(|| fabric.provide(released, 1, Writer::Owner));
    let head_at = Place {
        machine: from,
        segment: SegmentId::new(SegmentId::HEAD, lane, fabric.me().0),
        word: 0,
    };
    Ok(RingReader {
        fabric: Arc::clone(fabric),
        from,
        memory,
        head_at,
        read: 0,
        head: 0,
        told: 0,
        kept: VecDeque::new(),
        first_kept: 0,
        written_down: written_down.transpose()?,
    })
}

/// The records that a receiver has not released: `ring` is its memory, of which it has released everything before `head`,
/// and the sender was `told` of no more room than that position leaves. Whoever wrote and read it is gone.
///
/// # Errors
/// [`Malformed`] where a header is none, of the machine `from`.
pub fn left_in(
    ring: &Memory,
    (head, told): (u64, u64),
    from: MachineId,
) -> Result<Vec<(u8, Vec<u64>)>, Malformed> {
    let capacity = ring.len();
    // What is behind that may be what the receiver was about to zero.
    let end = told.min(head).saturating_add(capacity as u64);
    let (mut records, mut read) = (Vec::new(), head);
    while read < end {
        let at = read as usize % capacity;
        let header = ring.words()[at].load(Ordering::Acquire);
        if header == 0 {
            break;
        }
        let (tag, length) = ((header >> TAG_SHIFT) as u8, header & LENGTH_MASK);
        let room = (capacity - at).min((end - read) as usize);
        let length = usize::try_from(length).ok();
        let length = length.filter(|length| (1..=room).contains(length));
        let length = length.ok_or(Malformed(from))?;
        if tag != PAD {
            let mut record = vec![0; length - 1];
            ring.copy_out(at + 1, &mut record);
            records.push((tag, record));
        }
        read += length as u64;
    }
    Ok(records)
}

/// Provides the sender's end of the ring at `to`; the receiver must have made its end with the same
/// lane and capacity before the first flush.
///
/// # Errors
/// As [`Fabric::provide`].
pub fn send(
    fabric: &Arc<dyn Fabric>,
    to: MachineId,
    lane: u16,
    capacity: usize,
) -> Result<RingWriter, FabricError> {
    let head = SegmentId::new(SegmentId::HEAD, lane, to.0);
    Ok(RingWriter {
        fabric: Arc::clone(fabric),
        to,
        ring: SegmentId::new(SegmentId::RING, lane, fabric.me().0),
        head: fabric.provide(head, 1, Writer::Peer(to))?,
        capacity,
        tail: 0,
        staged: Vec::new(),
        reserved: 0,
    })
}

/// Words of room that the promise of a record of `words` words takes: wherever it begins, it and what pads the ring
/// before it fit.
pub fn promise(words: usize) -> usize {
    2 * record_words(words)
}

impl RingWriter {
    /// Words that are neither taken nor promised. What wraps around costs more than its own words.
    pub fn free(&self) -> usize {
        let head = self.head.words()[0].load(Ordering::Acquire);
        // A peer that writes nonsense gets no more room than the ring has.
        let used = usize::try_from(self.tail.saturating_sub(head)).unwrap_or(self.capacity);
        self.capacity
            .saturating_sub(used)
            .saturating_sub(self.reserved)
    }

    /// Promises room for a record of `words` words that is written later with [`Self::push_reserved`].
    ///
    /// # Errors
    /// [`RingFull`]; nothing is promised then.
    pub fn reserve(&mut self, words: usize) -> Result<(), RingFull> {
        let need = promise(words);
        if words > longest_record(self.capacity) || need > self.free() {
            return Err(RingFull);
        }
        self.reserved += need;
        Ok(())
    }

    /// Takes the promise of room for a record of `words` words back.
    pub fn give_back(&mut self, words: usize) {
        self.reserved = self.reserved.saturating_sub(promise(words));
    }

    /// Takes all promises back.
    pub fn renounce(&mut self) {
        self.reserved = 0;
    }

    /// The position behind the last record that was staged or posted.
    pub fn position(&self) -> u64 {
        self.tail
    }

    /// The position up to which the receiver has released everything, for all that it has told.
    pub fn released(&self) -> u64 {
        // A peer that writes nonsense has released no more than there was.
        self.head.words()[0].load(Ordering::Acquire).min(self.tail)
    }

    /// Words of room that are promised and neither used nor given back.
    pub fn promised(&self) -> usize {
        self.reserved
    }

    /// Stages a record for the next [`Self::flush`].
    ///
    /// # Errors
    /// [`RingFull`]: nothing is staged; a record over [`longest_record`] never fits.
    pub fn push(&mut self, tag: u8, record: &[&[u64]]) -> Result<(), RingFull> {
        let words = record.iter().map(|part| part.len()).sum();
        self.reserve(words)?;
        self.push_reserved(tag, record);
        Ok(())
    }

    /// Stages a record that room was promised for.
    pub fn push_reserved(&mut self, tag: u8, record: &[&[u64]]) {
        let words: usize = record.iter().map(|part| part.len()).sum();
        self.give_back(words);
        let need = record_words(words);
        let to_end = self.capacity - self.tail as usize % self.capacity;
        if need > to_end {
            self.stage(PAD, to_end - 1);
            self.staged.resize(self.staged.len() + to_end - 1, 0);
            self.tail += to_end as u64;
        }
        self.stage(tag, words);
        record
            .iter()
            .for_each(|part| self.staged.extend_from_slice(part));
        self.tail += need as u64;
    }

    fn stage(&mut self, tag: u8, words: usize) {
        // The length counts the header, so that it is never zero.
        self.staged
            .push((u64::from(tag) << TAG_SHIFT) | record_words(words) as u64);
    }

    /// Posts what was staged and rings the receiver's bell; the answer is the medium's ack.
    pub fn flush(&mut self) -> Completion<()> {
        if self.staged.is_empty() {
            return Completion::done(Ok(()));
        }
        let from = (self.tail - self.staged.len() as u64) as usize % self.capacity;
        let to_end = (self.capacity - from).min(self.staged.len());
        let at = |word| Place {
            machine: self.to,
            segment: self.ring,
            word,
        };
        let (first, second) = self.staged.split_at(to_end);
        // What lies behind the wrap goes first, so that the ack of the last write is that of both.
        if !second.is_empty() {
            drop(self.fabric.write(at(0), second));
        }
        let done = self.fabric.write_and_ring(at(from), first);
        self.staged.clear();
        done
    }
}

impl RingReader {
    /// The machine that writes it.
    pub fn from(&self) -> MachineId {
        self.from
    }

    /// Copies the next record to `out`; its tag, and what to [`Self::release`] it with. `None` where
    /// there is none yet.
    ///
    /// # Errors
    /// [`Malformed`]; the ring is of no use any more.
    pub fn next(&mut self, out: &mut Vec<u64>) -> Result<Option<(u8, Kept)>, Malformed> {
        loop {
            let capacity = self.memory.len();
            if self.read - self.head == capacity as u64 {
                return Ok(None);
            }
            let at = self.read as usize % capacity;
            let header = self.memory.words()[at].load(Ordering::Acquire);
            if header == 0 {
                // Who waits for room gets what there is once nothing more comes.
                self.tell(capacity / 8);
                return Ok(None);
            }
            let (tag, length) = ((header >> TAG_SHIFT) as u8, header & LENGTH_MASK);
            let room = (capacity - at).min((self.head + capacity as u64 - self.read) as usize);
            let length = usize::try_from(length)
                .ok()
                .filter(|length| (1..=room).contains(length))
                .ok_or(Malformed(self.from))?;
            self.read += length as u64;
            self.kept.push_back((self.read, tag == PAD));
            if tag == PAD {
                self.advance();
                continue;
            }
            out.clear();
            out.resize(length - 1, 0);
            self.memory.copy_out(at + 1, out);
            let kept = Kept(self.first_kept + self.kept.len() as u64 - 1);
            return Ok(Some((tag, kept)));
        }
    }

    /// The position behind the last record that was taken, as the sender counts ([`RingWriter::position`]).
    pub fn position(&self) -> u64 {
        self.read
    }

    /// Whether a record has arrived that was not taken yet.
    pub fn has_more(&self) -> bool {
        let capacity = self.memory.len();
        let at = self.read as usize % capacity;
        self.read - self.head < capacity as u64
            && self.memory.words()[at].load(Ordering::Acquire) != 0
    }

    /// A record is done with; its room goes back to the sender once all before it are, too.
    pub fn release(&mut self, record: Kept) {
        let at = record.0.checked_sub(self.first_kept);
        if let Some(entry) = at.and_then(|at| self.kept.get_mut(at as usize)) {
            entry.1 = true;
        }
        self.advance();
    }

    fn advance(&mut self) {
        let before = self.head;
        while let Some((end, true)) = self.kept.front().copied() {
            self.kept.pop_front();
            self.first_kept += 1;
            self.head = end;
        }
        if let Some(written_down) = &self.written_down {
            written_down.words()[0].store(self.head, Ordering::Release);
            fence(Ordering::Release);
        }
        let capacity = self.memory.len();
        for position in before..self.head {
            self.memory.words()[position as usize % capacity].store(0, Ordering::Relaxed);
        }
        self.tell(capacity / 2);
    }

    /// Tells the sender of the head if `least` words have been released since it was told.
    fn tell(&mut self, least: usize) {
        if self.head - self.told >= least.max(1) as u64 {
            self.told = self.head;
            // Without it the sender waits for the next time, or is lost anyway.
            drop(self.fabric.write_and_ring(self.head_at, &[self.head]));
        }
    }
}

impl Drop for RingWriter {
    fn drop(&mut self) {
        let lane = self.ring.lane();
        self.fabric
            .withdraw(SegmentId::new(SegmentId::HEAD, lane, self.to.0));
    }
}

impl Drop for RingReader {
    fn drop(&mut self) {
        let lane = self.head_at.segment.lane();
        self.fabric
            .withdraw(SegmentId::new(SegmentId::RING, lane, self.from.0));
    }
}

#[cfg(all(test, not(loom)))]
mod tests;

//! Rings: FIFO queues from one machine to another, used as logs and as message queues (NSDI'14
//! §3.1).
//!
//! # Picture
//! ```text
//!             head                read                 tail          in the receiver's memory,
//! | zeroes ... | kept | kept | ... | new | new | zeroes ...  |       written by the sender alone
//!
//! record  | tag (8) | words (56) | word | word | ...      the first word is never zero
//! pad     | PAD     | words      |                         to the end of the ring
//! ```
//! Positions count words since the ring was made; the place of a position in memory is its
//! remainder by the ring's capacity. The sender knows the tail, and has a copy of the head. The
//! receiver writes that copy after it has released half of the ring, or an eighth if it finds no
//! more records. Several records are sent as one write, whose first word becomes visible last
//! ([`crate::fabric`], FAB-2).
//!
//! # Invariants
//! * RING-1: all words between the tail and head + capacity are zero: the receiver zeroes released
//!   words before it tells the sender.
//! * RING-2: the sender never writes beyond head + capacity.
//!
//! # Failure
//! An invalid header gives [`Malformed`]: the receiver must no longer trust the sender. The ring of
//! an evicted machine can be read to its end; records that are not completely written are not
//! visible. Then the ring is dropped, and its memory is never reused; a machine with the same
//! number gets another ring. If memory outlives processes ([`crate::Fabric::keeps`]), the receiver
//! first records how far it has released a ring, then zeroes the released words. So the records
//! that it has not released are found after a restart ([`left_in`]).
//!
//! *Unlike the paper.* A record has no trailer. The first header of a write becomes visible last
//! (FAB-2), so a nonzero header alone shows that the whole record has arrived.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::completion::Completion;
use crate::fabric::{Fabric, FabricError};
use crate::machine::MachineId;
use crate::memory::Memory;
use crate::segment::{Place, SegmentId, Writer};
use crate::sync::{Ordering, fence};

/// The tag of padding to the end of a ring; records may have any other tag.
pub const PAD: u8 = 0xFF;
const TAG_SHIFT: u32 = 56;
const LENGTH_MASK: u64 = (1 << TAG_SHIFT) - 1;

/// The error for words in a sender's ring that are not a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed record in the ring of {0}")]
pub struct Malformed(pub MachineId);

/// The error for a ring without enough free words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the ring is full")]
pub struct RingFull;

/// Returns the words that a record of `words` words takes in a ring.
pub const fn record_words(words: usize) -> usize {
    words + 1
}

/// Returns the length of the longest record that fits any empty ring of `capacity` words.
pub const fn longest_record(capacity: usize) -> usize {
    // The record may need twice its words, and up to half of the ring may be released but not yet
    // reported.
    capacity / 4 - 1
}

/// Returns the records of one write by a sender, with their tags, without the padding.
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

/// The sender's side of a ring. One thread at a time uses it.
///
/// Space is reserved before a commit begins, so that the records that end it always fit (SOSP'15
/// §4): [`Self::reserve`] and [`Self::push_reserved`]. Both are local; only [`Self::flush`] reaches
/// the receiver.
pub struct RingWriter {
    fabric: Arc<dyn Fabric>,
    to: MachineId,
    ring: SegmentId,
    /// Word 0 is the receiver's head as last reported.
    head: Arc<Memory>,
    capacity: usize,
    tail: u64,
    /// The records that have not been posted; the first begins at `tail - staged.len()`.
    staged: Vec<u64>,
    /// The words that are reserved for later records.
    reserved: usize,
}

/// The receiver's side of a ring, which must be polled with [`Self::next`]. One thread at a time
/// uses it. No call blocks.
pub struct RingReader {
    fabric: Arc<dyn Fabric>,
    from: MachineId,
    memory: Arc<Memory>,
    head_at: Place,
    /// The position of the next record.
    read: u64,
    head: u64,
    /// The head as last reported to the sender.
    reported: u64,
    /// The ends of records read and not yet released, with whether the reader has released each.
    unreleased: VecDeque<(u64, bool)>,
    first_unreleased: u64,
    /// If memory outlives processes: word 0 is the head.
    written_down: Option<Arc<Memory>>,
}

/// A record that was read and is not released yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HeldRecord(u64);

/// Makes the receiver's side of the ring from `from`, of `capacity` words (a power of two), on
/// `lane`.
///
/// # Errors
/// As [`Fabric::provide`]; [`FabricError::Refused`] if the capacity is no power of two, too.
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
        reported: 0,
        unreleased: VecDeque::new(),
        first_unreleased: 0,
        written_down: written_down.transpose()?,
    })
}

/// Returns the records that a receiver has not released, after both machines have ended. `ring` is
/// its memory. The receiver has released everything before `head`, and has reported at most
/// `reported` to the sender.
///
/// # Errors
/// [`Malformed`] with the machine `from` if a header is invalid.
pub fn left_in(
    ring: &Memory,
    (head, reported): (u64, u64),
    from: MachineId,
) -> Result<Vec<(u8, Vec<u64>)>, Malformed> {
    let capacity = ring.len();
    // Words behind this may be released words that the receiver had not zeroed yet.
    let end = reported.min(head).saturating_add(capacity as u64);
    let (mut records, mut read) = (Vec::new(), head);
    while read < end {
        let at = read as usize % capacity;
        let header = ring.words()[at].load(Ordering::Acquire);
        if header == 0 {
            break;
        }
        let (tag, length) = ((header >> TAG_SHIFT) as u8, header & LENGTH_MASK);
        let length_max = (capacity - at).min((end - read) as usize);
        let length = usize::try_from(length).ok();
        let length = length.filter(|length| (1..=length_max).contains(length));
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

/// Makes the sender's side of the ring at `to`. The receiver must have made its side with the same
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

/// Returns the words to reserve for a record of `words` words: enough for the record and the
/// padding before it, wherever it begins.
pub fn promise(words: usize) -> usize {
    2 * record_words(words)
}

impl RingWriter {
    /// Returns the words that are neither used nor reserved, given the last report of the receiver.
    /// A record that wraps around costs more than its own words.
    pub fn free(&self) -> usize {
        let head = self.head.words()[0].load(Ordering::Acquire);
        // A peer that reports a wrong head gets no more space than the ring has.
        let used = usize::try_from(self.tail.saturating_sub(head)).unwrap_or(self.capacity);
        self.capacity
            .saturating_sub(used)
            .saturating_sub(self.reserved)
    }

    /// Reserves space for a record of `words` words, to be written later with
    /// [`Self::push_reserved`].
    ///
    /// # Errors
    /// [`RingFull`]; nothing is reserved then. Try again after the receiver has reported more
    /// released words; a record longer than [`longest_record`] never fits.
    pub fn reserve(&mut self, words: usize) -> Result<(), RingFull> {
        let need = promise(words);
        if words > longest_record(self.capacity) || need > self.free() {
            return Err(RingFull);
        }
        self.reserved += need;
        Ok(())
    }

    /// Cancels the reservation for a record of `words` words.
    pub fn give_back(&mut self, words: usize) {
        self.reserved = self.reserved.saturating_sub(promise(words));
    }

    /// Cancels all reservations.
    pub fn renounce(&mut self) {
        self.reserved = 0;
    }

    /// Returns the position behind the last staged or posted record.
    pub fn position(&self) -> u64 {
        self.tail
    }

    /// Returns the position up to which the receiver has reported all records as released.
    pub fn released(&self) -> u64 {
        // A peer that reports a wrong head has released no more than was written.
        self.head.words()[0].load(Ordering::Acquire).min(self.tail)
    }

    /// Returns the words that are reserved and neither used nor cancelled.
    pub fn promised(&self) -> usize {
        self.reserved
    }

    /// Stages a record for the next [`Self::flush`].
    ///
    /// # Errors
    /// [`RingFull`]: nothing is staged. A record longer than [`longest_record`] never fits.
    pub fn push(&mut self, tag: u8, record: &[&[u64]]) -> Result<(), RingFull> {
        let words = record.iter().map(|part| part.len()).sum();
        self.reserve(words)?;
        self.push_reserved(tag, record);
        Ok(())
    }

    /// Stages a record for which space was reserved with [`Self::reserve`]: `record` must have as
    /// many words in all. Without a reservation the record may overwrite unread ones (RING-2).
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

    /// Posts the staged records and rings the receiver's bell. The answer is the medium's
    /// acknowledgement: the records are in the receiver's memory, but it need not have read them.
    /// Does nothing if no record is staged.
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
        // The part behind the wrap is written first, so that the acknowledgement of the last write
        // covers both.
        if !second.is_empty() {
            drop(self.fabric.write(at(0), second));
        }
        let done = self.fabric.write_and_ring(at(from), first);
        self.staged.clear();
        done
    }
}

impl RingReader {
    /// Returns the sending machine.
    pub fn from(&self) -> MachineId {
        self.from
    }

    /// Copies the next record to `out`. Returns its tag and a handle for [`Self::release`]; `None`
    /// if there is no record yet, or if no record of a full ring has been released. Also reports
    /// released words to a sender that may wait for them.
    ///
    /// # Errors
    /// [`Malformed`]; the ring is unusable then.
    pub fn next(&mut self, out: &mut Vec<u64>) -> Result<Option<(u8, HeldRecord)>, Malformed> {
        loop {
            let capacity = self.memory.len();
            if self.read - self.head == capacity as u64 {
                return Ok(None);
            }
            let at = self.read as usize % capacity;
            let header = self.memory.words()[at].load(Ordering::Acquire);
            if header == 0 {
                // A sender that waits for space gets the released words when no more records
                // arrive.
                self.tell(capacity / 8);
                return Ok(None);
            }
            let (tag, length) = ((header >> TAG_SHIFT) as u8, header & LENGTH_MASK);
            let length_max =
                (capacity - at).min((self.head + capacity as u64 - self.read) as usize);
            let length = usize::try_from(length)
                .ok()
                .filter(|length| (1..=length_max).contains(length))
                .ok_or(Malformed(self.from))?;
            self.read += length as u64;
            self.unreleased.push_back((self.read, tag == PAD));
            if tag == PAD {
                self.advance();
                continue;
            }
            out.clear();
            out.resize(length - 1, 0);
            self.memory.copy_out(at + 1, out);
            let record = HeldRecord(self.first_unreleased + self.unreleased.len() as u64 - 1);
            return Ok(Some((tag, record)));
        }
    }

    /// Returns the position behind the last record read, as the sender counts
    /// ([`RingWriter::position`]).
    pub fn position(&self) -> u64 {
        self.read
    }

    /// Returns whether an unread record has arrived. Changes nothing.
    pub fn has_more(&self) -> bool {
        let capacity = self.memory.len();
        let at = self.read as usize % capacity;
        self.read - self.head < capacity as u64
            && self.memory.words()[at].load(Ordering::Acquire) != 0
    }

    /// Releases a record. Its space returns to the sender once all earlier records are released,
    /// too.
    pub fn release(&mut self, record: HeldRecord) {
        let at = record.0.checked_sub(self.first_unreleased);
        if let Some(entry) = at.and_then(|at| self.unreleased.get_mut(at as usize)) {
            entry.1 = true;
        }
        self.advance();
    }

    fn advance(&mut self) {
        let before = self.head;
        while let Some((end, true)) = self.unreleased.front().copied() {
            self.unreleased.pop_front();
            self.first_unreleased += 1;
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

    /// Reports the head to the sender if at least `least` words have been released since the last
    /// report.
    fn tell(&mut self, least: usize) {
        if self.head - self.reported >= least.max(1) as u64 {
            self.reported = self.head;
            // After a failure the sender waits for the next report, or is lost anyway.
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

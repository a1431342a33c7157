//! Memory of peers that the fabric does not map: objects and old versions are read one-sided.
//!
//! # Picture
//! ```text
//! address ─► size class of its block (known, or read) ─► one read of the slot ─► consistent copy
//! copy newer than the snapshot ─► place of the version before ─► record and generation together
//! ```
//! A region may be handed over meanwhile: all reads of one object go to one machine.
//!
//! # Invariants
//! * FAR-1: this machine forgets a size class before it publishes that it has passed the release of
//!   a block ([`super::status_page`]). No block gets another class before all machines have
//!   published that.

use std::collections::HashMap;

use fencepost_fabric::{Completion, FabricError, MachineId, Place};
use fencepost_storage::classes::Class;
use fencepost_storage::header::{Header, OldVersionPtr};
use fencepost_storage::old_versions::ChainSearch;
use fencepost_storage::old_versions::copy::{self, OldCopy};
use fencepost_storage::region::{self, BLOCK_BYTES, BlockId};
use fencepost_storage::{Addr, ObjectCopy, Piece, Timestamp, View};
use foldhash::fast::FixedState;
use parking_lot::RwLock;

use super::Network;
use super::backing::segment;
use super::traffic::PostKind;
use crate::backoff::moment;
use crate::read::ReadCallback;
use crate::stop::{AbortReason, Stop};
use crate::work::Work;

const WORD_BYTES: usize = 8;
const UNREACHABLE: Stop = Stop::Retry(AbortReason::Unreachable);

/// The result of an access to an object that was not mapped.
pub(crate) enum AccessOutcome<T> {
    /// The object is in memory that is mapped here, as is known now: access it there.
    Near,
    /// The result.
    Far(T),
}

/// The known size classes of peers' blocks.
#[derive(Default)]
pub(super) struct Blocks(RwLock<BlockClasses>);

#[derive(Default)]
struct BlockClasses {
    /// How often all classes were forgotten.
    forgotten: u64,
    /// The classes, as the primary has them.
    classes: HashMap<(MachineId, BlockId), Class, FixedState>,
}

impl Blocks {
    /// Returns the class of a block, if it is known, and the count that [`Self::remember`] takes.
    fn class(&self, block: (MachineId, BlockId)) -> (Option<Class>, u64) {
        let known = self.0.read();
        (known.classes.get(&block).copied(), known.forgotten)
    }

    /// Returns whether no class was forgotten since the count was `forgotten`: then a block with a
    /// class has no other one.
    fn is_current(&self, forgotten: u64) -> bool {
        self.0.read().forgotten == forgotten
    }

    /// Remembers a class from a read that began when the count was `forgotten`.
    fn remember(&self, block: (MachineId, BlockId), class: Class, forgotten: u64) {
        let mut known = self.0.write();
        if known.forgotten == forgotten {
            known.classes.insert(block, class);
        }
    }

    /// Forgets all classes (FAR-1).
    pub fn forget(&self) {
        let mut known = self.0.write();
        known.forgotten += 1;
        known.classes.clear();
    }
}

impl Network {
    /// Returns whether an object is not accessible in memory here: its peer's memory is not mapped,
    /// or its primary is not known yet.
    #[inline]
    pub fn is_far(&self, addr: Addr) -> bool {
        match self.primary(addr) {
            Some(primary) => self.far && primary != self.me(),
            None => true,
        }
    }

    /// Returns whether an object is in memory of a peer that is not mapped here.
    #[inline]
    pub fn is_unmapped(&self, addr: Addr) -> bool {
        self.far && self.is_elsewhere(addr)
    }

    /// Looks up the primary of an object that was far. Returns whether its memory is mapped.
    ///
    /// # Errors
    /// [`Stop::Retry`] if the CM cannot be reached.
    pub async fn comes_near(&self, addr: Addr) -> Result<bool, Stop> {
        Ok(!self.far && self.find(addr.region()).await?)
    }

    /// Posts a read of `words` words of a machine's memory.
    fn post(
        &self,
        machine: MachineId,
        piece: Piece,
        word: usize,
        words: usize,
    ) -> Completion<Box<[u64]>> {
        let place = Place {
            machine,
            segment: segment(piece),
            word,
        };
        self.fabric.read(place, words)
    }

    /// Returns the answer of a read, which `again` repeats if necessary; `None` if there is nothing
    /// to read.
    async fn words(
        &self,
        mut read: Completion<Box<[u64]>>,
        again: impl Fn() -> Completion<Box<[u64]>>,
    ) -> Result<Option<Box<[u64]>>, Stop> {
        let mut round = 0;
        loop {
            match read.await {
                Ok(words) => return Ok(Some(words)),
                Err(FabricError::Refused(_)) => return Ok(None),
                Err(FabricError::Unsteady) => moment(round).await,
                Err(_) => return Err(UNREACHABLE),
            }
            round += 1;
            read = again();
        }
    }

    /// Returns the size class of an object's block, as a machine has it, and the count that
    /// [`Blocks::is_current`] takes.
    async fn class(&self, machine: MachineId, addr: Addr) -> Result<(Option<Class>, u64), Stop> {
        let block = BlockId::of(addr);
        let (known, forgotten) = self.blocks.class((machine, block));
        if known.is_some() || block.block == 0 {
            return Ok((known, forgotten));
        }
        let piece = Piece::Region(addr.region().0);
        let post = || {
            self.counting.count(PostKind::Object);
            self.post(machine, piece, block.block as usize, 1)
        };
        let word = self.words(post(), post).await?;
        let class = word.and_then(|word| region::class_of(*word.first()?));
        if let Some(class) = class {
            self.blocks.remember((machine, block), class, forgotten);
        }
        Ok((class, forgotten))
    }

    /// Reads the object at `addr` in one read; a locked object may be partly overwritten. `None`
    /// for an address outside every block in use.
    ///
    /// # Errors
    /// [`Stop::Retry`] if the peer cannot be reached.
    pub async fn fetch(&self, addr: Addr) -> Result<Option<ObjectCopy>, Stop> {
        Ok(self.fetch_of(addr).await?.map(|(_, copy)| copy))
    }

    /// Does the same as [`Self::fetch`], and returns the machine that was read.
    ///
    /// # Errors
    /// The same as of [`Self::fetch`].
    pub async fn fetch_of(&self, addr: Addr) -> Result<Option<(MachineId, ObjectCopy)>, Stop> {
        for round in 0.. {
            // A handover may have begun since the last round.
            if !self.knows(addr.region()) && !self.find(addr.region()).await? {
                return Ok(None);
            }
            let Some(machine) = self.primary(addr) else {
                continue;
            };
            let (Some(class), forgotten) = self.class(machine, addr).await? else {
                match self.primary(addr) == Some(machine) {
                    true => return Ok(None),
                    false => continue,
                }
            };
            let (words, offset) = (class.slot_words(), addr.offset() as usize);
            if !(offset % BLOCK_BYTES).is_multiple_of(words * WORD_BYTES) {
                return Ok(None);
            }
            let piece = Piece::Region(addr.region().0);
            let post = || {
                self.counting.count(PostKind::Object);
                self.post(machine, piece, offset / WORD_BYTES, words)
            };
            let Some(words) = self.words(post(), post).await? else {
                match self.primary(addr) == Some(machine) {
                    true => return Ok(None),
                    false => continue,
                }
            };
            // A reader without a transaction does not keep the block from getting another class.
            if self.blocks.is_current(forgotten)
                && let Some(copy) = ObjectCopy::of(words, offset / WORD_BYTES)
            {
                return Ok(Some((machine, copy)));
            }
            moment(round).await;
        }
        Ok(None)
    }

    /// Posts a read of the header of an object.
    pub fn post_header(&self, addr: Addr) -> Completion<Box<[u64]>> {
        self.counting.count(PostKind::Header);
        let piece = Piece::Region(addr.region().0);
        let word = addr.offset() as usize / WORD_BYTES;
        match self.primary(addr) {
            Some(machine) => self.post(machine, piece, word, 1),
            // This machine may have a replica, but only as a backup.
            None => Completion::done(Err(FabricError::Refused("no known machine is the primary"))),
        }
    }

    /// Returns the header that [`Self::post_header`] has requested; `None` as of [`Self::fetch`].
    ///
    /// # Errors
    /// The same as of [`Self::fetch`].
    pub async fn header(
        &self,
        addr: Addr,
        read: Completion<Box<[u64]>>,
    ) -> Result<Option<Header>, Stop> {
        let again = || self.post_header(addr);
        let words = match self.words(read, again).await? {
            // Its region may have been handed over since the request.
            None => self.words(again(), again).await?,
            words => words,
        };
        Ok(words.and_then(|words| words.first().copied().map(Header)))
    }

    /// Reads the current header of an object; `None` as of [`Self::fetch`].
    ///
    /// # Errors
    /// The same as of [`Self::fetch`].
    pub(crate) fn header_of(&self, addr: Addr) -> Work<'_, Result<Option<Header>, Stop>> {
        Box::pin(self.header(addr, self.post_header(addr)))
    }

    /// Shows `f` the newest committed version of an object, if one is allocated.
    ///
    /// # Errors
    /// The same as of [`Self::fetch`].
    pub(crate) fn view_far<'a>(
        &'a self,
        addr: Addr,
        f: ReadCallback<'a>,
    ) -> Work<'a, Result<AccessOutcome<()>, Stop>> {
        Box::pin(async move {
            if self.comes_near(addr).await? {
                return Ok(AccessOutcome::Near);
            }
            for round in 0.. {
                let Some(copy) = self.fetch(addr).await? else {
                    break;
                };
                if !copy.header().is_locked() {
                    if copy.header().is_allocated() {
                        f(&copy.view());
                    }
                    break;
                }
                moment(round).await;
            }
            Ok(AccessOutcome::Far(()))
        })
    }

    /// Follows the version chain of an object from `copy`, read from a machine's memory, and shows
    /// `f` the newest version not newer than `at`.
    ///
    /// # Errors
    /// The same as of [`Self::fetch`].
    pub(crate) async fn find_far(
        &self,
        (machine, copy): (MachineId, &ObjectCopy),
        at: Timestamp,
        f: ReadCallback<'_>,
    ) -> Result<ChainSearch<()>, Stop> {
        let len = copy.payload().len();
        let (mut place, mut replaced) = (copy.link().place(), copy.header().timestamp());
        while !place.is_none() {
            if place == OldVersionPtr::LOST {
                return Ok(ChainSearch::Reclaimed);
            }
            let (page, word) = copy::generation_at(place);
            (0..2).for_each(|_| self.counting.count(PostKind::Object));
            let block = Piece::OldVersions(place.block());
            let record = self.post(machine, block, place.offset(), copy::record_words(len));
            // This read takes effect after the other and tells whether that was still the record.
            let counted = self.post(machine, Piece::Generations(page), word, 1);
            let (record, counted) = (record.await, counted.await);
            let (record, counted) = match (record, counted) {
                (Ok(record), Ok(counted)) => (record, counted),
                (Err(FabricError::Unsteady | FabricError::Refused(_)), _) => {
                    return Ok(ChainSearch::Reclaimed);
                }
                _ => return Err(UNREACHABLE),
            };
            let counted = counted.first().copied().unwrap_or(0);
            let Some(old) = OldCopy::of(&record, counted, place, replaced) else {
                return Ok(ChainSearch::Reclaimed);
            };
            if old.header.timestamp() <= at {
                if !old.header.is_allocated() {
                    return Ok(ChainSearch::Absent);
                }
                f(&View::Own(old.payload));
                return Ok(ChainSearch::Version((), old.header));
            }
            (place, replaced) = (old.before, old.header.timestamp());
        }
        Ok(ChainSearch::Later(replaced))
    }
}

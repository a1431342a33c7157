//! Read refresh: moving the snapshot forward instead of aborting.
//!
//! A read-write transaction that meets a version newer than R picks R' = now. Once R' is in force,
//! every object that it has read, or changed from an exact version, must be unlocked and unchanged.
//! Then its reads are valid at R' too. Its patches are applied again to nodes that have moved, so
//! that the patched nodes are of the snapshot at R'. If a node has moved beyond R' meanwhile, the
//! transaction picks a new R'.

use fencepost_storage::header::Header;
use fencepost_storage::{Addr, Timestamp};

use crate::backoff::{SPINS, moment};
use crate::context::Context;
use crate::counters::Event;
use crate::fault::{self, Fault};
use crate::lock::BACKOFF_ROUNDS_MAX;
use crate::machine::Machine;
use crate::network::{ExpectedHeader, Headers};
use crate::node::{NodeKind, Refusal};
use crate::stop::{AbortReason, Stop};
use crate::transaction::{Mode, Transaction};
use crate::validate::together;
use crate::work::Work;
use crate::write_set::{NO_BASE, WriteKind};

/// Largest read set that is always checked for a refresh.
const SMALL_READ_SET: usize = 1024;
/// Most refreshes of a transaction with a larger read set, so that a long scan among writers stays
/// linear.
const REFRESHES_OF_LARGE: u32 = 16;
/// Most times that R' is picked in one refresh, because a read or patched node has moved beyond the
/// previous R'.
const ROUNDS: u32 = 64;

/// Most times that a system transaction that meets damage is tried again.
const MAX_DOUBTS: u32 = 3;

/// A node that no longer accepts a transaction's patches.
pub(crate) type MisplacedPatch = (Addr, &'static dyn NodeKind);

impl Transaction {
    /// Moves the snapshot to now if everything that was read is still unchanged.
    ///
    /// # Errors
    /// [`Stop::Retry`] if an object was changed or is being changed, or if a machine cannot be
    /// reached. As [`Self::patch`] where patches of moved nodes are made again.
    pub fn refresh(&mut self) -> Work<'_, Result<(), Stop>> {
        Box::pin(async move {
            let strays = self.context_mut().refresh().await?;
            if !strays.is_empty() {
                self.context_mut().adrift += 1;
                for (addr, kind) in strays {
                    kind.reroute(self, addr).await?;
                }
                self.context_mut().adrift -= 1;
            }
            Ok(())
        })
    }

    /// Refreshes as [`Self::refresh`] does, when a statement begins: the rows of the previous
    /// statement no longer matter.
    ///
    /// # Errors
    /// As [`Self::refresh`].
    pub async fn renew(&mut self) -> Result<(), Stop> {
        if fault::injected(Fault::KeepOldSnapshot) {
            return Ok(());
        }
        self.refresh().await?;
        let context = self.context_mut();
        context.oldest_r = Timestamp::MAX;
        context.decided = (Addr::NULL, Timestamp::MAX);
        Ok(())
    }

    /// Refreshes as [`Self::refresh`] does, where that is cheap and optional. A transaction that
    /// has written, or has read a version that is no longer current, keeps its snapshot.
    pub async fn freshen(&mut self) {
        if self.mode() == Mode::ReadWrite && !self.has_writes() && self.may_refresh() {
            // The commit validates the earlier reads.
            let _ = self.refresh().await;
        }
    }

    /// Checks whether damage is real. Other transactions may free objects that this one is about to
    /// use, so that it meets freed memory. Then its reads are no longer valid, and the result is a
    /// conflict instead of `stop`. Returns every other `stop` unchanged.
    pub async fn doubt(&mut self, stop: Stop) -> Stop {
        match stop {
            Stop::Damaged => match self.refresh().await {
                Err(conflict @ Stop::Retry(_)) => conflict,
                _ => stop,
            },
            _ => stop,
        }
    }

    /// Checks, as [`Self::doubt`] does, an error of a system transaction ([`Self::system`]), whose
    /// snapshot is newer. In that snapshot an index that this transaction uses may be gone, and its
    /// nodes' memory may have been reused. Returns `Ok` where the system transaction should be
    /// tried again, because it may have met a change half-way. `doubts` is the number of earlier
    /// retries.
    ///
    /// # Errors
    /// A conflict if the reads of this transaction are no longer valid. Otherwise `stop`, unless it
    /// is a [`Stop::Damaged`] and few retries were made so far.
    pub fn doubt_system(&mut self, stop: Stop, doubts: u32) -> Work<'_, Result<(), Stop>> {
        Box::pin(async move {
            match self.doubt(stop).await {
                Stop::Damaged if doubts < MAX_DOUBTS => Ok(()),
                stop => Err(stop),
            }
        })
    }

    /// Moves patched nodes to the snapshot if a rollback has left older images of them.
    #[inline]
    pub(crate) async fn catch_up(&mut self) -> Result<(), Stop> {
        if self.context().behind {
            self.refresh().await
        } else {
            Ok(())
        }
    }

    pub(crate) fn may_refresh(&self) -> bool {
        let context = self.context();
        context.reads.len() <= SMALL_READ_SET || context.refreshes < REFRESHES_OF_LARGE
    }
}

impl Context {
    async fn refresh(&mut self) -> Result<Vec<MisplacedPatch>, Stop> {
        // If the refresh fails or its future is dropped, some patches may have been applied and
        // others not. `behind` then makes the next operation start with a complete refresh.
        self.behind |= self.writes.has_patches();
        self.refresh_rounds().await
    }

    async fn refresh_rounds(&mut self) -> Result<Vec<MisplacedPatch>, Stop> {
        for round in 0..ROUNDS {
            if round > 0 {
                // A later R' passes the node once the commit that keeps R' back has ended.
                moment(SPINS + round).await;
            }
            let now = self.machine.in_force(|now| now).await;
            let now = now.map_err(Stop::Retry)?;
            let moved = match self.moved_image().await? {
                None => self.moved_read(now).await,
                Some(addr) => Some((addr, AbortReason::WriteConflict)),
            };
            match moved {
                None => {}
                Some((_, AbortReason::ReadNewer)) => continue,
                Some((addr, _)) => {
                    return Err(self.conflict_at(addr, AbortReason::RefreshFailed));
                }
            }
            if let Some(strays) = self.rebase_patches(now).await? {
                self.oldest_r = self.oldest_r.min(self.r);
                self.r = now;
                self.fetched.clear();
                self.in_force = true;
                self.slot.move_to(now);
                self.refreshes += 1;
                self.behind = false;
                self.machine.counters().count(self.lane, Event::Refresh);
                return Ok(strays);
            }
        }
        Err(Stop::Retry(AbortReason::RefreshFailed))
    }

    /// Returns the first read that is not valid at `now`, if there is one, and the reason. Once the
    /// snapshot has moved, the slot of a freed node may be reused. So the keys that were read there
    /// are looked up elsewhere from now on.
    async fn moved_read(&mut self, now: Timestamp) -> Option<(Addr, AbortReason)> {
        let from = self.first_moved(false)?;
        for range in together(from..self.reads.len()) {
            let mut posted = self.post_headers(range.clone(), false);
            for at in range {
                let mut round = 0;
                let elsewhere = loop {
                    match self.check(at, &mut posted, now, false).await {
                        // Mostly the object will change, but the lock may also be released without
                        // a change.
                        Err(AbortReason::ReadLocked) if round < BACKOFF_ROUNDS_MAX => {
                            moment(round).await;
                            round += 1;
                        }
                        Err(reason) => return Some((self.reads.get(at).seen.addr, reason)),
                        Ok(elsewhere) => break elsewhere,
                    }
                };
                if let Some(elsewhere) = elsewhere {
                    self.reads.move_to(at, elsewhere);
                }
            }
        }
        None
    }

    /// Returns an object that is to be replaced at an exact version and is no longer at that
    /// version, if there is one.
    async fn moved_image(&self) -> Result<Option<Addr>, Stop> {
        let writes = &self.writes.writes;
        for range in together(0..writes.len()) {
            let exact = range.filter(|at| writes[*at].is_exact());
            let wanted = exact.map(|at| (at, writes[at].addr, writes[at].base));
            let mut posted = self.look_at(wanted.clone());
            for wanted @ (_, addr, base) in wanted {
                if self.settled_header(wanted, &mut posted).await? != Some(base) {
                    return Ok(Some(addr));
                }
            }
        }
        Ok(None)
    }

    /// Returns the header of an object once it is not locked, or has been locked for long; `None`
    /// where there is none.
    async fn settled_header(
        &self,
        wanted: ExpectedHeader,
        posted: &mut Headers,
    ) -> Result<Option<Header>, Stop> {
        let (_, addr, _) = wanted;
        let mut round = 0;
        loop {
            let header = match self.machine.far(addr) {
                None => self.machine.regions().object(addr).map(|o| o.header()),
                Some(network) => self.far_header(network, wanted, posted).await?,
            };
            if round == BACKOFF_ROUNDS_MAX || !header.is_some_and(Header::is_locked) {
                return Ok(header);
            }
            moment(round).await;
            round += 1;
        }
    }

    /// Copies a patched node as it is now to the image of entry `at`, unless the node is still at
    /// its base. Returns its header; `None` where the node no longer exists.
    async fn copy_moved(&mut self, at: usize) -> Result<Option<Header>, Stop> {
        let write = self.writes.writes[at];
        let mut round = 0;
        loop {
            let header = match self.machine.far(write.addr) {
                None => {
                    let Some(object) = self.machine.regions().object(write.addr) else {
                        return Ok(None);
                    };
                    let header = object.header();
                    if header == write.base {
                        return Ok(Some(header));
                    }
                    if !header.is_locked() {
                        object.copy(0, self.writes.image_mut(write.image));
                        if !object.unchanged(header) {
                            continue;
                        }
                    }
                    header
                }
                Some(network) => {
                    let Some(copy) = network.fetch(write.addr).await? else {
                        return Ok(None);
                    };
                    if copy.header() == write.base {
                        return Ok(Some(copy.header()));
                    }
                    if !copy.header().is_locked() {
                        copy.view().copy(0, self.writes.image_mut(write.image));
                        self.keep_base(write.addr, copy.header(), copy.payload());
                    }
                    copy.header()
                }
            };
            if !header.is_locked() {
                return Ok(Some(header));
            }
            moment(round).await;
            round += 1;
        }
    }

    /// Applies patches again where nodes have moved. Returns the nodes that no longer accept them;
    /// `None` where a node has moved beyond `now`.
    async fn rebase_patches(
        &mut self,
        now: Timestamp,
    ) -> Result<Option<Vec<MisplacedPatch>>, Stop> {
        let mut strays = Vec::new();
        let mut beyond = false;
        for at in 0..self.writes.writes.len() {
            let write = self.writes.writes[at];
            let WriteKind::Patched(kind) = write.what else {
                continue;
            };
            let Some(header) = self.copy_moved(at).await? else {
                // The node was freed and its block released since an earlier refresh.
                strays.push((write.addr, kind));
                continue;
            };
            if header == write.base {
                continue;
            }
            beyond |= header.timestamp() > now;
            self.newest = self.newest.max(header.timestamp());
            self.writes.writes[at].base = NO_BASE;
            let applied = if header.is_allocated() {
                self.writes.reapply(at, kind)
            } else {
                Err(Refusal::WrongNode)
            };
            match applied {
                Ok(()) => self.writes.writes[at].base = header,
                Err(Refusal::WrongNode | Refusal::Full) => strays.push((write.addr, kind)),
                Err(Refusal::Exists | Refusal::Missing) => {
                    return Err(self.conflict_at(write.addr, AbortReason::NodeConflict));
                }
            }
        }
        Ok((!beyond).then_some(strays))
    }
}

impl Machine {
    /// Returns the header of an object; `None` where there is none.
    pub(crate) async fn header_of(&self, addr: Addr) -> Result<Option<Header>, Stop> {
        match self.far(addr) {
            None => Ok(self.regions().object(addr).map(|object| object.header())),
            Some(network) => network.header_of(addr).await,
        }
    }
}

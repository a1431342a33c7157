//! Read refresh: moving the snapshot forward instead of aborting.
//!
//! A read-write transaction that meets a version newer than R picks R' = now and, once that is in force,
//! requires everything
//! it has read, or changed from an exact version, to be unlocked and unchanged; then its reads are
//! just as good at R'. Its patches are applied anew to nodes that moved, so that what it sees of them
//! is the snapshot at R' too: a node that has moved beyond R' in the meantime moves R' once more.

use fencepost_storage::header::Header;
use fencepost_storage::{Addr, Timestamp};

use crate::counters::Event;
use crate::lock::PATIENCE;
use crate::machine::Machine;
use crate::moment::{SPINS, moment};
use crate::network::{Expected, Headers};
use crate::node::{NodeKind, Refusal};
use crate::planted::{self, Planted};
use crate::stop::{AbortReason, Stop};
use crate::transaction::{Context, Mode, Transaction};
use crate::validate::together;
use crate::work::Work;
use crate::write_set::{NO_BASE, What};

/// A read set up to this size is always worth checking.
const SMALL_READ_SET: usize = 1024;
/// Larger ones are checked this often, so that a long scan among writers stays linear.
const REFRESHES_OF_LARGE: u32 = 16;
/// Times that R' is picked because a node that was read or patched has moved beyond the one before.
const ROUNDS: u32 = 64;

/// Times that a system transaction that meets damage is tried again.
const MAX_DOUBTS: u32 = 3;

/// A node that no longer takes a transaction's patches.
pub(crate) type Stray = (Addr, &'static dyn NodeKind);

impl Transaction {
    /// Moves the snapshot to now if everything that was read is still so.
    ///
    /// # Errors
    /// [`Stop::Retry`] if something was changed or is being changed.
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

    /// As [`Self::refresh`], for a statement that begins: rows that the one before has found do not matter any more.
    ///
    /// # Errors
    /// As [`Self::refresh`].
    pub async fn renew(&mut self) -> Result<(), Stop> {
        if planted::is(Planted::KeepOldSnapshot) {
            return Ok(());
        }
        self.refresh().await?;
        let context = self.context_mut();
        context.oldest_r = Timestamp::MAX;
        context.decided = (Addr::NULL, Timestamp::MAX);
        Ok(())
    }

    /// As [`Self::refresh`], where that is cheap and nothing depends on it: a transaction that has written, or has read
    /// what is not so any more, keeps its snapshot.
    pub async fn freshen(&mut self) {
        if self.mode() == Mode::ReadWrite && !self.has_writes() && self.may_refresh() {
            // What it has read is validated when it commits.
            let _ = self.refresh().await;
        }
    }

    /// What seems damaged may only be gone: a transaction among others that free what it is about to
    /// use meets remains. Then what it has read does not hold any more, and `stop` is a conflict.
    pub async fn doubt(&mut self, stop: Stop) -> Stop {
        match stop {
            Stop::Damaged => match self.refresh().await {
                Err(conflict @ Stop::Retry(_)) => conflict,
                _ => stop,
            },
            _ => stop,
        }
    }

    /// As [`Self::doubt`], for `stop` of a transaction of its own ([`Self::system`]), whose
    /// snapshot is newer: there an index may be gone that this transaction uses, and its nodes'
    /// memory may serve other objects. `Ok` where the system transaction should be tried again: it
    /// may have met the remains of a change, and `doubts` says how often that was so before.
    ///
    /// # Errors
    /// A conflict if what this transaction has read does not hold any more; otherwise `stop`,
    /// unless it is a [`Stop::Damaged`] that is doubted for the first few times.
    pub fn doubt_system(&mut self, stop: Stop, doubts: u32) -> Work<'_, Result<(), Stop>> {
        Box::pin(async move {
            match self.doubt(stop).await {
                Stop::Damaged if doubts < MAX_DOUBTS => Ok(()),
                stop => Err(stop),
            }
        })
    }

    /// Brings patched nodes to the snapshot where a rollback has left them behind it.
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
    async fn refresh(&mut self) -> Result<Vec<Stray>, Stop> {
        // Should it stop, or its future be dropped, patches may have been applied to images that nobody
        // will bring to the end; what goes on with the transaction sees them as of a whole refresh.
        self.behind |= self.writes.has_patches();
        self.refresh_rounds().await
    }

    async fn refresh_rounds(&mut self) -> Result<Vec<Stray>, Stop> {
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

    /// Returns the first read that does not hold at `now`, if there is one, and the reason. Once the snapshot has
    /// moved, the slot of a freed node may be reused; so the keys that were read there are looked for elsewhere from
    /// now on.
    async fn moved_read(&mut self, now: Timestamp) -> Option<(Addr, AbortReason)> {
        let from = self.first_moved(false)?;
        for range in together(from..self.reads.len()) {
            let mut posted = self.post_headers(range.clone(), false);
            for at in range {
                let mut round = 0;
                let elsewhere = loop {
                    match self.check(at, &mut posted, now, false).await {
                        // Mostly it will change, but the lock may also be given back.
                        Err(AbortReason::ReadLocked) if round < PATIENCE => {
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

    /// What is to be replaced at an exact version and is not at that version any more, if anything.
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

    /// The header of an object once it is not locked, or has been for long; `None` where there is none.
    async fn settled_header(
        &self,
        wanted: Expected,
        posted: &mut Headers,
    ) -> Result<Option<Header>, Stop> {
        let (_, addr, _) = wanted;
        let mut round = 0;
        loop {
            let header = match self.machine.far(addr) {
                None => self.machine.regions().object(addr).map(|o| o.header()),
                Some(network) => self.far_header(network, wanted, posted).await?,
            };
            if round == PATIENCE || !header.is_some_and(Header::is_locked) {
                return Ok(header);
            }
            moment(round).await;
            round += 1;
        }
    }

    /// Copies a patched node as it is now to the image of entry `at`, unless it is at its base still. Its
    /// header; `None` where it is gone.
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

    /// Applies patches anew where nodes have moved; the nodes that no longer take them. `None` where a
    /// node has moved beyond `now`.
    async fn rebase_patches(&mut self, now: Timestamp) -> Result<Option<Vec<Stray>>, Stop> {
        let mut strays = Vec::new();
        let mut beyond = false;
        for at in 0..self.writes.writes.len() {
            let write = self.writes.writes[at];
            let What::Patched(kind) = write.what else {
                continue;
            };
            let Some(header) = self.copy_moved(at).await? else {
                // Freed, and its block given back since an earlier refresh.
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
    /// The header of an object; `None` where there is none.
    pub(crate) async fn header_of(&self, addr: Addr) -> Result<Option<Header>, Stop> {
        match self.far(addr) {
            None => Ok(self.regions().object(addr).map(|object| object.header())),
            Some(network) => network.header_of(addr).await,
        }
    }
}

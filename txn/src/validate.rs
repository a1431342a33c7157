//! VALIDATE (SOSP'15 §4 step 2): everything that was read must be unlocked and unchanged.
//!
//! If this commit also writes the object, it holds the lock itself. Then the version under the lock
//! must be the one that was seen. An object locked by another commit fails even if its version
//! matches: two transactions, each holding the lock on an object that the other has read, must not
//! both pass.
//! two transactions, each holding the lock on what the other read, must not both pass.

use std::ops::Range;

use fencepost_storage::header::Header;
use fencepost_storage::{Addr, Timestamp, View};

use crate::context::Context;
use crate::fault::{self, Fault};
use crate::isolation::Isolation;
use crate::lock::LockFailure;
use crate::network::{ExpectedHeader, Headers, Network};
use crate::node::Revalidate;
use crate::read_set::{Read, StoredRead};
use crate::stop::{AbortReason, Stop};
use crate::work::Work;

/// Most nodes into which one scanned node may have been split.
const MAX_PIECES: usize = 4096;

/// Most headers of other machines' objects that are requested at once.
const AT_ONCE: usize = 2048;

/// Splits the entries into ranges whose headers are requested together.
pub(crate) fn together(of: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    let end = of.end;
    of.step_by(AT_ONCE)
        .map(move |from| from..end.min(from + AT_ONCE))
}

impl Context {
    /// Validates the whole read set with the commit's locks held.
    pub(crate) async fn validate(&mut self, w: Timestamp) -> Result<(), LockFailure> {
        if fault::injected(Fault::SkipValidation) {
            return Ok(());
        }
        match self.first_moved(true) {
            None => Ok(()),
            Some(from) => self.validate_from(from, w).await,
        }
    }

    /// Validates the read set from entry `from` on.
    fn validate_from(&mut self, from: usize, w: Timestamp) -> Work<'_, Result<(), LockFailure>> {
        Box::pin(async move {
            for range in together(from..self.reads.len()) {
                let mut posted = self.post_headers(range.clone(), true);
                for at in range {
                    if let Err(reason) = self.check(at, &mut posted, w, true).await {
                        return Err(self.abort_at(self.reads.get(at).seen.addr, reason));
                    }
                }
            }
            Ok(())
        })
    }

    /// Returns the first entry of the read set that is not in memory here at the version that was
    /// seen. `locking` says that this transaction holds its write locks.
    #[inline]
    pub(crate) fn first_moved(&self, locking: bool) -> Option<usize> {
        let mut next_write = 0;
        let mut stands = |read: &StoredRead| {
            if self.does_without(read.plain, locking) {
                return true;
            }
            let (addr, seen) = (read.addr, read.header);
            if self.machine.far(addr).is_some() {
                return false;
            }
            let header = self.machine.regions().object(addr).map(|o| o.header());
            header == Some(seen)
                || locking
                    && header == Some(seen.locked())
                    && self.holds_next(addr, &mut next_write)
        };
        self.reads.position(|read| !stands(read))
    }

    /// Starts reading, all at once, the headers of read objects that are not mapped here. If
    /// `locking`, skips the objects that this transaction has locked.
    pub(crate) fn post_headers(&self, of: Range<usize>, locking: bool) -> Headers {
        if self.machine.network().is_none() {
            return Headers::default();
        }
        self.look_at(of.filter_map(|at| {
            let read = self.reads.get(at);
            if self.does_without(read.plain, locking) {
                return None;
            }
            let seen = read.seen;
            let held = locking && self.machine.is_far(seen.addr) && self.holds(seen.addr);
            (!held).then_some((at, seen.addr, seen.header))
        }))
    }

    /// Starts reading the headers of those objects that are not mapped here.
    pub(crate) fn look_at(&self, wanted: impl Iterator<Item = ExpectedHeader>) -> Headers {
        let is_far = |(_, addr, _): &ExpectedHeader| self.machine.is_far(*addr);
        let wanted: Vec<ExpectedHeader> = wanted.filter(is_far).collect();
        let network = self.machine.network().filter(|_| !wanted.is_empty());
        network.map_or_else(Headers::default, |network| network.look_at(&wanted))
    }

    /// Returns a far object's current header: the one already requested, or a new read if that was
    /// used before.
    pub(crate) async fn far_header(
        &self,
        network: &Network,
        wanted: ExpectedHeader,
        posted: &mut Headers,
    ) -> Result<Option<Header>, Stop> {
        if let Some(header) = posted.take(network, wanted).await? {
            return Ok(header);
        }
        let (_, addr, _) = wanted;
        network.header(addr, network.post_header(addr)).await
    }

    /// Returns whether entry `at` of the read set is still valid at `when`; `locking` says that
    /// this transaction holds its write locks. If the node that was read no longer exists, returns
    /// the address where its keys are now.
    #[inline]
    pub(crate) async fn check(
        &self,
        at: usize,
        posted: &mut Headers,
        when: Timestamp,
        locking: bool,
    ) -> Result<Option<Addr>, AbortReason> {
        let read = self.reads.get(at);
        if self.does_without(read.plain, locking) {
            return Ok(None);
        }
        let addr = read.seen.addr;
        let header = match self.machine.far(addr) {
            None => self.machine.regions().object(addr).map(|o| o.header()),
            Some(network) => match self.held_base(addr).filter(|_| locking) {
                // Its primary has locked it at this version.
                Some(base) => Some(base.locked()),
                None => {
                    let wanted = (at, addr, read.seen.header);
                    let header = self.far_header(network, wanted, posted).await;
                    header.map_err(unreachable)?
                }
            },
        };
        match header {
            Some(header) if header == read.seen.header => Ok(None),
            Some(header) => self.check_moved(read, header, when, locking).await,
            None => Err(AbortReason::ReadConflict),
        }
    }

    /// Returns whether the commit does not validate an entry of the read set, which may be `plain`.
    /// `locking` says that it holds its write locks.
    #[inline]
    fn does_without(&self, plain: bool, locking: bool) -> bool {
        locking && plain && self.isolation != Isolation::Serializable
    }

    async fn check_moved(
        &self,
        read: Read,
        header: Header,
        at: Timestamp,
        locking: bool,
    ) -> Result<Option<Addr>, AbortReason> {
        if header.is_locked() && !(locking && self.locked_by_me(&read)) {
            return Err(AbortReason::ReadLocked);
        }
        if header.unlocked() == read.seen.header {
            return Ok(None);
        }
        let Some((kind, from, len)) = read.keys else {
            return Err(AbortReason::ReadConflict);
        };
        let note = self.reads.note(from, len);
        let mut addr = read.seen.addr;
        let mut moved_to = None;
        for _ in 0..MAX_PIECES {
            let judge = |header: Header, view: &View<'_>| match header.is_allocated() {
                true => kind.revalidate(note, view),
                false => kind.revalidate_removed(note),
            };
            let holds = locking && self.holds(addr);
            let (header, verdict) = match self.machine.far(addr) {
                None => self.judge_local(addr, holds, at, judge)?,
                Some(network) => {
                    let copy = network.fetch(addr).await.map_err(unreachable)?;
                    let copy = copy.ok_or(AbortReason::ReadConflict)?;
                    may_judge(copy.header(), holds, at)?;
                    (copy.header(), judge(copy.header(), &copy.view()))
                }
            };
            match verdict {
                Revalidate::Valid => return Ok(moved_to),
                Revalidate::Invalid => return Err(AbortReason::ReadConflict),
                Revalidate::ContinueAt(next) => {
                    if !header.is_allocated() {
                        moved_to = Some(next);
                    }
                    addr = next;
                }
            }
        }
        Err(AbortReason::ReadConflict)
    }

    fn judge_local(
        &self,
        addr: Addr,
        holds: bool,
        at: Timestamp,
        judge: impl FnOnce(Header, &View<'_>) -> Revalidate,
    ) -> Result<(Header, Revalidate), AbortReason> {
        let object = self.machine.regions().object(addr);
        let object = object.ok_or(AbortReason::ReadConflict)?;
        let header = object.header();
        may_judge(header, holds, at)?;
        let verdict = judge(header, &View::Live(object));
        match object.unchanged(header) {
            true => Ok((header, verdict)),
            false => Err(AbortReason::ReadLocked),
        }
    }

    fn locked_by_me(&self, read: &Read) -> bool {
        self.holds(read.seen.addr)
    }

    /// Returns whether this transaction's commit holds the lock of `addr`.
    fn holds(&self, addr: Addr) -> bool {
        self.held_base(addr).is_some()
    }

    /// Returns what [`Self::holds`] does. Mostly the writes have the order of the reads: `next` is
    /// the entry after that of the last call.
    #[inline]
    fn holds_next(&self, addr: Addr, next: &mut usize) -> bool {
        let writes = &self.writes;
        let guess = writes.writes.get(*next);
        let at = if guess.is_some_and(|write| write.addr == addr) {
            Some(*next)
        } else {
            writes.find(addr)
        };
        at.is_some_and(|at| {
            *next = at + 1;
            writes.writes[at].takes_lock()
        })
    }

    /// Returns the version at which this transaction's commit holds the lock of `addr`.
    fn held_base(&self, addr: Addr) -> Option<Header> {
        let write = &self.writes.writes[self.writes.find(addr)?];
        write.takes_lock().then_some(write.base)
    }
}

/// Returns whether a node's present state is also its state `at` that time.
fn may_judge(header: Header, holds: bool, at: Timestamp) -> Result<(), AbortReason> {
    if header.is_locked() && !holds {
        return Err(AbortReason::ReadLocked);
    }
    // A later change makes the state unusable: a key may have come before and gone after `at`.
    if header.timestamp() > at {
        return Err(AbortReason::ReadNewer);
    }
    Ok(())
}

/// Converts an error of reading an object to a reason to abort.
pub(crate) fn unreachable(stop: Stop) -> AbortReason {
    match stop {
        Stop::Retry(reason) => reason,
        _ => AbortReason::Unreachable,
    }
}

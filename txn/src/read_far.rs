//! Reading objects of peers whose memory is not mapped. It works as [`crate::read`] does, on copies
//! that one-sided reads bring.

use std::sync::Arc;

use fencepost_storage::{Addr, FatPtr, View};

use crate::backoff::moment;
use crate::counters::Event;
use crate::fault::{self, Fault};
use crate::lockfree::LockFree;
use crate::network::{AccessOutcome, Network};
use crate::node::NodeKind;
use crate::read::{ReadAttempt, ReadCallback};
use crate::read_set::ReadEntry;
use crate::stop::Stop;
use crate::transaction::Transaction;

impl Transaction {
    /// Looks once at the newest version.
    pub(crate) async fn view_newest_far(
        &mut self,
        addr: Addr,
        kind: Option<&'static dyn NodeKind>,
        f: ReadCallback<'_>,
    ) -> Result<ReadAttempt<()>, Stop> {
        let Some(network) = self.machine().network().cloned() else {
            return Err(Stop::Damaged);
        };
        if network.comes_near(addr).await? {
            return Ok(ReadAttempt::Changed);
        }
        let context = self.context();
        let known = (!context.reads_newest).then(|| context.fetched.get(addr));
        let known = known.flatten();
        let is_known = known.is_some();
        let copy = match known {
            Some(copy) => copy,
            None => {
                self.context_mut().far.reads += 1;
                Arc::new(network.fetch(addr).await?.ok_or(Stop::Damaged)?)
            }
        };
        let (mut header, view) = (copy.header(), copy.view());
        if fault::injected(Fault::ReadUnderLock) {
            header = header.unlocked();
        }
        if header.is_locked() {
            return Ok(ReadAttempt::Locked);
        }
        let context = self.context_mut();
        let newer = header.timestamp() > context.r && !context.reads_newest;
        let admitted = || kind.is_some_and(|kind| kind.admits(&view, context.r));
        if newer && !(header.is_allocated() && admitted()) {
            return Ok(ReadAttempt::Newer);
        }
        context.newest = context.newest.max(header.timestamp());
        // Do not keep a node that was only admitted: the index may want its newest version later.
        if !is_known && header.timestamp() <= context.r && kind.is_none() {
            context.fetched.keep(addr, &copy);
        }
        let own = false;
        let seen = ReadEntry { addr, header, own };
        Ok(ReadAttempt::At(
            header.is_allocated().then(|| (f(&view), seen)),
        ))
    }

    /// Reads the newest old version at or below R; `None` where the object changed meanwhile.
    pub(crate) async fn view_old_far(
        &mut self,
        addr: Addr,
        f: ReadCallback<'_>,
    ) -> Option<Result<Option<ReadEntry>, Stop>> {
        let network = self.machine().network().cloned()?;
        self.context_mut().far.reads += 1;
        let (machine, copy) = match network.fetch_of(addr).await {
            Ok(copy) => copy?,
            Err(stop) => return Some(Err(stop)),
        };
        let (header, r) = (copy.header(), self.read_timestamp());
        if header.is_locked() || header.timestamp() <= r {
            return None;
        }
        let context = self.context();
        let counters = context.machine.counters();
        counters.count(context.lane, Event::OldVersionRead);
        // One read for the old version and one to check it again; the length of the chain is not
        // counted.
        self.context_mut().far.reads += 2;
        let mut look = |view: &View<'_>| f(view);
        match network.find_far((machine, &copy), r, &mut look).await {
            Ok(found) => Some(self.context_mut().seen_before(addr, found)),
            Err(stop) => Some(Err(stop)),
        }
    }
}

impl Network {
    /// Reads an object as [`crate::Machine::read_lockfree`] does.
    pub(crate) async fn read_lockfree(
        &self,
        ptr: FatPtr,
        out: &mut Vec<u64>,
    ) -> Result<AccessOutcome<LockFree>, Stop> {
        if self.comes_near(ptr.addr).await? {
            return Ok(AccessOutcome::Near);
        }
        for round in 0.. {
            let Some(copy) = self.fetch(ptr.addr).await? else {
                return Ok(AccessOutcome::Far(LockFree::Freed));
            };
            let header = copy.header();
            if header.is_locked() {
                moment(round).await;
                continue;
            }
            let same = u32::from(copy.link().incarnation()) == ptr.incarnation;
            if !same || !header.is_allocated() {
                return Ok(AccessOutcome::Far(LockFree::Freed));
            }
            out.clear();
            out.resize((ptr.size as usize).div_ceil(8).min(copy.payload().len()), 0);
            copy.view().copy(0, out);
            return Ok(AccessOutcome::Far(LockFree::Found));
        }
        Ok(AccessOutcome::Far(LockFree::Freed))
    }
}

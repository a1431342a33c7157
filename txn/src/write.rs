//! Writing: everything goes to the write set; objects change at commit.
//!
//! New objects are the exception that is none: their slots are written at once, because nothing leads
//! to them before the commit and their allocated bit is off until then.

use fencepost_storage::classes::Class;
use fencepost_storage::header::Header;
use fencepost_storage::lanes::{Lane, Supply};
use fencepost_storage::raw::WORD_BYTES;
use fencepost_storage::{Addr, FatPtr, OutOfMemory, View};

use crate::node::{NodeKind, Refusal};
use crate::savepoint::Undo;
use crate::stop::{AbortReason, Stop};
use crate::transaction::{Context, Mode, Transaction};
use crate::write_set::{What, Write};

/// Write sets are charged to the account in steps of this many bytes.
const CHARGE_STEP: usize = 1 << 20;
/// Entries of a write set.
const MAX_WRITES: usize = 1 << 28;

impl Context {
    /// Puts the slots of new objects back: nobody has seen them.
    pub fn give_new_back(&mut self) {
        let mut lane = None;
        for write in &self.writes.writes {
            if matches!(write.what, What::New { .. } | What::Unborn) {
                lane.get_or_insert_with(|| self.machine.lanes().enter(self.lane))
                    .give_back(self.machine.regions(), write.addr);
            }
        }
    }

    fn push(&mut self, write: Write) -> Result<usize, Stop> {
        self.room_for(1)?;
        let at = self.writes.push(write);
        self.undos.push(Undo::Added);
        self.charge()?;
        Ok(at)
    }

    fn room_for(&self, entries: usize) -> Result<(), Stop> {
        if self.writes.writes.len() + entries > MAX_WRITES {
            return Err(Stop::TooLarge(
                "a transaction may write at most 268435456 objects",
            ));
        }
        Ok(())
    }

    /// Charges what the write set has grown by; small ones are free.
    fn charge(&mut self) -> Result<(), Stop> {
        let bytes = self.writes.bytes() + self.undos.bytes();
        if bytes > self.charged + CHARGE_STEP {
            self.machine
                .account()
                .charge((bytes - self.charged) as u64)?;
            self.charged = bytes;
        }
        Ok(())
    }

    /// Entry `at` is about to be changed: remembers it as it is, for open savepoints.
    fn note_change(&mut self, at: usize) -> Result<(), Stop> {
        let write = self.writes.writes[at];
        self.prewritten_touched |= write.is_settled();
        if self.undos.is_active() {
            let words = match (write.what, self.machine.regions().object(write.addr)) {
                (What::New { .. }, Some(object)) => {
                    let mut words = vec![0; object.len()];
                    object.copy(0, &mut words);
                    words
                }
                _ => self.writes.image(&write).to_vec(),
            };
            self.undos.push(Undo::Changed(at, write, words));
        }
        self.charge()
    }
}

impl Transaction {
    fn writable(&self) -> Result<(), Stop> {
        if self.mode() == Mode::ReadWrite {
            Ok(())
        } else {
            Err(Stop::ReadOnly)
        }
    }

    /// The entry of an object that is to be overwritten, with its current version as the image.
    async fn own(&mut self, addr: Addr) -> Result<usize, Stop> {
        self.writable()?;
        loop {
            self.catch_up().await?;
            if let Some(at) = self.context().writes.find(addr) {
                let context = self.context_mut();
                match context.writes.writes[at].what {
                    What::Freed | What::Unborn => return Err(Stop::Damaged),
                    What::Idle => {}
                    What::Image { .. } | What::Patched(_) | What::New { .. } => {
                        context.note_change(at)?;
                        return Ok(at);
                    }
                }
            }
            let mut image = std::mem::take(&mut self.context_mut().scratch);
            let found = self
                .view(addr, None, |view| copy_whole(view, &mut image))
                .await;
            let done = match found {
                // A refresh on the way has rerouted patches to this very object.
                Ok(Some(((), seen))) if seen.own => None,
                found => Some(self.own_found(
                    addr,
                    found.map(|f| f.map(|((), seen)| seen.header)),
                    What::Image { kind: None },
                    &image,
                )),
            };
            self.context_mut().scratch = image;
            if let Some(done) = done {
                return done;
            }
        }
    }

    fn own_found(
        &mut self,
        addr: Addr,
        found: Result<Option<Header>, Stop>,
        what: What,
        image: &[u64],
    ) -> Result<usize, Stop> {
        let base = found?.ok_or(Stop::Damaged)?;
        if base.timestamp() > self.context().r {
            let context = self.context_mut();
            return Err(context.conflict_at(addr, AbortReason::WriteConflict));
        }
        self.push_image(addr, base, what, image)
    }

    fn push_image(
        &mut self,
        addr: Addr,
        base: Header,
        what: What,
        image: &[u64],
    ) -> Result<usize, Stop> {
        let context = self.context_mut();
        let range = context.writes.new_image(image.len());
        context.writes.image_mut(range).copy_from_slice(image);
        let write = Write {
            addr,
            base,
            what,
            image: range,
            patch: 0,
        };
        // An entry whose patches were taken serves again: an object has one entry.
        if let Some(at) = context.writes.find(addr) {
            debug_assert!(
                matches!(context.writes.writes[at].what, What::Idle),
                "an entry in use would lose its changes"
            );
            context.note_change(at)?;
            context.prewritten_touched |= write.is_settled();
            context.writes.writes[at] = write;
            return Ok(at);
        }
        context.push(write)
    }

    /// Overwrites the payload from its beginning; what lies beyond `payload` stays.
    ///
    /// # Errors
    /// As [`Self::view`]; [`Stop::Damaged`] if the object does not exist or is shorter.
    pub async fn write(&mut self, addr: Addr, payload: &[u64]) -> Result<(), Stop> {
        let done = self
            .update(addr, |image| match image.get_mut(..payload.len()) {
                Some(part) => {
                    part.copy_from_slice(payload);
                    true
                }
                None => false,
            })
            .await?;
        if done { Ok(()) } else { Err(Stop::Damaged) }
    }

    /// Changes a private copy of the version that the transaction sees. It commits only over that
    /// very version.
    ///
    /// # Errors
    /// As [`Self::view`]; [`Stop::Damaged`] if the object does not exist.
    pub async fn update<T>(
        &mut self,
        addr: Addr,
        f: impl FnOnce(&mut [u64]) -> T,
    ) -> Result<T, Stop> {
        let at = self.own(addr).await?;
        let context = self.context_mut();
        let write = context.writes.writes[at];
        match write.what {
            What::New { .. } => {
                let object = context
                    .machine
                    .regions()
                    .object(addr)
                    .ok_or(Stop::Damaged)?;
                context.scratch.clear();
                context.scratch.resize(object.len(), 0);
                object.copy(0, &mut context.scratch);
                let value = f(&mut context.scratch);
                object.put(0, &context.scratch);
                Ok(value)
            }
            _ => {
                // An exact write of a node swallows its patches: it must not move under them. They have
                // changed its keys all the same, so it gets the commit timestamp.
                let kind = match write.what {
                    What::Patched(kind) => Some(kind),
                    What::Image { kind } => kind,
                    _ => None,
                };
                context.writes.writes[at].what = What::Image { kind };
                Ok(f(context.writes.image_mut(write.image)))
            }
        }
    }

    /// Writes the payload of an object that this transaction allocated, in its slot.
    ///
    /// # Errors
    /// [`Stop::Damaged`] if it is not such an object.
    pub fn write_new(&mut self, ptr: FatPtr, payload: &[u64]) -> Result<(), Stop> {
        let context = self.context_mut();
        let at = context.writes.find(ptr.addr).ok_or(Stop::Damaged)?;
        let What::New { .. } = context.writes.writes[at].what else {
            return Err(Stop::Damaged);
        };
        context.note_change(at)?;
        let object = context
            .machine
            .regions()
            .object(ptr.addr)
            .ok_or(Stop::Damaged)?;
        object.put(0, payload);
        Ok(())
    }

    /// Has `kind` write the commit timestamp into what this transaction puts at `addr`: a new object, or
    /// one that it overwrites.
    ///
    /// # Errors
    /// [`Stop::Damaged`] if it does neither.
    pub fn stamp_with(&mut self, addr: Addr, kind: &'static dyn NodeKind) -> Result<(), Stop> {
        let writes = &mut self.context_mut().writes;
        let at = writes.find(addr).ok_or(Stop::Damaged)?;
        match &mut writes.writes[at].what {
            What::Image { kind: by } | What::New { kind: by, .. } => *by = Some(kind),
            _ => return Err(Stop::Damaged),
        }
        Ok(())
    }

    /// Whether the transaction puts there what carries its commit timestamp.
    pub fn stamps(&self, addr: Addr) -> bool {
        let writes = &self.context().writes;
        writes.find(addr).is_some_and(|at| {
            matches!(
                writes.writes[at].what,
                What::Image { kind: Some(_) } | What::New { kind: Some(_), .. }
            )
        })
    }

    /// Whether the transaction overwrites the object or has made it itself.
    pub fn has_image(&self, addr: Addr) -> bool {
        let writes = &self.context().writes;
        writes.find(addr).is_some_and(|at| {
            matches!(
                writes.writes[at].what,
                What::Image { .. } | What::New { .. }
            )
        })
    }

    /// Whether the object is one that this transaction allocated and has not freed.
    pub fn owns(&self, addr: Addr) -> bool {
        let writes = &self.context().writes;
        writes
            .find(addr)
            .is_some_and(|at| matches!(writes.writes[at].what, What::New { .. }))
    }

    /// Allocates an object of `words` zeroed payload words, near `near` if that is not null.
    ///
    /// # Errors
    /// [`Stop::OutOfMemory`] at the limit; [`Stop::TooLarge`] beyond a block.
    pub fn alloc(&mut self, words: usize, near: Addr) -> Result<FatPtr, Stop> {
        self.alloc_with(words, near, Addr::NULL)
    }

    /// As [`Self::alloc`]; readers of the past see in the new object what `image_of` was before this
    /// transaction, which has to write `image_of` too, or to have made it by such a split itself.
    ///
    /// # Errors
    /// As [`Self::alloc`].
    pub fn alloc_split_of(
        &mut self,
        words: usize,
        near: Addr,
        image_of: Addr,
    ) -> Result<FatPtr, Stop> {
        self.alloc_with(words, near, image_of)
    }

    fn alloc_with(&mut self, words: usize, near: Addr, split_of: Addr) -> Result<FatPtr, Stop> {
        self.writable()?;
        let class = class_for(words)?;
        let context = self.context_mut();
        context.room_for(1)?;
        // What is split off a new object continues what that one continues.
        let split_of = match context
            .writes
            .find(split_of)
            .map(|at| context.writes.writes[at].what)
        {
            Some(What::New { split_of, .. }) => split_of,
            _ => split_of,
        };
        let addr = context.take_slots(|lane, supply| lane.alloc(supply, class, near))?;
        context.adopt_new(addr, words, split_of)
    }

    /// Allocates `count` objects in consecutive slots of one block, [`slot_bytes`] apart, and answers
    /// the first.
    ///
    /// # Errors
    /// As [`Self::alloc`]; [`Stop::TooLarge`] where a block does not hold so many.
    pub fn alloc_run(&mut self, words: usize, count: usize) -> Result<FatPtr, Stop> {
        self.writable()?;
        let class = class_for(words)?;
        if count == 0 || count > class.slots() {
            return Err(Stop::TooLarge("a run of objects must fit one block"));
        }
        let context = self.context_mut();
        context.room_for(count)?;
        let first = context.take_slots(|lane, supply| lane.alloc_run(supply, class, count))?;
        let stride = slot_bytes(words)? as u64;
        // All of them become entries even if one is refused, so that all go back with the transaction.
        let slots = (0..count as u64).map(|i| Addr::from_raw(first.raw() + i * stride));
        let mut taken: Vec<_> = slots
            .map(|slot| context.adopt_new(slot, words, Addr::NULL))
            .collect();
        let answer = taken.swap_remove(0);
        taken.into_iter().find_map(Result::err).map_or(answer, Err)
    }

    /// Frees an object: its tombstone takes effect at commit, and readers of the past still see it.
    ///
    /// # Errors
    /// As [`Self::view`]; [`Stop::Damaged`] if it does not exist.
    pub async fn free(&mut self, addr: Addr) -> Result<(), Stop> {
        self.free_seen(addr, |_| ()).await
    }

    /// As [`Self::free`]; answers what `f` says of the payload as it was.
    ///
    /// # Errors
    /// As [`Self::free`].
    pub async fn free_seen<T: Send>(
        &mut self,
        addr: Addr,
        mut f: impl FnMut(&View<'_>) -> T + Send,
    ) -> Result<T, Stop> {
        self.writable()?;
        self.catch_up().await?;
        let (answer, seen) = self.view(addr, None, &mut f).await?.ok_or(Stop::Damaged)?;
        let context = self.context_mut();
        context.prewritten_touched = true;
        let entry = context.writes.find(addr);
        match entry.map(|at| (at, context.writes.writes[at].what)) {
            Some((_, What::Freed | What::Unborn)) => return Err(Stop::Damaged),
            Some((at, What::New { .. })) => {
                context.note_change(at)?;
                context.writes.writes[at].what = What::Unborn;
            }
            Some((at, What::Image { .. } | What::Patched(_))) => {
                context.note_change(at)?;
                context.writes.writes[at].what = What::Freed;
            }
            // A tombstone needs no image.
            Some((_, What::Idle)) | None => {
                self.own_found(addr, Ok(Some(seen.header)), What::Freed, &[])?;
            }
        }
        Ok(answer)
    }

    /// Applies `op` to a node. The node is taken at its current version, which must hold the keys of
    /// the snapshot ([`NodeKind::admits`]); if it moves before the commit, `op` is applied again.
    ///
    /// # Errors
    /// The outer error as [`Self::view`]; the inner one is why `op` does not apply to the node as the
    /// transaction sees it, and nothing has changed then.
    pub async fn patch(
        &mut self,
        addr: Addr,
        kind: &'static dyn NodeKind,
        op: &[u64],
    ) -> Result<Result<(), Refusal>, Stop> {
        self.writable()?;
        loop {
            self.catch_up().await?;
            let found = self.context().writes.find(addr);
            match found.map(|at| (at, self.context().writes.writes[at])) {
                Some((
                    _,
                    Write {
                        what: What::Freed | What::Unborn,
                        ..
                    },
                )) => return Ok(Err(Refusal::WrongNode)),
                Some((
                    at,
                    write @ Write {
                        what: What::New { .. },
                        ..
                    },
                )) => return self.patch_new(at, write, kind, op),
                Some((
                    at,
                    write @ Write {
                        what: What::Image { .. } | What::Patched(_),
                        ..
                    },
                )) => {
                    return self.patch_image(at, write, kind, op);
                }
                Some((
                    _,
                    Write {
                        what: What::Idle, ..
                    },
                ))
                | None => {}
            }
            if let Some(done) = self.patch_committed(addr, kind, op).await? {
                return Ok(done);
            }
        }
    }

    fn patch_image(
        &mut self,
        at: usize,
        write: Write,
        kind: &'static dyn NodeKind,
        op: &[u64],
    ) -> Result<Result<(), Refusal>, Stop> {
        let context = self.context_mut();
        context.note_change(at)?;
        if let Err(refusal) = kind.apply(op, context.writes.image_mut(write.image)) {
            return Ok(Err(refusal));
        }
        if let What::Patched(_) = write.what {
            context.writes.push_patch(at, op);
        } else {
            context.writes.writes[at].what = What::Image { kind: Some(kind) };
        }
        Ok(Ok(()))
    }

    fn patch_new(
        &mut self,
        at: usize,
        write: Write,
        kind: &'static dyn NodeKind,
        op: &[u64],
    ) -> Result<Result<(), Refusal>, Stop> {
        let context = self.context_mut();
        context.note_change(at)?;
        let object = context
            .machine
            .regions()
            .object(write.addr)
            .ok_or(Stop::Damaged)?;
        context.scratch.clear();
        context.scratch.resize(object.len(), 0);
        object.copy(0, &mut context.scratch);
        if let Err(refusal) = kind.apply(op, &mut context.scratch) {
            return Ok(Err(refusal));
        }
        object.put(0, &context.scratch);
        if let What::New { kind: stamped, .. } = &mut context.writes.writes[at].what {
            *stamped = Some(kind);
        }
        Ok(Ok(()))
    }

    /// `None` where the node has become this transaction's own while it was looked at: a refresh has
    /// rerouted patches to it.
    async fn patch_committed(
        &mut self,
        addr: Addr,
        kind: &'static dyn NodeKind,
        op: &[u64],
    ) -> Result<Option<Result<(), Refusal>>, Stop> {
        let mut image = std::mem::take(&mut self.context_mut().scratch);
        let found = self
            .view(addr, Some(kind), |view| copy_whole(view, &mut image))
            .await;
        let result = match found {
            Err(stop) => Err(stop),
            Ok(None) => Ok(Some(Err(Refusal::WrongNode))),
            Ok(Some(((), seen))) if seen.own => Ok(None),
            Ok(Some(((), seen))) => match kind.apply(op, &mut image) {
                Err(refusal) => Ok(Some(Err(refusal))),
                Ok(()) => self
                    .push_image(addr, seen.header, What::Patched(kind), &image)
                    .map(|at| {
                        self.context_mut().writes.push_patch(at, op);
                        Some(Ok(()))
                    }),
            },
        };
        self.context_mut().scratch = image;
        result
    }

    /// Takes the patches of a node out of the transaction, oldest first, as if they had not been
    /// made; the caller makes them anew where they belong after a split. Empty where the node has
    /// none of its own.
    pub fn take_patches(&mut self, addr: Addr) -> Vec<Vec<u64>> {
        let context = self.context_mut();
        let Some(at) = context.writes.find(addr) else {
            return Vec::new();
        };
        let write = context.writes.writes[at];
        let What::Patched(_) = write.what else {
            return Vec::new();
        };
        // What is refused here is charged, or refused again, by the next change.
        let _ = context.note_change(at);
        let ranges = context.writes.patches_of(&write);
        let ops = ranges
            .into_iter()
            .map(|range| context.writes.op(range).to_vec())
            .collect();
        let write = &mut context.writes.writes[at];
        write.what = What::Idle;
        write.patch = 0;
        ops
    }
}

impl Transaction {
    /// Whether this transaction has patched any node.
    pub fn has_patches(&self) -> bool {
        self.context().writes.has_patches()
    }

    /// Whether a node that this transaction patched has moved since; `None` if it has no patches
    /// there.
    pub fn patch_is_stale(&self, addr: Addr) -> Option<bool> {
        let context = self.context();
        let write = &context.writes.writes[context.writes.find(addr)?];
        let What::Patched(_) = write.what else {
            return None;
        };
        context
            .machine
            .regions()
            .object(addr)
            .map(|object| object.header() != write.base)
    }

    /// A patched node, among the newest `limit` entries of the write set, that has moved.
    pub fn find_stale_patch(&self, limit: usize) -> Option<Addr> {
        let newest = self.context().writes.writes.iter().rev().take(limit);
        newest
            .map(|write| write.addr)
            .find(|addr| self.patch_is_stale(*addr) == Some(true))
    }
}

impl Context {
    /// Takes slots from the coordinator's lane, or else what blocks that are empty give: they may
    /// serve another size class.
    fn take_slots(
        &self,
        take: impl Fn(&mut Lane, Supply<'_>) -> Result<Addr, OutOfMemory>,
    ) -> Result<Addr, OutOfMemory> {
        let machine = &self.machine;
        let try_once =
            || machine.with_supply(|supply| take(&mut machine.lanes().enter(self.lane), supply));
        try_once().or_else(|_| {
            machine.release_empty_blocks();
            try_once()
        })
    }

    /// Makes a slot that was taken an entry, whatever the answer.
    fn adopt_new(&mut self, addr: Addr, words: usize, split_of: Addr) -> Result<FatPtr, Stop> {
        self.new_words += words;
        let object = self.machine.regions().object(addr).ok_or(Stop::Damaged)?;
        // Whoever still looks at an earlier object of the slot finds its header gone.
        object.begin_install();
        object.clear();
        let base = object.header();
        let incarnation = object.link().incarnation().wrapping_add(1);
        let what = What::New {
            incarnation,
            split_of,
            kind: None,
        };
        self.push(Write {
            addr,
            base,
            what,
            image: (0, 0),
            patch: 0,
        })?;
        Ok(FatPtr {
            addr,
            size: (words * WORD_BYTES) as u32,
            incarnation: u32::from(incarnation),
        })
    }
}

fn copy_whole(view: &View<'_>, out: &mut Vec<u64>) {
    out.clear();
    out.resize(view.len(), 0);
    view.copy(0, out);
}

fn class_for(words: usize) -> Result<Class, Stop> {
    Class::for_payload(words).ok_or(Stop::TooLarge("an object must fit a block of 1 MiB"))
}

/// Bytes from one slot to the next of objects of `words` payload words.
///
/// # Errors
/// [`Stop::TooLarge`] where no block holds such an object.
pub fn slot_bytes(words: usize) -> Result<usize, Stop> {
    class_for(words).map(|class| class.slot_words() * WORD_BYTES)
}

//! New objects: allocation, writing, and release if the transaction aborts.
//!
//! No object points to a new object before the commit, and its allocated bit is off until then. So
//! a new object of this machine is written into its slot at once. A new object of another machine
//! has a slot reserved there ([`crate::network`]) and an image here: other machines' regions are
//! never written.

use fencepost_fabric::MachineId;
use fencepost_fabric::memory::WORD_BYTES;
use fencepost_storage::classes::Class;
use fencepost_storage::lanes::{Lane, LaneResources};
use fencepost_storage::layout::{LINE_WORDS, payload_words};
use fencepost_storage::{Addr, FatPtr, ObjectRef};

use crate::context::Context;
use crate::network::{ReservedSlot, Slot, SlotRequest};
use crate::stop::{AbortReason, Stop};
use crate::transaction::Transaction;
use crate::work::Work;
use crate::write_set::{Payload, Write, WriteKind};

/// The location of a new object: a wish, as the location hints of NSDI'14 §3.3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectLocation {
    /// On this machine.
    Own,
    /// On this machine; if the other object is there too, in its block or region if those have
    /// space.
    OwnBeside(Addr),
    /// On the machine of the other object, and near it unless reserved slots elsewhere on that
    /// machine are available.
    Object(Addr),
    /// On that machine.
    Machine(MachineId),
}

/// The machine of a new slot, and the object near it if the address is not null.
#[derive(Clone, Copy)]
enum SlotLocation {
    Local(Addr),
    Remote(MachineId, Addr),
}

impl Transaction {
    /// Writes the payload of an object that this transaction allocated.
    ///
    /// # Errors
    /// [`Stop::Damaged`] if the transaction has not allocated the object; [`Stop::OutOfMemory`] if
    /// the memory for undoing the write is refused.
    pub fn write_new(&mut self, ptr: FatPtr, payload: &[u64]) -> Result<(), Stop> {
        let context = self.context_mut();
        let at = context.writes.find(ptr.addr).ok_or(Stop::Damaged)?;
        let WriteKind::New { .. } = context.writes.writes[at].what else {
            return Err(Stop::Damaged);
        };
        context.note_change(at)?;
        match context.writes.writes[at].payload() {
            Payload::Slot(addr) => {
                context.slot_of_new(addr)?.put(0, payload);
            }
            Payload::Image(range) => {
                let image = context.writes.image_mut(range);
                let part = image.get_mut(..payload.len()).ok_or(Stop::Damaged)?;
                part.copy_from_slice(payload);
            }
        }
        Ok(())
    }

    /// Returns whether this transaction allocated the object and has not freed it.
    pub fn owns(&self, addr: Addr) -> bool {
        let writes = &self.context().writes;
        writes
            .find(addr)
            .is_some_and(|at| matches!(writes.writes[at].what, WriteKind::New { .. }))
    }

    /// Allocates an object of `words` zeroed payload words. Does not wait where the object is on
    /// this machine, unless a new region is needed there. An abort frees the object.
    ///
    /// # Errors
    /// [`Stop::OutOfMemory`] at the limit of its machine; [`Stop::TooLarge`] beyond a block;
    /// [`Stop::Retry`] where its machine or the CM cannot be reached; [`Stop::ReadOnly`] in a
    /// read-only transaction.
    #[inline]
    pub async fn alloc(&mut self, words: usize, near: ObjectLocation) -> Result<FatPtr, Stop> {
        self.alloc_with(words, near, Addr::NULL).await
    }

    /// Allocates as [`Self::alloc`] does. Readers of older snapshots see in the new object the
    /// version of `image_of` before this transaction. The transaction must write `image_of` too, or
    /// must have made it by such a split itself. On another machine the new object must be beside
    /// `image_of`, and is placed there.
    ///
    /// # Errors
    /// As [`Self::alloc`].
    pub async fn alloc_split_of(
        &mut self,
        words: usize,
        near: ObjectLocation,
        image_of: Addr,
    ) -> Result<FatPtr, Stop> {
        self.alloc_with(words, near, image_of).await
    }

    async fn alloc_with(
        &mut self,
        words: usize,
        near: ObjectLocation,
        split_of: Addr,
    ) -> Result<FatPtr, Stop> {
        self.writable()?;
        let class = class_for(words)?;
        let context = self.context_mut();
        context.check_space(1)?;
        // A split of a new object continues the object that the new object continues.
        let split_of = match context
            .writes
            .find(split_of)
            .map(|at| context.writes.writes[at].what)
        {
            Some(WriteKind::New { split_of, .. }) => split_of,
            _ => split_of,
        };
        match self.alloc_at_once((words, class), near, split_of) {
            Some(answer) => answer,
            None => self.alloc_in_time((words, class), near, split_of).await,
        }
    }

    /// Returns the machine for a new object, once the primaries of the objects that it is to be
    /// near are known.
    fn place_of(&self, near: ObjectLocation, split_of: Addr) -> SlotLocation {
        let context = self.context();
        match context.place(near) {
            SlotLocation::Remote(..) if !split_of.is_null() => {
                context.place(ObjectLocation::Object(split_of))
            }
            place => place,
        }
    }

    /// Allocates as [`Self::alloc_with`] does, if nothing must be awaited: this machine has a free
    /// slot, or a reserved one on the other machine.
    fn alloc_at_once(
        &mut self,
        (words, class): (usize, Class),
        near: ObjectLocation,
        split_of: Addr,
    ) -> Option<Result<FatPtr, Stop>> {
        if self.context().unknown_neighbor(near, split_of).is_some() {
            return None;
        }
        let place = self.place_of(near, split_of);
        let context = self.context_mut();
        Some(match place {
            SlotLocation::Local(near) => {
                let since = context.slots_since();
                let take =
                    |lane: &mut Lane, supply: LaneResources<'_>| lane.alloc(supply, class, near);
                let addr = context.machine.take_slots(context.lane, take).ok()?;
                context.adopt_new((addr, since), (words, class), split_of)
            }
            SlotLocation::Remote(machine, _) => {
                let slot = context.take_reserved(machine, class)?;
                context.adopt_reserved(slot, words, split_of)
            }
        })
    }

    /// Allocates as [`Self::alloc_with`] does, and waits where necessary.
    fn alloc_in_time(
        &mut self,
        (words, class): (usize, Class),
        near: ObjectLocation,
        split_of: Addr,
    ) -> Work<'_, Result<FatPtr, Stop>> {
        Box::pin(async move {
            while let Some(addr) = self.context().unknown_neighbor(near, split_of) {
                self.machine().meet(&[addr]).await?;
            }
            if let Some(answer) = self.alloc_at_once((words, class), near, split_of) {
                return answer;
            }
            match self.place_of(near, split_of) {
                SlotLocation::Local(near) => {
                    let context = self.context();
                    let (lane, since) = (context.lane, context.slots_since());
                    let take = |lane: &mut Lane, supply: LaneResources<'_>| {
                        lane.alloc(supply, class, near)
                    };
                    match self.take_of_new_region(lane, near, &take).await {
                        Err(Stop::OutOfMemory) if self.context().stand_in().is_some() => {
                            self.alloc_elsewhere(class, words, split_of).await
                        }
                        taken => {
                            let context = self.context_mut();
                            context.adopt_new((taken?, since), (words, class), split_of)
                        }
                    }
                }
                SlotLocation::Remote(machine, near) => {
                    let wanted = SlotRequest::batch(class, near);
                    match self.reserve_slots(machine, wanted).await {
                        Err(Stop::OutOfMemory) if self.context().is_leaving(machine) => {
                            self.alloc_elsewhere(class, words, split_of).await
                        }
                        came => {
                            let slot = came?.first().copied().ok_or(Stop::OutOfMemory)?;
                            self.context_mut().adopt_reserved(slot, words, split_of)
                        }
                    }
                }
            }
        })
    }

    /// Allocates elsewhere an object for a machine that is leaving the cluster, and is given no
    /// further region.
    fn alloc_elsewhere(
        &mut self,
        class: Class,
        words: usize,
        split_of: Addr,
    ) -> Work<'_, Result<FatPtr, Stop>> {
        Box::pin(async move {
            if !split_of.is_null() {
                // The object must be beside `split_of`, which is going to move soon.
                return Err(Stop::Retry(AbortReason::Unreachable));
            }
            let context = self.context();
            let (lane, since) = (context.lane, context.slots_since());
            let Some(machine) = context.stand_in() else {
                let near = Addr::NULL;
                let take =
                    |lane: &mut Lane, supply: LaneResources<'_>| lane.alloc(supply, class, near);
                let addr = match self.machine().take_slots(lane, take) {
                    Ok(addr) => addr,
                    Err(_) => self.take_of_new_region(lane, near, &take).await?,
                };
                let context = self.context_mut();
                return context.adopt_new((addr, since), (words, class), split_of);
            };
            let wanted = SlotRequest::batch(class, Addr::NULL);
            let came = self.reserve_slots(machine, wanted).await?;
            let slot = came.first().copied().ok_or(Stop::OutOfMemory)?;
            self.context_mut().adopt_reserved(slot, words, split_of)
        })
    }

    /// Allocates `count` objects in consecutive slots of one block, [`slot_bytes`] apart. Returns
    /// the first.
    ///
    /// # Errors
    /// As [`Self::alloc`]; [`Stop::TooLarge`] where a block does not hold so many, or for none.
    pub async fn alloc_run(
        &mut self,
        words: usize,
        count: usize,
        near: ObjectLocation,
    ) -> Result<FatPtr, Stop> {
        self.writable()?;
        let class = class_for(words)?;
        if count == 0 || count > class.slots() {
            return Err(Stop::TooLarge("a run of objects must fit one block"));
        }
        let context = self.context_mut();
        context.check_space(count)?;
        while let Some(addr) = self.context().unknown_neighbor(near, Addr::NULL) {
            self.machine().meet(&[addr]).await?;
        }
        let context = self.context_mut();
        // All of them become entries even if one fails, so that an abort releases all of them.
        let mut taken: Vec<_> = match context.place(near) {
            SlotLocation::Local(near) => {
                let (machine, since) = (&context.machine, context.slots_since());
                let take = |lane: &mut Lane, supply: LaneResources<'_>| {
                    lane.alloc_run(supply, class, count)
                };
                let first = match machine.take_slots(context.lane, take) {
                    Ok(first) => first,
                    Err(_) => {
                        let (lane, me) = (context.lane, MachineId(machine.number()));
                        let came = self.take_of_new_region(lane, near, &take).await;
                        came.map_err(|stop| self.context().unless_leaving(me, stop))?
                    }
                };
                let context = self.context_mut();
                let stride = slot_bytes(words)? as u64;
                let slots = (0..count as u64).map(|i| Addr::from_raw(first.raw() + i * stride));
                let adopt = |slot| context.adopt_new((slot, since), (words, class), Addr::NULL);
                slots.map(adopt).collect()
            }
            SlotLocation::Remote(machine, near) => {
                let wanted = SlotRequest {
                    class,
                    count,
                    run: true,
                    near,
                };
                let slots = self.reserve_slots(machine, wanted).await;
                let slots = slots.map_err(|stop| self.context().unless_leaving(machine, stop))?;
                let context = self.context_mut();
                let adopt = |slot| context.adopt_reserved(slot, words, Addr::NULL);
                slots.into_iter().map(adopt).collect()
            }
        };
        let answer = taken.swap_remove(0);
        taken.into_iter().find_map(Result::err).map_or(answer, Err)
    }
}

impl Context {
    /// Copies the payload of a new object to `out`.
    pub fn copy_new(&self, write: &Write, out: &mut Vec<u64>) {
        out.clear();
        match write.payload() {
            Payload::Slot(addr) => {
                if let Ok(object) = self.slot_of_new(addr) {
                    out.resize(object.len(), 0);
                    object.copy(0, out);
                }
            }
            Payload::Image(_) => out.extend_from_slice(self.writes.image(write)),
        }
    }

    /// Changes the payload of a new object with `f`.
    pub fn change_new<T>(
        &mut self,
        write: &Write,
        f: impl FnOnce(&mut [u64]) -> T,
    ) -> Result<T, Stop> {
        let addr = match write.payload() {
            Payload::Image(range) => return Ok(f(self.writes.image_mut(range))),
            Payload::Slot(addr) => addr,
        };
        let mut scratch = std::mem::take(&mut self.scratch);
        let changed = self.slot_of_new(addr).map(|object| {
            scratch.clear();
            scratch.resize(object.len(), 0);
            object.copy(0, &mut scratch);
            let value = f(&mut scratch);
            object.put(0, &scratch);
            value
        });
        self.scratch = scratch;
        changed
    }

    /// Returns an error if the transaction no longer owns the slot of a new object. If its region
    /// was handed over, another transaction may have an object in the slot, which must not be taken
    /// for the new one.
    pub fn keeps_new(&self, addr: Addr) -> Result<(), Stop> {
        let network = self.machine.network();
        match network.is_some_and(|network| network.is_stale(addr, self.reserved_since)) {
            true => Err(Stop::Retry(AbortReason::Unreachable)),
            false => Ok(()),
        }
    }

    /// Returns the slot of a new object on this machine, or an error if the region has moved away
    /// since.
    pub fn slot_of_new(&self, addr: Addr) -> Result<ObjectRef<'_>, Stop> {
        self.keeps_new(addr)?;
        let network = self.machine.network();
        let object = self.machine.regions().own_object(addr);
        object.ok_or(match network {
            Some(_) => Stop::Retry(AbortReason::Unreachable),
            None => Stop::Damaged,
        })
    }

    /// Returns whether `write` is a new object whose slot this machine took for it, and still has.
    pub fn has_slot_of(&self, write: &Write) -> bool {
        match (write.what, write.payload()) {
            (WriteKind::New { .. } | WriteKind::Unborn(_), Payload::Slot(addr)) => {
                self.slot_of_new(addr).is_ok()
            }
            _ => false,
        }
    }

    /// Gives the slots of new objects back: no other transaction has seen them.
    pub fn give_new_back(&mut self) {
        let mut lane = None;
        for write in &self.writes.writes {
            if self.has_slot_of(write) {
                lane.get_or_insert_with(|| self.machine.lanes().enter(self.lane))
                    .give_back(self.machine.regions(), write.addr);
            } else {
                self.give_reserved_back(write);
            }
        }
    }

    /// Gives the slot of a new object of another machine, if `write` is one, back to the reserved
    /// slots.
    pub fn give_reserved_back(&self, write: &Write) {
        if let WriteKind::New { slot, .. } | WriteKind::Unborn(slot) = write.what
            && let Payload::Image(_) = write.payload()
        {
            self.return_slot(ReservedSlot {
                addr: write.addr,
                base: write.base,
                slot,
                since: self.reserved_since,
            });
        }
    }

    fn return_slot(&self, slot: ReservedSlot) {
        if let Some(network) = self.machine.network()
            && let Some(primary) = network.primary(slot.addr)
        {
            network.put_back(primary, &[slot], self.machine.now());
        }
    }

    /// Returns the object that a new object is to be near, or continues, if its primary is not
    /// known here yet.
    #[inline]
    fn unknown_neighbor(&self, near: ObjectLocation, split_of: Addr) -> Option<Addr> {
        let network = self.machine.network()?;
        let near = match near {
            ObjectLocation::Object(addr) => addr,
            _ => Addr::NULL,
        };
        let mut either = [near, split_of].into_iter();
        either.find(|addr| !addr.is_null() && !network.knows(addr.region()))
    }

    /// Returns the machine for a new object. [`Self::unknown_neighbor`] has returned `None` before.
    fn place(&self, near: ObjectLocation) -> SlotLocation {
        let Some(network) = self.machine.network() else {
            return SlotLocation::Local(match near {
                ObjectLocation::OwnBeside(addr) | ObjectLocation::Object(addr) => addr,
                ObjectLocation::Own | ObjectLocation::Machine(_) => Addr::NULL,
            });
        };
        let (machine, near) = match near {
            ObjectLocation::Own => match self.stand_in() {
                None => return SlotLocation::Local(Addr::NULL),
                Some(machine) => (machine, Addr::NULL),
            },
            ObjectLocation::OwnBeside(addr) => match self.stand_in() {
                None => return SlotLocation::Local(addr),
                Some(_) if network.primary(addr) == Some(network.me()) => {
                    return SlotLocation::Local(addr);
                }
                Some(machine) => (machine, Addr::NULL),
            },
            ObjectLocation::Object(addr) if addr.is_null() => return SlotLocation::Local(addr),
            ObjectLocation::Object(addr) => (network.primary(addr).unwrap_or(network.me()), addr),
            ObjectLocation::Machine(machine) => (machine, Addr::NULL),
        };
        if machine == network.me() {
            SlotLocation::Local(near)
        } else {
            SlotLocation::Remote(machine, near)
        }
    }

    /// Returns the machine that takes the new objects of this one, where this one is leaving the
    /// cluster.
    #[inline]
    fn stand_in(&self) -> Option<MachineId> {
        self.machine.network()?.stand_in()
    }

    /// Returns the error for a machine without free memory. A leaving machine gets none, and its
    /// objects move soon, so the transaction is to be run again.
    fn unless_leaving(&self, machine: MachineId, stop: Stop) -> Stop {
        match stop {
            Stop::OutOfMemory if self.is_leaving(machine) => Stop::Retry(AbortReason::Unreachable),
            stop => stop,
        }
    }

    fn is_leaving(&self, machine: MachineId) -> bool {
        let network = self.machine.network();
        network.is_some_and(|network| network.is_leaving(machine))
    }

    fn take_reserved(&self, machine: MachineId, class: Class) -> Option<ReservedSlot> {
        let network = self.machine.network()?;
        network.take_slot(machine, class, self.machine.now())
    }

    /// Returns since when slots that are taken now have been valid.
    #[inline]
    fn slots_since(&self) -> u64 {
        let network = self.machine.network();
        network.map_or(0, |network| network.slots_since())
    }

    /// Adds a slot that was taken at or after `since` to the write set, or gives it back.
    fn adopt_new(
        &mut self,
        (addr, since): (Addr, u64),
        (words, class): (usize, Class),
        split_of: Addr,
    ) -> Result<FatPtr, Stop> {
        self.new_words += words;
        let emptied = self.machine.empty_slot(addr);
        let Some((base, incarnation)) = emptied.filter(|_| self.has_since(since)) else {
            self.machine.give_back(self.lane, addr);
            return Err(match self.machine.network() {
                Some(_) => Stop::Retry(AbortReason::Unreachable),
                None => Stop::Damaged,
            });
        };
        let slot = Slot { class, incarnation };
        let reserved = ReservedSlot {
            addr,
            base,
            slot,
            since,
        };
        self.push_new(reserved, words, split_of, (0, 0))
    }

    /// Adds a slot of another machine as [`Self::adopt_new`] does.
    fn adopt_reserved(
        &mut self,
        reserved: ReservedSlot,
        words: usize,
        split_of: Addr,
    ) -> Result<FatPtr, Stop> {
        if !self.has_since(reserved.since) {
            self.return_slot(reserved);
            return Err(Stop::Retry(AbortReason::Unreachable));
        }
        // The image is as long as the slot's whole payload, as for objects of this machine.
        let at = reserved.addr.offset() as usize / WORD_BYTES % LINE_WORDS;
        let whole = payload_words(at, reserved.slot.class.slot_words());
        let image = self.writes.new_image(whole);
        self.push_new(reserved, words, split_of, image)
    }

    /// Returns whether all slots of the transaction are as valid as one that is taken now, at
    /// `since`.
    fn has_since(&mut self, since: u64) -> bool {
        let before = self.reserved_since;
        if before == since {
            return true;
        }
        let network = self.machine.network();
        let stale = |write: &Write| {
            let new = matches!(write.what, WriteKind::New { .. } | WriteKind::Unborn(_));
            new && network.is_some_and(|network| network.is_stale(write.addr, before))
        };
        let fresh = !self.writes.writes.iter().any(stale);
        if fresh {
            self.reserved_since = since;
        }
        fresh
    }

    fn push_new(
        &mut self,
        ReservedSlot {
            addr, base, slot, ..
        }: ReservedSlot,
        words: usize,
        split_of: Addr,
        image: (usize, usize),
    ) -> Result<FatPtr, Stop> {
        let what = WriteKind::New {
            slot,
            split_of,
            kind: None,
        };
        self.push(Write {
            addr,
            base,
            what,
            image,
            patch: 0,
            saved: 0,
        })?;
        Ok(FatPtr {
            addr,
            size: (words * WORD_BYTES) as u32,
            incarnation: u32::from(slot.incarnation),
        })
    }
}

fn class_for(words: usize) -> Result<Class, Stop> {
    Class::for_payload(words).ok_or(Stop::TooLarge("an object must fit a block of 1 MiB"))
}

/// Returns the bytes from one slot to the next of objects of `words` payload words.
///
/// # Errors
/// [`Stop::TooLarge`] where no block holds such an object.
pub fn slot_bytes(words: usize) -> Result<usize, Stop> {
    class_for(words).map(|class| class.slot_words() * WORD_BYTES)
}

//! New objects: allocated, written in their slots, given back if the transaction aborts.
//!
//! Nothing leads to a new object before the commit and its allocated bit is off until then, so its
//! slot is written at once.

use fencepost_fabric::memory::WORD_BYTES;
use fencepost_storage::classes::Class;
use fencepost_storage::lanes::{Lane, Supply};
use fencepost_storage::{Addr, FatPtr, OutOfMemory};

use crate::stop::Stop;
use crate::transaction::{Context, Transaction};
use crate::write_set::{What, Write};

impl Transaction {
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
}

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

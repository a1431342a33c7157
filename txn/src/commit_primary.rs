//! COMMIT-PRIMARY (SOSP'15 §4 step 4): keeps the old versions, installs the new ones, unlocks.
//!
//! The order matters to readers of old and of new snapshots. Old versions are kept first. New
//! objects follow; every object that points to them is still locked. The locked objects are
//! installed last.

use std::sync::Arc;

use fencepost_storage::header::{Header, LinkWord, OldVersionPtr};
use fencepost_storage::old_versions::ReplacedVersion;
use fencepost_storage::{Addr, Timestamp};

use crate::context::Context;
use crate::lock::HEADER_BYTES;
use crate::write_set::{Payload, Write, WriteKind};

/// Number of replaced objects from which a commit looks for readers that need the old versions.
const UNREAD_FROM: usize = 256;

impl Context {
    /// Installs every write at `w` and releases every lock.
    pub(crate) fn commit_primary(&mut self, w: Timestamp) {
        let mut places = std::mem::take(&mut self.places);
        places.clear();
        self.keep_old_versions(w, &mut places);
        for write in &self.writes.writes {
            // New objects of other machines are installed there.
            if let WriteKind::New { slot, split_of, .. } = write.what
                && let Payload::Slot(_) = write.payload()
            {
                let place = self.place_of(&places, split_of);
                self.install_new(write, slot.incarnation, place, w);
            }
        }
        for (i, (at, place)) in self.order.iter().zip(&places).enumerate() {
            self.prefetch_ahead(i, HEADER_BYTES);
            self.install(&self.writes.writes[*at as usize], *place, w);
        }
        self.places = places;
    }

    fn keep_old_versions(&self, w: Timestamp, places: &mut Vec<OldVersionPtr>) {
        if self.order.is_empty() {
            return;
        }
        if self.order.len() >= UNREAD_FROM && self.is_unread_below(w) {
            places.resize(self.order.len(), OldVersionPtr::LOST);
            return;
        }
        let machine = &self.machine;
        let mut lane = machine.lanes().enter(self.lane);
        for at in &self.order {
            let write = &self.writes.writes[*at as usize];
            let object = machine.regions().own_object(write.addr);
            let place = object.map_or(OldVersionPtr::NONE, |object| {
                let version = ReplacedVersion {
                    header: write.base,
                    before: object.link().place(),
                    payload_words: object.len(),
                    at: w,
                };
                machine.keep_old_version(&mut lane, version, object)
            });
            places.push(place);
        }
    }

    /// Returns whether no transaction reads a version older than `w`, now or later. This
    /// transaction has passed VALIDATE, so that it reads no more (READ-1).
    fn is_unread_below(&self, w: Timestamp) -> bool {
        self.slot.move_to(w);
        self.machine.oldest() >= w
    }

    /// Leaves out objects that are no longer locked here. Recovery may have decided the commit, and
    /// other machines applied it, long before this machine applies the decision. Meanwhile a region
    /// may have moved to another machine and returned with newer versions.
    pub(crate) fn leave_out_what_came_back(&mut self) {
        let machine = Arc::clone(&self.machine);
        let is_base = |write: &Write| {
            let object = machine.regions().own_object(write.addr);
            object.is_none_or(|object| object.header().unlocked() == write.base.unlocked())
        };
        let mut order = std::mem::take(&mut self.order);
        order.retain(|at| {
            let stays = is_base(&self.writes.writes[*at as usize]);
            if !stays {
                self.writes.make_idle(*at as usize);
            }
            stays
        });
        self.order = order;
        for at in 0..self.writes.writes.len() {
            let write = self.writes.writes[at];
            if let (WriteKind::New { .. }, Payload::Slot(_)) = (write.what, write.payload())
                && !self.has_slot_of(&write)
            {
                self.writes.make_idle(at);
            }
        }
    }

    fn place_of(&self, places: &[OldVersionPtr], addr: Addr) -> OldVersionPtr {
        if addr.is_null() {
            return OldVersionPtr::NONE;
        }
        // LOCK has sorted the entries by address.
        let position = self
            .order
            .binary_search_by_key(&addr, |at| self.writes.writes[*at as usize].addr);
        // Old versions at another machine cannot be found from here.
        let lost = match self.machine.regions().is_own(addr) {
            true => OldVersionPtr::NONE,
            false => OldVersionPtr::LOST,
        };
        let place = position.ok().and_then(|i| places.get(i).copied());
        place.unwrap_or(lost)
    }

    fn install_new(&self, write: &Write, incarnation: u16, place: OldVersionPtr, w: Timestamp) {
        // The region may have moved to another machine by now, and so may the region of `split_of`.
        if let Some(object) = self.machine.regions().own_object(write.addr) {
            object.finish_install(
                write.base.succeed(w, true),
                LinkWord::new(incarnation, place),
            );
        }
    }

    fn install(&self, write: &Write, place: OldVersionPtr, w: Timestamp) {
        let Some(object) = self.machine.regions().own_object(write.addr) else {
            return;
        };
        let incarnation = object.link().incarnation();
        object.begin_install();
        let allocated = match write.what {
            WriteKind::Freed => false,
            _ => {
                object.put(0, self.writes.image(write));
                true
            }
        };
        let header: Header = write.base.succeed(w, allocated);
        object.finish_install(header, LinkWord::new(incarnation, place));
    }
}

#[cfg(test)]
mod tests {
    use fencepost_storage::Timestamp;
    use fencepost_storage::header::OldVersionPtr;
    use pollster::block_on;

    use super::UNREAD_FROM;
    use crate::{Machine, MachineOptions, Mode, ObjectLocation, Outcome, Transaction};

    #[test]
    fn old_versions_are_kept_only_for_readers() {
        let machine = Machine::open(MachineOptions::default()).expect("opens");
        let (mut writer, mut reader) = (machine.coordinator(), machine.coordinator());
        let mut tx = writer.begin(Mode::ReadWrite);
        let mut objects = Vec::new();
        for n in 0..UNREAD_FROM as u64 {
            let object = block_on(tx.alloc(1, ObjectLocation::Own)).expect("memory");
            tx.write_new(object, &[n]).expect("its own");
            objects.push(object.addr);
        }
        assert!(block_on(tx.commit()).is_ok());
        for round in 1..4 {
            let mut old = (round != 2).then(|| reader.begin(Mode::ReadOnly));
            let mut tx = writer.begin(Mode::ReadWrite);
            for object in &objects {
                block_on(tx.write(*object, &[round])).expect("there");
            }
            assert!(matches!(block_on(tx.commit()), Ok(Outcome::Committed(_))));
            let last = machine
                .regions()
                .own_object(objects[7])
                .expect("there")
                .link();
            assert_eq!(last.place() == OldVersionPtr::LOST, round == 2);
            let seen = |tx: &mut Transaction| {
                let value = block_on(tx.view(objects[7], None, |view| view.word(0)));
                value.expect("the version is kept").map(|(value, _)| value)
            };
            if let Some(old) = &mut old {
                let before = if round == 1 { 7 } else { round - 1 };
                assert_eq!(seen(old), Some(before));
            }
            drop(old);
            assert_eq!(seen(&mut reader.begin(Mode::ReadOnly)), Some(round));
        }
    }

    #[test]
    fn recovery_decision_does_not_replace_newer_version() {
        let machine = Machine::open(MachineOptions::default()).expect("opens");
        let root = machine.root();
        let mut tx = machine.coordinator().begin(Mode::ReadWrite);
        block_on(tx.write(root, &[1])).expect("there");
        let context = tx.context_mut();
        assert!(block_on(context.lock()).is_ok(), "the lock is free");
        let object = machine.regions().own_object(root).expect("its own");
        let (before, link) = (object.word(0), object.link());
        let newer = object.header().unlocked();
        let newer = newer.succeed(Timestamp::from_raw(1 << 40), true);
        object.finish_install(newer, link);
        context.take_effect(Timestamp::from_raw(1 << 39));
        assert_eq!((object.header(), object.word(0)), (newer, before));
    }
}

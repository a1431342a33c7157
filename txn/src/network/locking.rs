//! LOCK and LOCK-MOVED at remote primaries.
//!
//! A LOCK carries new values, computed for the base versions. One word may depend on the write
//! timestamp: the primary stamps it. If a patched node is locked at another version, it is patched
//! anew here, and its value follows in LOCK-MOVED. The same holds for every patched node if the
//! transaction is too large for its LOCK to carry their values beside the space reserved for
//! LOCK-MOVED.
//!
//! Writes of a transaction that yields are marked. The primary then refuses the lock of an object
//! that another transaction intends to write: only the primary knows the intents on it.

use fencepost_fabric::Completion;
use fencepost_storage::header::Header;
use fencepost_storage::{Addr, Timestamp, View};

use super::Network;
use super::message::{self, Kind, LockReply, Slot};
use super::participants::{LOCK, LOCK_MOVED, kind_of};
use crate::changes;
use crate::context::Context;
use crate::lock::LockFailure;
use crate::node::NodeKind;
use crate::record;
use crate::start::BIRTH;
use crate::stop::AbortReason;
use crate::write_set::{Write, WriteKind};

/// Returns the word of an entry that is stamped, and the node kind that stamps it.
fn stamper(write: &Write) -> Option<(usize, &'static dyn NodeKind)> {
    let kind = match write.what {
        WriteKind::Patched(kind) => Some(kind),
        WriteKind::Image { kind } | WriteKind::New { kind, .. } => kind,
        _ => None,
    }?;
    Some((kind.timestamp_word()?, kind))
}

impl Context {
    /// Writes LOCK (step 1) to the remote primaries. Returns the pending replies by participant.
    pub(super) fn lock_elsewhere(
        &mut self,
        network: &Network,
    ) -> Vec<(usize, Completion<LockReply>)> {
        let id = self.txn_id();
        let mut record = std::mem::take(&mut self.remote.record);
        let mut stamped = std::mem::take(&mut self.remote.stamped);
        let mut replies = Vec::new();
        for at in 0..self.remote.participants.len() {
            let participant = &self.remote.participants[at];
            let Some(sender) = network.sender(participant.machine) else {
                continue;
            };
            if participant.primary.is_empty() {
                continue;
            }
            record.clear();
            message::begin_lock(&mut record, id, &self.remote.regions);
            for entry in &participant.primary {
                let write = &self.writes.writes[*entry as usize];
                let from = record.len();
                self.put_lock(&mut record, write, participant.values_follow, &mut stamped);
                if self.yields && write.is_exact() {
                    message::give_way(&mut record[from..]);
                }
            }
            replies.push((at, network.expect_reply(id, participant.machine)));
            // A lost write is noticed, because no reply arrives.
            let tag = match participant.in_parts {
                true => record::LOCK_OF_PARTS,
                false => record::LOCK,
            };
            drop(sender.append(tag, &record, &[participant.promised[LOCK]]));
            let participant = &mut self.remote.participants[at];
            participant.locked = true;
            participant.promised[LOCK] = 0;
        }
        self.remote.record = record;
        self.remote.stamped = stamped;
        replies
    }

    /// Appends a write to a LOCK; `stamped` is a buffer for an image.
    fn put_lock(
        &self,
        record: &mut Vec<u64>,
        write: &Write,
        values_follow: bool,
        stamped: &mut Vec<u64>,
    ) {
        let Some(kind) = kind_of(write) else { return };
        let (mut image, mut word) = (&[][..], 0);
        if kind != Kind::Freed && !(kind.is_patched() && values_follow) {
            image = self.writes.image(write);
            if let Some((at, by)) = stamper(write) {
                stamped.clear();
                stamped.extend_from_slice(image);
                by.stamp(stamped, Timestamp::ZERO);
                (image, word) = (stamped, at + 1);
            }
        }
        let word = u8::try_from(word).expect("the timestamp is among the first words of a node");
        if matches!(kind, Kind::Whole | Kind::Patched) && !image.is_empty() {
            let ranges = (write.addr, kind.in_ranges(), word, write.base.0);
            let put = |out: &mut Vec<u64>| self.put_changes(out, (write, image), write.base);
            if message::put_write_of(record, ranges, put) {
                return;
            }
        }
        let split = match write.what {
            WriteKind::New { split_of, .. } => Some(split_of.raw()),
            _ => None,
        };
        let split = split.as_slice();
        let about = (write.addr, kind, word, write.base.0);
        message::put_write(record, about, split.len() + image.len(), |out| {
            let (first, rest) = out.split_at_mut(split.len());
            first.copy_from_slice(split);
            rest.copy_from_slice(image);
        });
    }

    /// Processes the reply of a remote primary to LOCK.
    pub(super) async fn locked_elsewhere(
        &mut self,
        at: usize,
        reply: LockReply,
    ) -> Result<(), LockFailure> {
        let found = match reply {
            LockReply::Locked(found) => found,
            LockReply::Failed(reason, addr) => return Err(self.failed_elsewhere(reason, addr)),
        };
        let mut found = found.into_iter();
        for i in 0..self.remote.participants[at].primary.len() {
            let entry = self.remote.participants[at].primary[i];
            let slot = Slot::from_word(found.next().unwrap_or(0));
            self.remote.slots.insert(entry, slot);
            let write = self.writes.writes[entry as usize];
            if let WriteKind::Patched(_) = write.what {
                let header = Header(found.next().unwrap_or(0));
                let moved = header != write.base;
                if moved {
                    self.lock_moved(entry as usize, header).await?;
                }
                let participant = &mut self.remote.participants[at];
                if moved || participant.values_follow {
                    participant.moved.push(entry);
                }
            }
        }
        Ok(())
    }

    /// Returns the failure of a remote lock. A patched node that was freed is re-routed: it is
    /// looked up elsewhere.
    fn failed_elsewhere(&mut self, reason: AbortReason, addr: Addr) -> LockFailure {
        let entry = self.writes.find(addr);
        match entry.map(|at| self.writes.writes[at].what) {
            Some(WriteKind::Patched(kind)) if reason == AbortReason::WriteConflict => {
                LockFailure::Stray((addr, kind))
            }
            _ => self.abort_at(addr, reason),
        }
    }

    /// Writes LOCK-MOVED to the primaries that need values, and collects the acks.
    pub(super) fn lock_moved_elsewhere(&mut self, network: &Network) {
        let id = self.txn_id();
        let mut record = std::mem::take(&mut self.remote.record);
        for at in 0..self.remote.participants.len() {
            let participant = &self.remote.participants[at];
            let sender = network.sender(participant.machine);
            let Some(sender) = sender.filter(|_| !participant.moved.is_empty()) else {
                continue;
            };
            record.clear();
            record.extend(id.words());
            for entry in &participant.moved {
                let write = &self.writes.writes[*entry as usize];
                let image = self.writes.image(write);
                let put =
                    |out: &mut Vec<u64>| self.put_changes(out, (write, image), write.base.locked());
                message::put_moved(&mut record, write.addr, image, put);
            }
            let promised = participant.promised[LOCK_MOVED];
            let ack = sender.append(record::LOCK_MOVED, &record, &[promised]);
            self.remote.acks.push(ack);
            self.remote.participants[at].promised[LOCK_MOVED] = 0;
        }
        self.remote.record = record;
    }

    /// Appends the ranges in which `new`, the new image of an entry, differs from its base. The
    /// object is at `header` now: at the base version, or locked at it. Returns `false` if replicas
    /// get the whole object: it is small, the ranges are not clearly smaller, or the base is not
    /// known here.
    pub(super) fn put_changes(
        &self,
        out: &mut Vec<u64>,
        (write, new): (&Write, &[u64]),
        header: Header,
    ) -> bool {
        let overwrites = matches!(write.what, WriteKind::Image { .. } | WriteKind::Patched(_));
        // Backups have not been sent a version that no transaction has written.
        let sent = write.base.is_allocated() && write.base.timestamp() > BIRTH;
        if !overwrites || !sent || write.image.1 <= changes::LEAST_WORDS {
            return false;
        }
        if self.machine.is_far(write.addr) {
            let base = self.writes.bases.get(write.addr, write.base);
            return base.is_some_and(|base| changes::put_if_less(out, new, &View::Own(base)));
        }
        let object = self.machine.regions().object(write.addr);
        object.is_some_and(|object| {
            changes::put_if_less(out, new, &View::Live(object)) && object.unchanged(header)
        })
    }
}

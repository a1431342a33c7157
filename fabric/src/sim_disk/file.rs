//! [`DiskFile`] of a simulated disk.

use std::io;
use std::sync::Arc;

use parking_lot::Mutex;

use super::state::{Change, State};
use super::{DiskOp, Gate};
use crate::disk::DiskFile;

pub(super) struct SimFile {
    pub state: Arc<Mutex<State>>,
    pub gate: Arc<Gate>,
    pub id: usize,
    pub incarnation: u64,
}

impl SimFile {
    /// Runs one call on the file; fails if the process that opened it has died or a fault is due.
    fn run<T>(
        &self,
        op: DiskOp,
        call: impl FnOnce(&mut State, usize) -> io::Result<T>,
    ) -> io::Result<T> {
        let mut state = self.state.lock();
        if state.incarnation != self.incarnation {
            return Err(io::Error::other(
                "the disk crashed since this file was opened",
            ));
        }
        state.enter(op)?;
        call(&mut state, self.id)
    }

    fn change(&self, change: Change, len: u64) -> io::Result<()> {
        self.run(DiskOp::Write, |state, id| {
            let granted = state.grow(id, len);
            let full = granted < len;
            let change = match change {
                Change::Write { offset, mut bytes } if full => {
                    bytes.truncate(granted.saturating_sub(offset) as usize);
                    Change::Write { offset, bytes }
                }
                Change::SetLen(_) if full => return Err(io::ErrorKind::StorageFull.into()),
                change => change,
            };
            let file = &mut state.files[id];
            change.apply(&mut file.seen);
            file.unsynced.push(change);
            if full {
                Err(io::ErrorKind::StorageFull.into())
            } else {
                Ok(())
            }
        })
    }
}

impl DiskFile for SimFile {
    fn len(&self) -> io::Result<u64> {
        self.run(DiskOp::Read, |state, id| {
            Ok(state.files[id].seen.len() as u64)
        })
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<usize> {
        self.run(DiskOp::Read, |state, id| {
            let seen = &state.files[id].seen;
            let from = (offset as usize).min(seen.len());
            let n = out.len().min(seen.len() - from);
            out[..n].copy_from_slice(&seen[from..from + n]);
            Ok(n)
        })
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let len = offset + bytes.len() as u64;
        self.change(
            Change::Write {
                offset,
                bytes: bytes.to_vec(),
            },
            len,
        )
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.change(Change::SetLen(len), len)
    }

    fn sync(&self) -> io::Result<()> {
        self.gate.pass();
        self.run(DiskOp::SyncData, |_, _| Ok(()))?;
        self.sync_all()
    }

    fn sync_all(&self) -> io::Result<()> {
        let delay = self.state.lock().sync_delay;
        // The sync covers only the writes before its start.
        let covered = self.run(DiskOp::Sync, |state, id| Ok(state.files[id].unsynced.len()))?;
        if !delay.is_zero() {
            std::thread::sleep(delay);
        }
        let mut state = self.state.lock();
        if state.incarnation != self.incarnation {
            return Err(io::Error::other("the disk crashed during a sync"));
        }
        let file = &mut state.files[self.id];
        let covered = covered.min(file.unsynced.len());
        for change in file.unsynced.drain(..covered) {
            change.apply(&mut file.survives);
        }
        Ok(())
    }
}

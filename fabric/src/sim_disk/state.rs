//! The content of a simulated disk, and the surviving part of each change at a crash.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::time::Duration;

use super::{CrashLoss, DiskOp};
use crate::random::Random;

/// The unit that a disk writes completely or not at all.
const SECTOR_BYTES: u64 = 512;

#[derive(Clone)]
pub(super) struct State {
    pub random: Random,
    pub files: Vec<File>,
    pub names: BTreeMap<String, usize>,
    pub durable_names: BTreeMap<String, usize>,
    pub changed_names: Vec<NameChange>,
    pub locks: BTreeSet<String>,
    pub free_bytes: Option<u64>,
    pub faults: BTreeMap<DiskOp, u64>,
    pub done: BTreeMap<DiskOp, u64>,
    pub incarnation: u64,
    pub sync_delay: Duration,
}

#[derive(Clone, Default)]
pub(super) struct File {
    pub seen: Vec<u8>,
    pub survives: Vec<u8>,
    pub unsynced: Vec<Change>,
}

#[derive(Clone)]
pub(super) enum Change {
    Write { offset: u64, bytes: Vec<u8> },
    SetLen(u64),
}

#[derive(Clone)]
pub(super) enum NameChange {
    Set(String, usize),
    Remove(String),
    Rename(String, String, usize),
}

impl State {
    pub fn new(seed: u64) -> Self {
        Self {
            random: Random::new(seed),
            files: Vec::new(),
            names: BTreeMap::new(),
            durable_names: BTreeMap::new(),
            changed_names: Vec::new(),
            locks: BTreeSet::new(),
            free_bytes: None,
            faults: BTreeMap::new(),
            done: BTreeMap::new(),
            incarnation: 0,
            sync_delay: Duration::ZERO,
        }
    }

    /// Loses unsynced data.
    pub fn crash(&mut self, loss: CrashLoss) {
        let State {
            random,
            files,
            names,
            durable_names,
            changed_names,
            ..
        } = self;
        for file in files {
            let changes = std::mem::take(&mut file.unsynced);
            if loss == CrashLoss::Some {
                for change in &changes {
                    change.survive(&mut file.survives, |_| random.one_in(2));
                }
            }
            file.seen.clone_from(&file.survives);
        }
        let surviving = match loss {
            CrashLoss::All => 0,
            CrashLoss::Some => random.below(changed_names.len() as u64 + 1) as usize,
        };
        for change in changed_names.drain(..).take(surviving) {
            change.apply(durable_names);
        }
        names.clone_from(durable_names);
        self.locks.clear();
        self.incarnation += 1;
    }

    pub fn done(&self, op: DiskOp) -> u64 {
        self.done.get(&op).copied().unwrap_or(0)
    }

    /// Counts a call, and fails it if a fault is due.
    pub fn enter(&mut self, op: DiskOp) -> io::Result<()> {
        let done = self.done.entry(op).or_insert(0);
        *done += 1;
        if self.faults.get(&op) == Some(done) {
            self.faults.remove(&op);
            return Err(io::Error::other(format!("simulated fault: {op:?}")));
        }
        Ok(())
    }

    pub fn add(&mut self, name: String) -> usize {
        let id = self.files.len();
        self.files.push(File::default());
        self.names.insert(name.clone(), id);
        self.changed_names.push(NameChange::Set(name, id));
        id
    }

    pub fn forget(&mut self, name: &str) -> io::Result<usize> {
        let id = self.names.remove(name).ok_or(io::ErrorKind::NotFound)?;
        self.changed_names.push(NameChange::Remove(name.to_owned()));
        Ok(id)
    }

    pub fn sync_names(&mut self) {
        self.changed_names.clear();
        self.durable_names.clone_from(&self.names);
    }

    /// Takes space for a file of `len` bytes; returns the length that the free space permits.
    pub fn grow(&mut self, id: usize, len: u64) -> u64 {
        let now = self.files[id].seen.len() as u64;
        let wanted = len.saturating_sub(now);
        let granted = wanted.min(self.free_bytes.unwrap_or(u64::MAX));
        if let Some(free) = &mut self.free_bytes {
            *free -= granted;
        }
        now.max(now + granted)
    }
}

impl Change {
    pub fn apply(&self, bytes: &mut Vec<u8>) {
        self.survive(bytes, |_| true);
    }

    /// Applies the sectors of a change for which `keep` returns true.
    pub fn survive(&self, out: &mut Vec<u8>, mut keep: impl FnMut(u64) -> bool) {
        match self {
            Change::SetLen(len) => {
                if keep(0) {
                    out.resize(*len as usize, 0);
                }
            }
            Change::Write { offset, bytes } => {
                let mut from = 0;
                while from < bytes.len() {
                    let at = offset + from as u64;
                    let to = (from + (SECTOR_BYTES - at % SECTOR_BYTES) as usize).min(bytes.len());
                    if keep(at) {
                        let end = (offset + to as u64) as usize;
                        if out.len() < end {
                            out.resize(end, 0);
                        }
                        out[at as usize..end].copy_from_slice(&bytes[from..to]);
                    }
                    from = to;
                }
            }
        }
    }
}

impl NameChange {
    pub fn apply(self, names: &mut BTreeMap<String, usize>) {
        match self {
            NameChange::Set(name, id) => {
                names.insert(name, id);
            }
            NameChange::Remove(name) => {
                names.remove(&name);
            }
            NameChange::Rename(from, to, id) => {
                names.remove(&from);
                names.insert(to, id);
            }
        }
    }
}

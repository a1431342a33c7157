//! [`Disk`] in memory, from a seed, that fails as disks fail: it forgets what was not synced,
//! runs full, returns errors, flips bytes and cuts files.
//!
//! *Picture.* Each file is what programs see and what would survive; a sync copies the first to
//! the second, a crash the second to the first.
//!
//! ```text
//!   seen      ████████▒▒▒▒      ▒ written, not synced: kept or lost sector by sector at a crash
//!   survives  ████████
//! ```
//!
//! *Concurrency.* One lock around everything; clones and [`SimDisk::subdir`] share one disk.
//! After a crash the handles of before answer with errors, as those of a dead process would.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::disk::{Disk, DiskFile, DiskLock};
use crate::random::Random;

/// A disk writes this many bytes whole or not at all.
const SECTOR_BYTES: u64 = 512;

/// What a crash does to writes and names that were not synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CrashLoss {
    /// Everything that was not synced is gone.
    All,
    /// Each sector is kept or lost by chance, and a first part of the changes of names is kept.
    Some,
}

/// The kinds of calls a fault can be aimed at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DiskOp {
    /// Reading bytes.
    Read,
    /// Writing bytes, or changing a file's length.
    Write,
    /// Syncing a file.
    Sync,
    /// Creating, opening, renaming, removing, listing, syncing names.
    Names,
}

/// A simulated disk; clones are the same disk.
#[derive(Clone)]
pub struct SimDisk {
    state: Arc<Mutex<State>>,
    prefix: String,
}

#[derive(Clone)]
struct State {
    random: Random,
    files: Vec<File>,
    names: BTreeMap<String, usize>,
    durable_names: BTreeMap<String, usize>,
    changed_names: Vec<NameChange>,
    locks: BTreeSet<String>,
    free_bytes: Option<u64>,
    faults: BTreeMap<DiskOp, u64>,
    done: BTreeMap<DiskOp, u64>,
    life: u64,
    sync_delay: Duration,
}

#[derive(Clone, Default)]
struct File {
    seen: Vec<u8>,
    survives: Vec<u8>,
    unsynced: Vec<Change>,
}

#[derive(Clone)]
enum Change {
    Write { offset: u64, bytes: Vec<u8> },
    SetLen(u64),
}

#[derive(Clone)]
enum NameChange {
    Set(String, usize),
    Remove(String),
    Rename(String, String, usize),
}

impl SimDisk {
    /// An empty disk without faults; `seed` decides what crashes keep.
    pub fn new(seed: u64) -> Self {
        let state = State {
            random: Random::new(seed),
            files: Vec::new(),
            names: BTreeMap::new(),
            durable_names: BTreeMap::new(),
            changed_names: Vec::new(),
            locks: BTreeSet::new(),
            free_bytes: None,
            faults: BTreeMap::new(),
            done: BTreeMap::new(),
            life: 0,
            sync_delay: Duration::ZERO,
        };
        Self {
            state: Arc::new(Mutex::new(state)),
            prefix: String::new(),
        }
    }

    /// The power goes and comes back: open handles die, and what was not synced is lost.
    pub fn crash(&self, loss: CrashLoss) {
        let mut state = self.state.lock();
        let State {
            random,
            files,
            names,
            durable_names,
            changed_names,
            ..
        } = &mut *state;
        for file in files {
            let changes = std::mem::take(&mut file.unsynced);
            if loss == CrashLoss::Some {
                for change in &changes {
                    change.survive(&mut file.survives, |_| random.one_in(2));
                }
            }
            file.seen.clone_from(&file.survives);
        }
        let kept = match loss {
            CrashLoss::All => 0,
            CrashLoss::Some => random.below(changed_names.len() as u64 + 1) as usize,
        };
        for change in changed_names.drain(..).take(kept) {
            change.apply(durable_names);
        }
        names.clone_from(durable_names);
        state.locks.clear();
        state.life += 1;
    }

    /// A copy of the whole disk as programs see it, on its own from here on.
    pub fn fork(&self) -> SimDisk {
        let mut state = self.state.lock().clone();
        state.locks.clear();
        Self {
            state: Arc::new(Mutex::new(state)),
            prefix: self.prefix.clone(),
        }
    }

    /// How many more bytes files may grow by; `None` lifts the limit.
    pub fn set_free_bytes(&self, free_bytes: Option<u64>) {
        self.state.lock().free_bytes = free_bytes;
    }

    /// Makes the `n`th call of a kind from now fail, once; 1 is the next one.
    pub fn fail_nth(&self, op: DiskOp, n: u64) {
        let mut state = self.state.lock();
        let done = state.done(op);
        state.faults.insert(op, done + n);
    }

    /// How many calls of a kind there were.
    pub fn count(&self, op: DiskOp) -> u64 {
        self.state.lock().done(op)
    }

    /// Makes each file sync take this long.
    pub fn set_sync_delay(&self, delay: Duration) {
        self.state.lock().sync_delay = delay;
    }

    /// A file's bytes, with no call counted; `None` when there is no such file.
    pub fn bytes(&self, name: &str) -> Option<Vec<u8>> {
        let state = self.state.lock();
        let id = *state.names.get(&self.full(name))?;
        Some(state.files[id].seen.clone())
    }

    /// Replaces a file's bytes, seen and surviving; creates the file when there is none.
    pub fn set_bytes(&self, name: &str, bytes: Vec<u8>) {
        let mut state = self.state.lock();
        let name = self.full(name);
        let id = match state.names.get(&name) {
            Some(id) => *id,
            None => state.add(name),
        };
        state.files[id] = File {
            seen: bytes.clone(),
            survives: bytes,
            unsynced: Vec::new(),
        };
        state.sync_names();
    }

    /// Changes the bits of `mask` in one byte of a file; nothing where there is no such byte.
    pub fn flip(&self, name: &str, offset: u64, mask: u8) {
        if let Some(mut bytes) = self.bytes(name)
            && let Some(byte) = bytes.get_mut(offset as usize)
        {
            *byte ^= mask;
            self.set_bytes(name, bytes);
        }
    }

    /// Cuts a file to its first `len` bytes.
    pub fn cut(&self, name: &str, len: u64) {
        if let Some(mut bytes) = self.bytes(name) {
            bytes.truncate(len as usize);
            self.set_bytes(name, bytes);
        }
    }

    fn full(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    fn handle(&self, state: &State, id: usize) -> Arc<dyn DiskFile> {
        Arc::new(SimFile {
            state: Arc::clone(&self.state),
            id,
            life: state.life,
        })
    }
}

impl State {
    fn done(&self, op: DiskOp) -> u64 {
        self.done.get(&op).copied().unwrap_or(0)
    }

    /// Counts a call, and fails it if its number is up.
    fn enter(&mut self, op: DiskOp) -> io::Result<()> {
        let done = self.done.entry(op).or_insert(0);
        *done += 1;
        if self.faults.get(&op) == Some(done) {
            self.faults.remove(&op);
            return Err(io::Error::other(format!("simulated fault: {op:?}")));
        }
        Ok(())
    }

    fn add(&mut self, name: String) -> usize {
        let id = self.files.len();
        self.files.push(File::default());
        self.names.insert(name.clone(), id);
        self.changed_names.push(NameChange::Set(name, id));
        id
    }

    fn forget(&mut self, name: &str) -> io::Result<usize> {
        let id = self.names.remove(name).ok_or(io::ErrorKind::NotFound)?;
        self.changed_names.push(NameChange::Remove(name.to_owned()));
        Ok(id)
    }

    fn sync_names(&mut self) {
        self.changed_names.clear();
        self.durable_names.clone_from(&self.names);
    }

    /// Takes space for a file that is to be `len` bytes long; says how long it may be.
    fn grow(&mut self, id: usize, len: u64) -> u64 {
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
    fn apply(&self, bytes: &mut Vec<u8>) {
        self.survive(bytes, |_| true);
    }

    /// Applies the parts of a change that `keep` lets through, sector by sector.
    fn survive(&self, out: &mut Vec<u8>, mut keep: impl FnMut(u64) -> bool) {
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
    fn apply(self, names: &mut BTreeMap<String, usize>) {
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

impl Disk for SimDisk {
    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let mut state = self.state.lock();
        state.enter(DiskOp::Names)?;
        let id = state.add(self.full(name));
        Ok(self.handle(&state, id))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let mut state = self.state.lock();
        state.enter(DiskOp::Names)?;
        let id = *state
            .names
            .get(&self.full(name))
            .ok_or(io::ErrorKind::NotFound)?;
        Ok(self.handle(&state, id))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let mut state = self.state.lock();
        state.enter(DiskOp::Names)?;
        let inside = state
            .names
            .keys()
            .filter_map(|name| name.strip_prefix(&self.prefix));
        Ok(inside
            .filter(|name| !name.contains('/'))
            .map(str::to_owned)
            .collect())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut state = self.state.lock();
        state.enter(DiskOp::Names)?;
        let id = *state
            .names
            .get(&self.full(from))
            .ok_or(io::ErrorKind::NotFound)?;
        let full = self.full(from);
        state.names.remove(&full);
        state.names.insert(self.full(to), id);
        state
            .changed_names
            .push(NameChange::Rename(full, self.full(to), id));
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut state = self.state.lock();
        state.enter(DiskOp::Names)?;
        state.forget(&self.full(name)).map(drop)
    }

    fn sync_dir(&self) -> io::Result<()> {
        let mut state = self.state.lock();
        state.enter(DiskOp::Names)?;
        state.sync_names();
        Ok(())
    }

    fn subdir(&self, name: &str) -> io::Result<Arc<dyn Disk>> {
        Ok(Arc::new(self.inside(name)))
    }

    fn lock(&self, name: &str) -> io::Result<DiskLock> {
        let name = self.full(name);
        if !self.state.lock().locks.insert(name.clone()) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(Box::new(SimLock {
            state: Arc::clone(&self.state),
            name,
        }))
    }

    fn path(&self, name: &str) -> String {
        self.full(name)
    }
}

impl SimDisk {
    /// A directory inside this one, with the fault-injecting calls at hand.
    pub fn inside(&self, name: &str) -> SimDisk {
        Self {
            state: Arc::clone(&self.state),
            prefix: format!("{}{name}/", self.prefix),
        }
    }
}

struct SimLock {
    state: Arc<Mutex<State>>,
    name: String,
}

impl Drop for SimLock {
    fn drop(&mut self) {
        self.state.lock().locks.remove(&self.name);
    }
}

struct SimFile {
    state: Arc<Mutex<State>>,
    id: usize,
    life: u64,
}

impl SimFile {
    /// Runs one call on the file, unless the process that opened it has died or a fault is due.
    fn run<T>(
        &self,
        op: DiskOp,
        call: impl FnOnce(&mut State, usize) -> io::Result<T>,
    ) -> io::Result<T> {
        let mut state = self.state.lock();
        if state.life != self.life {
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
        let delay = self.state.lock().sync_delay;
        // What the sync covers is what was written before it began.
        let covered = self.run(DiskOp::Sync, |state, id| Ok(state.files[id].unsynced.len()))?;
        if !delay.is_zero() {
            std::thread::sleep(delay);
        }
        let mut state = self.state.lock();
        if state.life != self.life {
            return Err(io::Error::other("the disk crashed during a sync"));
        }
        let file = &mut state.files[self.id];
        let covered = covered.min(file.unsynced.len());
        for change in file.unsynced.drain(..covered) {
            change.apply(&mut file.survives);
        }
        Ok(())
    }

    fn sync_all(&self) -> io::Result<()> {
        self.sync()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(seed: u64) -> io::Result<SimDisk> {
        let disk = SimDisk::new(seed);
        let file = disk.create("a")?;
        file.write_at(0, b"kept")?;
        file.sync()?;
        disk.sync_dir()?;
        file.write_at(0, b"lost")?;
        disk.create("b")?;
        Ok(disk)
    }

    #[test]
    fn a_crash_forgets_what_was_not_synced() -> io::Result<()> {
        let disk = written(1)?;
        let old = disk.open("a")?;
        disk.crash(CrashLoss::All);
        assert_eq!(disk.bytes("a"), Some(b"kept".to_vec()));
        assert_eq!(disk.list()?, ["a"]);
        assert!(old.sync().is_err(), "handles of the dead process are dead");
        Ok(())
    }

    #[test]
    fn a_crash_may_keep_what_was_not_synced() -> io::Result<()> {
        let mut seen = BTreeSet::new();
        for seed in 0..32 {
            let disk = written(seed)?;
            disk.crash(CrashLoss::Some);
            seen.insert((disk.bytes("a"), disk.bytes("b").is_some()));
        }
        assert_eq!(
            seen.len(),
            4,
            "both fates of the write and of the name: {seen:?}"
        );
        Ok(())
    }

    #[test]
    fn a_full_disk_takes_what_fits_and_says_so() -> io::Result<()> {
        let disk = SimDisk::new(1);
        let file = disk.create("a")?;
        disk.set_free_bytes(Some(3));
        let error = file
            .write_at(0, b"abcd")
            .expect_err("there is room for three bytes");
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        assert_eq!(disk.bytes("a"), Some(b"abc".to_vec()));
        file.write_at(0, b"xyz")?;
        disk.set_free_bytes(None);
        file.write_at(3, b"d")?;
        assert_eq!(disk.bytes("a"), Some(b"xyzd".to_vec()));
        Ok(())
    }

    #[test]
    fn faults_strike_the_call_they_are_aimed_at() -> io::Result<()> {
        let disk = SimDisk::new(1);
        let file = disk.create("a")?;
        disk.fail_nth(DiskOp::Write, 2);
        file.write_at(0, b"1")?;
        assert!(file.write_at(1, b"2").is_err());
        file.write_at(1, b"2")?;
        disk.fail_nth(DiskOp::Sync, 1);
        assert!(file.sync().is_err());
        assert_eq!(disk.count(DiskOp::Write), 3);
        Ok(())
    }

    #[test]
    fn forks_flips_cuts_and_directories_stand_apart() -> io::Result<()> {
        let disk = SimDisk::new(1);
        let inner = disk.inside("d");
        inner.create("a")?.write_at(0, b"abc")?;
        let fork = inner.fork();
        fork.flip("a", 1, 0x20);
        fork.cut("a", 2);
        assert_eq!(fork.bytes("a"), Some(b"aB".to_vec()));
        assert_eq!(disk.bytes("d/a"), Some(b"abc".to_vec()));
        assert!(disk.list()?.is_empty());
        let held = disk.lock("l")?;
        assert!(disk.lock("l").is_err());
        drop(held);
        disk.lock("l")?;
        Ok(())
    }
}

//! [`Disk`] in memory, from a seed, with the faults of real disks: it loses unsynced data, runs
//! full, returns errors, flips bytes and truncates files.
//!
//! *Picture.* Each file has the content that programs see, and the content that survives a crash. A
//! sync copies the first to the second, a crash the second to the first.
//!
//! ```text
//!   seen      ████████▒▒▒▒      ▒ written, not synced: kept or lost sector by sector at a crash
//!   survives  ████████
//! ```
//!
//! *Concurrency.* One lock around everything; clones and [`SimDisk::subdir`] share one disk. After
//! a crash all earlier handles return errors, as those of a dead process would.

mod file;
mod state;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use self::file::SimFile;
use self::state::{File, NameChange, State};
use crate::disk::{Disk, DiskFile, DiskLock};

/// The effect of a crash on writes and names that were not synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CrashLoss {
    /// All unsynced writes and names are lost.
    All,
    /// Each sector is kept or lost at random, and the first changes of names, up to a random one,
    /// are kept.
    Some,
}

/// The kinds of calls at which a fault can be injected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DiskOp {
    /// Reading bytes.
    Read,
    /// Writing bytes, or changing a file's length.
    Write,
    /// Syncing a file.
    Sync,
    /// Syncing a file's data, which also counts as `Sync`. It distinguishes data syncs from
    /// [`DiskFile::sync_all`], with which other threads extend files meanwhile.
    SyncData,
    /// Creating, opening, renaming, removing, listing, syncing names.
    Names,
}

/// The gate at which syncs wait while they are held back.
#[derive(Default)]
struct Gate {
    holds: Mutex<usize>,
    opened: Condvar,
}

impl Gate {
    fn pass(&self) {
        let mut holds = self.holds.lock();
        while *holds > 0 {
            self.opened.wait(&mut holds);
        }
    }
}

/// A guard that holds the syncs of a [`SimDisk`] back until it is dropped.
#[must_use = "syncs go on when this is dropped"]
pub struct HeldSyncs(Arc<Gate>);

impl Drop for HeldSyncs {
    fn drop(&mut self) {
        *self.0.holds.lock() -= 1;
        self.0.opened.notify_all();
    }
}

/// A simulated disk; clones refer to the same disk.
#[derive(Clone)]
pub struct SimDisk {
    state: Arc<Mutex<State>>,
    gate: Arc<Gate>,
    prefix: String,
    /// The incarnation of the disk to which this handle belongs; `None` for a handle that outlives
    /// crashes.
    incarnation: Option<u64>,
}

impl SimDisk {
    /// Returns an empty disk without faults; `seed` decides which data a crash keeps.
    pub fn new(seed: u64) -> Self {
        let state = State::new(seed);
        Self {
            state: Arc::new(Mutex::new(state)),
            gate: Arc::default(),
            prefix: String::new(),
            incarnation: None,
        }
    }

    /// Returns the disk as one process sees it: all of its handles fail once the disk has crashed.
    /// Give this handle to the code under test, and keep the other one.
    pub fn boot(&self) -> SimDisk {
        let incarnation = Some(self.state.lock().incarnation);
        Self {
            incarnation,
            ..self.clone()
        }
    }

    /// Simulates a power failure: open handles fail, and unsynced data is lost.
    pub fn crash(&self, loss: CrashLoss) {
        self.state.lock().crash(loss);
    }

    /// Returns an independent copy of the whole disk as programs see it.
    pub fn fork(&self) -> SimDisk {
        let mut state = self.state.lock().clone();
        state.locks.clear();
        Self {
            state: Arc::new(Mutex::new(state)),
            gate: Arc::default(),
            prefix: self.prefix.clone(),
            incarnation: None,
        }
    }

    /// Sets the number of bytes by which files may still grow; `None` removes the limit.
    pub fn set_free_bytes(&self, free_bytes: Option<u64>) {
        self.state.lock().free_bytes = free_bytes;
    }

    /// Makes the `n`th call of a kind from now fail, once; 1 is the next call. The call returns
    /// [`io::ErrorKind::Other`] and has no effect. A later fault of the same kind replaces it.
    pub fn fail_nth(&self, op: DiskOp, n: u64) {
        let mut state = self.state.lock();
        let done = state.done(op);
        state.faults.insert(op, done + n);
    }

    /// Cancels faults that have not occurred yet.
    pub fn clear_faults(&self) {
        self.state.lock().faults.clear();
    }

    /// Returns the number of calls of a kind.
    pub fn count(&self, op: DiskOp) -> u64 {
        self.state.lock().done(op)
    }

    /// Makes each file sync sleep this long, in real time.
    pub fn set_sync_delay(&self, delay: Duration) {
        self.state.lock().sync_delay = delay;
    }

    /// Makes syncs of files' data wait until the result is dropped; [`DiskFile::sync_all`] is not
    /// held back. While several results exist, syncs wait for all of them. A thread that holds a
    /// result and calls [`DiskFile::sync`] waits for ever.
    pub fn hold_syncs(&self) -> HeldSyncs {
        *self.gate.holds.lock() += 1;
        HeldSyncs(Arc::clone(&self.gate))
    }

    /// Returns a file's bytes without counting a call; `None` if the file does not exist.
    pub fn bytes(&self, name: &str) -> Option<Vec<u8>> {
        let state = self.state.lock();
        let id = *state.names.get(&self.full(name))?;
        Some(state.files[id].seen.clone())
    }

    /// Replaces a file's bytes, both seen and surviving; creates the file if it does not exist.
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

    /// Flips the bits of `mask` in one byte of a file; does nothing if there is no such byte.
    pub fn flip(&self, name: &str, offset: u64, mask: u8) {
        if let Some(mut bytes) = self.bytes(name)
            && let Some(byte) = bytes.get_mut(offset as usize)
        {
            *byte ^= mask;
            self.set_bytes(name, bytes);
        }
    }

    /// Truncates a file to its first `len` bytes.
    pub fn cut(&self, name: &str, len: u64) {
        if let Some(mut bytes) = self.bytes(name) {
            bytes.truncate(len as usize);
            self.set_bytes(name, bytes);
        }
    }

    fn full(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    /// Counts a call on names; fails if the process of this handle has died or a fault is due.
    fn enter(&self, state: &mut State) -> io::Result<()> {
        if self
            .incarnation
            .is_some_and(|incarnation| incarnation != state.incarnation)
        {
            return Err(io::Error::other(
                "the disk crashed since this process began",
            ));
        }
        state.enter(DiskOp::Names)
    }

    fn handle(&self, state: &State, id: usize) -> Arc<dyn DiskFile> {
        Arc::new(SimFile {
            state: Arc::clone(&self.state),
            gate: Arc::clone(&self.gate),
            id,
            incarnation: state.incarnation,
        })
    }
}

impl Disk for SimDisk {
    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let mut state = self.state.lock();
        self.enter(&mut state)?;
        let id = state.add(self.full(name));
        Ok(self.handle(&state, id))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let mut state = self.state.lock();
        self.enter(&mut state)?;
        let id = *state
            .names
            .get(&self.full(name))
            .ok_or(io::ErrorKind::NotFound)?;
        Ok(self.handle(&state, id))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let mut state = self.state.lock();
        self.enter(&mut state)?;
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
        self.enter(&mut state)?;
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
        self.enter(&mut state)?;
        state.forget(&self.full(name)).map(drop)
    }

    fn sync_dir(&self) -> io::Result<()> {
        let mut state = self.state.lock();
        self.enter(&mut state)?;
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
    /// Returns a directory inside this one, as a [`SimDisk`] with the fault-injecting calls.
    pub fn inside(&self, name: &str) -> SimDisk {
        Self {
            state: Arc::clone(&self.state),
            gate: Arc::clone(&self.gate),
            prefix: format!("{}{name}/", self.prefix),
            incarnation: self.incarnation,
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

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
    fn crash_drops_unsynced_data() -> io::Result<()> {
        let disk = written(1)?;
        let old = disk.open("a")?;
        disk.crash(CrashLoss::All);
        assert_eq!(disk.bytes("a"), Some(b"kept".to_vec()));
        assert_eq!(disk.list()?, ["a"]);
        assert!(old.sync().is_err(), "handles of the dead process are dead");
        Ok(())
    }

    #[test]
    fn crash_may_keep_unsynced_data() -> io::Result<()> {
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
    fn full_disk_writes_part_and_reports_it() -> io::Result<()> {
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
    fn fault_hits_its_intended_call() -> io::Result<()> {
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

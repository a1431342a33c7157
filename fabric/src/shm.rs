//! Machines of one host that map each other's memory: files in one directory of a tmpfs.
//!
//! # Picture
//! ```text
//! DIR/m1/control                    the bells, and who m1's members are
//! DIR/m1/0001000000000000           a region: others map it for reading alone
//! DIR/m1/0002000000000002.m2        a ring: m2 may write it, too
//! ```
//! Every operation works on mapped memory, without the target's threads; the files are what outlives a
//! killed process. A segment's file gets its name when it is whole, so that whoever finds it finds all
//! of it. Where memory is to outlive processes ([`crate::nvram`]) regions are in a directory of their own, and what a
//! restart has to look at stays when the machine ends.
//!
//! # Failure
//! A machine whose directory is there already is another process's, which holds a lock on it, or what
//! a process has left behind, which is removed. A peer that has ended is noticed by a word of its control
//! segment; one that was killed by its lease alone: until then its memory is written in vain.

mod files;
mod peer;

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use foldhash::{HashMap, HashSet};
use parking_lot::{Mutex, RwLock, RwLockReadGuard};

use crate::bell::Bell;
use crate::completion::Completion;
use crate::counters::FabricCounters;
use crate::direct;
use crate::fabric::{Event, Fabric, FabricError};
use crate::machine::{MachineId, Member};
use crate::memory::Memory;
use crate::nvram::{self, Living};
use crate::segment::{Place, SegmentId, Writer};
use crate::sync::Ordering;
use files::is_whole;
pub(crate) use files::{home_of, is_locked, make, name_of, open};
use peer::{Life, Mapped, Peer};

/// Most members that a machine counts.
const MAX_MEMBERS: usize = 1000;
/// Words of the control segment.
const CONTROL_WORDS: usize = MEMBERS + MAX_MEMBERS;
/// The control segment's words that are the bells.
const BELL: usize = 0;
const LEASE_BELL: usize = 2;
/// The control segment's word that is not zero while the machine lives, as far as it could tell, and
/// moves on with its members.
const GENERATION: usize = 1;
/// From here on the control segment has the members' numbers plus one, and zeroes behind them.
const MEMBERS: usize = 8;
/// Name of the control segment.
const CONTROL: &str = "control";
/// Name of the file that is locked while the machine's process lives.
const LOCK: &str = "lock";

/// One machine's end of the memory that the processes of a host share.
#[derive(Debug)]
pub struct ShmFabric {
    me: MachineId,
    home: PathBuf,
    root: PathBuf,
    control: Arc<Memory>,
    bell: Bell,
    lease_bell: Bell,
    counters: FabricCounters,
    own: RwLock<HashMap<SegmentId, Own>>,
    peers: RwLock<HashMap<MachineId, Arc<Peer>>>,
    events: Mutex<Vec<Event>>,
    /// Where memory outlives the process.
    kept: Option<Keeping>,
    /// Keeps the directory ours.
    _lock: File,
}

/// Memory that outlives processes.
#[derive(Debug)]
struct Keeping {
    /// Where all machines have their regions.
    regions: PathBuf,
    /// Regions of this machine that are there from its last life.
    there: Mutex<HashSet<SegmentId>>,
    /// Keeps the life.
    _living: Living,
}

#[derive(Debug)]
struct Own {
    memory: Arc<Memory>,
    path: PathBuf,
}

impl ShmFabric {
    /// The machine `me` of the cluster whose memory is in `root`, a member of nothing but itself.
    ///
    /// # Errors
    /// [`FabricError::Refused`] if another process is that machine; [`FabricError::Io`] where the
    /// directory cannot be made.
    pub fn open(root: &Path, me: MachineId) -> Result<Self, FabricError> {
        Self::of(root, me, None)
    }

    /// The same where memory outlives processes: `regions` is where all machines have theirs, and `there` are those of
    /// this machine that it gets back when it provides them.
    pub(crate) fn keeping(
        root: &Path,
        (regions, there): (&Path, HashSet<SegmentId>),
        me: MachineId,
        living: Living,
    ) -> Result<Self, FabricError> {
        let own = home_of(regions, me);
        fs::create_dir_all(&own)?;
        let stays: Vec<String> = there
            .iter()
            .map(|segment| name_of(*segment, Writer::Owner))
            .collect();
        for entry in fs::read_dir(&own)? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if !stays.iter().any(|stays| *stays == name) {
                fs::remove_file(&path)?;
            }
        }
        let kept = Keeping {
            regions: regions.to_path_buf(),
            there: Mutex::new(there),
            _living: living,
        };
        Self::of(root, me, Some(kept))
    }

    fn of(root: &Path, me: MachineId, kept: Option<Keeping>) -> Result<Self, FabricError> {
        let home = home_of(root, me);
        fs::create_dir_all(&home)?;
        let lock = File::create(home.join(LOCK))?;
        if lock.try_lock().is_err() {
            return Err(FabricError::Refused("another process is this machine"));
        }
        // What a process that is gone has left is of another life.
        for entry in fs::read_dir(&home)? {
            let path = entry?.path();
            if path.file_name().is_some_and(|name| name != LOCK) {
                fs::remove_file(path)?;
            }
        }
        let control = Arc::new(make(&home.join(CONTROL), CONTROL_WORDS, true)?);
        control.words()[MEMBERS].store(u64::from(me.0) + 1, Ordering::Release);
        control.words()[GENERATION].store(1, Ordering::Release);
        Ok(ShmFabric {
            me,
            home,
            root: root.to_path_buf(),
            bell: Bell::new(Arc::clone(&control), BELL),
            lease_bell: Bell::new(Arc::clone(&control), LEASE_BELL),
            control,
            counters: FabricCounters::default(),
            own: RwLock::default(),
            peers: RwLock::default(),
            events: Mutex::default(),
            kept,
            _lock: lock,
        })
    }

    /// Removes the memory of machines that are neither this one nor among `members`, and whose processes have ended: what
    /// they had others have, or it is lost. Who has mapped some of it keeps that. Where memory outlives processes regions
    /// stay ([`crate::nvram::gone`]), and where in their logs at others they were.
    ///
    /// # Errors
    /// [`FabricError::Io`] where the directory cannot be read.
    pub fn clear_away(&self, members: &[Member]) -> Result<(), FabricError> {
        let homes = members.iter().map(|member| home_of(&self.root, member.id));
        let homes: Vec<PathBuf> = homes.collect();
        for entry in fs::read_dir(&self.root)? {
            let path = entry?.path();
            if homes.contains(&path) || !path.join(CONTROL).exists() {
                continue;
            }
            // Where there is no such file a machine is about to come.
            let lock = File::open(path.join(LOCK));
            if lock.is_ok_and(|lock| lock.try_lock().is_ok()) {
                // Another machine may be at it, too.
                let _ = match self.kept {
                    None => fs::remove_dir_all(path),
                    Some(_) => clear(&path),
                };
            }
        }
        Ok(())
    }

    /// Where the files of a kind are that a machine has, whose others are in `home`.
    fn place_of(&self, home: &Path, machine: MachineId, segment: SegmentId) -> PathBuf {
        match &self.kept {
            Some(kept) if segment.kind() == SegmentId::REGION => home_of(&kept.regions, machine),
            _ => home.to_path_buf(),
        }
    }

    /// A region of this machine's last life.
    fn take_kept(
        &self,
        segment: SegmentId,
        path: &Path,
        words: usize,
    ) -> Result<Option<Memory>, FabricError> {
        const MISSING: FabricError = FabricError::Refused("what was kept has another size");
        let kept = self.kept.as_ref();
        if !kept.is_some_and(|kept| kept.there.lock().remove(&segment)) {
            return Ok(None);
        }
        let memory = open(path, true).filter(|memory| memory.len() == words);
        memory.map(Some).ok_or(MISSING)
    }

    fn peer(&self, machine: MachineId) -> Result<Arc<Peer>, FabricError> {
        let peer = self.peers.read().get(&machine).cloned();
        peer.ok_or(FabricError::NotMember(machine))
    }

    /// Does something with a segment. What is mapped already is used where it is: neither it nor the way to it
    /// is counted again, which would be the most of what a small operation costs.
    fn with<T>(
        &self,
        machine: MachineId,
        segment: SegmentId,
        work: impl FnOnce(&Mapped) -> T,
    ) -> Result<T, FabricError> {
        if machine != self.me {
            let urgent = segment.lane() == SegmentId::LEASE_LANE;
            let peers = look_at(&self.peers, urgent);
            let peer = peers.get(&machine).ok_or(FabricError::NotMember(machine))?;
            let life = look_at(&peer.life, urgent);
            if let Some(life) = life.as_ref().filter(|life| life.lasts())
                && life.counts(self.me)
                && let Some(mapped) = look_at(&life.mapped, urgent).get(&segment)
            {
                return Ok(work(mapped));
            }
        }
        self.find(machine, segment).map(|mapped| work(&mapped))
    }

    /// Maps a segment, if it is not mapped yet.
    fn find(&self, machine: MachineId, segment: SegmentId) -> Result<Mapped, FabricError> {
        const NO_SUCH: FabricError = FabricError::Refused("no such segment");
        if machine == self.me {
            let own = self.own.read();
            let own = own.get(&segment).ok_or(NO_SUCH)?;
            return Ok(Mapped {
                memory: Arc::clone(&own.memory),
                writable: true,
            });
        }
        let peer = self.peer(machine)?;
        let life = peer.life()?;
        if !life.counts(self.me) {
            return Err(FabricError::Lost);
        }
        let mine = peer.home.join(name_of(segment, Writer::Peer(self.me)));
        let mapped = match open(&mine, true) {
            Some(memory) => (memory, true),
            None => {
                let of_others = self.open_of_others((machine, &peer), segment);
                (of_others.ok_or(NO_SUCH)?, false)
            }
        };
        let mapped = Mapped {
            memory: Arc::new(mapped.0),
            writable: mapped.1,
        };
        let mut all = life.mapped.write();
        Ok(all.entry(segment).or_insert(mapped).clone())
    }

    /// A segment that somebody else, or nobody, may write.
    fn open_of_others(
        &self,
        (machine, peer): (MachineId, &Peer),
        segment: SegmentId,
    ) -> Option<Memory> {
        let place = self.place_of(&peer.home, machine, segment);
        let owners = place.join(name_of(segment, Writer::Owner));
        let others = self.peers.read().keys().copied().collect::<Vec<_>>();
        let names = others
            .into_iter()
            .map(|other| peer.home.join(name_of(segment, Writer::Peer(other))));
        std::iter::once(owners)
            .chain(names)
            .find_map(|path| open(&path, false))
    }

    /// Rings one of the bells of a peer.
    #[inline]
    fn ring_at(&self, machine: MachineId, bell: impl Fn(&Life) -> &Bell) {
        if let Some(peer) = look_at(&self.peers, true).get(&machine) {
            if let Some(life) = look_at(&peer.life, true)
                .as_ref()
                .filter(|life| life.lasts())
            {
                return bell(life).ring();
            }
            // A machine that is not there has nobody to wake.
            if let Ok(life) = peer.life() {
                bell(&life).ring();
            }
        }
    }

    /// Does something with a segment that this machine may write; the answer of what it posts.
    fn change<T>(&self, at: Place, work: impl FnOnce(&Memory) -> Completion<T>) -> Completion<T> {
        const NOT_THE_WRITER: FabricError = FabricError::Refused("not the writer of the segment");
        let done = self.with(at.machine, at.segment, |mapped| match mapped.writable {
            true => work(&mapped.memory),
            false => Completion::done(Err(NOT_THE_WRITER)),
        });
        done.unwrap_or_else(|error| Completion::done(Err(error)))
    }
}

/// Removes all that a machine had for itself but the words that others have told it of its logs, which a restart looks at.
fn clear(home: &Path) -> io::Result<()> {
    let head = SegmentId::new(SegmentId::HEAD, 0, 0).kind();
    for entry in fs::read_dir(home)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if nvram::segment_of(&name).is_none_or(|segment| segment.kind() != head) {
            fs::remove_file(&path)?;
        }
    }
    Ok(())
}

/// Looks at what is seldom changed. Who is `urgent`, as leases are, does not queue behind somebody who wants to change it and
/// waits for readers that others keep from the processor.
#[inline]
fn look_at<T>(lock: &RwLock<T>, urgent: bool) -> RwLockReadGuard<'_, T> {
    match urgent {
        true => lock.read_recursive(),
        false => lock.read(),
    }
}

impl Fabric for ShmFabric {
    fn me(&self) -> MachineId {
        self.me
    }

    fn bell(&self) -> &Bell {
        &self.bell
    }

    fn lease_bell(&self) -> &Bell {
        &self.lease_bell
    }

    fn counters(&self) -> &FabricCounters {
        &self.counters
    }

    fn keeps(&self) -> bool {
        self.kept.is_some()
    }

    fn room(&self) -> Option<u64> {
        let stat = rustix::fs::statvfs(&self.home).ok()?;
        Some(stat.f_bavail.saturating_mul(stat.f_frsize))
    }

    fn provide(
        &self,
        segment: SegmentId,
        words: usize,
        writer: Writer,
    ) -> Result<Arc<Memory>, FabricError> {
        let mut own = self.own.write();
        if own.contains_key(&segment) {
            return Err(FabricError::Refused("the segment is there already"));
        }
        let place = self.place_of(&self.home, self.me, segment);
        let path = place.join(name_of(segment, writer));
        let memory = match self.take_kept(segment, &path, words)? {
            Some(memory) => Arc::new(memory),
            None => Arc::new(make(&path, words, is_whole(segment))?),
        };
        let provided = Own {
            memory: Arc::clone(&memory),
            path,
        };
        own.insert(segment, provided);
        Ok(memory)
    }

    fn withdraw(&self, segment: SegmentId) {
        // Logs are looked at when all machines have ended.
        let stays = [SegmentId::RING, SegmentId::HEAD, SegmentId::RELEASED];
        let stays = self.kept.is_some() && stays.contains(&segment.kind());
        if let Some(own) = self.own.write().remove(&segment)
            && !stays
        {
            // A name that is gone already is as good.
            let _ = fs::remove_file(own.path);
        }
    }

    fn forget(&self, segment: SegmentId) {
        for peer in self.peers.read().values() {
            if let Some(life) = peer.life.read().as_ref() {
                life.mapped.write().remove(&segment);
            }
        }
    }

    fn set_members(&self, members: &[Member]) -> Result<(), FabricError> {
        if !members.iter().any(|member| member.id == self.me) {
            return Err(FabricError::Refused("this machine must be a member"));
        }
        if members.len() >= MAX_MEMBERS {
            return Err(FabricError::Refused("too many members"));
        }
        let words = self.control.words();
        for (i, word) in words[MEMBERS..].iter().enumerate() {
            let number = members
                .get(i)
                .map_or(0, |member| u64::from(member.id.0) + 1);
            word.store(number, Ordering::Release);
        }
        words[GENERATION].fetch_add(1, Ordering::AcqRel);
        let others = members.iter().map(|member| member.id);
        let others: Vec<_> = others.filter(|id| *id != self.me).collect();
        let mut peers = self.peers.write();
        let mut events = self.events.lock();
        peers.retain(|id, peer| {
            let stays = others.contains(id);
            if !stays && peer.connected.load(Ordering::Relaxed) {
                events.push(Event::Lost(*id));
            }
            stays
        });
        for id in others {
            peers
                .entry(id)
                .or_insert_with(|| Arc::new(Peer::at(home_of(&self.root, id))));
        }
        Ok(())
    }

    fn maps_peers(&self) -> bool {
        true
    }

    fn map(&self, machine: MachineId, segment: SegmentId) -> Option<Arc<Memory>> {
        self.with(machine, segment, |mapped| Arc::clone(&mapped.memory))
            .ok()
    }

    fn read(&self, at: Place, words: usize) -> Completion<Box<[u64]>> {
        self.counters.read(words);
        self.with(at.machine, at.segment, |mapped| {
            direct::read(&mapped.memory, at.word, words)
        })
        .unwrap_or_else(|error| Completion::done(Err(error)))
    }

    fn write(&self, at: Place, words: &[u64]) -> Completion<()> {
        self.counters.write(words.len());
        self.change(at, |memory| direct::write(memory, at.word, words))
    }

    fn cas(&self, at: Place, expected: u64, new: u64) -> Completion<u64> {
        self.counters.swap();
        self.change(at, |memory| direct::cas(memory, at.word, expected, new))
    }

    fn ring_bell(&self, machine: MachineId) {
        match machine == self.me {
            true => self.bell.ring(),
            false => self.ring_at(machine, |life| &life.bell),
        }
    }

    fn ring_lease_bell(&self, machine: MachineId) {
        match machine == self.me {
            true => self.lease_bell.ring(),
            false => self.ring_at(machine, |life| &life.lease_bell),
        }
    }

    fn take_events(&self) -> Vec<Event> {
        let mut events = std::mem::take(&mut *self.events.lock());
        for (id, peer) in self.peers.read().iter() {
            let now = peer.life().is_ok_and(|life| life.counts(self.me));
            if peer.connected.swap(now, Ordering::Relaxed) != now {
                events.push(if now {
                    Event::Connected(*id)
                } else {
                    Event::Lost(*id)
                });
            }
        }
        events
    }
}

impl Drop for ShmFabric {
    fn drop(&mut self) {
        self.control.words()[GENERATION].store(0, Ordering::Release);
        if let Some(kept) = &self.kept {
            // What is not saved is not said to be.
            let _ = nvram::sync(&self.home, &home_of(&kept.regions, self.me));
            return;
        }
        // Who has mapped a segment keeps its memory; nobody finds it any more.
        let _ = fs::remove_dir_all(&self.home);
    }
}

//! The outcome of the transactions that have records in the logs (RESTART-2).
//!
//! ```text
//! ABORT                                                         ─► no effect
//! no complete COMMIT-BACKUP, no COMMIT-PRIMARY                  ─► no effect
//! COMMIT-PRIMARY, or all its writes to a region are installed   ─► takes effect
//! all its writes to every written region are known              ─► takes effect
//! not installed in a region whose primary is present            ─► no effect: it was never shown
//! otherwise                                                     ─► takes effect: it was truncated
//! ```
//! The coordinator lets machines truncate a transaction only after all primaries have
//! COMMIT-PRIMARY. So if a primary has neither COMMIT-PRIMARY nor the new versions, no machine has
//! truncated it.

use fencepost_cluster::few::FewMap;
use fencepost_fabric::MachineId;
use fencepost_storage::classes::Class;
use fencepost_storage::region::Image;
use fencepost_storage::{Addr, RegionId, Timestamp};

use super::super::evidence;
use super::super::message::{Kind, Value, WordReader, Write};
use super::Source;
use super::logs::{Logs, TransactionRecords, moved_value};
use crate::record::{BadRecord, TxnId};

/// The new value of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NewValue {
    Freed,
    Whole(Vec<u64>),
    /// Ranges that apply to the version with this timestamp.
    Ranges(Timestamp, Vec<u64>),
    /// The value is not known.
    Unknown,
}

/// The incarnation of a slot after the change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Incarnation {
    /// This number.
    Is(u16),
    /// The number in the slot, plus one if the object is new.
    Of { new: bool },
}

/// One write of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    pub addr: Addr,
    pub becomes: NewValue,
    /// The size class of the block, if it is known.
    pub class: Option<Class>,
    pub new: bool,
    pub incarnation: Incarnation,
    /// The index of the word that becomes the write timestamp.
    pub stamped: Option<usize>,
}

/// The writes that take effect.
pub struct DecidedWrites {
    /// By region, ordered by timestamp: the coordinator's machine, and its writes there.
    pub changes: FewMap<RegionId, Vec<(Timestamp, MachineId, Vec<Change>)>>,
    /// The newest timestamp in any record.
    pub newest: u64,
}

impl Change {
    /// Returns whether the write is installed at the primary of its region. An object that is not
    /// installed is locked there. So if the slot is unallocated or serves another class, the write
    /// was installed.
    pub fn is_installed(&self, image: &Image, w: Timestamp) -> bool {
        let same = self
            .class
            .is_none_or(|class| image.class_of(self.addr) == Some(class));
        let object = image.object(self.addr).filter(|_| same);
        object.is_none_or(|object| object.header().timestamp() >= w)
    }
}

type RegionChanges = FewMap<RegionId, Vec<Change>>;

/// Collects the writes of a COMMIT-BACKUP.
fn of_backup(record: &[u64], changes: &mut RegionChanges) -> Result<(), BadRecord> {
    let mut reader = WordReader(record);
    reader.id()?;
    reader.timestamp()?;
    reader.skip_regions()?;
    while let Some(write) = reader.write()? {
        let mut payload = WordReader(write.payload);
        let becomes = match write.kind {
            Kind::Freed => NewValue::Freed,
            Kind::Ranges => NewValue::Ranges(payload.timestamp()?, payload.0.to_vec()),
            _ => NewValue::Whole(payload.0.to_vec()),
        };
        let stamped = (write.about >> evidence::STAMPED_SHIFT) as u8;
        let change = Change {
            addr: write.addr,
            becomes,
            class: Some(Class(write.class)),
            new: write.kind == Kind::New,
            incarnation: Incarnation::Is(write.about as u16),
            stamped: usize::from(stamped).checked_sub(1),
        };
        let region = write.addr.region();
        changes.entry(region).or_default().push(change);
    }
    Ok(())
}

/// Collects the writes of a LOCK, and of the LOCK-MOVED that follows it, at the regions' sources.
fn of_lock(
    lock: &[u64],
    moved: &[u64],
    sources: &Sources<'_>,
    changes: &mut RegionChanges,
) -> Result<(), BadRecord> {
    if lock.is_empty() {
        return Ok(());
    }
    let mut reader = WordReader(lock);
    reader.id()?;
    reader.skip_regions()?;
    while let Some(write) = reader.write()? {
        let region = write.addr.region();
        let image = sources.get(&region).map(|source| source.image);
        let header = image
            .and_then(|image| image.object(write.addr))
            .map(|object| object.header().unlocked());
        let new = write.kind == Kind::New;
        let change = Change {
            addr: write.addr,
            becomes: locked_value(&write, moved, header)?,
            class: None,
            new,
            incarnation: Incarnation::Of { new },
            stamped: usize::from(write.class).checked_sub(1),
        };
        changes.entry(region).or_default().push(change);
    }
    Ok(())
}

fn locked_value(
    write: &Write<'_>,
    moved: &[u64],
    header: Option<fencepost_storage::header::Header>,
) -> Result<NewValue, BadRecord> {
    use fencepost_storage::header::Header;
    let Some(header) = header else {
        return Ok(NewValue::Unknown);
    };
    let base = header.timestamp();
    let of = |value: Value<'_>| match value {
        Value::Whole(words) => NewValue::Whole(words.to_vec()),
        Value::Ranges(words) => NewValue::Ranges(base, words.to_vec()),
    };
    if write.kind.is_patched()
        && let Some(value) = moved_value(moved, write.addr)?
    {
        return Ok(of(value));
    }
    let follows = write.kind == Kind::Patched && write.payload.is_empty();
    let elsewhere = write.kind.is_patched() && header != Header(write.about).unlocked();
    Ok(match write.kind {
        _ if follows || elsewhere => NewValue::Unknown,
        Kind::Freed => NewValue::Freed,
        Kind::New => NewValue::Whole(write.payload.get(1..).unwrap_or_default().to_vec()),
        kind if kind.is_ranges() => of(Value::Ranges(write.payload)),
        _ => of(Value::Whole(write.payload)),
    })
}

type Sources<'a> = FewMap<RegionId, Source<'a>>;

/// Returns the writes of a transaction as far as they are known; a COMMIT-BACKUP has more than a
/// LOCK.
fn changes_of(
    found: &TransactionRecords,
    sources: &Sources<'_>,
) -> Result<RegionChanges, BadRecord> {
    let mut all = RegionChanges::new();
    for backed in found.whole() {
        let mut there = RegionChanges::new();
        for part in &backed.parts {
            of_backup(part, &mut there)?;
        }
        for (region, changes) in there {
            all.entry(region).or_insert(changes);
        }
    }
    for (at, locked) in &found.locks {
        let mut there = RegionChanges::new();
        of_lock(&locked.lock, &locked.moved, sources, &mut there)?;
        for (region, changes) in there {
            // Locks at a machine that is not the primary any more are ignored: other machines have
            // the writes.
            if sources
                .get(&region)
                .is_some_and(|source| source.machine == *at)
            {
                all.entry(region).or_insert(changes);
            }
        }
    }
    Ok(all)
}

/// Returns the write timestamp of a transaction if it takes effect.
fn decide(
    found: &TransactionRecords,
    changes: &RegionChanges,
    sources: &Sources<'_>,
) -> Option<Timestamp> {
    let w = found.w.filter(|_| !found.aborted)?;
    if !found.committed && found.whole().next().is_none() {
        return None;
    }
    let native = |region: &RegionId| sources.get(region).filter(|source| source.native);
    let mut installed = changes.iter().filter_map(|(region, changes)| {
        let image = native(region)?.image;
        Some(changes.iter().all(|change| change.is_installed(image, w)))
    });
    let shown = found.committed || installed.clone().any(|all| all);
    let is_known = |region: &u32| {
        let region = RegionId(*region);
        let installed = |change: &Change| {
            native(&region).is_some_and(|source| change.is_installed(source.image, w))
        };
        let known = |change: &Change| change.becomes != NewValue::Unknown || installed(change);
        changes
            .get(&region)
            .is_some_and(|changes| changes.iter().all(known))
    };
    let takes_effect = shown || found.written.iter().all(is_known) || !installed.any(|all| !all);
    takes_effect.then_some(w)
}

impl DecidedWrites {
    /// Decides all transactions in the logs.
    pub fn of(logs: &Logs, sources: &Sources<'_>) -> Result<DecidedWrites, (MachineId, BadRecord)> {
        let mut decided = DecidedWrites {
            changes: FewMap::new(),
            newest: 0,
        };
        for (id, found) in &logs.transactions {
            let of: &TxnId = id;
            let machine = MachineId(of.machine);
            decided.newest = decided.newest.max(found.w.map_or(0, Timestamp::raw));
            let changes = changes_of(found, sources).map_err(|why| (machine, why))?;
            let Some(w) = decide(found, &changes, sources) else {
                continue;
            };
            for (region, changes) in changes {
                let there = decided.changes.entry(region).or_default();
                there.push((w, machine, changes));
            }
        }
        for changes in decided.changes.values_mut() {
            changes.sort_by_key(|(w, ..)| *w);
        }
        Ok(decided)
    }
}

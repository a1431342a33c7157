//! All machines have ended, and their memory is there: it is put in order, and they begin again (SOSP'15 §5).
//!
//! # Picture
//! ```text
//! while they run   kept.rs  regions that a machine holds ─► HOLDINGS     copied.rs  what leaves a log too early ─► RECORD
//! nobody runs      logs.rs  all that the logs still have ─► decide.rs  what becomes of it
//!                  ─► order.rs  into the primaries ─► no lock, no old version ─► the other replicas
//! they begin       resume.rs  each has its regions, and what is free in them
//! ```
//! One process does what stands in the middle, for all machines, before any of them begins: it is a host's memory, so that
//! nothing has to be asked for. What cannot be known is what a process knew and wrote nowhere: the locks of its own
//! transactions in its own regions, and what it had truncated. Memory says it: what is not installed is locked.
//!
//! # Invariants
//! * RESTART-1: what was reported is there. Before a commit is reported every region that it writes has a LOCK or a
//!   COMMIT-BACKUP of it in the log of another machine than the coordinator's, and one of them has a COMMIT-BACKUP or a
//!   COMMIT-PRIMARY; or what it writes there is installed at the primary. That takes a backup of each region.
//! * RESTART-2: a transaction that had not taken effect takes effect whole or not at all. Where it was shown anywhere it
//!   does. Otherwise it does if a COMMIT-BACKUP is there, so that all it read was valid, and all that it writes is known.
//! * RESTART-3: afterwards all replicas of a region are alike, nothing is locked, nothing has an old version, and no
//!   timestamp is above what the next clock begins with.
//! * RESTART-4: nothing is changed before it is known that every region is there; and where this ends before it is done it
//!   is done again from the beginning, with the same outcome: the logs stay until the next configuration is stored.
//!
//! # Failure
//! A machine without its memory is one that was lost: others have its regions' replicas, one becomes the primary, and it
//! gets copies. A backup does not have in memory what its own machine, as the coordinator, had kept for it; so where the
//! primary is lost two backups are wanted, which have all of it together, and with one nothing begins
//! ([`RestartError::Alone`]); nor does it with none ([`RestartError::Lost`]). So a machine may be lost, too, where regions
//! have three replicas; what such a transaction had come to that was not reported is found as far as others know it. A
//! region with a single replica is not covered by RESTART-1, nor is all that a recovery had under way.

pub(super) mod copied;
mod decide;
pub(super) mod kept;
mod logs;
mod order;
mod resume;

use std::panic::resume_unwind;
use std::sync::atomic::{self, AtomicUsize};

use fencepost_cluster::few::FewMap;
use fencepost_cluster::reconfiguration::{Kept, Resumed, Resuming, resume};
use fencepost_cluster::{Configuration, Replication};
use fencepost_fabric::{Afterlife, MachineId, Remains, SegmentId};
use fencepost_storage::region::Image;
use fencepost_storage::{RegionId, Timestamp};

use crate::record::BadRecord;
use crate::start::{self, BIRTH};
use decide::Decided;
use logs::Logs;

/// Why machines cannot begin again with what they had.
#[derive(Debug, thiserror::Error)]
pub enum RestartError {
    /// The memory cannot be read or made.
    #[error("the memory of the machines: {0}")]
    Io(#[from] std::io::Error),
    /// Of these regions no replica is left.
    #[error("no machine has the memory of {} any more; nothing was changed", list(.0))]
    Lost(Vec<RegionId>),
    /// Of these regions a single backup is left.
    #[error(
        "of {} a single backup is left, which may lack what its own machine had committed; nothing was changed",
        list(.0)
    )]
    Alone(Vec<RegionId>),
    /// No machine has left anything.
    #[error("no machine has left any memory; without its directory an empty database begins")]
    Nothing,
    /// That is not what any machine writes.
    #[error("what {of} has written at {at} is damaged: {why}")]
    Damaged {
        /// Who has written it.
        of: MachineId,
        /// Where it is.
        at: MachineId,
        /// What is the matter with it.
        why: String,
    },
    /// There is no such next configuration.
    #[error("the machines are no configuration: {0}")]
    Configuration(#[from] fencepost_cluster::ConfigurationError),
}

fn list(regions: &[RegionId]) -> String {
    let names: Vec<String> = regions.iter().map(RegionId::to_string).collect();
    names.join(", ")
}

/// The memory of all machines that have some.
struct Left {
    remains: FewMap<MachineId, Remains>,
    kept: FewMap<MachineId, Kept>,
    images: FewMap<(MachineId, RegionId), Image>,
}

impl Left {
    /// What the members of a configuration have left.
    fn of(
        after: &dyn Afterlife,
        members: &[MachineId],
        begun: Option<&Resumed>,
    ) -> Result<Left, RestartError> {
        let mut left = Left {
            remains: FewMap::new(),
            kept: FewMap::new(),
            images: FewMap::new(),
        };
        for machine in members.iter().copied() {
            let remains = after.remains(machine)?;
            let written = remains.get(kept::SEGMENT).and_then(|kept| kept::read(kept));
            // One that ended before it wrote anything down has what it was to begin with; who has come since has nothing.
            let from_begin = || {
                let begun = begun.filter(|begun| begun.configuration.has(machine));
                begun.map(|begun| begun.kept_by(machine))
            };
            let Some(mut kept) = written.or_else(from_begin) else {
                continue;
            };
            let held = std::mem::take(&mut kept.holdings.held);
            for held in held {
                let region = held.mapping.region;
                let memory = remains.get(SegmentId::new(SegmentId::REGION, 0, region.0));
                match memory.and_then(|memory| Image::of(region, memory)) {
                    Some(image) => {
                        left.images.insert((machine, region), image);
                        kept.holdings.held.push(held);
                    }
                    // It is there, but not here.
                    None if held.committed => kept.holdings.known.push(held.mapping),
                    None => {}
                }
            }
            left.kept.insert(machine, kept);
            left.remains.insert(machine, remains);
        }
        match left.kept.is_empty() {
            true => Err(RestartError::Nothing),
            false => Ok(left),
        }
    }
}

impl Left {
    /// The machines that have all data of a region.
    fn whole(&self, region: RegionId) -> impl Iterator<Item = MachineId> {
        let has = move |(machine, kept): (&MachineId, &Kept)| {
            let mut held = kept.holdings.held.iter();
            let whole = held.any(|held| held.mapping.region == region && held.whole);
            whole.then_some(*machine)
        };
        self.kept.iter().filter_map(has)
    }
}

/// Where a region's data come from.
struct Source<'a> {
    machine: MachineId,
    image: &'a Image,
    /// Whether it was the region's primary, with all that had been recovered; otherwise it was a backup.
    native: bool,
}

/// Puts in order what the members of the configuration `before` have left, whose life had `begun` so, for them to begin
/// again. Who was out before all had ended is none of them.
///
/// # Errors
/// [`RestartError`]; all that was left is still there then.
pub fn settle(
    after: &(dyn Afterlife + Sync),
    (before, begun): (&Configuration, Option<&Resumed>),
    replication: Replication,
) -> Result<Resumed, RestartError> {
    let configuration = before.again()?;
    let members = before.machines().iter().map(|machine| machine.id);
    let left = Left::of(after, &members.collect::<Vec<_>>(), begun)?;
    let resumed = resume(&left.kept, &configuration, replication);
    let (regions, next_region) = resumed.map_err(RestartError::Lost)?;
    let sources: FewMap<RegionId, Source<'_>> = regions
        .iter()
        .filter_map(|region| Some((region.before.region, source(&left, region)?)))
        .collect();
    let homeless = regions.iter().map(|region| region.before.region);
    let homeless: Vec<RegionId> = homeless.filter(|id| !sources.contains_key(id)).collect();
    if !homeless.is_empty() {
        return Err(RestartError::Lost(homeless));
    }
    let recovered = left.kept.values().map(|kept| kept.recovered).min();
    let alone = |(id, source): (&RegionId, &Source<'_>)| {
        (!source.native && left.whole(*id).count() < 2).then_some(*id)
    };
    let alone: Vec<RegionId> = sources.iter().filter_map(alone).collect();
    if !alone.is_empty() {
        return Err(RestartError::Alone(alone));
    }
    let logs = Logs::read(after, &left.remains, recovered.map_or(0, |id| id.0))?;
    let decided = Decided::of(&logs, &sources).map_err(|(of, why)| damaged(of, &why))?;
    let ordering = Ordering {
        after,
        left: &left,
        sources: &sources,
        decided: &decided,
    };
    let newest = ordering.all(&regions)?;
    let root = start::root_at().ok();
    let root = root.and_then(|root| sources.get(&root.region())?.image.object(root));
    Ok(Resumed {
        fresh: root.is_none_or(|root| root.header().timestamp() <= BIRTH),
        configuration,
        regions: regions.iter().map(Resuming::resumed).collect(),
        next_region,
        newest: newest.raw(),
    })
}

/// What it takes to put regions in order.
struct Ordering<'a> {
    after: &'a (dyn Afterlife + Sync),
    left: &'a Left,
    sources: &'a FewMap<RegionId, Source<'a>>,
    decided: &'a Decided,
}

impl Ordering<'_> {
    /// Puts all regions in order, as many at a time as there are cores; the newest timestamp.
    fn all(&self, regions: &[Resuming]) -> Result<Timestamp, RestartError> {
        let workers = std::thread::available_parallelism().map_or(2, usize::from);
        let next = AtomicUsize::new(0);
        let work = || {
            let mut newest = Timestamp::from_raw(self.decided.newest);
            while let Some(region) = regions.get(next.fetch_add(1, atomic::Ordering::Relaxed)) {
                newest = newest.max(self.one(region)?);
            }
            Ok(newest)
        };
        std::thread::scope(|scope| {
            let workers: Vec<_> = (1..workers).map(|_| scope.spawn(work)).collect();
            let mut newest = work();
            for worker in workers {
                let other = worker.join().unwrap_or_else(|panic| resume_unwind(panic));
                newest = newest.and_then(|newest| Ok(newest.max(other?)));
            }
            newest
        })
    }

    /// Puts a region in order at one machine, and makes the same of it at the others.
    fn one(&self, region: &Resuming) -> Result<Timestamp, RestartError> {
        let id = region.before.region;
        let Some(source) = self.sources.get(&id) else {
            return Err(RestartError::Lost(vec![id]));
        };
        if !source.native {
            let others = self.left.whole(id).filter(|other| *other != source.machine);
            let images = others.filter_map(|other| self.left.images.get(&(other, id)));
            images.for_each(|image| source.image.take_newer(image));
        }
        let installed = order::install(self.decided, id, source);
        installed.map_err(|(of, why)| damaged(of, &why))?;
        let newest = source.image.calm();
        let others = region.after.replicas.all();
        for machine in others.filter(|machine| *machine != source.machine) {
            let there = self.left.images.get(&(machine, id));
            match there.filter(|there| there.words() == source.image.words()) {
                Some(there) => source.image.copy_to(there),
                None => {
                    let words = source.image.words();
                    let made = self.after.make_region(machine, id.0, words)?;
                    if let Some(made) = Image::of(id, &made) {
                        source.image.copy_to(&made);
                    }
                }
            }
        }
        Ok(newest)
    }
}

fn damaged(of: MachineId, why: &BadRecord) -> RestartError {
    RestartError::Damaged {
        of,
        at: of,
        why: why.0.into(),
    }
}

/// A primary that is left stays (REMAP-1); what it had not recovered it has as a backup.
fn source<'a>(left: &'a Left, region: &Resuming) -> Option<Source<'a>> {
    let id = region.before.region;
    let machine = region.after.replicas.primary();
    let since = region.before.last_primary_change;
    let was_primary = machine == region.before.replicas.primary();
    let kept = left.kept.get(&machine)?;
    Some(Source {
        machine,
        image: left.images.get(&(machine, id))?,
        native: was_primary && kept.recovered >= since,
    })
}

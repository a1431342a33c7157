//! Restart from surviving memory: all machines have ended, and their memory is repaired for the
//! next start (SOSP'15 §5).
//!
//! # Picture
//! ```text
//! while machines run  retained_regions.rs  regions of a machine ─► HOLDINGS
//!                     copied.rs            records that leave a log early ─► RECORD
//! no machine runs     logs.rs    all remaining log records
//!                     decide.rs  the outcome of each transaction
//!                     order.rs   into the primaries ─► no lock, no old version ─► other replicas
//! machines start      resume.rs  each has its regions, and their free slots
//! ```
//! One process does the middle part for all machines, before any of them starts. It reads the
//! memory of one host, so it sends no messages. Some state existed only in a process: the locks of
//! its own transactions in its own regions, and its truncations. The memory shows it: an object
//! whose new version is not installed is locked.
//!
//! # Invariants
//! * RESTART-1: a reported commit is present. Before a commit is reported, every region that it
//!   writes has a LOCK or a COMMIT-BACKUP in the log of a machine other than the coordinator's. One
//!   of them also has a COMMIT-BACKUP or a COMMIT-PRIMARY. Otherwise the writes to the region are
//!   installed at its primary. This requires a backup of each region.
//! * RESTART-2: an undecided transaction takes effect completely or not at all. If it was shown on
//!   any machine it takes effect. Otherwise it takes effect if there is a COMMIT-BACKUP, so that
//!   validation had succeeded, and all its writes are known.
//! * RESTART-3: afterwards all replicas of a region are equal, and no object is locked or has an
//!   old version. No timestamp is above the start of the next clock.
//! * RESTART-4: nothing is changed before every region is known to be present. A repair that is
//!   interrupted is repeated from the beginning, with the same outcome: the logs stay until the
//!   next configuration is stored.
//!
//! # Failure
//! A machine without its memory is a lost machine. Others have replicas of its regions, one becomes
//! the primary, and the lost machine gets copies. A backup's memory lacks the records that its own
//! machine kept as a coordinator. So if the primary is lost, two backups are required, which
//! together have all of them. With one backup the restart is refused ([`RestartError::Alone`]), and
//! with none as well ([`RestartError::Lost`]). So one machine may be lost if regions have three
//! replicas; an unreported transaction is then found as far as other machines know it. RESTART-1
//! covers neither a region with a single replica nor the state of a recovery in progress.

pub(super) mod copied;
mod decide;
mod logs;
mod order;
mod resume;
pub(super) mod retained_regions;

use std::panic::resume_unwind;
use std::sync::atomic::{self, AtomicUsize};

use fencepost_cluster::few::FewMap;
use fencepost_cluster::reconfiguration::{MappingChange, RestartState, SavedRegions, resume};
use fencepost_cluster::{Configuration, Replication};
use fencepost_fabric::{MachineId, MemoryStore, RetainedMemory, SegmentId};
use fencepost_storage::region::Image;
use fencepost_storage::{RegionId, Timestamp};

use crate::record::BadRecord;
use crate::start::{self, BIRTH};
use decide::DecidedWrites;
use logs::Logs;

/// The reason why machines cannot restart from their memory.
#[derive(Debug, thiserror::Error)]
pub enum RestartError {
    /// The memory cannot be read or made.
    #[error("the memory of the machines: {0}")]
    Io(#[from] std::io::Error),
    /// No replica of these regions is left.
    #[error("no machine has the memory of {} any more; nothing was changed", list(.0))]
    Lost(Vec<RegionId>),
    /// A single backup of these regions is left.
    #[error(
        "of {} a single backup is left, which may lack what its own machine had committed; \
         nothing was changed",
        list(.0)
    )]
    Alone(Vec<RegionId>),
    /// No machine has left any memory.
    #[error("no machine has left any memory; without its directory an empty database begins")]
    Nothing,
    /// A record is one that no machine writes.
    #[error("what {of} has written at {at} is damaged: {why}")]
    Damaged {
        /// The machine that has written it.
        of: MachineId,
        /// The machine that has it.
        at: MachineId,
        /// The defect.
        why: String,
    },
    /// The machines do not form a valid next configuration.
    #[error("the machines are no configuration: {0}")]
    Configuration(#[from] fencepost_cluster::ConfigurationError),
}

fn list(regions: &[RegionId]) -> String {
    let names: Vec<String> = regions.iter().map(RegionId::to_string).collect();
    names.join(", ")
}

/// The memory of all machines that have some.
struct ClusterMemory {
    remains: FewMap<MachineId, RetainedMemory>,
    saved: FewMap<MachineId, SavedRegions>,
    images: FewMap<(MachineId, RegionId), Image>,
}

impl ClusterMemory {
    /// Reads the memory that the members of a configuration have left.
    fn of(
        after: &dyn MemoryStore,
        members: &[MachineId],
        begun: Option<&RestartState>,
    ) -> Result<ClusterMemory, RestartError> {
        let mut left = ClusterMemory {
            remains: FewMap::new(),
            saved: FewMap::new(),
            images: FewMap::new(),
        };
        for machine in members.iter().copied() {
            let remains = after.retained(machine)?;
            let written = remains
                .get(retained_regions::SEGMENT)
                .and_then(|saved| retained_regions::read(saved));
            // A machine that ended before it wrote anything has its starting state; a machine that
            // joined since has nothing.
            let from_begin = || {
                let begun = begun.filter(|begun| begun.configuration.has(machine));
                begun.map(|begun| begun.retained_by(machine))
            };
            let Some(mut saved) = written.or_else(from_begin) else {
                continue;
            };
            let held = std::mem::take(&mut saved.holdings.held);
            for held in held {
                let region = held.mapping.region;
                let memory = remains.get(SegmentId::new(SegmentId::REGION, 0, region.0));
                match memory.and_then(|memory| Image::of(region, memory)) {
                    Some(image) => {
                        left.images.insert((machine, region), image);
                        saved.holdings.held.push(held);
                    }
                    // The region exists, but not on this machine.
                    None if held.committed => saved.holdings.known.push(held.mapping),
                    None => {}
                }
            }
            left.saved.insert(machine, saved);
            left.remains.insert(machine, remains);
        }
        match left.saved.is_empty() {
            true => Err(RestartError::Nothing),
            false => Ok(left),
        }
    }
}

impl ClusterMemory {
    /// Returns the machines that have all data of a region.
    fn whole(&self, region: RegionId) -> impl Iterator<Item = MachineId> {
        let has = move |(machine, saved): (&MachineId, &SavedRegions)| {
            let mut held = saved.holdings.held.iter();
            let whole = held.any(|held| held.mapping.region == region && held.whole);
            whole.then_some(*machine)
        };
        self.saved.iter().filter_map(has)
    }
}

/// The machine and image that a region's data are taken from.
struct Source<'a> {
    machine: MachineId,
    image: &'a Image,
    /// Whether the machine was the region's primary and had recovered it; otherwise it was a
    /// backup.
    native: bool,
}

/// Repairs the memory that the members of the configuration `before` have left, whose incarnation
/// had started as `begun`. Machines evicted before all had ended are not members.
///
/// Blocks; repairs as many regions at a time as there are cores. No process may use the memory.
///
/// # Errors
/// [`RestartError::Lost`], [`RestartError::Alone`] and [`RestartError::Nothing`] if too little
/// memory is left: it is unchanged then. [`RestartError::Damaged`] for a malformed record,
/// [`RestartError::Configuration`] if the machines are no configuration, [`RestartError::Io`] for
/// errors of the system.
pub fn repair_memory(
    after: &(dyn MemoryStore + Sync),
    (before, begun): (&Configuration, Option<&RestartState>),
    replication: Replication,
) -> Result<RestartState, RestartError> {
    let configuration = before.again()?;
    let members = before.machines().iter().map(|machine| machine.id);
    let left = ClusterMemory::of(after, &members.collect::<Vec<_>>(), begun)?;
    let resumed = resume(&left.saved, &configuration, replication);
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
    let recovered = left.saved.values().map(|saved| saved.recovered).min();
    let alone = |(id, source): (&RegionId, &Source<'_>)| {
        (!source.native && left.whole(*id).count() < 2).then_some(*id)
    };
    let alone: Vec<RegionId> = sources.iter().filter_map(alone).collect();
    if !alone.is_empty() {
        return Err(RestartError::Alone(alone));
    }
    let logs = Logs::read(after, &left.remains, recovered.map_or(0, |id| id.0))?;
    let decided = DecidedWrites::of(&logs, &sources).map_err(|(of, why)| damaged(of, &why))?;
    let ordering = Ordering {
        after,
        left: &left,
        sources: &sources,
        decided: &decided,
    };
    let newest = ordering.all(&regions)?;
    let root = start::root_at().ok();
    let root = root.and_then(|root| sources.get(&root.region())?.image.object(root));
    Ok(RestartState {
        fresh: root.is_none_or(|root| root.header().timestamp() <= BIRTH),
        configuration,
        regions: regions.iter().map(MappingChange::resumed).collect(),
        next_region,
        newest: newest.raw(),
    })
}

/// The inputs for the repair of regions.
struct Ordering<'a> {
    after: &'a (dyn MemoryStore + Sync),
    left: &'a ClusterMemory,
    sources: &'a FewMap<RegionId, Source<'a>>,
    decided: &'a DecidedWrites,
}

impl Ordering<'_> {
    /// Repairs all regions, as many at a time as there are cores. Returns the newest timestamp.
    fn all(&self, regions: &[MappingChange]) -> Result<Timestamp, RestartError> {
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

    /// Repairs a region at one machine, and copies it to the others.
    fn one(&self, region: &MappingChange) -> Result<Timestamp, RestartError> {
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

/// Returns the source of a region. A remaining primary stays primary (REMAP-1), but if it had not
/// recovered the region, its data count as a backup's.
fn source<'a>(left: &'a ClusterMemory, region: &MappingChange) -> Option<Source<'a>> {
    let id = region.before.region;
    let machine = region.after.replicas.primary();
    let since = region.before.last_primary_change;
    let was_primary = machine == region.before.replicas.primary();
    let saved = left.saved.get(&machine)?;
    Some(Source {
        machine,
        image: left.images.get(&(machine, id))?,
        native: was_primary && saved.recovered >= since,
    })
}

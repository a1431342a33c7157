//! The agreement at a restart: each machine that has read all states computes the same starting
//! state (DISK-4).
//!
//! The machines are those of the newest configuration that one of their disks has. The disk of any
//! other machine is stale, and is not used (DISK-9). Each region keeps those of its replicas here
//! that have all of its data.
//!
//! The rule for a transaction that is in doubt on any machine:
//!
//! | state of the machines | outcome |
//! |---|---|
//! | a machine has truncated it, or logged it as committed in BEGUN | takes effect |
//! | otherwise, a machine has begun a later incarnation, which did not list it | no effect |
//! | otherwise, recovery has decided in a later configuration | as decided |
//! | otherwise, a complete COMMIT-BACKUP, and every replica has its writes there | takes effect |
//! | otherwise | no effect |
//!
//! In the fourth case the commit may have been reported. In the last it was not: COMMIT-PRIMARY
//! follows all those records, and a machine that has truncated it says so until all have. Where W
//! is known, validation of all reads had succeeded. If a recovery was in progress, each decision
//! that it may have made and sent is on a disk (DISK-8), or follows by this rule. For recovery
//! decides to commit once all remaining replicas have the writes on their disks and say so.

use std::collections::{BTreeMap, BTreeSet};

use fencepost_cluster::few::{FewMap, FewSet};
use fencepost_cluster::reconfiguration::{MovedRegion, RestartState};
use fencepost_cluster::{Configuration, ConfigurationId, Mapping, RegionId, Replicas};
use fencepost_fabric::MachineId;
use fencepost_storage::Timestamp;

use super::meet::{ReadmitPolicy, StateExchangeError};
use super::record::IncarnationRecord;
use super::state::State;
use crate::record::TxnId;

/// The states of all machines, by machine number.
pub type States = FewMap<MachineId, State>;

/// The starting state of the machines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgreedState {
    pub cluster: u64,
    pub configuration: Configuration,
    pub regions: FewMap<RegionId, Mapping>,
    pub newest: Timestamp,
    /// Transactions that were in doubt and have taken effect.
    pub committed: BTreeMap<TxnId, Timestamp>,
}

/// Returns a number that is equal on all machines that have read the same states.
pub fn seal(states: &States) -> u64 {
    let mut hash = 0xCBF2_9CE4_8422_2325_u64;
    for (machine, state) in states {
        for word in [u64::from(machine.0), state.nonce] {
            for byte in word.to_le_bytes() {
                hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3);
            }
        }
    }
    hash.max(1)
}

/// Returns the newest configuration that one of these machines has been in, of the cluster of `me`.
pub fn newest(states: &States, me: MachineId) -> Option<&Configuration> {
    let cluster = |state: &State| state.begun.as_ref().map(|begun| begun.cluster);
    let own = states.get(&me).and_then(cluster);
    let mut all: Vec<&State> = states.values().collect();
    all.retain(|state| own.is_none() || cluster(state) == own);
    let all = all.into_iter().filter_map(State::configuration);
    all.max_by_key(|configuration| configuration.id())
}

/// Computes the starting state of `initial_members`; `all` are the states of the machines of the
/// newest configuration.
pub fn agree(
    all: &States,
    initial_members: &Configuration,
    taken_back: ReadmitPolicy,
) -> Result<AgreedState, StateExchangeError> {
    // The states of other machines are stale.
    let newest = all.values().filter_map(State::configuration);
    let newest = newest.max_by_key(|configuration| configuration.id());
    let held = || all.values().filter_map(|state| state.holdings.as_ref());
    let is_replica = |machine: MachineId| {
        let mut held = held().flat_map(|holdings| holdings.held.values());
        held.any(|held| held.mapping.replicas.has(machine))
    };
    // Such a machine was to begin without data when power failed, and has not begun.
    let has_nothing = |machine: MachineId, state: &State| {
        taken_back == ReadmitPolicy::All && state.begun.is_none() && !is_replica(machine)
    };
    let mut states = all.clone();
    states.retain(|machine, state| {
        newest.is_none_or(|newest| newest.has(*machine)) && !has_nothing(*machine, state)
    });
    let states = &states;
    let next = |last: &Configuration, stored| {
        let places = last.at_places_of(initial_members)?;
        match taken_back {
            ReadmitPolicy::Never => last.go_on_with(&places, stored),
            ReadmitPolicy::All => last.go_on_with_all(&places, stored),
        }
    };
    let begun = || states.values().filter_map(|state| state.begun.as_ref());
    let latest = begun().max_by_key(|begun| begun.configuration.id());
    let known = states.values().filter_map(|state| state.holdings.as_ref());
    let any = known.clone().any(|holdings| !holdings.held.is_empty());
    let last = known
        .map(|holdings| &holdings.configuration)
        .max_by_key(|configuration| configuration.id());
    let newest = states.values().map(|state| state.newest).max();
    let newest = newest.unwrap_or(Timestamp::ZERO);
    let stored = all.values().map(|state| state.stored).max();
    let stored = ConfigurationId(stored.unwrap_or(0));
    let (Some(latest), Some(last)) = (latest.filter(|_| any), last) else {
        // The machines had no region yet.
        let configuration = match last {
            Some(last) => next(last, stored)?,
            None if stored.0 > 0 => initial_members.go_on_with(initial_members, stored)?,
            None => initial_members.clone(),
        };
        return Ok(AgreedState {
            cluster: seal(all),
            configuration,
            regions: FewMap::new(),
            newest,
            committed: BTreeMap::new(),
        });
    };
    belong_together(states, latest)?;
    let before: Vec<MachineId> = ids(last).collect();
    // A machine that is no member any more was one.
    let was_there = |one: MachineId| last.has(one) || one < last.next_machine();
    if !ids(&last.at_places_of(initial_members)?).all(was_there) {
        return Err(StateExchangeError::OtherMachines(before));
    }
    let configuration = next(last, stored)?;
    let regions = regions_of(states, configuration.id())?;
    let candidates: BTreeSet<TxnId> = states
        .values()
        .flat_map(|state| state.doubts.keys().copied())
        .collect();
    let committed = candidates.into_iter().filter_map(|id| {
        let w = outcome(states, &regions, id)?;
        Some((id, w))
    });
    let mut committed: BTreeMap<TxnId, Timestamp> = committed.collect();
    // A machine that has not logged the decision yet is told again.
    let decided = begun().filter(|begun| begun.configuration.id() == latest.configuration.id());
    committed.extend(decided.flat_map(|begun| begun.committed.iter().copied()));
    Ok(AgreedState {
        cluster: latest.cluster,
        configuration,
        newest,
        committed,
        regions,
    })
}

/// Returns the mapping of each region in the configuration `next`: only replicas that have all of
/// its data stay.
fn regions_of(
    states: &States,
    next: ConfigurationId,
) -> Result<FewMap<RegionId, Mapping>, StateExchangeError> {
    let mut newest: FewMap<RegionId, &Mapping> = FewMap::new();
    let held = states.values().filter_map(|state| state.holdings.as_ref());
    for held in held.flat_map(|holdings| holdings.held.values()) {
        let there = newest.entry(held.mapping.region).or_insert(&held.mapping);
        if there.last_replica_change < held.mapping.last_replica_change {
            *there = &held.mapping;
        }
    }
    let mut lost = Vec::new();
    let mut regions = FewMap::new();
    for mapping in newest.into_values() {
        match left_of(states, mapping, next) {
            Some(left) => drop(regions.insert(left.region, left)),
            None => lost.push(mapping.region),
        }
    }
    match lost.is_empty() {
        true => Ok(regions),
        false => Err(StateExchangeError::Lost(lost)),
    }
}

/// Returns the mapping of a region with only those replicas that have all of its data; `None` if
/// none has.
fn left_of(states: &States, mapping: &Mapping, next: ConfigurationId) -> Option<Mapping> {
    let since = mapping.last_replica_change;
    let whole = |machine: &MachineId, strictly: bool| {
        let holdings = states
            .get(machine)
            .and_then(|state| state.holdings.as_ref());
        holdings.is_some_and(|holdings| {
            let id = holdings.configuration.id();
            match holdings.held.get(&mapping.region) {
                // The machine has not heard of the last change, and has been a replica all the
                // time.
                Some(held) => held.whole && (!strictly || since <= id.next()),
                // Nothing was written to a new region before this machine heard of it (DISK-2).
                None => since <= id,
            }
        })
    };
    let those = |strictly| -> Vec<MachineId> {
        let all = mapping.replicas.all();
        all.filter(|machine| whole(machine, strictly)).collect()
    };
    let mut left = those(true);
    if left.is_empty() {
        left = those(false);
    }
    if left.len() == mapping.replicas.count() {
        return Some(mapping.clone());
    }
    let (primary, backups) = left.split_first()?;
    let same = *primary == mapping.replicas.primary();
    Some(Mapping {
        replicas: Replicas::new(*primary, backups.to_vec())?,
        last_primary_change: match same {
            true => mapping.last_primary_change,
            false => next,
        },
        last_replica_change: next,
        ..mapping.clone()
    })
}

/// Checks that all machines have data of one cluster.
fn belong_together(states: &States, latest: &IncarnationRecord) -> Result<(), StateExchangeError> {
    let none = |(machine, state): (&MachineId, &State)| state.begun.is_none().then_some(*machine);
    let none: Vec<MachineId> = states.iter().filter_map(none).collect();
    if !none.is_empty() {
        return Err(StateExchangeError::Empty(none));
    }
    let others_data = |(machine, state): (&MachineId, &State)| {
        let begun = state.begun.as_ref()?;
        (begun.cluster != latest.cluster).then_some(*machine)
    };
    let others_data: Vec<MachineId> = states.iter().filter_map(others_data).collect();
    match others_data.is_empty() {
        true => Ok(()),
        false => Err(StateExchangeError::OtherCluster(others_data)),
    }
}

fn ids(configuration: &Configuration) -> impl Iterator<Item = MachineId> {
    configuration.machines().iter().map(|machine| machine.id)
}

/// Returns the write timestamp of a transaction if it takes effect.
fn outcome(states: &States, regions: &FewMap<RegionId, Mapping>, id: TxnId) -> Option<Timestamp> {
    let all = || states.values();
    let doubts = || all().filter_map(|state| state.doubts.get(&id));
    let listed = |list: &[(TxnId, Timestamp)]| {
        let found = list.iter().find(|(other, _)| *other == id);
        found.map(|(_, w)| *w)
    };
    let listed_w = all().find_map(|state| {
        let begun = state.begun.as_ref();
        let decided = begun.and_then(|begun| listed(&begun.committed));
        decided.or_else(|| listed(&state.truncated))
    });
    if listed_w.is_some() {
        return listed_w;
    }
    let later = |state: &State| {
        let begun = state.begun.as_ref();
        begun.is_some_and(|begun| begun.configuration.id().0 > id.configuration)
    };
    if all().any(later) || doubts().any(|doubt| doubt.aborted) {
        return None;
    }
    let decided = doubts().find_map(|doubt| doubt.committed);
    if decided.is_some() {
        return decided;
    }
    let w = doubts().find_map(|doubt| doubt.w)?;
    let written: FewSet<u32> = doubts().flat_map(|doubt| doubt.written.clone()).collect();
    let is_covered = |region: &u32| {
        let mapping = regions.get(&RegionId(*region));
        mapping.is_some_and(|mapping| {
            mapping.replicas.all().all(|machine| {
                let doubt = states.get(&machine);
                let doubt = doubt.and_then(|state| state.doubts.get(&id));
                doubt.is_some_and(|doubt| doubt.covered.contains(region))
            })
        })
    };
    written.iter().all(is_covered).then_some(w)
}

impl AgreedState {
    /// Returns the same state in the form of a restart from surviving memory.
    pub fn resumed(&self) -> RestartState {
        let region = |mapping: &Mapping| MovedRegion {
            mapping: mapping.clone(),
            // Machines number their requests anew, so this must be the answer to none of them.
            request: fencepost_cluster::allocation::RequestId {
                machine: MachineId(0),
                number: u64::from(mapping.region.0),
            },
        };
        let next = self.regions.keys().next_back();
        RestartState {
            configuration: self.configuration.clone(),
            regions: self.regions.values().map(region).collect(),
            next_region: RegionId(next.map_or(0, |last| last.0.saturating_add(1))),
            newest: self.newest.raw(),
            fresh: self.regions.is_empty(),
        }
    }
}

//! What machines begin again with, once each has seen what all have: everybody finds the same (DISK-4).
//!
//! The rule for a transaction that is in doubt anywhere:
//!
//! | what there is | it |
//! |---|---|
//! | a machine has truncated it, or wrote down that it took effect when a life began | takes effect |
//! | otherwise, a machine has begun a later configuration: those who did so decided, and this was not listed | has none |
//! | otherwise, a whole COMMIT-BACKUP, and every replica of what it writes has all that it writes there | takes effect |
//! | otherwise | has none |
//!
//! In the third case it may have been reported. In the last it was not: COMMIT-PRIMARY is behind all of that, and who has
//! truncated it says so until all have. All that a transaction read was valid where W is known.

use std::collections::{BTreeMap, BTreeSet};

use fencepost_cluster::reconfiguration::{MovedRegion, Resumed};
use fencepost_cluster::{Configuration, Mapping, RegionId};
use fencepost_fabric::MachineId;
use fencepost_storage::Timestamp;

use super::meet::MeetError;
use super::record::Begun;
use super::state::State;
use crate::record::TxnId;

/// What all machines have, by their numbers.
pub type States = BTreeMap<MachineId, State>;

/// What machines begin with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Agreed {
    pub cluster: u64,
    pub configuration: Configuration,
    pub regions: BTreeMap<RegionId, Mapping>,
    pub newest: Timestamp,
    /// What was in doubt and has taken effect.
    pub committed: BTreeMap<TxnId, Timestamp>,
}

/// A number that all who have seen the same states have.
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

/// What `founders` begin with, who have these states.
pub fn agree(states: &States, founders: &Configuration) -> Result<Agreed, MeetError> {
    let begun = || states.values().filter_map(|state| state.begun.as_ref());
    let last = begun().max_by_key(|begun| begun.configuration.id());
    let held = states.values().flat_map(|state| &state.held);
    let held = held.map(|mapping| (mapping.region, mapping.clone()));
    let regions: BTreeMap<_, _> = held.collect();
    let newest = states.values().map(|state| state.newest).max();
    let newest = newest.unwrap_or(Timestamp::ZERO);
    let Some(last) = last.filter(|_| !regions.is_empty()) else {
        // Nothing was there before any region was.
        let configuration = match last {
            Some(last) => last.configuration.begin_again(founders)?,
            None => founders.clone(),
        };
        return Ok(Agreed {
            cluster: seal(states),
            configuration,
            regions,
            newest,
            committed: BTreeMap::new(),
        });
    };
    belong_together(states, last)?;
    let before: Vec<MachineId> = ids(&last.configuration).collect();
    if before != ids(founders).collect::<Vec<_>>() {
        return Err(MeetError::OtherMachines(before));
    }
    let candidates: BTreeSet<TxnId> = states
        .values()
        .flat_map(|state| state.doubts.keys().copied())
        .collect();
    let committed = candidates.into_iter().filter_map(|id| {
        let w = outcome(states, &regions, id)?;
        Some((id, w))
    });
    let mut committed: BTreeMap<TxnId, Timestamp> = committed.collect();
    // Who has not come so far is told again.
    let decided = begun().filter(|begun| begun.configuration.id() == last.configuration.id());
    committed.extend(decided.flat_map(|begun| begun.committed.iter().copied()));
    Ok(Agreed {
        cluster: last.cluster,
        configuration: last.configuration.begin_again(founders)?,
        newest,
        committed,
        regions,
    })
}

/// Whether all have data of one cluster.
fn belong_together(states: &States, last: &Begun) -> Result<(), MeetError> {
    let none = |(machine, state): (&MachineId, &State)| state.begun.is_none().then_some(*machine);
    let none: Vec<MachineId> = states.iter().filter_map(none).collect();
    if !none.is_empty() {
        return Err(MeetError::Empty(none));
    }
    let strange = |(machine, state): (&MachineId, &State)| {
        let begun = state.begun.as_ref()?;
        (begun.cluster != last.cluster).then_some(*machine)
    };
    let strange: Vec<MachineId> = states.iter().filter_map(strange).collect();
    match strange.is_empty() {
        true => Ok(()),
        false => Err(MeetError::Strangers(strange)),
    }
}

fn ids(configuration: &Configuration) -> impl Iterator<Item = MachineId> {
    configuration.machines().iter().map(|machine| machine.id)
}

/// When a transaction takes effect, if it does.
fn outcome(states: &States, regions: &BTreeMap<RegionId, Mapping>, id: TxnId) -> Option<Timestamp> {
    let all = || states.values();
    let doubts = || all().filter_map(|state| state.doubts.get(&id));
    let listed = |list: &[(TxnId, Timestamp)]| {
        let found = list.iter().find(|(other, _)| *other == id);
        found.map(|(_, w)| *w)
    };
    let told = all().find_map(|state| {
        let begun = state.begun.as_ref();
        let decided = begun.and_then(|begun| listed(&begun.committed));
        decided.or_else(|| listed(&state.truncated))
    });
    if told.is_some() {
        return told;
    }
    let w = doubts().find_map(|doubt| doubt.w)?;
    let later = |state: &State| {
        let begun = state.begun.as_ref();
        begun.is_some_and(|begun| begun.configuration.id().0 > id.configuration)
    };
    if all().any(later) {
        return None;
    }
    let written: BTreeSet<u32> = doubts().flat_map(|doubt| doubt.written.clone()).collect();
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

impl Agreed {
    /// The same, as machines begin again whose memory has outlived them.
    pub fn resumed(&self) -> Resumed {
        let region = |mapping: &Mapping| MovedRegion {
            mapping: mapping.clone(),
            // Machines count their requests anew, so that it must be the answer to none of theirs.
            request: fencepost_cluster::allocation::RequestId {
                machine: MachineId(0),
                number: u64::from(mapping.region.0),
            },
        };
        let next = self.regions.keys().next_back();
        Resumed {
            configuration: self.configuration.clone(),
            regions: self.regions.values().map(region).collect(),
            next_region: RegionId(next.map_or(0, |last| last.0 + 1)),
            newest: self.newest.raw(),
            fresh: self.regions.is_empty(),
        }
    }
}

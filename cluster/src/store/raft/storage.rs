//! The state that a machine of the group keeps: its vote, the log, the last snapshot, and the
//! result of applying them.
//!
//! *Invariants.* All durable state is in one small file, which is replaced as a whole before Raft
//! continues. A snapshot every few entries keeps it small. After a restart the state machine is
//! computed from snapshot and log.
//!
//! *Concurrency.* Clones share one lock, which is held during disk writes: the log changes once a
//! configuration change.
//!
//! *Failure.* A failed write stops Raft on this machine; the others continue.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::io::{self, Cursor};
use std::ops::RangeBounds;
use std::sync::Arc;

use fencepost_fabric::Disk;
use openraft::storage::{LogFlushed, RaftLogStorage, RaftStateMachine};
use openraft::{
    Entry, EntryPayload, LogId, LogState, RaftLogReader, RaftSnapshotBuilder, Snapshot,
    SnapshotMeta, StorageError, StorageIOError, StoredMembership, Vote,
};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::types::{Change, EntryEffect, Group, MemberAddress, NodeId};
use crate::codec::DecodeError;
use crate::configuration::Configuration;
use crate::ids::ConfigurationId;
use crate::seal::{seal, unseal};
use crate::store::{StoreError, file};

const NAME: &str = "RAFT";
const MAGIC: [u8; 4] = *b"FpRa";
const VERSION: u16 = 1;
/// More than the bytes of the log between two snapshots.
const MAX_BYTES: u64 = 1 << 28;

type Failure = StorageError<NodeId>;

/// The Raft storage of one machine.
#[derive(Clone)]
pub(super) struct RaftStorage {
    disk: Option<Arc<dyn Disk>>,
    state: Arc<Mutex<State>>,
}

struct State {
    durable: StorageFile,
    current: Current,
}

/// The content of the file.
#[derive(Clone, Default, Serialize, Deserialize)]
struct StorageFile {
    vote: Option<Vote<NodeId>>,
    committed: Option<LogId<NodeId>>,
    purged: Option<LogId<NodeId>>,
    log: BTreeMap<u64, Entry<Group>>,
    snapshot: Option<(SnapshotMeta<NodeId, MemberAddress>, Vec<u8>)>,
}

/// The state after all applied entries.
#[derive(Clone, Default)]
struct Current {
    applied: Option<LogId<NodeId>>,
    membership: StoredMembership<NodeId, MemberAddress>,
    value: Value,
}

/// The content of a snapshot: the current configuration, sealed, and the token of the swap that
/// made it.
#[derive(Clone, Default, Serialize, Deserialize)]
struct Value {
    configuration: Option<Vec<u8>>,
    token: u64,
}

impl Value {
    fn apply(&mut self, change: &Change) -> EntryEffect {
        let Ok(new) = Configuration::unseal(&change.new) else {
            return EntryEffect::Lost;
        };
        let current = self.configuration.as_deref();
        let current = current.and_then(|sealed| Configuration::unseal(sealed).ok());
        if self.token == change.token && current.as_ref() == Some(&new) {
            return EntryEffect::Won;
        }
        if let Some(other) = current.as_ref().filter(|c| c.cluster() != new.cluster()) {
            return EntryEffect::OtherCluster(other.cluster().0);
        }
        if current.map(|c| c.id()) != change.expected.map(ConfigurationId) {
            return EntryEffect::Lost;
        }
        self.configuration = Some(change.new.clone());
        self.token = change.token;
        EntryEffect::Won
    }
}

impl Current {
    fn from_snapshot(
        meta: &SnapshotMeta<NodeId, MemberAddress>,
        bytes: &[u8],
    ) -> Result<Self, serde_json::Error> {
        Ok(Self {
            applied: meta.last_log_id,
            membership: meta.last_membership.clone(),
            value: serde_json::from_slice(bytes)?,
        })
    }
}

impl RaftStorage {
    /// Reads the state on the disk; without a disk the state is empty.
    pub fn open(disk: Option<Arc<dyn Disk>>) -> Result<Self, StoreError> {
        let mut durable = StorageFile::default();
        let mut current = Current::default();
        if let Some(disk) = &disk
            && let Some(bytes) = file::load(&**disk, NAME, MAX_BYTES)?
        {
            let damaged = || file::damaged(&**disk, NAME);
            let body = unseal(MAGIC, VERSION, &bytes).map_err(damaged())?;
            let json = |_| DecodeError::Invalid("contents");
            durable = serde_json::from_slice(body)
                .map_err(json)
                .map_err(damaged())?;
            if let Some((meta, bytes)) = &durable.snapshot {
                let found = Current::from_snapshot(meta, bytes).map_err(json);
                current = found.map_err(damaged())?;
            }
        }
        let state = Arc::new(Mutex::new(State { durable, current }));
        Ok(Self { disk, state })
    }

    /// Returns the current configuration, sealed, as of the entries applied here.
    pub fn current(&self) -> Option<Vec<u8>> {
        self.state.lock().current.value.configuration.clone()
    }

    /// Changes the durable state and writes it to the disk.
    fn change(&self, change: impl FnOnce(&mut StorageFile)) -> io::Result<()> {
        let mut state = self.state.lock();
        let mut durable = state.durable.clone();
        change(&mut durable);
        if let Some(disk) = &self.disk {
            let body = serde_json::to_vec(&durable)?;
            file::replace(&**disk, NAME, &seal(MAGIC, VERSION, &body))?;
        }
        state.durable = durable;
        Ok(())
    }
}

fn logs(error: io::Error) -> Failure {
    StorageIOError::write_logs(&error).into()
}

impl RaftLogReader<Group> for RaftStorage {
    async fn try_get_log_entries<R: RangeBounds<u64> + Clone + Debug + Send>(
        &mut self,
        range: R,
    ) -> Result<Vec<Entry<Group>>, Failure> {
        let state = self.state.lock();
        let entries = state.durable.log.range(range);
        Ok(entries.map(|(_, entry)| entry.clone()).collect())
    }
}

impl RaftLogStorage<Group> for RaftStorage {
    type LogReader = Self;

    async fn get_log_state(&mut self) -> Result<LogState<Group>, Failure> {
        let durable = &self.state.lock().durable;
        let last = durable.log.values().next_back().map(|entry| entry.log_id);
        Ok(LogState {
            last_purged_log_id: durable.purged,
            last_log_id: last.or(durable.purged),
        })
    }

    async fn get_log_reader(&mut self) -> Self {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &Vote<NodeId>) -> Result<(), Failure> {
        let saved = self.change(|durable| durable.vote = Some(*vote));
        saved.map_err(|error| StorageIOError::write_vote(&error).into())
    }

    async fn read_vote(&mut self) -> Result<Option<Vote<NodeId>>, Failure> {
        Ok(self.state.lock().durable.vote)
    }

    async fn save_committed(&mut self, committed: Option<LogId<NodeId>>) -> Result<(), Failure> {
        self.change(|durable| durable.committed = committed)
            .map_err(logs)
    }

    async fn read_committed(&mut self) -> Result<Option<LogId<NodeId>>, Failure> {
        Ok(self.state.lock().durable.committed)
    }

    async fn append<I>(&mut self, entries: I, callback: LogFlushed<Group>) -> Result<(), Failure>
    where
        I: IntoIterator<Item = Entry<Group>> + Send,
        I::IntoIter: Send,
    {
        let entries = entries.into_iter().map(|entry| (entry.log_id.index, entry));
        let entries: Vec<_> = entries.collect();
        self.change(|durable| durable.log.extend(entries))
            .map_err(logs)?;
        callback.log_io_completed(Ok(()));
        Ok(())
    }

    async fn truncate(&mut self, from: LogId<NodeId>) -> Result<(), Failure> {
        let cut = self.change(|durable| drop(durable.log.split_off(&from.index)));
        cut.map_err(logs)
    }

    async fn purge(&mut self, through: LogId<NodeId>) -> Result<(), Failure> {
        let purged = self.change(|durable| {
            durable.log = durable.log.split_off(&through.index.saturating_add(1));
            durable.purged = Some(through);
        });
        purged.map_err(logs)
    }
}

impl RaftStateMachine<Group> for RaftStorage {
    type SnapshotBuilder = Self;

    async fn applied_state(
        &mut self,
    ) -> Result<
        (
            Option<LogId<NodeId>>,
            StoredMembership<NodeId, MemberAddress>,
        ),
        Failure,
    > {
        let current = &self.state.lock().current;
        Ok((current.applied, current.membership.clone()))
    }

    async fn apply<I>(&mut self, entries: I) -> Result<Vec<EntryEffect>, Failure>
    where
        I: IntoIterator<Item = Entry<Group>> + Send,
        I::IntoIter: Send,
    {
        let current = &mut self.state.lock().current;
        let applied = entries.into_iter().map(|entry| {
            current.applied = Some(entry.log_id);
            match entry.payload {
                EntryPayload::Normal(change) => current.value.apply(&change),
                EntryPayload::Blank => EntryEffect::Lost,
                EntryPayload::Membership(membership) => {
                    current.membership = StoredMembership::new(Some(entry.log_id), membership);
                    EntryEffect::Lost
                }
            }
        });
        Ok(applied.collect())
    }

    async fn get_snapshot_builder(&mut self) -> Self {
        self.clone()
    }

    async fn begin_receiving_snapshot(&mut self) -> Result<Box<Cursor<Vec<u8>>>, Failure> {
        Ok(Box::default())
    }

    async fn install_snapshot(
        &mut self,
        meta: &SnapshotMeta<NodeId, MemberAddress>,
        snapshot: Box<Cursor<Vec<u8>>>,
    ) -> Result<(), Failure> {
        let failed = |error: &(dyn std::error::Error + 'static)| -> Failure {
            let error = openraft::AnyError::error(error);
            StorageIOError::write_snapshot(Some(meta.signature()), error).into()
        };
        let bytes = snapshot.into_inner();
        let current = Current::from_snapshot(meta, &bytes).map_err(|error| failed(&error))?;
        let stored = self.change(|durable| durable.snapshot = Some((meta.clone(), bytes)));
        stored.map_err(|error| failed(&error))?;
        self.state.lock().current = current;
        Ok(())
    }

    async fn get_current_snapshot(&mut self) -> Result<Option<Snapshot<Group>>, Failure> {
        let snapshot = self.state.lock().durable.snapshot.clone();
        Ok(snapshot.map(|(meta, bytes)| Snapshot {
            meta,
            snapshot: Box::new(Cursor::new(bytes)),
        }))
    }
}

impl RaftSnapshotBuilder<Group> for RaftStorage {
    async fn build_snapshot(&mut self) -> Result<Snapshot<Group>, Failure> {
        let current = self.state.lock().current.clone();
        let meta = SnapshotMeta {
            last_log_id: current.applied,
            last_membership: current.membership,
            snapshot_id: current
                .applied
                .map_or_else(String::new, |id| id.to_string()),
        };
        let failed = |error: io::Error| -> Failure {
            StorageIOError::write_snapshot(Some(meta.signature()), &error).into()
        };
        let bytes = serde_json::to_vec(&current.value).map_err(|error| failed(error.into()))?;
        let stored = (meta.clone(), bytes.clone());
        self.change(|durable| durable.snapshot = Some(stored))
            .map_err(failed)?;
        let snapshot = Box::new(Cursor::new(bytes));
        Ok(Snapshot { meta, snapshot })
    }
}

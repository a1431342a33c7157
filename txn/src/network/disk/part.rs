//! The log records of a coordinator for its own commits before COMMIT-PRIMARY, and its waits for
//! durability.

use fencepost_fabric::Completion;
use fencepost_storage::Timestamp;

use super::Disk;
use crate::context::Context;
use crate::fault::{self, Fault};
use crate::lock::LockFailure;
use crate::network::Network;
use crate::network::message;
use crate::network::participants::kind_of;
use crate::record::{COMMIT_BACKUP, COMMIT_BACKUP_LAST, COMMIT_BACKUP_PART};

impl Context {
    /// Logs COMMIT-BACKUP for all writes of the commit to regions of this machine, also as their
    /// primary. Adds the waits that precede COMMIT-PRIMARY: this record and those of all
    /// participants must be durable (DISK-1).
    pub(in crate::network) fn keep_on_disk(
        &mut self,
        network: &Network,
        w: Timestamp,
    ) -> Result<(), LockFailure> {
        let Some(disk) = &network.disk else {
            return Ok(());
        };
        let mut durable = Vec::new();
        for participant in &self.remote.participants {
            if let Some(sender) = network.sender(participant.machine) {
                durable.push(sender.durable());
            }
        }
        durable.extend(self.keep_own_part(network, disk, w)?);
        if fault::injected(Fault::CommitBeforeDurable) {
            durable.clear();
        }
        // They are awaited after the acks, which reveal lost peers.
        self.remote.from_disks = durable.len();
        self.remote.acks.splice(..0, durable);
        Ok(())
    }

    fn keep_own_part(
        &self,
        network: &Network,
        disk: &Disk,
        w: Timestamp,
    ) -> Result<Option<Completion<()>>, LockFailure> {
        let me = network.me();
        let writes = self.writes.writes.iter().enumerate();
        let mine = writes.filter(|(_, write)| {
            let replicas = network.replicas(write.addr.region());
            let has = |known: &crate::network::ReplicaSet| {
                known.primary == me || known.backups().any(|backup| backup == me)
            };
            kind_of(write).is_some() && replicas.as_ref().is_some_and(has)
        });
        let mine: Vec<u32> = mine.map(|(at, _)| at as u32).collect();
        let mut others = self.remote.participants.iter();
        // Otherwise some machine must know W, and that validation succeeded.
        if mine.is_empty() && others.any(|other| !other.backup.is_empty()) {
            return Ok(None);
        }
        let (mut parts, mut next) = (Vec::new(), 0);
        while next < mine.len() {
            let (record, upto) = self.backup_of(&mine, disk.longest(), next, w)?;
            parts.push((COMMIT_BACKUP_PART, record));
            next = upto;
        }
        match &mut parts[..] {
            [(kind, _)] => *kind = COMMIT_BACKUP,
            _ => {
                let mut end = Vec::new();
                message::begin_backup(&mut end, self.txn_id(), w, &self.remote.regions);
                parts.push((COMMIT_BACKUP_LAST, end));
            }
        }
        Ok(Some(disk.keep_own(self.txn_id(), &parts)))
    }
}

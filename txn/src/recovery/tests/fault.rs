//! Injected faults of the simulated machines.

use fencepost_cluster::{ConfigurationId, MachineId};

use super::world::World;
use crate::recovery::{Body, Evidence, RecoveryMessage, Vote};

/// An injected fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A primary ignores the evidence of one of its backups.
    ForgetNeedRecovery,
    /// A replica that has truncated a transaction reports that the transaction never existed.
    UnknownForTruncated,
    /// A replica forgets an abort when another machine is lost.
    ForgetAbortRecovery,
    /// The first vote decides.
    DecideWithoutAllVotes,
    /// Backups acknowledge evidence that they do not keep.
    VoteBeforeEvidence,
    /// Backups keep only that there was a LOCK.
    ShareLockAlone,
    /// New replicas count as complete when they have the data, even without the evidence of
    /// transactions.
    WholeTooEarly,
    /// A truncated transaction counts as truncated also in regions that the machine has received
    /// since.
    TruncatedForOtherRegions,
}

impl World {
    /// Applies the injected fault to a message.
    pub fn spoil(&mut self, from: MachineId, to: MachineId, message: &mut RecoveryMessage) {
        let fault = self.fault;
        match &mut message.body {
            Body::NeedRecovery { region, seen, .. } => {
                let backups = self.mappings[region].backups();
                if fault == Some(Fault::ForgetNeedRecovery) && backups.last() == Some(&from) {
                    seen.clear();
                }
            }
            Body::RecoveryVote(vote) => {
                if fault == Some(Fault::UnknownForTruncated) && vote.vote == Vote::Truncated {
                    vote.vote = Vote::Unknown;
                }
                if fault == Some(Fault::DecideWithoutAllVotes) {
                    let forged: Vec<_> = vote
                        .written
                        .iter()
                        .map(|region| {
                            let mut forged = vote.clone();
                            forged.region = *region;
                            forged.vote = Vote::Truncated;
                            forged.replicas = self.mappings[region].all().collect();
                            forged
                        })
                        .filter(|forged| forged.region != vote.region)
                        .collect();
                    for forged in forged {
                        let message = RecoveryMessage {
                            configuration: message.configuration,
                            body: Body::RecoveryVote(forged),
                        };
                        self.with(to, |recovery, now, around| {
                            recovery.receive(now, from, message, around)
                        });
                    }
                }
            }
            Body::ReplicateTxState { seen, .. } => {
                if fault == Some(Fault::ShareLockAlone) {
                    seen.evidence = Evidence::LOCK;
                }
                if fault == Some(Fault::VoteBeforeEvidence) {
                    let (region, id) = (seen.region, seen.id);
                    let ack = RecoveryMessage {
                        configuration: message.configuration,
                        body: Body::ReplicateAck { region, id },
                    };
                    self.send(to, from, &ack);
                    message.configuration = ConfigurationId(0);
                }
            }
            _ => {}
        }
    }
}

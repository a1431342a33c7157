//! What can be done wrongly in the world.

use fencepost_cluster::{ConfigurationId, MachineId};

use super::world::World;
use crate::recovery::{Body, Evidence, RecoveryMessage, Vote};

/// What is done wrongly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    /// A primary does not listen to one of its backups.
    ForgetNeedRecovery,
    /// Who has truncated a transaction says that there never was one.
    UnknownForTruncated,
    /// What was aborted is not remembered when another machine is lost.
    ForgetAbortRecovery,
    /// The first vote decides.
    DecideWithoutAllVotes,
    /// Backups acknowledge what they do not keep.
    VoteBeforeTold,
    /// Backups keep of what they are told that there was a LOCK.
    TellOfLockAlone,
    /// New replicas count as whole when they have got the data, whatever they know of transactions.
    WholeTooEarly,
    /// What was truncated counts as such in regions that the machine has got since.
    TruncatedForOtherRegions,
}

impl World {
    /// Does what is planted to a message.
    pub fn spoil(&mut self, from: MachineId, to: MachineId, message: &mut RecoveryMessage) {
        let planted = self.planted;
        match &mut message.body {
            Body::NeedRecovery { region, seen, .. } => {
                let backups = self.mappings[region].backups();
                if planted == Some(Planted::ForgetNeedRecovery) && backups.last() == Some(&from) {
                    seen.clear();
                }
            }
            Body::RecoveryVote(vote) => {
                if planted == Some(Planted::UnknownForTruncated) && vote.vote == Vote::Truncated {
                    vote.vote = Vote::Unknown;
                }
                if planted == Some(Planted::DecideWithoutAllVotes) {
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
                if planted == Some(Planted::TellOfLockAlone) {
                    seen.evidence = Evidence::LOCK;
                }
                if planted == Some(Planted::VoteBeforeTold) {
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

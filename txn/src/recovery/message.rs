//! Messages of transaction recovery (SOSP'15 Table 2) and their encoding.
//!
//! ```text
//! NEED-RECOVERY       region | last? | n | n × seen
//! FETCH-TX-STATE      region | id
//! SEND-TX-STATE       region | id | content
//! REPLICATE-TX-STATE  region | seen | with content? | content
//! REPLICATE-ACK       region | id
//! REPLICATED          region
//! RECOVERY-VOTE       region | id | vote | w | regions | replicas
//! REQUEST-VOTE        region | id
//! COMMIT-RECOVERY     id | w | regions
//! ABORT-RECOVERY      id | regions
//! RECOVERY-ACK        id
//! TRUNCATE-RECOVERY   id
//!
//! seen                id | evidence | w | regions
//! ```
//! Each begins with its number and the configuration. Lists begin with their length. An unknown `w`
//! is all ones. The content is the transaction's writes to a region; only the replicas understand
//! it.
//!
//! # Failure
//! Messages come from peers: decoding bounds every count and returns [`BadRecord`].

use std::sync::Arc;

use fencepost_cluster::{ConfigurationId, MAX_REPLICAS, MachineId};
use fencepost_storage::Timestamp;

use super::seen::ReplicaEvidence;
use super::vote::{Evidence, RegionVote, Vote};
use crate::record::{BadRecord, TxnId};
use crate::words::WordReader;

/// A recovery message in a configuration. Messages between two members arrive, and in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecoveryMessage {
    /// The configuration of the sender.
    pub configuration: ConfigurationId,
    /// The content of the message.
    pub body: Body,
}

/// The content of a recovery message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// From a backup to the primary: its evidence of transactions of older configurations.
    NeedRecovery {
        /// The region of the evidence.
        region: u32,
        /// The evidence, or a part of it.
        seen: Vec<ReplicaEvidence>,
        /// Whether this is the last part.
        last: bool,
    },
    /// From a primary: a request for the writes of a transaction.
    FetchTxState {
        /// The region of the writes.
        region: u32,
        /// The transaction whose writes are requested.
        id: TxnId,
    },
    /// The answer to `FetchTxState`.
    SendTxState {
        /// The region of the writes.
        region: u32,
        /// The transaction whose writes are sent.
        id: TxnId,
        /// The writes of the transaction to the region.
        content: Arc<[u64]>,
    },
    /// From the primary to a backup: evidence that the backup must keep.
    ReplicateTxState {
        /// The evidence of all replicas together.
        seen: ReplicaEvidence,
        /// The writes of the transaction, if the backup lacks them.
        content: Option<Arc<[u64]>>,
    },
    /// From a backup: it has kept the evidence of `ReplicateTxState`.
    ReplicateAck {
        /// The region of the evidence.
        region: u32,
        /// The transaction of the evidence.
        id: TxnId,
    },
    /// From the primary to a backup: all evidence has been replicated.
    Replicated {
        /// The region whose evidence is complete.
        region: u32,
    },
    /// From a primary to the coordinator: the vote of a region.
    RecoveryVote(RegionVote),
    /// From the coordinator to a primary that has not voted.
    RequestVote {
        /// The region whose vote is missing.
        region: u32,
        /// The transaction to vote on.
        id: TxnId,
    },
    /// From the coordinator to all replicas: commit the transaction.
    CommitRecovery {
        /// The committed transaction.
        id: TxnId,
        /// Its write timestamp.
        w: Timestamp,
        /// All regions that it writes.
        written: Arc<[u32]>,
    },
    /// From the coordinator to all replicas: abort the transaction.
    AbortRecovery {
        /// The aborted transaction.
        id: TxnId,
        /// All regions that it writes.
        written: Arc<[u32]>,
    },
    /// From a replica: it has carried out the decision.
    RecoveryAck {
        /// The decided transaction.
        id: TxnId,
    },
    /// From the coordinator: all replicas have acknowledged, so the transaction can be truncated.
    TruncateRecovery {
        /// The transaction to truncate.
        id: TxnId,
    },
}

const VOTES: [Vote; 6] = [
    Vote::CommitPrimary,
    Vote::CommitBackup,
    Vote::Lock,
    Vote::Abort,
    Vote::Truncated,
    Vote::Unknown,
];

/// Names of the messages, by their numbers from 1.
const NAMES: [&str; 12] = [
    "NEED-RECOVERY",
    "FETCH-TX-STATE",
    "SEND-TX-STATE",
    "REPLICATE-TX-STATE",
    "REPLICATE-ACK",
    "REPLICATED",
    "RECOVERY-VOTE",
    "REQUEST-VOTE",
    "COMMIT-RECOVERY",
    "ABORT-RECOVERY",
    "RECOVERY-ACK",
    "TRUNCATE-RECOVERY",
];

/// Encoding of an unknown timestamp.
const NO_TIME: u64 = u64::MAX;

impl RecoveryMessage {
    /// Returns the encoded message.
    pub fn words(&self) -> Vec<u64> {
        let mut out = vec![self.body.number(), self.configuration.0];
        self.body.put(&mut out);
        out
    }

    /// Returns the name of an encoded message.
    pub fn name_of(words: &[u64]) -> Option<&'static str> {
        let number = words.first()?.checked_sub(1)?;
        NAMES.get(usize::try_from(number).ok()?).copied()
    }

    /// Decodes a message that [`Self::words`] has encoded.
    ///
    /// # Errors
    /// [`BadRecord`] where the words are not a message.
    pub fn decode(words: &[u64]) -> Result<RecoveryMessage, BadRecord> {
        let mut reader = WordReader(words);
        let number = reader.word()?;
        let configuration = ConfigurationId(reader.word()?);
        let body = Body::take(number, &mut reader)?;
        match reader.0 {
            [] => Ok(RecoveryMessage {
                configuration,
                body,
            }),
            _ => Err(BadRecord("words after the end of a message")),
        }
    }
}

impl Body {
    fn number(&self) -> u64 {
        match self {
            Body::NeedRecovery { .. } => 1,
            Body::FetchTxState { .. } => 2,
            Body::SendTxState { .. } => 3,
            Body::ReplicateTxState { .. } => 4,
            Body::ReplicateAck { .. } => 5,
            Body::Replicated { .. } => 6,
            Body::RecoveryVote(_) => 7,
            Body::RequestVote { .. } => 8,
            Body::CommitRecovery { .. } => 9,
            Body::AbortRecovery { .. } => 10,
            Body::RecoveryAck { .. } => 11,
            Body::TruncateRecovery { .. } => 12,
        }
    }

    fn put(&self, out: &mut Vec<u64>) {
        match self {
            Body::NeedRecovery { region, seen, last } => {
                out.extend([u64::from(*region), u64::from(*last), seen.len() as u64]);
                seen.iter().for_each(|seen| put_seen(out, seen));
            }
            Body::SendTxState {
                region,
                id,
                content,
            } => {
                out.push(u64::from(*region));
                out.extend(id.words());
                put_list(out, content.iter().copied());
            }
            Body::ReplicateTxState { seen, content } => {
                out.push(u64::from(seen.region));
                put_seen(out, seen);
                out.push(u64::from(content.is_some()));
                put_list(
                    out,
                    content.iter().flat_map(|content| content.iter().copied()),
                );
            }
            Body::FetchTxState { region, id }
            | Body::ReplicateAck { region, id }
            | Body::RequestVote { region, id } => {
                out.push(u64::from(*region));
                out.extend(id.words());
            }
            Body::Replicated { region } => out.push(u64::from(*region)),
            Body::RecoveryVote(vote) => {
                out.push(u64::from(vote.region));
                out.extend(vote.id.words());
                let number = VOTES.iter().position(|each| *each == vote.vote);
                out.push(number.unwrap_or(VOTES.len()) as u64);
                put_time(out, vote.w);
                put_list(out, vote.written.iter().copied().map(u64::from));
                put_list(
                    out,
                    vote.replicas.iter().map(|machine| u64::from(machine.0)),
                );
            }
            Body::CommitRecovery { id, w, written } => {
                out.extend(id.words());
                out.push(w.raw());
                put_list(out, written.iter().copied().map(u64::from));
            }
            Body::AbortRecovery { id, written } => {
                out.extend(id.words());
                put_list(out, written.iter().copied().map(u64::from));
            }
            Body::RecoveryAck { id } | Body::TruncateRecovery { id } => out.extend(id.words()),
        }
    }

    fn take(number: u64, from: &mut WordReader<'_>) -> Result<Body, BadRecord> {
        Ok(match number {
            1 => {
                let (region, last) = (take_number(from)?, take_flag(from)?);
                let mut seen = Vec::new();
                for _ in 0..from.word()? {
                    seen.push(take_seen(from, region)?);
                }
                Body::NeedRecovery { region, seen, last }
            }
            2 => {
                let (region, id) = (take_number(from)?, from.id()?);
                Body::FetchTxState { region, id }
            }
            3 => Body::SendTxState {
                region: take_number(from)?,
                id: from.id()?,
                content: from.counted()?.into(),
            },
            4 => {
                let region = take_number(from)?;
                let seen = take_seen(from, region)?;
                let with = take_flag(from)?;
                let content = from.counted()?;
                let content = with.then(|| content.into());
                Body::ReplicateTxState { seen, content }
            }
            5 => {
                let (region, id) = (take_number(from)?, from.id()?);
                Body::ReplicateAck { region, id }
            }
            6 => Body::Replicated {
                region: take_number(from)?,
            },
            7 => Body::RecoveryVote(take_vote(from)?),
            8 => {
                let (region, id) = (take_number(from)?, from.id()?);
                Body::RequestVote { region, id }
            }
            9 => Body::CommitRecovery {
                id: from.id()?,
                w: from.timestamp()?,
                written: take_regions(from)?,
            },
            10 => Body::AbortRecovery {
                id: from.id()?,
                written: take_regions(from)?,
            },
            11 => Body::RecoveryAck { id: from.id()? },
            12 => Body::TruncateRecovery { id: from.id()? },
            _ => return Err(BadRecord("unknown message of a recovery")),
        })
    }
}

/// Returns the words that evidence takes in a message.
pub(super) fn seen_words(seen: &ReplicaEvidence) -> usize {
    TxnId::WORDS + 3 + seen.written.len()
}

fn put_seen(out: &mut Vec<u64>, seen: &ReplicaEvidence) {
    out.extend(seen.id.words());
    out.push(seen.evidence.bits());
    put_time(out, seen.w);
    put_list(out, seen.written.iter().copied().map(u64::from));
}

fn take_seen(from: &mut WordReader<'_>, region: u32) -> Result<ReplicaEvidence, BadRecord> {
    const UNKNOWN: BadRecord = BadRecord("unknown evidence");
    let seen = ReplicaEvidence {
        id: from.id()?,
        region,
        evidence: Evidence::from_bits(from.word()?).ok_or(UNKNOWN)?,
        w: take_time(from)?,
        written: take_regions(from)?,
    };
    match seen.is_whole() {
        true => Ok(seen),
        false => Err(BadRecord("evidence that cannot be")),
    }
}

fn take_vote(from: &mut WordReader<'_>) -> Result<RegionVote, BadRecord> {
    let (region, id, number) = (take_number(from)?, from.id()?, from.word()?);
    let vote = usize::try_from(number).ok().and_then(|at| VOTES.get(at));
    let vote = RegionVote {
        region,
        id,
        vote: *vote.ok_or(BadRecord("unknown vote"))?,
        w: take_time(from)?,
        written: take_regions(from)?,
        replicas: {
            let machines = take_regions(from)?;
            machines.iter().copied().map(MachineId).collect()
        },
    };
    match vote.is_whole() && vote.replicas.len() <= MAX_REPLICAS {
        true => Ok(vote),
        false => Err(BadRecord("a vote that cannot be")),
    }
}

fn put_time(out: &mut Vec<u64>, time: Option<Timestamp>) {
    out.push(time.map_or(NO_TIME, Timestamp::raw));
}

fn take_time(from: &mut WordReader<'_>) -> Result<Option<Timestamp>, BadRecord> {
    if from.0.first() == Some(&NO_TIME) {
        from.word()?;
        return Ok(None);
    }
    from.timestamp().map(Some)
}

fn put_list(out: &mut Vec<u64>, words: impl Iterator<Item = u64>) {
    let at = out.len();
    out.push(0);
    out.extend(words);
    out[at] = (out.len() - at - 1) as u64;
}

fn number(word: u64) -> Result<u32, BadRecord> {
    u32::try_from(word).map_err(|_| BadRecord("a number that is too large"))
}

fn take_number(from: &mut WordReader<'_>) -> Result<u32, BadRecord> {
    number(from.word()?)
}

/// Decodes a list of numbers of regions or machines.
fn take_regions(from: &mut WordReader<'_>) -> Result<Arc<[u32]>, BadRecord> {
    from.counted()?.iter().map(|word| number(*word)).collect()
}

fn take_flag(from: &mut WordReader<'_>) -> Result<bool, BadRecord> {
    match from.word()? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(BadRecord("neither yes nor no")),
    }
}

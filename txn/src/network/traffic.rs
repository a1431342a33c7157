//! What a machine posts to its peers, counted by what it is for.
//!
//! A record that takes TRUNCATE of earlier transactions along in its write counts once, as what it is. Where peers'
//! memory is mapped it is read in place, and nothing is posted.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::headers::{VALIDATE, VALIDATED};
use super::message::LOCK_REPLY;
use crate::machine::Machine;
use crate::record;

/// What is posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Posted {
    /// One-sided read of an object, an old version or what leads to one.
    Object,
    /// One-sided read of a header: VALIDATE and refresh.
    Header,
    /// One-sided read of a peer's board.
    Board,
    /// LOCK.
    Lock,
    /// LOCK-MOVED.
    LockMoved,
    /// COMMIT-BACKUP, each part of it.
    CommitBackup,
    /// COMMIT-PRIMARY.
    CommitPrimary,
    /// ABORT.
    Abort,
    /// A write with nothing but TRUNCATE in it.
    Truncate,
    /// Slots that go back to their primary.
    Unreserve,
    /// The last or only message of the answer to LOCK.
    LockReply,
    /// A message that asks a primary for headers: VALIDATE and refresh.
    Validate,
    /// The answer to one.
    Validated,
    /// Any other message of transactions: intents, slots, the time.
    Message,
    /// Request of a call.
    Request,
    /// Answer to a call.
    Answer,
}

impl Posted {
    /// All there is.
    pub const ALL: [Posted; 16] = [
        Posted::Object,
        Posted::Header,
        Posted::Board,
        Posted::Lock,
        Posted::LockMoved,
        Posted::CommitBackup,
        Posted::CommitPrimary,
        Posted::Abort,
        Posted::Truncate,
        Posted::Unreserve,
        Posted::LockReply,
        Posted::Validate,
        Posted::Validated,
        Posted::Message,
        Posted::Request,
        Posted::Answer,
    ];

    /// Its name, as reports have it.
    pub fn name(self) -> &'static str {
        match self {
            Posted::Object => "object_reads",
            Posted::Header => "header_reads",
            Posted::Board => "board_reads",
            Posted::Lock => "lock",
            Posted::LockMoved => "lock_moved",
            Posted::CommitBackup => "commit_backup",
            Posted::CommitPrimary => "commit_primary",
            Posted::Abort => "abort",
            Posted::Truncate => "truncate",
            Posted::Unreserve => "unreserve",
            Posted::LockReply => "lock_replies",
            Posted::Validate => "validate",
            Posted::Validated => "validate_replies",
            Posted::Message => "other_messages",
            Posted::Request => "requests",
            Posted::Answer => "answers",
        }
    }

    pub(super) fn of_record(tag: u8) -> Posted {
        match tag {
            record::LOCK | record::LOCK_OF_PARTS => Posted::Lock,
            record::LOCK_MOVED => Posted::LockMoved,
            record::COMMIT_BACKUP | record::COMMIT_BACKUP_PART | record::COMMIT_BACKUP_LAST => {
                Posted::CommitBackup
            }
            record::COMMIT_PRIMARY => Posted::CommitPrimary,
            record::ABORT => Posted::Abort,
            record::TRUNCATE => Posted::Truncate,
            _ => Posted::Unreserve,
        }
    }

    pub(super) fn of_message(tag: u8) -> Posted {
        match tag {
            LOCK_REPLY => Posted::LockReply,
            VALIDATE => Posted::Validate,
            VALIDATED => Posted::Validated,
            _ => Posted::Message,
        }
    }
}

/// Counts while the machine runs.
#[derive(Debug, Default)]
pub(crate) struct Counting([AtomicU64; Posted::ALL.len()]);

impl Counting {
    pub fn new() -> Arc<Counting> {
        Arc::default()
    }

    #[inline]
    pub fn count(&self, what: Posted) {
        self.0[what as usize].fetch_add(1, Ordering::Relaxed);
    }
}

/// The counts at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic([u64; Posted::ALL.len()]);

impl Traffic {
    /// How many of these were posted.
    pub fn of(&self, what: Posted) -> u64 {
        self.0[what as usize]
    }

    /// Both together.
    pub fn plus(mut self, other: &Traffic) -> Traffic {
        for (sum, more) in self.0.iter_mut().zip(other.0) {
            *sum += more;
        }
        self
    }

    /// What was posted since `earlier`.
    pub fn since(mut self, earlier: &Traffic) -> Traffic {
        for (count, before) in self.0.iter_mut().zip(earlier.0) {
            *count = count.saturating_sub(before);
        }
        self
    }

    /// Messages, and not records or reads.
    pub fn messages(&self) -> u64 {
        let messages = [
            Posted::LockReply,
            Posted::Validate,
            Posted::Validated,
            Posted::Message,
            Posted::Request,
            Posted::Answer,
        ];
        messages.map(|what| self.of(what)).iter().sum()
    }
}

impl Machine {
    /// What the machine has posted to others so far, by what it was for; nothing where it is alone.
    pub fn traffic(&self) -> Traffic {
        let counts = self.network().map(|network| &network.counting.0);
        counts.map_or_else(Traffic::default, |counts| {
            Traffic(std::array::from_fn(|at| counts[at].load(Ordering::Relaxed)))
        })
    }
}

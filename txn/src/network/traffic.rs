//! Counters of reads, records and messages posted to peers, by purpose.
//!
//! A record that carries the TRUNCATE of earlier transactions in its write counts once, as its own
//! kind. Mapped memory of peers is read in place, without a post.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::headers::{VALIDATE, VALIDATED};
use super::message::LOCK_REPLY;
use crate::machine::Machine;
use crate::record;

/// The kind of a post.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Posted {
    /// One-sided read of an object, an old version, or metadata to find one.
    Object,
    /// One-sided read of a header: VALIDATE and refresh.
    Header,
    /// One-sided read of a peer's status page.
    Board,
    /// A LOCK record.
    Lock,
    /// A LOCK-MOVED record.
    LockMoved,
    /// A COMMIT-BACKUP record, or a part of one.
    CommitBackup,
    /// A COMMIT-PRIMARY record.
    CommitPrimary,
    /// An ABORT record.
    Abort,
    /// A write that contains only TRUNCATE.
    Truncate,
    /// An UNRESERVE record: slots return to their primary.
    Unreserve,
    /// The last or only message of a LOCK-REPLY.
    LockReply,
    /// A VALIDATE message: requests headers for validation or a read refresh.
    Validate,
    /// The reply to a VALIDATE.
    Validated,
    /// Any other message of transactions: intents, slots, the time.
    Message,
    /// The request of a call.
    Request,
    /// The answer to a call.
    Answer,
}

impl Posted {
    /// All kinds.
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

    /// Returns the name of the kind in reports.
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

/// The running counters of a machine.
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

/// A snapshot of the counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic([u64; Posted::ALL.len()]);

impl Traffic {
    /// Returns the number of posts of one kind.
    pub fn of(&self, what: Posted) -> u64 {
        self.0[what as usize]
    }

    /// Returns the sum of both.
    pub fn plus(mut self, other: &Traffic) -> Traffic {
        for (sum, more) in self.0.iter_mut().zip(other.0) {
            *sum += more;
        }
        self
    }

    /// Returns the number of posts since `earlier`.
    pub fn since(mut self, earlier: &Traffic) -> Traffic {
        for (count, before) in self.0.iter_mut().zip(earlier.0) {
            *count = count.saturating_sub(before);
        }
        self
    }

    /// Returns the number of messages, without records and reads.
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
    /// Returns the counters of the machine's posts so far; zero on a machine that is alone.
    pub fn traffic(&self) -> Traffic {
        let counts = self.network().map(|network| &network.counting.0);
        counts.map_or_else(Traffic::default, |counts| {
            Traffic(std::array::from_fn(|at| counts[at].load(Ordering::Relaxed)))
        })
    }
}

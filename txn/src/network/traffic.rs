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
pub enum PostKind {
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

impl PostKind {
    /// All kinds.
    pub const ALL: [PostKind; 16] = [
        PostKind::Object,
        PostKind::Header,
        PostKind::Board,
        PostKind::Lock,
        PostKind::LockMoved,
        PostKind::CommitBackup,
        PostKind::CommitPrimary,
        PostKind::Abort,
        PostKind::Truncate,
        PostKind::Unreserve,
        PostKind::LockReply,
        PostKind::Validate,
        PostKind::Validated,
        PostKind::Message,
        PostKind::Request,
        PostKind::Answer,
    ];

    /// Returns the name of the kind in reports.
    pub fn name(self) -> &'static str {
        match self {
            PostKind::Object => "object_reads",
            PostKind::Header => "header_reads",
            PostKind::Board => "board_reads",
            PostKind::Lock => "lock",
            PostKind::LockMoved => "lock_moved",
            PostKind::CommitBackup => "commit_backup",
            PostKind::CommitPrimary => "commit_primary",
            PostKind::Abort => "abort",
            PostKind::Truncate => "truncate",
            PostKind::Unreserve => "unreserve",
            PostKind::LockReply => "lock_replies",
            PostKind::Validate => "validate",
            PostKind::Validated => "validate_replies",
            PostKind::Message => "other_messages",
            PostKind::Request => "requests",
            PostKind::Answer => "answers",
        }
    }

    pub(super) fn of_record(tag: u8) -> PostKind {
        match tag {
            record::LOCK | record::LOCK_OF_PARTS => PostKind::Lock,
            record::LOCK_MOVED => PostKind::LockMoved,
            record::COMMIT_BACKUP | record::COMMIT_BACKUP_PART | record::COMMIT_BACKUP_LAST => {
                PostKind::CommitBackup
            }
            record::COMMIT_PRIMARY => PostKind::CommitPrimary,
            record::ABORT => PostKind::Abort,
            record::TRUNCATE => PostKind::Truncate,
            _ => PostKind::Unreserve,
        }
    }

    pub(super) fn of_message(tag: u8) -> PostKind {
        match tag {
            LOCK_REPLY => PostKind::LockReply,
            VALIDATE => PostKind::Validate,
            VALIDATED => PostKind::Validated,
            _ => PostKind::Message,
        }
    }
}

/// The running counters of a machine.
#[derive(Debug, Default)]
pub(crate) struct TrafficCounters([AtomicU64; PostKind::ALL.len()]);

impl TrafficCounters {
    pub fn new() -> Arc<TrafficCounters> {
        Arc::default()
    }

    #[inline]
    pub fn count(&self, what: PostKind) {
        self.0[what as usize].fetch_add(1, Ordering::Relaxed);
    }
}

/// A snapshot of the counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic([u64; PostKind::ALL.len()]);

impl Traffic {
    /// Returns the number of posts of one kind.
    pub fn of(&self, what: PostKind) -> u64 {
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
            PostKind::LockReply,
            PostKind::Validate,
            PostKind::Validated,
            PostKind::Message,
            PostKind::Request,
            PostKind::Answer,
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

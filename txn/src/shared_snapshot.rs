//! One snapshot that several machines read for one statement.
//!
//! ```text
//! the statement's machine                         another
//! begin ─► R in force ─► share_snapshot: R ═════► begin_at(R) ─► reads ─► commit
//! goes on, open, until all have answered ◄═══════ what it has read
//! ```
//! # Invariant
//! * SHARE-1: what is read at R elsewhere is the statement's snapshot, if the answer is there before its
//!   transaction has ended.
//!
//! *Nothing is missed.* R is in force where it comes from: the CM's time had passed it when it was sent (CLOCK-2).
//! So it has when it arrives, whatever the clock there knows: a commit with a W at or below R had its locks
//! before the request was sent, and a reader meets either the lock or the new version. So nobody waits again.
//!
//! *Nothing is gone.* The transaction that R is of has said on its machine's board that it reads at or below R
//! (READ-1), and says so until it ends. Garbage is what is below the least of all boards, so no version and no slot
//! that a reader at R needs is used again meanwhile, although the other machine's own board may have passed R
//! long ago, and does not go back. What was unlinked before the transaction began, a reader that begins after it
//! cannot meet. Here, too, it is said where the reader is: the machine whose objects it reads most keeps them
//! also for one whose statement has ended, and whose answer nobody will look at.
//!
//! A snapshot may be *exported* for others of the same machine, too: they begin beside a transaction that is open at R, and
//! say that they read there before it ends. Who collects looks at all twice (READ-1), and so sees one of the two.
//!
//! It only reads, so there is nothing to validate. Past the limit for old versions it is stopped as others are.

use fencepost_storage::Timestamp;

use crate::stop::Stop;
use crate::transaction::{Coordinator, Mode, Transaction};

impl Transaction {
    /// The snapshot, which does not move any more, for readers on other machines: it is theirs as long as this
    /// transaction has not ended.
    ///
    /// # Errors
    /// [`Stop::ReadOnly`] where it may write, and so move; [`Stop::Retry`] where the time is not known.
    pub async fn share_snapshot(&mut self) -> Result<Timestamp, Stop> {
        if self.mode() != Mode::ReadOnly {
            return Err(Stop::ReadOnly);
        }
        self.come_into_force().await?;
        Ok(self.read_timestamp())
    }

    /// A transaction that only reads this one's snapshot as it is now: as long as it is open, others of this machine may
    /// begin there ([`Coordinator::begin_beside`]), wherever this one has moved on to.
    ///
    /// # Errors
    /// [`Stop::Retry`] where the time is not known.
    pub async fn export_snapshot(&mut self) -> Result<Transaction, Stop> {
        self.come_into_force().await?;
        let r = self.read_timestamp();
        Ok(self.machine().coordinator().begin_at(r))
    }

    /// Counts messages that were sent for it.
    pub fn count_messages(&mut self, messages: u32) {
        self.context_mut().far.messages += messages;
    }
}

impl Coordinator {
    /// Begins a transaction that only reads, and the snapshot of one of this machine that is open meanwhile
    /// ([`Transaction::export_snapshot`]).
    pub fn begin_beside(&mut self, keeper: &Transaction) -> Transaction {
        self.begin_at(keeper.read_timestamp())
    }

    /// Begins a transaction that only reads, and the snapshot `r` of another machine's
    /// ([`Transaction::share_snapshot`]).
    pub fn begin_at(&mut self, r: Timestamp) -> Transaction {
        self.begin_with(Mode::ReadOnly, Some(r))
    }
}

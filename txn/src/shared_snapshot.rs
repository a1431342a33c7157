//! One snapshot that several machines read for one statement.
//!
//! ```text
//! the statement's machine                         another
//! begin ─► R in force ─► share_snapshot: R ═════► begin_at(R) ─► reads ─► commit
//! open until all have answered ◄════════════════ the rows that it has read
//! ```
//! # Invariant
//! * SHARE-1: rows that another machine reads at R are of the statement's snapshot, if the answer
//!   arrives before the statement's transaction has ended.
//!
//! *No commit is missed.* R is in force where it was taken: the CM's time had passed it when it was
//! sent (CLOCK-2). So R is in force when it arrives, whatever the receiver's clock knows. A commit
//! with a W at or below R had its locks before the request was sent. So a reader meets either the
//! lock or the new version. No wait is needed at the receiver.
//!
//! *No version is missing.* The transaction that took R publishes on its machine's status page that
//! it reads at or below R (READ-1). It does so until it ends. Garbage is below the minimum of all
//! status pages. So no version and no slot that a reader at R needs is reused meanwhile. The
//! receiver's own status page may have passed R long ago, and does not go back. A reader that
//! begins after that transaction cannot meet objects that were unlinked before the transaction
//! began. The receiver publishes R as well. So it keeps the objects that it reads most, also for a
//! statement that has ended and ignores the answer.
//!
//! A snapshot may also be *exported* for other transactions of the same machine. They begin beside
//! a transaction that is open at R, and publish R before that transaction ends. The garbage
//! collector looks at all readers twice (READ-1), and so sees one of the two.
//!
//! Readers on the same machine may read parts of one statement's scans
//! ([`Transaction::share_scans`]). The rows that they read are those of the statement as long as it
//! moves its snapshot for no other reason: it only reads, and it runs to its end before the next
//! one begins.
//!
//! Such a transaction only reads, so there is nothing to validate. Past the limit for old versions
//! it is stopped like any other.

use fencepost_storage::Timestamp;

use crate::isolation::Isolation;
use crate::stop::Stop;
use crate::transaction::{Coordinator, Mode, Transaction};

impl Transaction {
    /// Fixes the snapshot and returns it, for readers on other machines. They may use it until this
    /// transaction ends.
    ///
    /// # Errors
    /// [`Stop::ReadOnly`] where the transaction may write, so that its snapshot may move;
    /// [`Stop::Retry`] where the time is not known.
    pub async fn share_snapshot(&mut self) -> Result<Timestamp, Stop> {
        if self.mode() != Mode::ReadOnly {
            return Err(Stop::ReadOnly);
        }
        self.come_into_force().await?;
        Ok(self.read_timestamp())
    }

    /// Returns the snapshot of the running scans, for readers on this machine that read parts of
    /// them. They begin while this transaction is open ([`Coordinator::begin_at`]). Returns `None`
    /// if the scans depend on more than the snapshot: on the transaction's own changes, or on its
    /// read set.
    ///
    /// # Errors
    /// [`Stop::Retry`] where the time is not known.
    pub async fn share_scans(&mut self) -> Result<Option<Timestamp>, Stop> {
        let depends = self.mode() == Mode::ReadWrite
            && (self.isolation() != Isolation::ReadCommitted || self.has_writes());
        if depends {
            return Ok(None);
        }
        self.come_into_force().await?;
        Ok(Some(self.read_timestamp()))
    }

    /// Returns a read-only transaction on this transaction's snapshot as it is now. While it is
    /// open, others of this machine may begin on that snapshot ([`Coordinator::begin_beside`]),
    /// even if this transaction has moved on.
    ///
    /// # Errors
    /// [`Stop::Retry`] where the time is not known.
    pub async fn export_snapshot(&mut self) -> Result<Transaction, Stop> {
        self.come_into_force().await?;
        let r = self.read_timestamp();
        Ok(self.machine().coordinator().begin_at(r))
    }

    /// Counts messages that were sent for the transaction.
    pub fn count_messages(&mut self, messages: u32) {
        self.context_mut().far.messages += messages;
    }
}

impl Coordinator {
    /// Begins a read-only transaction on the snapshot of an open transaction of this machine
    /// ([`Transaction::export_snapshot`]).
    pub fn begin_beside(&mut self, keeper: &Transaction) -> Transaction {
        self.begin_at(keeper.read_timestamp())
    }

    /// Begins a read-only transaction on the snapshot `r` of another machine's transaction
    /// ([`Transaction::share_snapshot`]).
    pub fn begin_at(&mut self, r: Timestamp) -> Transaction {
        self.begin_with(Mode::ReadOnly, Some(r))
    }
}

//! Deferred checks of foreign keys and unique keys, and deferred constraint triggers, which run at
//! the end of the transaction.
//!
//! The queue, the SET CONSTRAINTS commands and the list of triggers that have run only grow until
//! then. So a savepoint is three lengths, and a rollback to it truncates three lists. Checks that
//! SET CONSTRAINTS … IMMEDIATE has run are run again at the commit; a trigger runs once.

use std::sync::Arc;

use fencepost_sql::catalog::ForeignKeyDef;
use fencepost_sql::stop::StatementStop;

use super::foreign_key_actions::{Check, verify};
use super::references::References;
use super::triggers::QueuedTrigger;
use super::unique_recheck::DuplicateKey;
use crate::exec::Cx;

/// The deferred checks and triggers of a transaction.
#[derive(Debug, Default)]
pub struct DeferredWork {
    waiting: Vec<DeferredItem>,
    /// The positions of the triggers that have already run.
    ran: Vec<usize>,
    /// The length of the queue at the last check for duplicate keys.
    seen: usize,
    /// Whether duplicate keys were queued since then.
    has_unchecked_duplicates: bool,
    /// The SET CONSTRAINTS commands: the constraint (`None`: all), and whether it is deferred.
    said: Vec<(Option<u32>, bool)>,
}

/// A deferred check or trigger.
#[derive(Clone, Debug)]
enum DeferredItem {
    Check(Arc<References>, Check),
    Trigger(QueuedTrigger),
    DuplicateKey(DuplicateKey),
}

impl DeferredItem {
    /// Returns the oid of the constraint, whether it is deferrable, and whether it is initially
    /// deferred.
    fn constraint(&self) -> (u32, bool, bool) {
        match self {
            DeferredItem::Check(references, check) => of_key(&references.keys[check.key].def),
            DeferredItem::Trigger(queued) => queued.waits(),
            DeferredItem::DuplicateKey(duplicate) => duplicate.waits(),
        }
    }
}

fn of_key(key: &ForeignKeyDef) -> (u32, bool, bool) {
    (key.id, key.deferrable, key.deferred)
}

/// The lengths of the lists at a savepoint.
#[derive(Clone, Copy, Debug, Default)]
pub struct DeferredMark {
    waiting: usize,
    ran: usize,
    said: usize,
}

/// Returns whether a check of `key` is deferred to the end of the transaction.
pub fn is_deferred(cx: &Cx<'_>, key: &ForeignKeyDef) -> bool {
    cx.deferred
        .as_ref()
        .is_some_and(|deferred| deferred.is(key))
}

impl DeferredWork {
    /// Returns whether the queue is empty and no SET CONSTRAINTS command was given.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.said.is_empty()
    }

    /// Returns whether a check of `key` is deferred to the end of the transaction.
    pub fn is(&self, key: &ForeignKeyDef) -> bool {
        self.waits(of_key(key))
    }

    /// Returns whether a constraint is deferred, given its oid, whether it is deferrable, and
    /// whether it is initially deferred.
    pub(super) fn waits(&self, (id, deferrable, deferred): (u32, bool, bool)) -> bool {
        let about = |(of, _): &&(Option<u32>, bool)| of.is_none_or(|of| of == id);
        let said = self.said.iter().rev().find(about);
        deferrable && said.map_or(deferred, |(_, deferred)| *deferred)
    }

    /// Records SET CONSTRAINTS, for all constraints or for one.
    pub fn say(&mut self, constraint: Option<u32>, deferred: bool) {
        self.said.push((constraint, deferred));
    }

    pub(super) fn push(&mut self, references: &Arc<References>, check: Check) {
        self.waiting
            .push(DeferredItem::Check(Arc::clone(references), check));
    }

    pub(super) fn push_trigger(&mut self, queued: QueuedTrigger) {
        self.waiting.push(DeferredItem::Trigger(queued));
    }

    pub(super) fn push_duplicate(&mut self, duplicate_key: DuplicateKey) {
        self.has_unchecked_duplicates = true;
        self.waiting.push(DeferredItem::DuplicateKey(duplicate_key));
    }

    /// Returns whether duplicate keys were queued that no end of a statement has checked.
    pub(super) fn has_new_duplicates(&self) -> bool {
        self.has_unchecked_duplicates
    }

    /// Returns the new duplicate keys of constraints that are not deferred now.
    pub(super) fn new_duplicates(&mut self) -> Vec<DuplicateKey> {
        let new = self.waiting.iter().skip(self.seen);
        let due = new.filter_map(|waiting| match waiting {
            DeferredItem::DuplicateKey(duplicate) if !self.waits(duplicate.waits()) => {
                Some(duplicate.clone())
            }
            _ => None,
        });
        let due = due.collect();
        self.seen = self.waiting.len();
        self.has_unchecked_duplicates = false;
        due
    }

    /// Returns a mark of the current lengths.
    pub fn mark(&self) -> DeferredMark {
        DeferredMark {
            waiting: self.waiting.len(),
            ran: self.ran.len(),
            said: self.said.len(),
        }
    }

    /// Truncates the lists to a mark.
    pub fn back_to(&mut self, mark: DeferredMark) {
        self.waiting.truncate(mark.waiting);
        self.seen = self.seen.min(mark.waiting);
        self.ran.truncate(mark.ran);
        self.said.truncate(mark.said);
    }

    /// Clears all lists.
    pub fn clear(&mut self) {
        self.back_to(DeferredMark::default());
    }

    /// Returns whether a check or trigger of the table `id` is still pending.
    pub fn concerns(&self, id: u32) -> bool {
        let mut waiting = self.waiting.iter().enumerate();
        waiting.any(|(position, waiting)| match waiting {
            DeferredItem::Check(references, _) => references.tables.iter().any(|t| t.def.id == id),
            DeferredItem::Trigger(queued) => queued.table() == id && !self.ran.contains(&position),
            DeferredItem::DuplicateKey(duplicate) => duplicate.table() == id,
        })
    }

    /// Runs the checks and triggers that are no longer deferred; at the `end` of the transaction,
    /// all of them. Checks and triggers that triggers queue run afterwards.
    pub async fn run(&mut self, cx: &mut Cx<'_>, end: bool) -> Result<(), StatementStop> {
        let mut position = 0;
        while let Some(waiting) = self.waiting.get(position).cloned() {
            let due = end || !self.waits(waiting.constraint());
            match waiting {
                DeferredItem::Check(references, check) if due => {
                    cx.breathe().await?;
                    verify(cx, &references, &check).await?;
                }
                DeferredItem::DuplicateKey(duplicate) if due => {
                    cx.breathe().await?;
                    duplicate.verify(cx).await?;
                }
                DeferredItem::Trigger(queued) if due && !self.ran.contains(&position) => {
                    self.ran.push(position);
                    let mut inner = cx.within(&[]);
                    inner.deferred = Some(&mut *self);
                    queued.run(&mut inner).await?;
                }
                _ => {}
            }
            position += 1;
        }
        Ok(())
    }
}

//! Checks of foreign keys, and constraint triggers, that wait for the end of their transaction.
//!
//! What waits, what SET CONSTRAINTS said and which triggers have run only grow until then, so a savepoint is three
//! lengths, and going back to it is cutting off. What SET CONSTRAINTS … IMMEDIATE has checked is checked again at the
//! commit; a trigger runs once.

use std::sync::Arc;

use fencepost_sql::catalog::ForeignKeyDef;
use fencepost_sql::stop::Halt;

use super::referee::{Check, verify};
use super::references::References;
use super::triggers::Queued;
use super::twins::Twin;
use crate::exec::Cx;

/// What a transaction still has to check.
#[derive(Debug, Default)]
pub struct Deferred {
    waiting: Vec<Waiting>,
    /// The triggers among them that have run, by position.
    ran: Vec<usize>,
    /// How many of what waits have been looked at for keys of two rows.
    seen: usize,
    /// Keys of two rows have come since.
    has_new_twins: bool,
    /// What SET CONSTRAINTS said: of which constraint (`None`: all), and whether it is deferred.
    said: Vec<(Option<u32>, bool)>,
}

/// What waits.
#[derive(Clone, Debug)]
enum Waiting {
    Check(Arc<References>, Check),
    Trigger(Queued),
    Twin(Twin),
}

impl Waiting {
    /// The oid of the constraint, whether it may wait, and whether it does unless it is told otherwise.
    fn constraint(&self) -> (u32, bool, bool) {
        match self {
            Waiting::Check(references, check) => of_key(&references.keys[check.key].def),
            Waiting::Trigger(queued) => queued.waits(),
            Waiting::Twin(twin) => twin.waits(),
        }
    }
}

fn of_key(key: &ForeignKeyDef) -> (u32, bool, bool) {
    (key.id, key.deferrable, key.deferred)
}

/// How much there was at a savepoint.
#[derive(Clone, Copy, Debug, Default)]
pub struct DeferredMark {
    waiting: usize,
    ran: usize,
    said: usize,
}

/// Does a check of `key` wait for the end of the transaction?
pub fn is_deferred(cx: &Cx<'_>, key: &ForeignKeyDef) -> bool {
    cx.deferred
        .as_ref()
        .is_some_and(|deferred| deferred.is(key))
}

impl Deferred {
    /// Is there nothing to check, and was nothing said?
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.said.is_empty()
    }

    /// Does a check of `key` wait for the end of the transaction?
    pub fn is(&self, key: &ForeignKeyDef) -> bool {
        self.waits(of_key(key))
    }

    /// Does a constraint wait, of which is known whether it may and whether it does unless it is told otherwise?
    pub(super) fn waits(&self, (id, deferrable, deferred): (u32, bool, bool)) -> bool {
        let about = |(of, _): &&(Option<u32>, bool)| of.is_none_or(|of| of == id);
        let said = self.said.iter().rev().find(about);
        deferrable && said.map_or(deferred, |(_, deferred)| *deferred)
    }

    /// SET CONSTRAINTS, of all of them or of one.
    pub fn say(&mut self, constraint: Option<u32>, deferred: bool) {
        self.said.push((constraint, deferred));
    }

    pub(super) fn push(&mut self, references: &Arc<References>, check: Check) {
        self.waiting
            .push(Waiting::Check(Arc::clone(references), check));
    }

    pub(super) fn push_trigger(&mut self, queued: Queued) {
        self.waiting.push(Waiting::Trigger(queued));
    }

    pub(super) fn push_twin(&mut self, twin: Twin) {
        self.has_new_twins = true;
        self.waiting.push(Waiting::Twin(twin));
    }

    /// Have keys of two rows come that no statement's end has looked at?
    pub(super) fn has_new_twins(&self) -> bool {
        self.has_new_twins
    }

    /// Those of them that do not wait for the end of the transaction.
    pub(super) fn new_twins(&mut self) -> Vec<Twin> {
        let new = self.waiting.iter().skip(self.seen);
        let due = new.filter_map(|waiting| match waiting {
            Waiting::Twin(twin) if !self.waits(twin.waits()) => Some(twin.clone()),
            _ => None,
        });
        let due = due.collect();
        self.seen = self.waiting.len();
        self.has_new_twins = false;
        due
    }

    /// How much there is now.
    pub fn mark(&self) -> DeferredMark {
        DeferredMark {
            waiting: self.waiting.len(),
            ran: self.ran.len(),
            said: self.said.len(),
        }
    }

    /// Goes back to a mark.
    pub fn back_to(&mut self, mark: DeferredMark) {
        self.waiting.truncate(mark.waiting);
        self.seen = self.seen.min(mark.waiting);
        self.ran.truncate(mark.ran);
        self.said.truncate(mark.said);
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.back_to(DeferredMark::default());
    }

    /// Has a row of the table `id` something before it?
    pub fn concerns(&self, id: u32) -> bool {
        let mut waiting = self.waiting.iter().enumerate();
        waiting.any(|(position, waiting)| match waiting {
            Waiting::Check(references, _) => references.tables.iter().any(|t| t.def.id == id),
            Waiting::Trigger(queued) => queued.table() == id && !self.ran.contains(&position),
            Waiting::Twin(twin) => twin.table() == id,
        })
    }

    /// Does what is not deferred any more; everything at the `end` of the transaction. What triggers leave to be done
    /// comes behind it.
    pub async fn run(&mut self, cx: &mut Cx<'_>, end: bool) -> Result<(), Halt> {
        let mut position = 0;
        while let Some(waiting) = self.waiting.get(position).cloned() {
            let due = end || !self.waits(waiting.constraint());
            match waiting {
                Waiting::Check(references, check) if due => {
                    cx.breathe().await?;
                    verify(cx, &references, &check).await?;
                }
                Waiting::Twin(twin) if due => {
                    cx.breathe().await?;
                    twin.verify(cx).await?;
                }
                Waiting::Trigger(queued) if due && !self.ran.contains(&position) => {
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

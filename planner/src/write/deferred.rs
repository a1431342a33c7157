//! Checks of foreign keys that wait for the end of their transaction.
//!
//! Both what is to be checked and what SET CONSTRAINTS said only grow until then, so a savepoint is two lengths, and
//! going back to it is cutting off. What SET CONSTRAINTS … IMMEDIATE has checked is checked again at the commit.

use std::sync::Arc;

use fencepost_sql::catalog::ForeignKeyDef;
use fencepost_sql::stop::Halt;

use super::referee::{Check, verify};
use super::references::References;
use crate::exec::Cx;

/// What a transaction still has to check.
#[derive(Debug, Default)]
pub struct Deferred {
    checks: Vec<(Arc<References>, Check)>,
    /// What SET CONSTRAINTS said: of which constraint (`None`: all), and whether it is deferred.
    said: Vec<(Option<u32>, bool)>,
}

/// How much there was at a savepoint.
#[derive(Clone, Copy, Debug, Default)]
pub struct DeferredMark(usize, usize);

/// Does a check of `key` wait for the end of the transaction?
pub fn is_deferred(cx: &Cx<'_>, key: &ForeignKeyDef) -> bool {
    cx.deferred
        .as_ref()
        .is_some_and(|deferred| deferred.is(key))
}

impl Deferred {
    /// Is there nothing to check, and was nothing said?
    pub fn is_empty(&self) -> bool {
        self.checks.is_empty() && self.said.is_empty()
    }

    /// Does a check of `key` wait for the end of the transaction?
    pub fn is(&self, key: &ForeignKeyDef) -> bool {
        let of_key = |(id, _): &&(Option<u32>, bool)| id.is_none_or(|id| id == key.id);
        let said = self.said.iter().rev().find(of_key);
        key.deferrable && said.map_or(key.deferred, |(_, deferred)| *deferred)
    }

    /// SET CONSTRAINTS, of all of them or of one.
    pub fn say(&mut self, constraint: Option<u32>, deferred: bool) {
        self.said.push((constraint, deferred));
    }

    pub(super) fn push(&mut self, references: &Arc<References>, check: Check) {
        self.checks.push((Arc::clone(references), check));
    }

    /// How much there is now.
    pub fn mark(&self) -> DeferredMark {
        DeferredMark(self.checks.len(), self.said.len())
    }

    /// Goes back to a mark.
    pub fn back_to(&mut self, mark: DeferredMark) {
        self.checks.truncate(mark.0);
        self.said.truncate(mark.1);
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.back_to(DeferredMark::default());
    }

    /// Has a row of the table `id` a check before it?
    pub fn concerns(&self, id: u32) -> bool {
        let of_table = |references: &References| {
            let mut tables = references.tables.iter();
            tables.any(|table| table.def.id == id)
        };
        self.checks
            .iter()
            .any(|(references, _)| of_table(references))
    }

    /// Checks what is not deferred any more; everything at the `end` of the transaction.
    pub async fn run(&self, cx: &mut Cx<'_>, end: bool) -> Result<(), Halt> {
        for (references, check) in &self.checks {
            if end || !self.is(&references.keys[check.key].def) {
                cx.check_cancel()?;
                verify(cx, references, check).await?;
            }
        }
        Ok(())
    }
}

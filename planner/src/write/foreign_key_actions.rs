//! The checks and actions of foreign keys for the changes of one statement.
//!
//! ```text
//! row inserted, key changed  ─▶ check that the referenced row exists, at once if the statement
//!                               cannot change the answer
//! row deleted, key changed   ─▶ effect: the action of each foreign key to this table,
//!                               on the referencing rows
//! end of the statement       ─▶ effects, which may cause more effects; then the remaining checks;
//!                               then the triggers of the rows that actions changed
//! commit                     ─▶ the checks of deferred constraints (`deferred`)
//! ```
//!
//! A check is the same from both ends: the referenced row exists, or no row references it. The rows
//! it reads are in the read set, so its result holds at the commit despite concurrent writes.

use std::collections::VecDeque;
use std::sync::Arc;

use fencepost_sql::catalog::{Event, ForeignKeyDef, Referential};
use fencepost_sql::error::{SqlError, SqlState};
use fencepost_sql::stop::StatementStop;
use fencepost_sql::types::TypeKind;
use fencepost_sql::value::Value;
use fencepost_txn::Strength;

use super::deferred::is_deferred;
use super::errors::{not_present, partly_null, still_referenced};
use super::references::{LocatedRow, References, as_kind, picked, same};
use super::rows::RowWriter;
use super::rules::generate;
use super::triggers::{PendingTriggers, StatementEvent, check_unchanged, is_replica};
use crate::exec::Cx;
use crate::plan::TablePlan;
use crate::store::read_row;

/// The foreign-key checks and actions of one statement.
pub struct ForeignKeyActions {
    references: Arc<References>,
    effects: VecDeque<Effect>,
    checks: Vec<Check>,
    writer: RowWriter,
    /// The triggers of the rows that actions change, and the tables and events for which statement
    /// triggers have fired.
    triggers: Option<PendingTriggers>,
    begun: Vec<(usize, Event)>,
    /// Whether `session_replication_role` is `replica`; `None` until it is read.
    off: Option<bool>,
}

/// The deletion of a referenced row, or the change of its key.
struct Effect {
    key: usize,
    old: Vec<Value>,
    new: Option<Vec<Value>>,
}

/// A reference that must be checked.
#[derive(Clone, Debug)]
pub struct Check {
    /// The position of the foreign key.
    pub key: usize,
    /// The values of the key's columns.
    pub values: Vec<Value>,
    /// The end to blame for a violation.
    pub fault: Fault,
    /// The leaf partition of the referencing row.
    pub leaf: Option<u32>,
}

/// The end at which a violation is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A row references a row that does not exist.
    Child,
    /// A referenced row was deleted, or its key changed.
    Parent,
    /// The same for RESTRICT: another row with the same key does not satisfy the check.
    Restrict,
}

impl ForeignKeyActions {
    /// Creates the state for one statement.
    pub fn new(references: &Arc<References>) -> ForeignKeyActions {
        let fires = |table: &Arc<TablePlan>| table.fires;
        ForeignKeyActions {
            triggers: references
                .tables
                .iter()
                .any(fires)
                .then(PendingTriggers::default),
            begun: Vec::new(),
            references: Arc::clone(references),
            effects: VecDeque::new(),
            checks: Vec::new(),
            writer: RowWriter::default(),
            off: None,
        }
    }

    /// Returns whether the session replays replicated changes, so that foreign keys are neither
    /// checked nor act.
    fn is_off(&mut self, cx: &Cx<'_>) -> bool {
        *self.off.get_or_insert_with(|| is_replica(cx))
    }

    /// Handles an inserted row of the statement's table.
    pub async fn inserted(&mut self, cx: &mut Cx<'_>, row: &[Value]) -> Result<(), StatementStop> {
        let references = Arc::clone(&self.references);
        for (at, key) in references.keys.iter().enumerate() {
            if references.binds(key, 0, row) {
                // The statement may still insert the referenced row, or remove this row again.
                let later = references.share_rows(key.parent, 0);
                self.refers(cx, at, row, later).await?;
            }
        }
        Ok(())
    }

    /// Handles an updated row of the statement's table.
    pub async fn updated(
        &mut self,
        cx: &mut Cx<'_>,
        rows: (&[Value], &[Value]),
    ) -> Result<(), StatementStop> {
        self.changed(cx, 0, rows).await
    }

    /// Handles a deleted row of the statement's table.
    pub fn deleted(&mut self, row: &[Value]) {
        self.queue_removed(0, row);
    }

    async fn changed(
        &mut self,
        cx: &mut Cx<'_>,
        table: usize,
        (old, new): (&[Value], &[Value]),
    ) -> Result<(), StatementStop> {
        let references = Arc::clone(&self.references);
        for (at, key) in references.keys.iter().enumerate() {
            let (child, parent) = references.ends(key);
            // A row that leaves the referenced partition no longer exists there.
            let stays = references.is_row_of(key.parent, table, new);
            if references.is_row_of(key.parent, table, old)
                && (!stays || !same(parent, &key.def.parent_columns, (old, new)))
            {
                let old = picked(old, &key.def.parent_columns);
                if !old.iter().any(Value::is_null) {
                    let new = stays.then(|| picked(new, &key.def.parent_columns));
                    self.effects.push_back(Effect { key: at, old, new });
                }
            }
            let comes = || !references.binds(key, table, old);
            if references.binds(key, table, new)
                && (comes() || !same(child, &key.def.columns, (old, new)))
            {
                let later = table != 0 || references.share_rows(key.parent, 0);
                self.refers(cx, at, new, later).await?;
            }
        }
        Ok(())
    }

    fn queue_removed(&mut self, table: usize, row: &[Value]) {
        for (at, key) in self.references.keys.iter().enumerate() {
            if self.references.is_row_of(key.parent, table, row) {
                let old = picked(row, &key.def.parent_columns);
                if !old.iter().any(Value::is_null) {
                    let effect = Effect {
                        key: at,
                        old,
                        new: None,
                    };
                    self.effects.push_back(effect);
                }
            }
        }
    }

    /// Checks a reference of the row, now or at the end of the statement (`later`).
    async fn refers(
        &mut self,
        cx: &mut Cx<'_>,
        at: usize,
        row: &[Value],
        later: bool,
    ) -> Result<(), StatementStop> {
        let references = Arc::clone(&self.references);
        let key = &references.keys[at];
        if key.def.unchecked || self.is_off(cx) {
            return Ok(());
        }
        let values = picked(row, &key.def.columns);
        let nulls = values.iter().filter(|value| value.is_null()).count();
        if nulls > 0 {
            return match key.def.full && nulls < values.len() {
                true => Err(partly_null(&key.def, references.ends(key).0).into()),
                false => Ok(()),
            };
        }
        let mut check = Check {
            key: at,
            values,
            fault: Fault::Child,
            leaf: None,
        };
        if later || is_deferred(cx, &key.def) {
            check.leaf = references.leaf_of_row(key.child, row);
            self.checks.push(check);
            return Ok(());
        }
        if references.is_present(cx, key, &check.values).await? {
            return Ok(());
        }
        // Only the error names the partition.
        check.leaf = references.leaf_of_row(key.child, row);
        Err(broken(cx, &references, &check).into())
    }

    /// Runs the actions and the remaining checks, after the statement has changed all its rows.
    pub async fn finish(&mut self, cx: &mut Cx<'_>) -> Result<(), StatementStop> {
        while let Some(effect) = self.effects.pop_front() {
            cx.breathe().await?;
            self.act(cx, effect).await?;
        }
        for check in std::mem::take(&mut self.checks) {
            cx.breathe().await?;
            let references = &self.references;
            let key = &references.keys[check.key];
            let restricts = check.fault == Fault::Restrict;
            match (&mut cx.deferred, restricts) {
                (Some(deferred), false) if deferred.is(&key.def) => {
                    deferred.push(references, check);
                }
                _ => verify(cx, references, &check).await?,
            }
        }
        Ok(())
    }

    async fn act(&mut self, cx: &mut Cx<'_>, effect: Effect) -> Result<(), StatementStop> {
        let references = Arc::clone(&self.references);
        let key = &references.keys[effect.key];
        if key.def.inert || self.is_off(cx) {
            return Ok(());
        }
        let action = match effect.new {
            None => key.def.on_delete,
            Some(_) => key.def.on_update,
        };
        let check = |fault| Check {
            key: effect.key,
            values: effect.old.clone(),
            fault,
            leaf: None,
        };
        match action {
            Referential::NoAction => {
                self.checks.push(check(Fault::Parent));
                return Ok(());
            }
            Referential::Restrict => {
                self.checks.push(check(Fault::Restrict));
                return Ok(());
            }
            // SET DEFAULT to the old key changes nothing, so the check is needed.
            Referential::SetDefault => self.checks.push(check(Fault::Parent)),
            Referential::Cascade | Referential::SetNull => {}
        }
        let columns = columns_changed(&key.def, &effect);
        self.begin(cx, key.child, (action, &effect), &columns)
            .await?;
        let found = references.referencing(cx, key, &effect.old, usize::MAX);
        for found in found.await? {
            cx.breathe().await?;
            self.follow(cx, &effect, action, found).await?;
        }
        Ok(())
    }

    /// Applies the referential action to a referencing row.
    async fn follow(
        &mut self,
        cx: &mut Cx<'_>,
        effect: &Effect,
        action: Referential,
        (place, seen): LocatedRow,
    ) -> Result<(), StatementStop> {
        let references = Arc::clone(&self.references);
        let key = &references.keys[effect.key];
        let table = &references.tables[key.child];
        cx.queue(place.addr, Strength::Update).await?;
        // The row may have changed while this transaction waited for its lock.
        let mut words = Vec::new();
        if !read_row(cx.tx, place.addr, &mut words).await? {
            return Ok(());
        }
        let mut old = vec![Value::Null; table.layout.width()];
        table.layout.decode(&words, &mut old)?;
        if !same(&table.def, &key.def.columns, (&seen, &old)) {
            return Ok(());
        }
        if action == Referential::Cascade && effect.new.is_none() {
            if let Some(triggers) = &mut self.triggers {
                let before = triggers.before(cx, table, StatementEvent::DELETE, (Some(&old), None));
                if !before.await? {
                    return Ok(());
                }
                check_unchanged(cx, table, place, &old, "deleted").await?;
            }
            self.writer.delete(cx, table, place, &old).await?;
            self.queue_removed(key.child, &old);
            return match &mut self.triggers {
                None => Ok(()),
                Some(triggers) => {
                    triggers
                        .after(cx, table, StatementEvent::DELETE, (Some(&old), None))
                        .await
                }
            };
        }
        let mut new = old.clone();
        let columns = columns_changed(&key.def, effect);
        for (nth, column) in columns.iter().enumerate() {
            new[*column] = match (action, &effect.new) {
                (Referential::Cascade, Some(values)) => {
                    let kind = table.def.columns[*column].ty.kind;
                    let fitted = as_kind(&values[nth], kind);
                    fitted.ok_or_else(|| out_of_range(kind))?
                }
                (Referential::SetDefault, _) => {
                    let defaults = &references.defaults[key.child];
                    match defaults.get(*column) {
                        Some(default) => cx.deep_value(default, &[]).await?,
                        None => Value::Null,
                    }
                }
                _ => Value::Null,
            };
        }
        let mut changed = columns.clone();
        let doing = StatementEvent::update(&columns);
        if let Some(triggers) = &mut self.triggers {
            let both = (Some(old.as_slice()), Some(new.as_mut_slice()));
            if !triggers.before(cx, table, doing, both).await? {
                return Ok(());
            }
            check_unchanged(cx, table, place, &old, "updated").await?;
            if triggers.looks_at_rows(cx, table, doing) {
                changed = (0..old.len()).collect();
            }
        }
        generate(cx, table, &mut new).await?;
        changed.extend(table.rules.generated.iter().map(|g| g.column));
        let rows = (old.as_slice(), new.as_slice());
        self.writer.update(cx, table, place, rows, &changed).await?;
        if let Some(triggers) = &mut self.triggers {
            triggers
                .after(cx, table, doing, (Some(rows.0), Some(rows.1)))
                .await?;
        }
        self.changed(cx, key.child, rows).await
    }

    /// Prepares changes of a table's rows by an action: fires its statement triggers once.
    async fn begin(
        &mut self,
        cx: &mut Cx<'_>,
        child: usize,
        (action, effect): (Referential, &Effect),
        columns: &[usize],
    ) -> Result<(), StatementStop> {
        let Some(triggers) = &mut self.triggers else {
            return Ok(());
        };
        let doing = match action == Referential::Cascade && effect.new.is_none() {
            true => StatementEvent::DELETE,
            false => StatementEvent::update(columns),
        };
        if self.begun.contains(&(child, doing.event)) {
            return Ok(());
        }
        self.begun.push((child, doing.event));
        triggers
            .begin(cx, &self.references.tables[child], doing)
            .await
    }

    /// Runs the triggers of the rows that actions changed.
    pub async fn finish_triggers(&mut self, cx: &mut Cx<'_>) -> Result<(), StatementStop> {
        match &mut self.triggers {
            None => Ok(()),
            Some(triggers) => triggers.finish(cx).await,
        }
    }
}

/// Returns an error unless the referenced row exists or no row references it.
pub async fn verify(
    cx: &mut Cx<'_>,
    references: &Arc<References>,
    check: &Check,
) -> Result<(), StatementStop> {
    let key = &references.keys[check.key];
    if check.fault != Fault::Restrict && references.is_present(cx, key, &check.values).await? {
        return Ok(());
    }
    let found = references.referencing(cx, key, &check.values, 1);
    match found.await?.is_empty() {
        true => Ok(()),
        false => Err(broken(cx, references, check).into()),
    }
}

fn broken(cx: &Cx<'_>, references: &References, check: &Check) -> SqlError {
    let key = &references.keys[check.key];
    let ends = references.ends(key);
    let settings = &cx.eval.settings;
    match check.fault {
        Fault::Child => {
            let (child, parent) = ends;
            let leaf = check
                .leaf
                .and_then(|leaf| child.leaves().get(leaf as usize));
            let child = leaf.map_or(child, |leaf| leaf);
            not_present(&key.def, (child, parent), &check.values, settings)
        }
        Fault::Parent | Fault::Restrict => {
            still_referenced(&key.def, ends, &check.values, settings)
        }
    }
}

/// Returns the columns that a referential action gives other values, by position in the referencing
/// table.
fn columns_changed(key: &ForeignKeyDef, effect: &Effect) -> Vec<usize> {
    match effect.new {
        None => key.columns_set_on_delete(),
        Some(_) => key.columns.clone(),
    }
}

/// Returns error 22003.
fn out_of_range(kind: TypeKind) -> SqlError {
    SqlError::new(
        SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
        format!("{kind} out of range"),
    )
}

//! The change of one row: its triggers, its index entries, and the foreign keys that it affects.

use fencepost_sql::bound::Assignment;
use fencepost_sql::error::SqlError;
use fencepost_sql::stop::StatementStop;
use fencepost_sql::value::Value;
use fencepost_storage::FatPtr;

use super::change::{Changer, finish};
use super::change_plan::{Action, ChangePlan};
use super::merge::begin_merge;
use super::returning::Returning;
use super::rows::Yield;
use super::rules::{check_views, generate};
use super::triggers::{StatementEvent, check_unchanged};
use crate::exec::Cx;

impl Changer {
    /// Fires BEFORE STATEMENT triggers, before the first row.
    pub(super) async fn begin(
        &mut self,
        plan: &ChangePlan,
        cx: &mut Cx<'_>,
    ) -> Result<(), StatementStop> {
        let Some(triggers) = &mut self.triggers else {
            return Ok(());
        };
        let table = &plan.table;
        match &plan.action {
            Action::Delete => Box::pin(triggers.begin(cx, table, StatementEvent::DELETE)).await,
            Action::Update { columns, .. } => {
                Box::pin(triggers.begin(cx, table, StatementEvent::update(columns))).await
            }
            Action::Merge(whens) => Box::pin(begin_merge(whens, triggers, cx, table)).await,
        }
    }

    /// Changes the row at `place`, whose values are the first columns of `row`. Returns false if a
    /// trigger suppresses the change.
    pub(super) async fn change(
        &mut self,
        plan: &ChangePlan,
        cx: &mut Cx<'_>,
        place: FatPtr,
        row: &[Value],
        returning: &mut Returning<'_>,
    ) -> Result<bool, StatementStop> {
        match &plan.action {
            Action::Delete => {
                if !self.delete(plan, cx, place, row).await? {
                    return Ok(false);
                }
                match plan.deep_returning {
                    true => returning.deep_row(&plan.returning, cx, row).await?,
                    false => returning.row(&plan.returning, cx, row).await?,
                }
            }
            Action::Update {
                assignments,
                columns,
            } => {
                let set = (assignments.as_slice(), columns.as_slice());
                if !self.update(plan, cx, set, place, row).await? {
                    return Ok(false);
                }
                match plan.deep_returning {
                    true => returning.deep_row(&plan.returning, cx, &self.new).await?,
                    false => returning.row(&plan.returning, cx, &self.new).await?,
                }
            }
            Action::Merge(_) => {}
        }
        Ok(true)
    }

    pub(super) async fn delete(
        &mut self,
        plan: &ChangePlan,
        cx: &mut Cx<'_>,
        place: FatPtr,
        row: &[Value],
    ) -> Result<bool, StatementStop> {
        let table = &plan.table;
        let row = &row[..table.layout.width()];
        if let Some(triggers) = &mut self.triggers {
            let before = triggers.before(cx, table, StatementEvent::DELETE, (Some(row), None));
            if !Box::pin(before).await? {
                return Ok(false);
            }
            Box::pin(check_unchanged(cx, table, place, row, "deleted")).await?;
        }
        cx.tx.decide_by(place.addr, self.latest);
        self.writer.delete(cx, table, place, row).await?;
        if let Some(actions) = &mut self.actions {
            actions.deleted(row);
        }
        if let Some(triggers) = &mut self.triggers {
            triggers
                .after(cx, table, StatementEvent::DELETE, (Some(row), None))
                .await?;
        }
        Ok(true)
    }

    /// Updates a row, and leaves the new row in `new`.
    pub(super) async fn update(
        &mut self,
        plan: &ChangePlan,
        cx: &mut Cx<'_>,
        (assignments, changed): (&[Assignment], &[usize]),
        place: FatPtr,
        row: &[Value],
    ) -> Result<bool, StatementStop> {
        let columns = plan.table.layout.width();
        self.assign(plan, cx, assignments, row).await?;
        let doing = StatementEvent::update(changed);
        let mut written = changed;
        let all: Vec<usize>;
        if let Some(triggers) = &mut self.triggers {
            let both = (Some(&row[..columns]), Some(&mut self.new[..]));
            if !Box::pin(triggers.before(cx, &plan.table, doing, both)).await? {
                return Ok(false);
            }
            Box::pin(check_unchanged(cx, &plan.table, place, row, "updated")).await?;
            if triggers.looks_at_rows(cx, &plan.table, doing) {
                all = (0..columns).collect();
                written = &all;
            }
        }
        generate(cx, &plan.table, &mut self.new).await?;
        let rows = (&row[..columns], &self.new[..columns]);
        cx.tx.decide_by(place.addr, self.latest);
        let written = self.writer.update(cx, &plan.table, place, rows, written);
        written.await?;
        if let Some(actions) = &mut self.actions {
            Box::pin(actions.updated(cx, rows)).await?;
        }
        if let Some(triggers) = &mut self.triggers {
            triggers
                .after(cx, &plan.table, doing, (Some(rows.0), Some(rows.1)))
                .await?;
        }
        if !plan.table.rules.views.is_empty() {
            Box::pin(check_views(cx, &plan.table, rows.1)).await?;
        }
        Ok(true)
    }

    /// Computes the row that SET produces, into `new`.
    async fn assign(
        &mut self,
        plan: &ChangePlan,
        cx: &mut Cx<'_>,
        assignments: &[Assignment],
        row: &[Value],
    ) -> Result<(), SqlError> {
        self.new.clear();
        self.new.extend_from_slice(&row[..plan.width]);
        match self.set.take() {
            Some(values) => {
                for (assignment, value) in assignments.iter().zip(values) {
                    self.new[assignment.column] = value;
                }
            }
            None => {
                for assignment in assignments {
                    self.new[assignment.column] = cx.value(&assignment.value, row).await?;
                }
            }
        }
        Ok(())
    }

    /// Changes a row of a view through its INSTEAD OF triggers. Returns the number of rows for
    /// which they did something.
    pub(super) async fn instead(
        &mut self,
        plan: &ChangePlan,
        cx: &mut Cx<'_>,
        row: &[Value],
        returning: &mut Returning<'_>,
    ) -> Result<u64, StatementStop> {
        let view = &plan.table;
        let old = &row[..view.layout.width()];
        let set = match &plan.action {
            Action::Update {
                assignments,
                columns,
            } => {
                self.assign(plan, cx, assignments, row).await?;
                Some(columns)
            }
            _ => None,
        };
        let Some(triggers) = &mut self.triggers else {
            return Err(SqlError::internal("a view without triggers").into());
        };
        let Some(columns) = set else {
            let deleted = triggers.instead(cx, view, StatementEvent::DELETE, (Some(old), None));
            if !Box::pin(deleted).await? {
                return Ok(0);
            }
            Box::pin(returning.deep_row(&plan.returning, cx, row)).await?;
            return Ok(1);
        };
        let rows = (Some(old), Some(&mut self.new[..]));
        let updated = triggers.instead(cx, view, StatementEvent::update(columns), rows);
        if !Box::pin(updated).await? {
            return Ok(0);
        }
        Box::pin(check_views(cx, view, &self.new)).await?;
        Box::pin(returning.deep_row(&plan.returning, cx, &self.new)).await?;
        Ok(1)
    }

    /// Inserts a row for MERGE.
    pub(super) async fn insert(
        &mut self,
        plan: &ChangePlan,
        cx: &mut Cx<'_>,
        row: &mut [Value],
    ) -> Result<bool, StatementStop> {
        let table = &plan.table;
        if let Some(pending) = &mut self.triggers {
            let before = pending.before(cx, table, StatementEvent::INSERT, (None, Some(&mut *row)));
            if !Box::pin(before).await? {
                return Ok(false);
            }
        }
        generate(cx, table, row).await?;
        let inserted = self.writer.insert(cx, table, row, Yield::Never);
        inserted.await?;
        if let Some(actions) = &mut self.actions {
            Box::pin(actions.inserted(cx, row)).await?;
        }
        if let Some(triggers) = &mut self.triggers {
            triggers
                .after(cx, table, StatementEvent::INSERT, (None, Some(row)))
                .await?;
        }
        Ok(true)
    }

    /// Ends the statement, after all rows have changed.
    pub(super) async fn finish(&mut self, cx: &mut Cx<'_>) -> Result<(), StatementStop> {
        finish(&mut self.actions, &mut self.triggers, cx).await
    }
}

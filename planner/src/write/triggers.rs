//! The execution of triggers before and after the rows of a statement change.
//!
//! ```text
//! BEFORE STATEMENT   before the first row
//! BEFORE ROW         before each row: the trigger may replace the row, or suppress the change
//! AFTER ROW          queued with the row's values; run at the end of the statement,
//!                    or of the transaction (`deferred`)
//! AFTER STATEMENT    after the queued AFTER ROW triggers
//! INSTEAD OF         for a row of a view: the trigger makes the change
//! ```
//!
//! The row triggers of a partitioned table are those of its leaves. An UPDATE that moves a row to
//! another leaf deletes it there, after the BEFORE UPDATE triggers, and inserts it in the other
//! leaf.
//!
//! A statement whose tables have no triggers has no [`PendingTriggers`], and no cost of triggers.
//!
//! Invariants
//! - TRG-3: WHEN is evaluated when the row changes, whenever the trigger runs.
//! - TRG-4: a row that has changed while its BEFORE triggers ran is not overwritten (27000).

use std::sync::Arc;

use fencepost_sql::bound::Trigger;
use fencepost_sql::catalog::{Event, Timing, row_type};
use fencepost_sql::error::{SqlError, SqlState};
use fencepost_sql::stop::StatementStop;
use fencepost_sql::types::{Composite, Fields};
use fencepost_sql::value::{Array, Record, Value};
use fencepost_storage::FatPtr;

use crate::exec::{CollectedMemory, Cx};
use crate::leaves::is_within;
use crate::plan::TablePlan;
use crate::routines::{TriggerCall, call_trigger};
use crate::store::read_row;

/// SQLSTATE 27000, `triggered_data_change_violation`.
const TRIGGERED_CHANGE: SqlState = SqlState::new(b"27000");

/// A trigger to run, with the rows that it sees.
#[derive(Clone, Debug)]
pub struct QueuedTrigger {
    table: Arc<TablePlan>,
    /// Its position among the triggers of the table.
    trigger: usize,
    event: Event,
    old: Option<Vec<Value>>,
    new: Option<Vec<Value>>,
    /// The transition tables: all rows that the statement has changed, if the trigger reads them.
    rows: Option<Arc<[Value; 2]>>,
}

/// The old and new rows of a table that a statement has changed by one event: its transition
/// tables.
#[derive(Debug)]
struct TransitionRows {
    table: u32,
    event: Event,
    row: Composite,
    rows: [Vec<Value>; 2],
}

/// The event of a statement, and the columns that it sets.
#[derive(Clone, Copy, Debug)]
pub struct StatementEvent<'a> {
    /// The trigger event.
    pub event: Event,
    /// The columns that UPDATE sets.
    pub set: &'a [usize],
}

impl StatementEvent<'_> {
    /// An INSERT.
    pub const INSERT: StatementEvent<'static> = StatementEvent {
        event: Event::Insert,
        set: &[],
    };
    /// A DELETE.
    pub const DELETE: StatementEvent<'static> = StatementEvent {
        event: Event::Delete,
        set: &[],
    };
    /// A TRUNCATE.
    pub const TRUNCATE: StatementEvent<'static> = StatementEvent {
        event: Event::Truncate,
        set: &[],
    };

    /// Creates the event of an UPDATE of these columns.
    pub fn update(set: &[usize]) -> StatementEvent<'_> {
        StatementEvent {
            event: Event::Update,
            set,
        }
    }
}

/// A row before and after a change.
pub type Change<'a> = (Option<&'a [Value]>, Option<&'a [Value]>);

/// The pending triggers of one statement.
#[derive(Debug, Default)]
pub struct PendingTriggers {
    queue: Vec<QueuedTrigger>,
    gathered: CollectedMemory,
    /// AFTER STATEMENT triggers to run at the end.
    at_end: Vec<QueuedTrigger>,
    /// The rows of transition tables.
    changed: Vec<TransitionRows>,
}

impl QueuedTrigger {
    fn trigger(&self) -> &Trigger {
        &self.table.rules.triggers[self.trigger]
    }

    /// Returns the oid of the trigger, whether it is deferrable, and whether it is initially
    /// deferred.
    pub fn waits(&self) -> (u32, bool, bool) {
        let def = &self.trigger().def;
        let constraint = def.constraint.as_ref();
        let waits = constraint.map_or((false, false), |c| (c.deferrable, c.deferred));
        (def.id, waits.0, waits.1)
    }

    /// Returns the oid of its table.
    pub fn table(&self) -> u32 {
        self.table.def.id
    }

    /// Runs the trigger.
    pub async fn run(&self, cx: &mut Cx<'_>) -> Result<(), StatementStop> {
        cx.breathe().await?;
        let call = TriggerCall {
            trigger: self.trigger(),
            table: &self.table.def,
            event: self.event,
            old: self.old.as_deref(),
            new: self.new.as_deref(),
            rows: self.rows.as_deref(),
        };
        Box::pin(call_trigger(call, cx)).await.map(|_| ())
    }
}

/// Returns the triggers of `table` that fire at the given time, with their positions.
fn fired_triggers<'a>(
    cx: &Cx<'_>,
    table: &'a TablePlan,
    doing: StatementEvent<'a>,
    (timing, row): (Timing, bool),
) -> impl Iterator<Item = (usize, &'a Trigger)> + use<'a> {
    let replica = !table.rules.triggers.is_empty() && is_replica(cx);
    let all = table.rules.triggers.iter().enumerate();
    all.filter(move |(_, trigger)| {
        let def = &trigger.def;
        def.timing == timing
            && def.row == row
            && def.events.has(doing.event)
            && def.enabled.runs(replica)
            && (doing.event != Event::Update
                || def.columns.is_empty()
                || def.columns.iter().any(|c| doing.set.contains(c)))
    })
}

pub fn is_replica(cx: &Cx<'_>) -> bool {
    let role = cx.eval.setting("session_replication_role");
    role.is_some_and(|role| role == "replica")
}

/// Returns the table that contains a row: `table`, or one of its leaves.
fn home<'t>(
    cx: &Cx<'_>,
    table: &'t Arc<TablePlan>,
    row: &[Value],
) -> Result<&'t Arc<TablePlan>, SqlError> {
    let Some(leaves) = &table.leaves else {
        return Ok(table);
    };
    let leaf = leaves.leaf_of(table, row, &cx.eval.settings)?;
    Ok(leaves.plan(leaf))
}

/// Returns error 0A000 if a BEFORE ROW trigger moves a row to another partition.
fn check_stays(
    cx: &Cx<'_>,
    (whole, leaf): (&Arc<TablePlan>, &TablePlan),
    doing: StatementEvent<'_>,
    row: &[Value],
) -> Result<(), SqlError> {
    let def = &leaf.def;
    let inherited = |trigger: &Trigger| def.link(trigger.def.id).is_some();
    let mut all = fired_triggers(cx, leaf, doing, (Timing::Before, true));
    let Some((_, trigger)) = all.find(|(_, trigger)| inherited(trigger)) else {
        return Ok(());
    };
    let stays = match &whole.leaves {
        Some(_) => home(cx, whole, row).is_ok_and(|to| to.def.id == def.id),
        None => is_within(whole, def.id, row),
    };
    if stays {
        return Ok(());
    }
    Err(SqlError::new(
        SqlState::FEATURE_NOT_SUPPORTED,
        "moving row to another partition during a BEFORE FOR EACH ROW trigger is not supported",
    )
    .detail(format!(
        "Before executing trigger \"{}\", the row was to be in partition \"{}.{}\".",
        trigger.def.name, def.schema, def.name
    )))
}

/// Returns whether the WHEN condition holds.
async fn holds(
    cx: &mut Cx<'_>,
    table: &TablePlan,
    trigger: &Trigger,
    (old, new): Change<'_>,
) -> Result<bool, SqlError> {
    let Some(condition) = &trigger.condition else {
        return Ok(true);
    };
    let width = table.layout.width();
    let mut both = Vec::with_capacity(width * 2);
    for row in [old, new] {
        match row {
            Some(row) => both.extend_from_slice(&row[..width]),
            None => both.resize(both.len() + width, Value::Null),
        }
    }
    cx.holds(Some(condition), &both).await
}

impl TransitionRows {
    fn into_arrays(self) -> ((u32, Event), Arc<[Value; 2]>) {
        let arrays = self.rows.map(|rows| match rows.is_empty() {
            true => Value::from(Array::default()),
            false => Value::from(Array::of(rows)),
        });
        ((self.table, self.event), Arc::new(arrays))
    }
}

impl PendingTriggers {
    /// Creates the state for a statement that writes to `table`. Returns `None` if no trigger can
    /// fire.
    pub fn of(table: &TablePlan) -> Option<PendingTriggers> {
        table.fires.then(PendingTriggers::default)
    }

    /// Fires the BEFORE STATEMENT triggers of `table`, and queues its AFTER STATEMENT triggers.
    pub async fn begin(
        &mut self,
        cx: &mut Cx<'_>,
        table: &Arc<TablePlan>,
        doing: StatementEvent<'_>,
    ) -> Result<(), StatementStop> {
        for (_, trigger) in fired_triggers(cx, table, doing, (Timing::Before, false)) {
            if holds(cx, table, trigger, (None, None)).await? {
                let call = TriggerCall {
                    trigger,
                    table: &table.def,
                    event: doing.event,
                    old: None,
                    new: None,
                    rows: None,
                };
                Box::pin(call_trigger(call, cx)).await?;
            }
        }
        let mut after = Vec::new();
        for (position, trigger) in fired_triggers(cx, table, doing, (Timing::After, false)) {
            if holds(cx, table, trigger, (None, None)).await? {
                after.push(QueuedTrigger {
                    table: Arc::clone(table),
                    trigger: position,
                    event: doing.event,
                    old: None,
                    new: None,
                    rows: None,
                });
            }
        }
        // If a statement performs several events on a table, the AFTER triggers of the last event
        // run first.
        let mut at_end = self.at_end.iter();
        let same = at_end.position(|queued| queued.table() == table.def.id);
        let place = same.unwrap_or(self.at_end.len());
        self.at_end.splice(place..place, after);
        Ok(())
    }

    /// Fires the BEFORE ROW triggers of a row; `new` receives the row to write. Returns false if
    /// the change is suppressed.
    pub async fn before(
        &mut self,
        cx: &mut Cx<'_>,
        table: &Arc<TablePlan>,
        doing: StatementEvent<'_>,
        (old, mut new): (Option<&[Value]>, Option<&mut [Value]>),
    ) -> Result<bool, StatementStop> {
        let from = match (old, &new) {
            (Some(row), _) => home(cx, table, row)?,
            (None, Some(row)) => home(cx, table, row)?,
            (None, None) => table,
        };
        let rows = (old, new.as_deref_mut());
        if !self.run_before(cx, from, doing, rows).await? {
            return Ok(false);
        }
        let Some(new) = new else {
            return Ok(true);
        };
        if doing.event == Event::Insert {
            check_stays(cx, (table, &**from), doing, new)?;
            return Ok(true);
        }
        let to = home(cx, table, new)?;
        if to.def.id == from.def.id {
            return Ok(true);
        }
        if !self
            .run_before(cx, from, StatementEvent::DELETE, (old, None))
            .await?
        {
            return Ok(false);
        }
        match self
            .run_before(cx, to, StatementEvent::INSERT, (None, Some(new)))
            .await?
        {
            true => Ok(true),
            false => Err(SqlError::unsupported(
                "a trigger that keeps a row out of the partition that it moves to",
            )
            .into()),
        }
    }

    /// Fires the triggers of the table that contains the row.
    async fn run_before(
        &mut self,
        cx: &mut Cx<'_>,
        table: &TablePlan,
        doing: StatementEvent<'_>,
        (old, mut new): (Option<&[Value]>, Option<&mut [Value]>),
    ) -> Result<bool, StatementStop> {
        let width = table.layout.width();
        for (_, trigger) in fired_triggers(cx, table, doing, (Timing::Before, true)) {
            let rows = (old, new.as_deref().map(|new| &new[..width]));
            if !holds(cx, table, trigger, rows).await? {
                continue;
            }
            let call = TriggerCall {
                trigger,
                table: &table.def,
                event: doing.event,
                old,
                new: rows.1,
                rows: None,
            };
            let Some(row) = Box::pin(call_trigger(call, cx)).await? else {
                return Ok(false);
            };
            if let Some(new) = &mut new {
                new[..width].clone_from_slice(&row);
            }
        }
        Ok(true)
    }

    /// Fires the INSTEAD OF triggers of a row of a view; `new` receives the row that they return.
    /// Returns false if one reports that it did nothing.
    pub async fn instead(
        &mut self,
        cx: &mut Cx<'_>,
        view: &TablePlan,
        doing: StatementEvent<'_>,
        (old, mut new): (Option<&[Value]>, Option<&mut [Value]>),
    ) -> Result<bool, StatementStop> {
        let width = view.layout.width();
        for (_, trigger) in fired_triggers(cx, view, doing, (Timing::Instead, true)) {
            let call = TriggerCall {
                trigger,
                table: &view.def,
                event: doing.event,
                old,
                new: new.as_deref().map(|new| &new[..width]),
                rows: None,
            };
            let Some(row) = Box::pin(call_trigger(call, cx)).await? else {
                return Ok(false);
            };
            if let Some(new) = &mut new {
                new[..width].clone_from_slice(&row);
            }
        }
        Ok(true)
    }

    /// Returns whether a trigger may run before rows of `table` change in this way.
    pub fn looks_at_rows(&self, cx: &Cx<'_>, table: &TablePlan, doing: StatementEvent<'_>) -> bool {
        let of_leaf = |leaf: &Arc<TablePlan>| {
            let mut all = leaf.rules.triggers.iter();
            all.any(|trigger| trigger.def.row && trigger.def.timing == Timing::Before)
        };
        match &table.leaves {
            Some(leaves) => leaves.plans().iter().any(of_leaf),
            None => fired_triggers(cx, table, doing, (Timing::Before, true))
                .next()
                .is_some(),
        }
    }

    /// Handles a changed row: queues its AFTER ROW triggers.
    pub async fn after(
        &mut self,
        cx: &mut Cx<'_>,
        table: &Arc<TablePlan>,
        doing: StatementEvent<'_>,
        rows: Change<'_>,
    ) -> Result<(), StatementStop> {
        match rows {
            (Some(old), Some(new)) => {
                let (from, to) = (home(cx, table, old)?, home(cx, table, new)?);
                if from.def.id == to.def.id {
                    self.queue_after(cx, from, doing, rows).await?;
                } else {
                    self.queue_after(cx, from, StatementEvent::DELETE, (Some(old), None))
                        .await?;
                    self.queue_after(cx, to, StatementEvent::INSERT, (None, Some(new)))
                        .await?;
                }
            }
            (Some(row), None) | (None, Some(row)) => {
                let of = home(cx, table, row)?;
                self.queue_after(cx, of, doing, rows).await?;
            }
            (None, None) => {}
        }
        let mut all = table.rules.triggers.iter().map(|trigger| &trigger.def);
        if all.any(|def| def.sees_rows() && def.events.has(doing.event)) {
            self.collect(cx, table, doing.event, rows)?;
        }
        Ok(())
    }

    /// Queues the triggers of the table that contains the row, or contained it.
    async fn queue_after(
        &mut self,
        cx: &mut Cx<'_>,
        table: &Arc<TablePlan>,
        doing: StatementEvent<'_>,
        rows: Change<'_>,
    ) -> Result<(), StatementStop> {
        for (position, trigger) in fired_triggers(cx, table, doing, (Timing::After, true)) {
            if !holds(cx, table, trigger, rows).await? {
                continue;
            }
            for row in [rows.0, rows.1].into_iter().flatten() {
                self.gathered.add_row(cx, row)?;
            }
            self.queue.push(QueuedTrigger {
                table: Arc::clone(table),
                trigger: position,
                event: doing.event,
                old: rows.0.map(<[Value]>::to_vec),
                new: rows.1.map(<[Value]>::to_vec),
                rows: None,
            });
        }
        Ok(())
    }

    /// Adds a changed row to the transition tables.
    fn collect(
        &mut self,
        cx: &mut Cx<'_>,
        table: &TablePlan,
        event: Event,
        rows: Change<'_>,
    ) -> Result<(), StatementStop> {
        let of = (table.def.id, event);
        let known = self.changed.iter().position(|c| (c.table, c.event) == of);
        let at = known.unwrap_or_else(|| {
            self.changed.push(TransitionRows {
                table: of.0,
                event,
                row: row_type(&table.def),
                rows: [Vec::new(), Vec::new()],
            });
            self.changed.len() - 1
        });
        let width = table.layout.width();
        let kept = &mut self.changed[at];
        for (rows, row) in kept.rows.iter_mut().zip([rows.0, rows.1]) {
            if let Some(row) = row {
                self.gathered.add_row(cx, row)?;
                let row = Record::new(Fields::Named(kept.row), row[..width].to_vec());
                rows.push(row.into());
            }
        }
        Ok(())
    }

    /// Runs the queued triggers after the statement has changed all its rows: row by row, then the
    /// statement triggers.
    pub async fn finish(&mut self, cx: &mut Cx<'_>) -> Result<(), StatementStop> {
        let queue = std::mem::take(&mut self.queue);
        let changed = std::mem::take(&mut self.changed).into_iter();
        let changed: Vec<_> = changed.map(TransitionRows::into_arrays).collect();
        let none = Arc::new([Value::from(Array::default()), Value::from(Array::default())]);
        for mut queued in queue.into_iter().chain(std::mem::take(&mut self.at_end)) {
            cx.breathe().await?;
            if queued.trigger().def.sees_rows() {
                let of = (queued.table(), queued.event);
                let rows = changed.iter().find(|(by, _)| *by == of);
                queued.rows = Some(Arc::clone(rows.map_or(&none, |(_, rows)| rows)));
            }
            match &mut cx.deferred {
                Some(deferred) if deferred.waits(queued.waits()) => deferred.push_trigger(queued),
                _ => queued.run(cx).await?,
            }
        }
        Ok(())
    }
}

/// Returns error 27000 if the row at `place` no longer equals `row`.
pub async fn check_unchanged(
    cx: &mut Cx<'_>,
    table: &TablePlan,
    place: FatPtr,
    row: &[Value],
    verb: &str,
) -> Result<(), StatementStop> {
    let width = table.layout.width();
    let mut words = Vec::new();
    let mut now = vec![Value::Null; width];
    if read_row(cx.tx, place.addr, &mut words).await? {
        table.layout.decode(&words, &mut now)?;
        let mut seen = Vec::new();
        table.layout.encode(&row[..width], &mut seen)?;
        table.layout.encode(&now, &mut words)?;
        if words == seen {
            return Ok(());
        }
    }
    Err(already_modified(verb).into())
}

/// Returns error 27000.
pub fn already_modified(verb: &str) -> SqlError {
    SqlError::new(
        TRIGGERED_CHANGE,
        format!(
            "tuple to be {verb} was already modified by an operation triggered by the current \
             command"
        ),
    )
    .hint(
        "Consider using an AFTER trigger instead of a BEFORE trigger to propagate changes to \
         other rows.",
    )
}

//! MERGE: each source row is matched with a row of the table, if there is one, and the first
//! suitable WHEN clause is applied.
//!
//! All pairs are found before the first row is changed. Conditions and values see the table as it
//! was then.

use std::sync::Arc;

use fencepost_sql::bound::{self, Assignment, Expr, MergeAction};
use fencepost_sql::error::{SqlError, SqlState};
use fencepost_sql::stop::StatementStop;
use fencepost_sql::value::Value;
use fencepost_storage::FatPtr;
use foldhash::{HashSet, HashSetExt};

use super::change::Changer;
use super::change_plan::{Action, ChangePlan, plan_change};
use super::find::{find_and_lock, is_changed};
use super::triggers::{PendingTriggers, StatementEvent};
use crate::context::PlanContext;
use crate::exec::{Cx, pointer_of};
use crate::plan::TablePlan;

/// A WHEN clause.
#[derive(Debug)]
pub struct MergeClause {
    matched: bool,
    condition: Option<Expr>,
    does: ClauseAction,
}

/// The action of a WHEN clause.
#[derive(Debug)]
enum ClauseAction {
    Nothing,
    Delete,
    Update {
        assignments: Vec<Assignment>,
        columns: Vec<usize>,
    },
    Insert(Vec<Expr>),
}

impl MergeClause {
    /// Calls `f` on each expression in it.
    pub fn for_each_expr<'a>(&'a self, f: &mut dyn FnMut(&'a Expr)) {
        self.condition.iter().for_each(&mut *f);
        match &self.does {
            ClauseAction::Update { assignments, .. } => {
                assignments.iter().for_each(|a| f(&a.value))
            }
            ClauseAction::Insert(row) => row.iter().for_each(f),
            ClauseAction::Nothing | ClauseAction::Delete => {}
        }
    }
}

/// Plans `merge`.
pub fn plan_merge(merge: bound::Merge, cx: PlanContext<'_>) -> ChangePlan {
    let generated = &merge.integrity.rules.generated;
    let when = |when: bound::MergeWhen| MergeClause {
        matched: when.matched,
        condition: when.condition,
        does: match when.action {
            MergeAction::Nothing => ClauseAction::Nothing,
            MergeAction::Delete => ClauseAction::Delete,
            MergeAction::Insert(row) => ClauseAction::Insert(row),
            MergeAction::Update(assignments) => {
                let set = assignments.iter().map(|a| a.column);
                let columns = set.chain(generated.iter().map(|g| g.column)).collect();
                ClauseAction::Update {
                    assignments,
                    columns,
                }
            }
        },
    };
    let whens = merge.whens.into_iter().map(when).collect();
    let target = (merge.table, merge.alias, None);
    let rest = (Some(merge.source), Some(merge.on), Vec::new());
    let (others, filter, returning) = rest;
    let rest = (others, (filter, None), returning);
    plan_change(cx, target, rest, Action::Merge(whens), merge.integrity)
}

/// Runs the statement. Returns the number of rows inserted, updated or deleted.
pub async fn run_merge(plan: &ChangePlan, cx: &mut Cx<'_>) -> Result<u64, StatementStop> {
    let Action::Merge(whens) = &plan.action else {
        return Err(SqlError::internal("no MERGE").into());
    };
    for init in &plan.inits {
        cx.run_init(init).await?;
    }
    let (rows, decisions) = Box::pin(find_and_lock(plan, cx)).await?;
    let held = rows.weight();
    let place = |i: usize| pointer_of(&rows.row(i)[plan.width]);
    // All actions and their values are determined before any row is changed.
    let mut todo = Vec::with_capacity(rows.len());
    for i in 0..rows.len() {
        cx.breathe().await?;
        let when = first_when(whens, cx, rows.row(i), place(i).is_some()).await?;
        let exprs: Vec<&Expr> = match when.map(|when| &when.does) {
            Some(ClauseAction::Update { assignments, .. }) => {
                assignments.iter().map(|a| &a.value).collect()
            }
            Some(ClauseAction::Insert(row)) => row.iter().collect(),
            _ => Vec::new(),
        };
        let mut values = Vec::with_capacity(exprs.len());
        for expr in exprs {
            values.push(cx.deep_value(expr, rows.row(i)).await?);
        }
        todo.push((when, values));
    }
    let mut changer = Changer::new(plan);
    changer.begin(plan, cx).await?;
    let mut changed = HashSet::new();
    let mut count = 0;
    for (i, (when, mut values)) in todo.into_iter().enumerate() {
        cx.breathe().await?;
        let row = rows.row(i);
        if let Some(place) = place(i) {
            changer.latest = decisions.latest(place);
        }
        match (when.map(|when| &when.does), place(i)) {
            (Some(ClauseAction::Delete), Some(place)) => {
                once(cx, &mut changed, place)?;
                count += u64::from(changer.delete(plan, cx, place, row).await?);
            }
            (
                Some(ClauseAction::Update {
                    assignments,
                    columns,
                }),
                Some(place),
            ) => {
                once(cx, &mut changed, place)?;
                changer.set = Some(values);
                let set = (&assignments[..], &columns[..]);
                count += u64::from(changer.update(plan, cx, set, place, row).await?);
            }
            (Some(ClauseAction::Insert(_)), None) => {
                count += u64::from(changer.insert(plan, cx, &mut values).await?);
            }
            _ => {}
        }
    }
    changer.finish(cx).await?;
    cx.tx.release_memory(held);
    Ok(count)
}

/// Fires the BEFORE STATEMENT triggers of each action that the MERGE may take.
pub(super) async fn begin_merge(
    whens: &[MergeClause],
    triggers: &mut PendingTriggers,
    cx: &mut Cx<'_>,
    table: &Arc<TablePlan>,
) -> Result<(), StatementStop> {
    let does = |wanted: &dyn Fn(&ClauseAction) -> bool| whens.iter().any(|when| wanted(&when.does));
    if does(&|does| matches!(does, ClauseAction::Insert(_))) {
        triggers.begin(cx, table, StatementEvent::INSERT).await?;
    }
    let mut set = Vec::new();
    for when in whens {
        if let ClauseAction::Update { columns, .. } = &when.does {
            set.extend_from_slice(columns);
        }
    }
    if !set.is_empty() {
        triggers
            .begin(cx, table, StatementEvent::update(&set))
            .await?;
    }
    match does(&|does| matches!(does, ClauseAction::Delete)) {
        true => triggers.begin(cx, table, StatementEvent::DELETE).await,
        false => Ok(()),
    }
}

/// Returns the first WHEN clause that applies to a row.
async fn first_when<'a>(
    whens: &'a [MergeClause],
    cx: &mut Cx<'_>,
    row: &[Value],
    matched: bool,
) -> Result<Option<&'a MergeClause>, StatementStop> {
    for when in whens.iter().filter(|when| when.matched == matched) {
        if cx.deep_holds(when.condition.as_ref(), row).await? {
            return Ok(Some(when));
        }
    }
    Ok(None)
}

/// Returns error 21000 if this statement, or another part of it, has already changed the row.
fn once(cx: &Cx<'_>, changed: &mut HashSet<u64>, place: FatPtr) -> Result<(), SqlError> {
    match changed.insert(place.addr.raw()) && !is_changed(cx, place) {
        true => Ok(()),
        false => Err(SqlError::new(
            SqlState::CARDINALITY_VIOLATION,
            "MERGE command cannot affect row a second time",
        )
        .hint("Ensure that not more than one source row matches any one target row.")),
    }
}

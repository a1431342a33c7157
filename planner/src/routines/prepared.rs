//! The statements of routines: bound, planned, cached and run.

use std::cell::RefCell;
use std::sync::Arc;

use fencepost_sql::binder::{NamePriority, ParamTypes, Variable, Variables, bind_among, goes_back};
use fencepost_sql::bound::{Expr, ResultColumn, Statement};
use fencepost_sql::catalog::{Dependencies, RoutineDef, Snapshot, guard_routine, guard_table};
use fencepost_sql::error::{SqlError, SqlState};
use fencepost_sql::parser;
use fencepost_sql::plpgsql::{Code, NameMeaning};
use fencepost_sql::sequences::wanted_range;
use fencepost_sql::stack::{StackDepth, is_roomy, on_large_stack, polled, roomy};
use fencepost_sql::stop::StatementStop;
use fencepost_sql::types::{Composite, Type};
use fencepost_sql::value::Value;
use fencepost_txn::Mode;

use super::Owner;
use super::rows::{Rows, RowsSink};
use super::variables::Slots;
use crate::context::PlanContext;
use crate::exec::Cx;
use crate::plan::SelectPlan;
use crate::run::{Execution, Progress};
use crate::statement::{Plan, check_supported, plan};
use crate::uses::UsedTables;

/// The number of rows after which their memory is charged.
const CHUNK: usize = 1024;
/// The number of times that one statement is planned again before a catalog that keeps changing is
/// an error.
const PLANS_MAX: usize = 8;

/// A statement that is ready to run.
#[derive(Debug)]
pub struct PreparedBody {
    pub body: Body,
    /// The variables that follow the routine's own parameters, and their types.
    pub references: Vec<(NameMeaning, Type)>,
    /// The search path under which names were resolved.
    pub within: Option<Arc<str>>,
    deep: StackDepth,
}

/// The form of a prepared statement.
#[derive(Debug)]
pub enum Body {
    /// A single expression, and the name of its column.
    Value(Expr, String),
    /// A statement that runs by a plan.
    Planned(Box<CachedPlan>),
    /// DDL, a change of settings, or a CALL or DO.
    Utility(Box<Statement>),
}

/// A plan with the objects that it uses.
#[derive(Debug)]
pub struct CachedPlan {
    pub plan: Plan,
    pub used: UsedTables,
    /// The columns of its rows, if it returns rows.
    pub columns: Option<Vec<(String, Type)>>,
    /// The other objects that it depends on.
    pub depends: Dependencies,
    /// Whether a cursor can read its rows backward.
    pub goes_back: bool,
    /// Whether it needs a larger stack.
    pub deep: StackDepth,
}

/// The variables of a scope that a statement may name. It records those that the statement uses.
struct VisibleVariables<'a> {
    code: &'a Code,
    scope: usize,
    slots: &'a Slots,
    /// The number of parameters before them.
    before: usize,
    taken: RefCell<Vec<(NameMeaning, Type)>>,
}

impl VisibleVariables<'_> {
    fn take(&self, named: NameMeaning) -> Result<Variable, SqlError> {
        let ty = self.slots.type_of(self.code, &named)?;
        let mut taken = self.taken.borrow_mut();
        let known = taken.iter().position(|(of, _)| *of == named);
        let place = known.unwrap_or_else(|| {
            taken.push((named, ty));
            taken.len() - 1
        });
        Ok(Variable {
            param: self.before + place,
            ty,
            field: None,
        })
    }
}

impl Variables for VisibleVariables<'_> {
    fn find(&self, path: &[String]) -> Result<Option<Variable>, SqlError> {
        match self.code.named(self.scope, path) {
            None => Ok(None),
            // An assigned record is resolved by its fields, not as a single variable.
            Some(NameMeaning::Variable(variable))
                if self.code.is_record(variable) && !self.slots.has_no_row(variable) =>
            {
                Ok(None)
            }
            Some(named) => self.take(named).map(Some),
        }
    }

    fn fields(&self, path: &[String]) -> Result<Option<Vec<(String, Variable)>>, SqlError> {
        let Some(NameMeaning::Variable(row)) = self.code.named(self.scope, path) else {
            return Ok(None);
        };
        if !self.code.is_row(row) {
            return Ok(None);
        }
        let names = self.slots.field_names(self.code, row)?;
        let mut fields = Vec::with_capacity(names.len());
        for name in names {
            let field = self.take(NameMeaning::Field(row, name.clone()))?;
            fields.push((name, field));
        }
        Ok(Some(fields))
    }

    fn row_type(&self, path: &[String]) -> Option<(Variable, Composite)> {
        match self.code.named(self.scope, path) {
            Some(NameMeaning::Variable(row)) => {
                let of = self.slots.row_type(row)?;
                Some((self.take(NameMeaning::Variable(row)).ok()?, of))
            }
            _ => None,
        }
    }

    fn rows(&self, name: &str) -> Result<Option<Variable>, SqlError> {
        let found = self.slots.1.iter().position(|rows| rows.name == name);
        found
            .map(|nth| self.take(NameMeaning::Rows(nth)))
            .transpose()
    }

    fn place(&self, cursor: &str, (table, oid): (&str, u32)) -> Option<Variable> {
        let named = self.code.named(self.scope, &[cursor.to_owned()]);
        let Some(NameMeaning::Variable(variable)) = named else {
            return None;
        };
        self.code.is_cursor(variable).then_some(())?;
        self.take(NameMeaning::Place(variable, table.to_owned(), oid))
            .ok()
    }

    fn prefer(&self) -> NamePriority {
        self.code.prefer
    }
}

/// The scope in which the names of a statement are resolved.
#[derive(Clone, Copy)]
pub struct NameScope<'a> {
    pub code: &'a Code,
    pub scope: usize,
    pub slots: &'a Slots,
    /// Whether it is the query of a cursor.
    pub cursor: bool,
}

impl Drop for PreparedBody {
    fn drop(&mut self) {
        if self.deep.is_deep() {
            let nothing = Body::Value(Expr::constant(Type::UNKNOWN, Value::Null), String::new());
            let body = std::mem::replace(&mut self.body, nothing);
            roomy(|| drop(body));
        }
    }
}

impl PreparedBody {
    /// Binds and plans the single statement of a text. `given` are the types of its parameters.
    pub fn of(
        text: &str,
        given: &[Type],
        place: Option<NameScope<'_>>,
        cx: (&Cx<'_>, &Snapshot),
    ) -> Result<PreparedBody, SqlError> {
        on_large_stack(|| PreparedBody::made(text, given, place, cx))
    }

    fn made(
        text: &str,
        given: &[Type],
        place: Option<NameScope<'_>>,
        (cx, snapshot): (&Cx<'_>, &Snapshot),
    ) -> Result<PreparedBody, SqlError> {
        let mut statements = parser::parse(text)?;
        let Some(parsed) = statements.pop() else {
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, "an empty statement"));
        };
        if !statements.is_empty() {
            return Err(SqlError::unsupported("several statements in one EXECUTE"));
        }
        let mut types = ParamTypes::declared(given.to_vec());
        let cursor = place.as_ref().is_some_and(|place| place.cursor);
        let seen = place.map(|place| VisibleVariables {
            code: place.code,
            scope: place.scope,
            slots: place.slots,
            before: given.len(),
            taken: RefCell::default(),
        });
        let variables = seen.as_ref().map(|seen| seen as &dyn Variables);
        let mut bound = bind_among(&parsed, snapshot, (&mut types, variables), cx.eval)?;
        if let (Statement::Select(select), true) = (&mut bound, cursor) {
            select.places = true;
        }
        let references = seen.map_or_else(Vec::new, |seen| seen.taken.into_inner());
        if types.len() > given.len() + references.len() {
            return Err(SqlError::new(
                SqlState::UNDEFINED_PARAMETER,
                format!("there is no parameter ${}", given.len() + 1),
            ));
        }
        let depends = types.dependencies(snapshot.version());
        let mut prepared =
            PreparedBody::planned(bound, references, depends, PlanContext::of(cx.eval))?;
        prepared.within = cx.eval.within.clone();
        Ok(prepared)
    }

    /// Plans a statement.
    pub fn planned(
        bound: Statement,
        references: Vec<(NameMeaning, Type)>,
        depends: Dependencies,
        cx: PlanContext<'_>,
    ) -> Result<PreparedBody, SqlError> {
        check_supported(&bound)?;
        let of = |column: ResultColumn| (column.name, column.ty);
        let columns = bound.columns().map(|c| c.into_iter().map(of).collect());
        let goes_back = matches!(&bound, Statement::Select(select) if goes_back(select));
        let body = match plan(bound, cx) {
            Ok(Plan::Row(mut row))
                if row.visible == 1
                    && row.queries.is_none()
                    && depends.is_empty()
                    && !is_roomy() =>
            {
                let target = row.targets.swap_remove(0);
                Body::Value(target.expr, target.name)
            }
            Ok(plan) => Body::Planned(Box::new(CachedPlan {
                used: plan.used(&depends),
                plan,
                columns,
                depends,
                goes_back,
                deep: StackDepth::now(),
            })),
            Err(utility) => Body::Utility(utility),
        };
        Ok(PreparedBody {
            body,
            references,
            within: None,
            deep: StackDepth::now(),
        })
    }
}

/// Locks the tables of a plan, and adds the objects it uses to the read set. Returns false if an
/// object has changed since planning.
pub async fn guard(planned: &CachedPlan, cx: &mut Cx<'_>) -> Result<bool, StatementStop> {
    if let Some(locks) = &cx.eval.advisory {
        let database = cx.eval.database_oid();
        if !locks.use_at_once(database, &planned.used.locks) {
            locks.use_tables(database, &planned.used.locks).await?;
        }
    }
    let catalog = cx.eval.database_catalog.as_deref();
    let hold = planned.used.others;
    if !planned.depends.hold(cx.tx, catalog, hold).await? {
        return Ok(false);
    }
    for (table, hold) in planned.used.guarded() {
        if !guard_table(cx.tx, table, hold).await? {
            return Ok(false);
        }
    }
    for routine in planned.plan.routines() {
        let routine: &RoutineDef = routine;
        if !guard_routine(cx.tx, routine, hold).await? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns the catalog to plan with. With `again`, it is the newest that the transaction sees.
pub async fn snapshot(cx: &mut Cx<'_>, again: bool) -> Result<Arc<Snapshot>, StatementStop> {
    match (again, &cx.eval.database_catalog) {
        (true, Some(catalog)) if !cx.eval.has_private() => {
            let catalog = Arc::clone(catalog);
            catalog.snapshot(cx.tx).await
        }
        _ => Ok(cx.eval.catalog()),
    }
}

/// Prepares a statement by `prepare`. If that fails, tries again with a newer catalog.
pub async fn prepared_by(
    cx: &mut Cx<'_>,
    again: bool,
    prepare: &(dyn Fn(&Cx<'_>, &Snapshot) -> Result<PreparedBody, SqlError> + Send + Sync),
) -> Result<Arc<PreparedBody>, StatementStop> {
    let known = snapshot(cx, again).await?;
    let error = match prepare(cx, &known) {
        Ok(prepared) => return Ok(Arc::new(prepared)),
        Err(error) if again => return Err(error.into()),
        Err(error) => error,
    };
    let newest = snapshot(cx, true).await?;
    match newest.version() == known.version() {
        true => Err(error.into()),
        false => Ok(Arc::new(prepare(cx, &newest)?)),
    }
}

/// Prepares and guards a statement by `prepare`, or reuses the prepared statement `cached`.
pub async fn ready(
    cx: &mut Cx<'_>,
    cached: Option<Arc<PreparedBody>>,
    prepare: &(dyn Fn(&Cx<'_>, &Snapshot) -> Result<PreparedBody, SqlError> + Send + Sync),
) -> Result<Arc<PreparedBody>, StatementStop> {
    let mut prepared = match cached {
        Some(cached) => cached,
        None => prepared_by(cx, false, prepare).await?,
    };
    for _ in 0..PLANS_MAX {
        let Body::Planned(planned) = &prepared.body else {
            return Ok(prepared);
        };
        if guard(planned, cx).await? {
            return Ok(prepared);
        }
        prepared = prepared_by(cx, true, prepare).await?;
    }
    Err(StatementStop::Stale)
}

/// Runs a guarded plan. Returns at most `wanted` rows of a query, and the number of rows read or
/// changed.
pub async fn run(
    planned: &CachedPlan,
    params: &[Value],
    owner: &Owner,
    cx: &mut Cx<'_>,
    wanted: usize,
) -> Result<(Rows, u64), StatementStop> {
    let plan = &planned.plan;
    let refused = match plan {
        Plan::CopyIn(_) => Some("COPY FROM"),
        Plan::CopyOut(..) => Some("COPY TO"),
        _ => None,
    };
    if let Some(refused) = refused {
        let message = format!("{refused} in a function");
        return Err(SqlError::unsupported(message).into());
    }
    if plan.is_write() {
        if !owner.writes {
            let message = format!(
                "{} is not allowed in a non-volatile function",
                plan.command()
            );
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message).into());
        }
        if cx.tx.mode() == Mode::ReadOnly {
            return Err(SqlError::read_only(plan.command()).into());
        }
    }
    let mut sink = RowsSink::default();
    let mut execution = Execution::default();
    let mut inner = cx.within(params);
    let step = match plan {
        Plan::Row(_) | Plan::Point(_) | Plan::Select(_) => CHUNK.min(wanted),
        _ => 0,
    };
    let mut kept = 0;
    let count = loop {
        let run = execution.run(plan, &mut inner, &mut sink, step);
        let ran = match planned.deep.is_deep() {
            true => polled(run).await,
            false => run.await,
        };
        let progress = match ran {
            Ok(progress) => progress,
            Err(halt) => {
                execution.close(&mut inner);
                return Err(halt);
            }
        };
        sink.count(&mut inner)?;
        // The memory of the rows must outlive the plan.
        kept += std::mem::take(&mut inner.held);
        match progress {
            Progress::Done(count) if step == 0 => break count,
            Progress::Done(_) => break sink.rows.len() as u64,
            Progress::Suspended if sink.rows.len() >= wanted => {
                execution.close(&mut inner);
                break sink.rows.len() as u64;
            }
            Progress::Suspended => {}
        }
    };
    cx.held += kept;
    let mut rows = Rows {
        columns: planned.columns.clone().unwrap_or_default(),
        rows: sink.rows,
        of: None,
        places: Vec::new(),
        goes_back: planned.goes_back,
    };
    if let Plan::Select(SelectPlan {
        places: Some(table),
        ..
    }) = plan
    {
        rows.of = Some(*table);
        rows.places = rows.rows.iter_mut().filter_map(Vec::pop).collect();
    }
    Ok((rows, count))
}

/// Returns whether an error is internal: the session handles it and reports it to no client.
pub fn is_inner(error: &SqlError) -> bool {
    wanted_range(error).is_some()
}

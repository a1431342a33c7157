//! The execution of subqueries in expressions.
//!
//! `functions::eval` knows rows and parameters, and never waits. An expression with a subquery is
//! evaluated here instead, node by node down to its subqueries. The order of evaluation and the
//! short-circuit rules are those of `eval`. Parts without subqueries go to `eval`. The rows of a
//! subquery are materialized together with its arguments, so that it runs again only if the
//! arguments have changed. A subquery without arguments runs once in a statement.
//!
//! Only statements with such subqueries have [`Queries`]; other statements do not use this module.

mod keyed;

use std::sync::Arc;

use fencepost_sql::bound::{BoolTest, Cte, Expr, Node, Subquery, SubqueryKind};
use fencepost_sql::error::{SqlError, SqlState};
use fencepost_sql::functions::{ScalarFunction, compare};
use fencepost_sql::stop::StatementStop;
use fencepost_sql::value::{Array, Value};
use fencepost_txn::{Isolation, Work};
use foldhash::{HashMap, HashSet};

use super::batch::Batch;
use super::collected_memory::CollectedMemory;
use super::cx::Cx;
use super::join::push_comparable;
use super::select::SelectState;
use crate::slots::Slots;
use crate::subplans::Subplans;
use crate::terms::{member_test, reads_only};
use keyed::{Lookup, Wanted};

const CHUNK: usize = 1024;

/// The future of a value.
pub type Evaluation<'a> = Work<'a, Result<Value, StatementStop>>;

/// The state of the subqueries in expressions of a running statement.
#[derive(Debug)]
pub struct Queries {
    plans: Arc<Subplans>,
    /// The parameters, followed by the outer slots in reverse order.
    pub params: Vec<Value>,
    cached_rows: Vec<CachedRows>,
    /// The rows of the last iteration of each recursive query.
    pub works: HashMap<usize, Arc<Batch>>,
}

/// The materialized rows of the last run of a subquery.
#[derive(Debug, Default)]
struct CachedRows {
    /// The arguments of the last run, and the other outer values that it has read; `None` if it has
    /// not run.
    args: Option<Vec<Value>>,
    rows: Batch,
    /// The hash table of its values, if only membership tests use the subquery.
    members: Option<Members>,
    /// How other tests of ANY find rows.
    lookup: Lookup,
    gathered: CollectedMemory,
}

/// The values of a subquery's one column.
#[derive(Debug, Default)]
struct Members {
    keys: HashSet<Vec<u8>>,
    /// The same values, without duplicates.
    values: Vec<Value>,
    null: bool,
}

impl Queries {
    /// Creates the state before any subquery has run.
    pub fn new(plans: &Arc<Subplans>, params: &[Value]) -> Queries {
        let mut all = params.to_vec();
        all.resize(params.len() + plans.outer_slots, Value::Null);
        Queries {
            plans: Arc::clone(plans),
            params: all,
            cached_rows: Vec::new(),
            works: HashMap::default(),
        }
    }

    /// Stores the RETURNING rows of a data-modifying WITH statement.
    pub fn keep(&mut self, id: usize, rows: Batch) {
        let cached = self.cached_rows(id);
        cached.args = Some(Vec::new());
        cached.rows = rows;
    }

    /// Sets an outer slot.
    pub fn set(&mut self, slot: usize, value: Value) {
        let place = self.params.len().checked_sub(slot + 1);
        if let Some(place) = place.and_then(|place| self.params.get_mut(place)) {
            *place = value;
        }
    }

    /// Adds the values of the outer slots on which the rows of a subquery depend, besides those of
    /// its arguments.
    fn add_free(&self, id: usize, slots: &[usize], args: &mut Vec<Value>) {
        for slot in self
            .plans
            .free(id)
            .iter()
            .filter(|slot| !slots.contains(slot))
        {
            let place = self.params.len().checked_sub(slot + 1);
            args.extend(place.and_then(|place| self.params.get(place)).cloned());
        }
    }

    fn cached_rows(&mut self, id: usize) -> &mut CachedRows {
        if self.cached_rows.len() <= id {
            self.cached_rows.resize_with(id + 1, CachedRows::default);
        }
        &mut self.cached_rows[id]
    }
}

impl Cx<'_> {
    /// Evaluates `expr` over `row`, including its subqueries.
    pub fn deep_value<'a>(&'a mut self, expr: &'a Expr, row: &'a [Value]) -> Evaluation<'a> {
        Box::pin(async move {
            if !expr.has_subquery() {
                return Ok(self.value(expr, row).await?);
            }
            match &expr.node {
                Node::Subquery(sub) => self.query(sub, row, Wanted::Value).await,
                Node::BoolTest {
                    test: BoolTest::True,
                    negated: false,
                    input,
                } if let Node::Subquery(sub) = &input.node => {
                    let value = self.query(sub, row, Wanted::Truth).await?;
                    Ok(Value::Bool(value.as_bool() == Some(true)))
                }
                Node::Routine(call) => self.call_value(call, row).await,
                Node::And(parts) => self.junction(parts, true, row).await,
                Node::Or(parts) => self.junction(parts, false, row).await,
                Node::Coalesce(args) => {
                    for arg in args {
                        let value = self.deep_value(arg, row).await?;
                        if !value.is_null() {
                            return Ok(value);
                        }
                    }
                    Ok(Value::Null)
                }
                Node::Case { .. } => self.deep_case(expr, row).await,
                Node::Call { function, args } if function.wait.is_some() => {
                    self.waited(function, args, row).await
                }
                _ => self.strict(expr, row).await,
            }
        })
    }

    /// Returns whether `filter` is true for `row`; NULL counts as false.
    pub async fn deep_holds(
        &mut self,
        filter: Option<&Expr>,
        row: &[Value],
    ) -> Result<bool, StatementStop> {
        match filter {
            None => Ok(true),
            Some(filter) => Ok(self.deep_value(filter, row).await?.as_bool() == Some(true)),
        }
    }

    /// Evaluates a node that needs the values of all of its parts: the parts are computed first.
    async fn strict(&mut self, expr: &Expr, row: &[Value]) -> Result<Value, StatementStop> {
        let mut parts = Vec::new();
        expr.for_each_part(|part| parts.push(part));
        let mut values = Vec::with_capacity(parts.len());
        for part in parts {
            values.push(match part.has_subquery() {
                true => Some(self.deep_value(part, row).await?),
                false => None,
            });
        }
        let mut known = expr.clone();
        let mut values = values.into_iter();
        known.for_each_part_mut(|part| {
            if let Some(Some(value)) = values.next() {
                part.node = Node::Const(value);
            }
        });
        Ok(self.value(&known, row).await?)
    }

    /// Evaluates a function that may wait. Other transactions may have committed meanwhile, and the
    /// function often waits for just that. Afterwards the transaction reads the current state, if
    /// its earlier reads are still valid. At READ COMMITTED a statement that only reads keeps its
    /// snapshot, which helper threads may read, too.
    async fn waited(
        &mut self,
        function: &ScalarFunction,
        args: &[Expr],
        row: &[Value],
    ) -> Result<Value, StatementStop> {
        let mut values = Vec::with_capacity(args.len());
        for arg in args {
            values.push(self.deep_value(arg, row).await?);
        }
        let Some(wait) = function.wait else {
            return Err(SqlError::internal("a function that does not wait").into());
        };
        if function.strict && values.iter().any(Value::is_null) {
            return Ok(Value::Null);
        }
        let value = wait(&values, self.eval).await?;
        if !self.only_reads || self.tx.isolation() != Isolation::ReadCommitted {
            self.tx.freshen().await;
        }
        if let Some(exports) = self.eval.exports.as_ref()
            && exports.is_announced()
        {
            exports.keep(self.tx.export_snapshot().await?);
        }
        Ok(value)
    }

    /// Evaluates AND or OR.
    async fn junction(
        &mut self,
        parts: &[Expr],
        and: bool,
        row: &[Value],
    ) -> Result<Value, StatementStop> {
        let mut result = Value::Bool(and);
        for part in parts {
            match self.deep_value(part, row).await?.as_bool() {
                Some(b) if b != and => return Ok(Value::Bool(b)),
                Some(_) => {}
                None => result = Value::Null,
            }
        }
        Ok(result)
    }

    async fn deep_case(&mut self, expr: &Expr, row: &[Value]) -> Result<Value, StatementStop> {
        let Node::Case {
            operand,
            branches,
            otherwise,
        } = &expr.node
        else {
            return Ok(Value::Null);
        };
        let operand = match operand {
            Some((operand, _)) => Some(self.deep_value(operand, row).await?),
            None => None,
        };
        for (when, then) in branches {
            let when = self.deep_value(when, row).await?;
            let chosen = match &operand {
                None => when.as_bool() == Some(true),
                Some(operand) => {
                    !operand.is_null() && !when.is_null() && compare(operand, &when).is_eq()
                }
            };
            if chosen {
                return self.deep_value(then, row).await;
            }
        }
        match otherwise {
            Some(otherwise) => self.deep_value(otherwise, row).await,
            None => Ok(Value::Null),
        }
    }

    /// Fills the outer slots that a relation reads from columns within `slots`, or from none.
    pub fn fill_slots(
        &mut self,
        args: &[(usize, Expr)],
        row: &[Value],
        slots: &Slots,
    ) -> Result<(), StatementStop> {
        for (slot, arg) in args {
            if reads_only(arg, slots) {
                let value = self.value_here(arg, row)?;
                if let Some(queries) = &mut self.queries {
                    queries.set(*slot, value);
                }
            }
        }
        Ok(())
    }

    /// Adds up to `max` rows of a WITH query, starting at `from`, to the slots from `first_slot`
    /// on. Returns false when no more rows follow.
    pub async fn cte_rows(
        &mut self,
        (cte, first_slot): (&Cte, usize),
        from: &mut usize,
        out: &mut Batch,
        max: usize,
    ) -> Result<bool, StatementStop> {
        if *from == 0 {
            let mut args = Vec::with_capacity(cte.args.len());
            for (_, arg) in &cte.args {
                args.push(self.value(arg, &[]).await?);
            }
            let slots: Vec<usize> = cte.args.iter().map(|(slot, _)| *slot).collect();
            self.run_cached((cte.id, &slots), args, usize::MAX, true)
                .await?;
        }
        let rows = &self.cached_rows(cte.id)?.rows;
        let end = rows.len().min(*from + max);
        for i in *from..end {
            let row = &rows.row(i)[..cte.query.visible];
            out.push()[first_slot..][..row.len()].clone_from_slice(row);
        }
        *from = end;
        Ok(end < rows.len())
    }

    /// Returns the value of a subquery.
    async fn query(
        &mut self,
        sub: &Subquery,
        row: &[Value],
        wanted: Wanted,
    ) -> Result<Value, StatementStop> {
        let mut args = Vec::with_capacity(sub.args.len());
        for (_, arg) in &sub.args {
            args.push(self.value(arg, row).await?);
        }
        let value = match &sub.kind {
            SubqueryKind::Scalar { column } => {
                self.run_query(sub, args, 2).await?;
                let rows = &self.cached_rows(sub.id)?.rows;
                match rows.len() {
                    0 => Value::Null,
                    1 => rows.row(0)[*column].clone(),
                    _ => return Err(too_many_rows().into()),
                }
            }
            SubqueryKind::Array => {
                self.run_query(sub, args, usize::MAX).await?;
                let rows = &self.cached_rows(sub.id)?.rows;
                let values = (0..rows.len()).map(|row| rows.row(row)[0].clone());
                Value::from(Array::of(values.collect()))
            }
            SubqueryKind::Exists => {
                self.run_query(sub, args, 1).await?;
                Value::Bool(self.cached_rows(sub.id)?.rows.len() > 0)
            }
            SubqueryKind::Any { all, test, columns } => {
                self.run_query(sub, args, usize::MAX).await?;
                match member_test(test, columns).filter(|_| !all) {
                    Some((input, candidate)) => {
                        let input = self.deep_value(input, row).await?;
                        self.is_member(sub, &input, candidate, columns).await?
                    }
                    None if !all => {
                        // Boxed, so that deeply nested subqueries need less memory.
                        Box::pin(self.any(sub, (test, columns), row, wanted)).await?
                    }
                    None => {
                        let rows = std::mem::take(&mut self.cached_rows(sub.id)?.rows);
                        let of = (true, &**test, columns.as_slice());
                        let value = Box::pin(self.quantified(&rows, of, row)).await;
                        self.cached_rows(sub.id)?.rows = rows;
                        value?
                    }
                }
            }
        };
        if let Some(queries) = &mut self.queries {
            queries.set(sub.result, value.clone());
        }
        Ok(value)
    }

    fn cached_rows(&mut self, id: usize) -> Result<&mut CachedRows, SqlError> {
        match &mut self.queries {
            Some(queries) => Ok(queries.cached_rows(id)),
            None => Err(SqlError::internal("a query without a plan")),
        }
    }

    /// Ensures that the rows of the subquery under these arguments are materialized: all of them,
    /// or the first `wanted`.
    async fn run_query(
        &mut self,
        sub: &Subquery,
        args: Vec<Value>,
        wanted: usize,
    ) -> Result<(), StatementStop> {
        let slots: Vec<usize> = sub.args.iter().map(|(slot, _)| *slot).collect();
        let again = args.is_empty() || !sub.volatile;
        self.run_cached((sub.id, &slots), args, wanted, again).await
    }

    /// Runs as [`Cx::run_query`] does. `again` states whether materialized rows may be reused.
    async fn run_cached(
        &mut self,
        (id, slots): (usize, &[usize]),
        mut args: Vec<Value>,
        wanted: usize,
        again: bool,
    ) -> Result<(), StatementStop> {
        if let Some(queries) = &self.queries {
            queries.add_free(id, slots, &mut args);
        }
        let cached = self.cached_rows(id)?;
        if again && cached.args.as_ref() == Some(&args) {
            return Ok(());
        }
        let mut cached = std::mem::take(cached);
        cached.members = None;
        cached.lookup = Lookup::Unknown;
        cached.gathered.restart();
        let Some(queries) = &mut self.queries else {
            return Err(SqlError::internal("a query without a plan").into());
        };
        for (slot, value) in slots.iter().zip(&args) {
            queries.set(*slot, value.clone());
        }
        let plans = Arc::clone(&queries.plans);
        let Some(plan) = plans.get(id) else {
            return Err(SqlError::internal("a query without a plan").into());
        };
        let mut state = SelectState::new(plan);
        if cached.rows.width() == plan.targets.len() {
            cached.rows.clear();
        } else {
            cached.rows = Batch::new(plan.targets.len());
        }
        while cached.rows.len() < wanted {
            let from = cached.rows.len();
            let max = CHUNK.min(wanted - from);
            let more = state.next(plan, self, &mut cached.rows, max).await?;
            cached.gathered.add_rows(self, &cached.rows, from)?;
            if !more {
                break;
            }
        }
        cached.args = Some(args);
        *self.cached_rows(id)? = cached;
        Ok(())
    }

    /// Runs a subquery that the keys of a scan read.
    pub fn run_init<'a>(&'a mut self, init: &'a Expr) -> Work<'a, Result<(), StatementStop>> {
        Box::pin(async move {
            if let Node::Subquery(sub) = &init.node
                && let SubqueryKind::Any { test, columns, .. } = &sub.kind
                && let Some((input, candidate)) = member_test(test, columns)
                && input.has_columns()
            {
                let mut args = Vec::with_capacity(sub.args.len());
                for (_, arg) in &sub.args {
                    args.push(self.value(arg, &[]).await?);
                }
                self.run_query(sub, args, usize::MAX).await?;
                return self.find_members(sub.id, candidate, columns).await;
            }
            self.deep_value(init, &[]).await?;
            Ok(())
        })
    }

    /// Returns the values of a subquery that [`Cx::run_init`] has run.
    pub fn members(&self, condition: &Expr) -> &[Value] {
        let Node::Subquery(sub) = &condition.node else {
            return &[];
        };
        let cached = self
            .queries
            .as_ref()
            .and_then(|q| q.cached_rows.get(sub.id));
        cached
            .and_then(|cached| cached.members.as_ref())
            .map_or(&[], |members| &members.values)
    }

    /// Builds the hash table of a subquery's rows.
    async fn find_members(
        &mut self,
        id: usize,
        candidate: &Expr,
        columns: &[usize],
    ) -> Result<(), StatementStop> {
        if self.cached_rows(id)?.members.is_some() {
            return Ok(());
        }
        let mut cached = std::mem::take(self.cached_rows(id)?);
        let mut members = Members::default();
        let mut key = Vec::new();
        for i in 0..cached.rows.len() {
            self.breathe().await?;
            if let (Some(queries), [slot, ..]) = (&mut self.queries, columns) {
                queries.set(*slot, cached.rows.row(i)[0].clone());
            }
            let value = self.value(candidate, &[]).await?;
            if value.is_null() {
                members.null = true;
                continue;
            }
            key.clear();
            push_comparable(&value, &mut key);
            if !members.keys.contains(&key) {
                cached.gathered.add_entry(self, 2 * key.len())?;
                members.keys.insert(key.clone());
                members.values.push(value);
            }
        }
        cached.members = Some(members);
        *self.cached_rows(id)? = cached;
        Ok(())
    }

    /// Evaluates `input = ANY (…)` with a hash table of the candidates.
    async fn is_member(
        &mut self,
        sub: &Subquery,
        input: &Value,
        candidate: &Expr,
        columns: &[usize],
    ) -> Result<Value, StatementStop> {
        self.find_members(sub.id, candidate, columns).await?;
        let cached = self.cached_rows(sub.id)?;
        let Some(members) = cached.members.as_ref().filter(|_| cached.rows.len() > 0) else {
            return Ok(Value::Bool(false));
        };
        if input.is_null() {
            return Ok(Value::Null);
        }
        let mut key = Vec::new();
        push_comparable(input, &mut key);
        Ok(match members.keys.contains(&key) {
            true => Value::Bool(true),
            false if members.null => Value::Null,
            false => Value::Bool(false),
        })
    }

    /// Evaluates ANY or ALL, row by row.
    async fn quantified(
        &mut self,
        rows: &Batch,
        (all, test, columns): (bool, &Expr, &[usize]),
        row: &[Value],
    ) -> Result<Value, StatementStop> {
        let mut result = Value::Bool(all);
        for i in 0..rows.len() {
            self.breathe().await?;
            self.set_columns(columns, rows.row(i));
            match self.deep_value(test, row).await?.as_bool() {
                Some(b) if b != all => return Ok(Value::Bool(b)),
                Some(_) => {}
                None => result = Value::Null,
            }
        }
        Ok(result)
    }
}

#[cold]
fn too_many_rows() -> SqlError {
    SqlError::new(
        SqlState::CARDINALITY_VIOLATION,
        "more than one row returned by a subquery used as an expression",
    )
}

//! Loops over numbers, rows and arrays.

use std::borrow::Cow;
use std::sync::Arc;

use fencepost_sql::error::{SqlError, SqlState};
use fencepost_sql::parser;
use fencepost_sql::plpgsql::{Code, Op, RowSource, Target, VariableKind};
use fencepost_sql::stop::StatementStop;
use fencepost_sql::types::{Type, checked_text};
use fencepost_sql::value::{Array, Value};

use super::machine::BodyExecution;
use super::prepared::{self, Body as What, PreparedBody, prepared_by};
use super::returned::fit;
use super::rows::Rows;
use crate::exec::Cx;

/// The state of a loop.
#[derive(Debug, Default)]
pub enum Loop {
    /// No loop runs.
    #[default]
    None,
    /// A loop over integers: the next one, the last one, and the step.
    Range { next: i64, last: i64, step: i64 },
    /// A loop over rows: those that are left.
    Rows {
        columns: Vec<(String, Type)>,
        rows: std::vec::IntoIter<Vec<Value>>,
        any: bool,
        /// The cursor that the loop reads, if it is a cursor loop.
        cursor: Option<LoopCursor>,
    },
    /// A loop over an array: the values that are left, and their type.
    Array {
        values: std::vec::IntoIter<Value>,
        ty: Type,
        any: bool,
    },
}

/// The cursor of a loop, open while the loop runs.
#[derive(Debug)]
pub struct LoopCursor {
    name: Box<str>,
    serial: u64,
    /// The variable that holds the cursor's generated name while the loop runs.
    unnamed: Option<usize>,
}

impl BodyExecution {
    /// Starts a loop, runs its next iteration, or ends it.
    pub async fn loop_step(&mut self, op: &Op, cx: &mut Cx<'_>) -> Result<(), StatementStop> {
        match op {
            Op::RangeStart {
                register,
                low,
                high,
                step,
                reverse,
            } => {
                let low = self.bound(*low, "lower bound", cx).await?;
                let high = self.bound(*high, "upper bound", cx).await?;
                let step = match step {
                    None => 1,
                    Some(step) => self.bound(*step, "BY value", cx).await?,
                };
                if step <= 0 {
                    return Err(SqlError::new(
                        SqlState::INVALID_PARAMETER_VALUE,
                        "BY value of FOR loop must be greater than zero",
                    )
                    .into());
                }
                self.loops[*register] = Loop::Range {
                    next: low,
                    last: high,
                    step: if *reverse { -step } else { step },
                };
                self.any(false);
            }
            Op::RangeNext {
                register,
                variable,
                exit,
            } => {
                let Loop::Range { next, last, step } = &mut self.loops[*register] else {
                    return Err(SqlError::internal("a loop that has not begun").into());
                };
                let over = if *step > 0 {
                    *next > *last
                } else {
                    *next < *last
                };
                if over {
                    self.next = *exit;
                    return Ok(());
                }
                let value = Value::Int4(*next as i32);
                *next += *step;
                self.slots.put(*variable, value);
                self.any(true);
            }
            Op::RowsStart { register, source } => {
                let mut rows = self.rows_of(source, cx).await?;
                let values = std::mem::take(&mut rows.rows).into_iter();
                let columns = rows.columns.clone();
                let cursor = match source {
                    RowSource::Cursor(cursor, _) => Some(self.loop_over(*cursor, rows, cx)?),
                    _ => {
                        cx.scratch.routines.portals.count_unnamed();
                        None
                    }
                };
                self.loops[*register] = Loop::Rows {
                    columns,
                    rows: values,
                    any: false,
                    cursor,
                };
            }
            Op::RowsNext {
                register,
                into,
                exit,
            } => {
                let Loop::Rows {
                    columns,
                    rows,
                    any,
                    cursor,
                } = &mut self.loops[*register]
                else {
                    return Err(SqlError::internal("a loop that has not begun").into());
                };
                let row = rows.next();
                let columns = columns.clone();
                *any |= row.is_some();
                let (over, any) = (row.is_none(), *any);
                if let Some(cursor) = cursor
                    && let Some(open) = cx.scratch.routines.portals.get_mut(&cursor.name)
                {
                    open.step();
                }
                if over {
                    self.next = *exit;
                    if !any {
                        self.assign_row(into, None, &columns, cx).await?;
                    }
                    self.any(any);
                    return Ok(());
                }
                self.assign_row(into, row, &columns, cx).await?;
            }
            Op::ArrayStart {
                register,
                array,
                slice,
            } => {
                let (value, ty) = self.value(*array, cx).await?;
                self.loops[*register] = array_loop(value, ty, *slice)?;
            }
            Op::ArrayNext {
                register,
                target,
                exit,
            } => {
                let Loop::Array { values, ty, any } = &mut self.loops[*register] else {
                    return Err(SqlError::internal("a loop that has not begun").into());
                };
                let ty = *ty;
                let Some(value) = values.next() else {
                    let any = *any;
                    self.next = *exit;
                    self.any(any);
                    return Ok(());
                };
                *any = true;
                self.assign(target, value, ty, cx).await?;
            }
            Op::LoopEnd { register } => {
                self.end_loop(*register, cx);
            }
            _ => {}
        }
        Ok(())
    }

    /// Opens the cursor of a loop for as long as the loop runs.
    fn loop_over(
        &mut self,
        cursor: usize,
        rows: Rows,
        cx: &mut Cx<'_>,
    ) -> Result<LoopCursor, SqlError> {
        let portals = &mut cx.scratch.routines.portals;
        let named = self.slots.get(cursor);
        let (name, unnamed) = match named.as_text() {
            Some(name) => (name.to_owned(), None),
            None => (portals.unnamed(), Some(cursor)),
        };
        let text = query_of(&self.body.code, cursor);
        let serial = portals.open(&name, (rows, text), (cx.tx.machine(), cx.eval))?;
        if unnamed.is_some() {
            self.slots.put(cursor, Value::text(name.as_str()));
        }
        Ok(LoopCursor {
            name: name.into(),
            serial,
            unnamed,
        })
    }

    /// Ends a loop.
    fn end_loop(&mut self, register: usize, cx: &mut Cx<'_>) {
        if let Loop::Rows {
            cursor: Some(over), ..
        } = std::mem::take(&mut self.loops[register])
        {
            let portals = &mut cx.scratch.routines.portals;
            portals.close_one(&over.name, over.serial);
            if let Some(cursor) = over.unnamed {
                self.slots.put(cursor, Value::Null);
            }
        }
    }

    /// Ends all loops, when control leaves the body.
    pub fn end_loops(&mut self, cx: &mut Cx<'_>) {
        for register in 0..self.loops.len() {
            self.end_loop(register, cx);
        }
    }

    /// Sets FOUND, without ROW_COUNT.
    fn any(&mut self, any: bool) {
        let found = self.body.code.found;
        self.slots.put(found, Value::Bool(any));
    }

    async fn bound(
        &mut self,
        text: usize,
        what: &str,
        cx: &mut Cx<'_>,
    ) -> Result<i64, StatementStop> {
        let (value, ty) = self.value(text, cx).await?;
        let value = fit(value, &ty, &Type::INT4, cx.eval)?;
        value.as_int().ok_or_else(|| {
            let message = format!("{what} of FOR loop cannot be null");
            SqlError::new(SqlState::new(b"22004"), message).into()
        })
    }

    /// Returns all rows of a query, or of a cursor that is opened for the loop.
    pub async fn rows_of(
        &mut self,
        source: &RowSource,
        cx: &mut Cx<'_>,
    ) -> Result<Rows, StatementStop> {
        match source {
            RowSource::Query(text) => {
                let prepared = self.ready(*text, cx).await?;
                let params = self.params(&prepared, cx)?;
                Ok(self.all_rows(&prepared, &params, cx).await?)
            }
            RowSource::Dynamic(text, using) => {
                let (prepared, params) = self.dynamic(*text, using, cx).await?;
                self.all_rows(&prepared, &params, cx).await
            }
            RowSource::Cursor(cursor, given) => {
                let body = Arc::clone(&self.body);
                let of = &body.code.variables[*cursor];
                if let Some(name) = self.slots.get(*cursor).as_text() {
                    let portals = &cx.scratch.routines.portals;
                    portals.check_free(name, cx.eval)?;
                }
                let VariableKind::Cursor { args, query, .. } = &of.kind else {
                    return Err(SqlError::internal("a cursor without a query").into());
                };
                for (arg, value) in args.iter().zip(given) {
                    let (value, ty) = self.value(*value, cx).await?;
                    let target = Target::Variable(*arg);
                    self.assign(&target, value, ty, cx).await?;
                }
                let prepared = self.ready(*query, cx).await?;
                let params = self.params(&prepared, cx)?;
                self.all_rows(&prepared, &params, cx).await
            }
        }
    }

    /// Returns all rows of a statement.
    pub async fn all_rows(
        &mut self,
        prepared: &PreparedBody,
        params: &[Value],
        cx: &mut Cx<'_>,
    ) -> Result<Rows, StatementStop> {
        match &prepared.body {
            What::Value(expr, name) => Ok(Rows {
                columns: vec![(name.clone(), expr.ty)],
                rows: vec![vec![cx.value_with(expr, params).await?]],
                ..Rows::default()
            }),
            What::Planned(planned) if planned.columns.is_some() => {
                let owner = self.body.owner.clone();
                let (rows, _) = prepared::run(planned, params, &owner, cx, usize::MAX).await?;
                Ok(rows)
            }
            _ => Err(SqlError::new(
                SqlState::new(b"42P11"),
                "cannot open a query that returns no rows as cursor",
            )
            .into()),
        }
    }

    /// Prepares the statement of an EXECUTE. Returns it with its parameters.
    pub async fn dynamic(
        &mut self,
        text: usize,
        using: &[usize],
        cx: &mut Cx<'_>,
    ) -> Result<(Arc<PreparedBody>, Vec<Value>), StatementStop> {
        let text = self.dynamic_text(text, cx).await?;
        self.dynamic_of(&text, using, cx).await
    }

    /// Evaluates the text of an EXECUTE.
    pub async fn dynamic_text(
        &mut self,
        text: usize,
        cx: &mut Cx<'_>,
    ) -> Result<String, StatementStop> {
        let (value, ty) = self.value(text, cx).await?;
        if value.is_null() {
            return Err(SqlError::new(
                SqlState::new(b"22004"),
                "query string argument of EXECUTE is null",
            )
            .into());
        }
        Ok(checked_text(&value, &ty, &cx.eval.settings)?)
    }

    /// Prepares a statement of an EXECUTE from its text. Returns it with its parameters.
    pub async fn dynamic_of(
        &mut self,
        text: &str,
        using: &[usize],
        cx: &mut Cx<'_>,
    ) -> Result<(Arc<PreparedBody>, Vec<Value>), StatementStop> {
        let (mut params, mut types) = (Vec::new(), Vec::new());
        for value in using {
            let (value, ty) = self.value(*value, cx).await?;
            types.push(if ty == Type::UNKNOWN { Type::TEXT } else { ty });
            params.push(value);
        }
        let prepare = |cx: &Cx<'_>, snapshot: &fencepost_sql::catalog::Snapshot| {
            let made = PreparedBody::of(text, &types, None, (cx, snapshot));
            made.map_err(SqlError::without_position)
        };
        let mut prepared = prepared::ready(cx, None, &prepare).await?;
        if matches!(&prepared.body, What::Utility(_)) {
            prepared = prepared_by(cx, true, &prepare).await?;
        }
        Ok((prepared, params))
    }

    /// Runs EXECUTE, which leaves FOUND unchanged.
    pub async fn run_dynamic(
        &mut self,
        (prepared, params): (Arc<PreparedBody>, Vec<Value>),
        into: Option<&fencepost_sql::plpgsql::IntoClause>,
        cx: &mut Cx<'_>,
    ) -> Result<(), StatementStop> {
        let found = self.slots.get(self.body.code.found);
        // Without INTO, EXECUTE discards its rows.
        let place = (into, into.is_none());
        Box::pin(self.run_prepared(&prepared, &params, place, cx)).await?;
        self.slots.put(self.body.code.found, found);
        Ok(())
    }
}

/// Splits the text of an EXECUTE into statements.
pub fn statements_of(text: &str) -> Result<Vec<Cow<'_, str>>, SqlError> {
    if text.contains(';') {
        let parsed = parser::parse(text)?;
        if parsed.len() > 1 {
            let texts = parsed.into_iter().map(|of| Cow::Owned(of.text));
            return Ok(texts.collect());
        }
    }
    Ok(vec![Cow::Borrowed(text)])
}

/// Returns the query of a bound cursor variable.
pub fn query_of(code: &Code, cursor: usize) -> &str {
    match code.variables[cursor].kind {
        VariableKind::Cursor { query, .. } => &code.texts[query].sql,
        _ => "",
    }
}

/// Returns the loop over the elements of an array, or over its slices of `slice` dimensions.
fn array_loop(value: Value, ty: Type, slice: usize) -> Result<Loop, SqlError> {
    let Some(element) = ty.element() else {
        let message = format!("FOREACH expression must yield an array, not type {ty}");
        return Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message));
    };
    let Value::Array(array) = value else {
        return Err(SqlError::new(
            SqlState::new(b"22004"),
            "FOREACH expression must not be null",
        ));
    };
    if slice > array.dims.len() {
        return Err(SqlError::new(
            SqlState::ARRAY_SUBSCRIPT_ERROR,
            format!(
                "slice dimension ({slice}) is out of the valid range 0..{}",
                array.dims.len()
            ),
        ));
    }
    if slice == 0 {
        return Ok(Loop::Array {
            values: array.values.into_iter(),
            ty: element,
            any: false,
        });
    }
    let dims = array.dims[array.dims.len() - slice..].to_vec();
    let size: usize = dims.iter().map(|dim| dim.len.max(1) as usize).product();
    let slices = array.values.chunks(size).map(|values| {
        Value::from(Array {
            dims: dims.clone(),
            values: values.to_vec(),
        })
    });
    Ok(Loop::Array {
        values: slices.collect::<Vec<Value>>().into_iter(),
        ty,
        any: false,
    })
}

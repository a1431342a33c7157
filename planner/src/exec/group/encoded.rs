//! Grouping of encoded rows: of a scan whose rows are only grouped.
//!
//! ```text
//! encoded row ─┬▶ key columns ─▶ group
//!              ├▶ columns, numbers ─▶ accumulators of the group
//!              └▶ columns of other keys and arguments ─▶ values ─▶ both
//! ```
//! Only the columns become values that keys, and arguments without a form of their own, need.

use fencepost_sql::bound::{Aggregate, AggregateKind, Expr, Grouping, Node};
use fencepost_sql::context::EvalContext;
use fencepost_sql::error::SqlError;
use fencepost_sql::functions::{Accumulator, eval};
use fencepost_sql::row::RowReader;
use fencepost_sql::stop::StatementStop;
use fencepost_sql::types::TypeKind;
use fencepost_sql::value::Value;

use super::super::cx::Cx;
use super::super::encoded_number::NumberExpr;
use super::super::row_filter::Cutoff;
use super::super::scan::{EncodedNext, EncodedRows, ScanState};
use super::first::FirstGroups;
use super::{Groups, grows};
use crate::exec::join::push_comparable;
use crate::plan::Scan;

/// The number of rows after which the memory of new groups is charged.
const CHUNK: usize = 1024;

/// A grouping as it is computed from encoded rows.
struct EncodedGrouping {
    keys: Vec<Key>,
    arguments: Vec<Argument>,
    /// The columns that become values in a row, for the keys and arguments that are evaluated.
    columns: Vec<usize>,
}

/// A key of a group.
enum Key {
    Column(usize),
    /// The expression of the grouping at this position.
    Evaluated(usize),
}

/// The argument of an aggregate.
enum Argument {
    /// None: `count(*)`.
    Row,
    /// A column of which only NULLs matter.
    Presence(usize),
    /// An integer column of a sum.
    Integer(usize),
    /// A numeric of a sum.
    Number(NumberExpr),
    /// A column that is decoded.
    Value(usize),
    /// All expressions of the aggregate, over a row of values.
    Evaluated,
}

impl EncodedGrouping {
    /// Converts a grouping. Returns `None` if it needs decoded rows.
    fn new(grouping: &Grouping, scan: &Scan, params: &[Value]) -> Option<EncodedGrouping> {
        if !grouping.sets.is_empty() {
            return None;
        }
        let mut columns = Vec::new();
        let mut keys = Vec::with_capacity(grouping.keys.len());
        for (nth, key) in grouping.keys.iter().enumerate() {
            keys.push(match column(key, scan) {
                Some(column) => Key::Column(column),
                None => {
                    add_columns(key, scan, &mut columns)?;
                    Key::Evaluated(nth)
                }
            });
        }
        let mut arguments = Vec::with_capacity(grouping.aggregates.len());
        for aggregate in &grouping.aggregates {
            arguments.push(match argument(aggregate, scan, params) {
                Some(argument) => argument,
                None => {
                    let exprs = aggregate.args.iter().chain(&aggregate.filter);
                    let mut exprs = exprs.chain(aggregate.order_by.iter().map(|(key, ..)| key));
                    exprs.try_for_each(|expr| add_columns(expr, scan, &mut columns))?;
                    Argument::Evaluated
                }
            });
        }
        columns.sort_unstable();
        columns.dedup();
        let encoded = EncodedGrouping {
            keys,
            arguments,
            columns,
        };
        // Without columns, rows are counted and not read.
        (!scan.columns.is_empty() || encoded.only_counts()).then_some(encoded)
    }

    /// Returns whether the grouping only counts all rows.
    fn only_counts(&self) -> bool {
        let mut arguments = self.arguments.iter();
        self.keys.is_empty() && arguments.all(|argument| matches!(argument, Argument::Row))
    }
}

/// Returns the column of the scan that an expression is.
fn column(expr: &Expr, scan: &Scan) -> Option<usize> {
    match expr.node {
        Node::Column(slot) => slot.checked_sub(scan.first_slot),
        _ => None,
    }
}

/// Adds the columns of an expression that is evaluated for each row. Returns `None` if a row must
/// wait for the expression, or it takes long.
fn add_columns(expr: &Expr, scan: &Scan, columns: &mut Vec<usize>) -> Option<()> {
    if !is_short(expr) {
        return None;
    }
    let mut is_own = true;
    expr.for_each_column(&mut |slot| match slot.checked_sub(scan.first_slot) {
        Some(column) if column < scan.table.layout.width() => columns.push(column),
        _ => is_own = false,
    });
    is_own.then_some(())
}

/// Returns whether the values of an expression are computed in a short time: it calls nothing.
fn is_short(expr: &Expr) -> bool {
    let calls = match &expr.node {
        Node::Call { .. } | Node::Routine(_) | Node::Subquery(_) | Node::Like { .. } => true,
        Node::Quantified { .. } => true,
        Node::Const(_)
        | Node::Column(_)
        | Node::Param(_)
        | Node::Outer(_)
        | Node::Compare { .. }
        | Node::Distinct { .. }
        | Node::And(_)
        | Node::Or(_)
        | Node::Not(_)
        | Node::IsNull { .. }
        | Node::BoolTest { .. }
        | Node::Arith { .. }
        | Node::Negate { .. }
        | Node::Cast { .. }
        | Node::Between { .. }
        | Node::InList { .. }
        | Node::Case { .. }
        | Node::Coalesce(_)
        | Node::NullIf { .. }
        | Node::Extreme { .. } => false,
    };
    let mut short = !calls;
    expr.for_each_part(|part| short = short && is_short(part));
    short
}

/// Returns the form of an aggregate's argument; `None` if its expressions must be evaluated.
fn argument(aggregate: &Aggregate, scan: &Scan, params: &[Value]) -> Option<Argument> {
    if grows(aggregate) || aggregate.filter.is_some() || aggregate.has_direct_args() {
        return None;
    }
    let arg = match (aggregate.kind, &aggregate.args[..]) {
        (AggregateKind::CountStar, []) => return Some(Argument::Row),
        (_, [arg]) => arg,
        _ => return None,
    };
    match (aggregate.kind, arg.ty.kind) {
        (AggregateKind::Count, _) => column(arg, scan).map(Argument::Presence),
        (
            AggregateKind::Sum | AggregateKind::Avg,
            TypeKind::Int2 | TypeKind::Int4 | TypeKind::Int8,
        ) => column(arg, scan).map(Argument::Integer),
        (AggregateKind::Sum | AggregateKind::Avg, TypeKind::Numeric) => {
            NumberExpr::new(arg, scan.first_slot, params).map(Argument::Number)
        }
        _ => column(arg, scan).map(Argument::Value),
    }
}

impl Argument {
    /// Adds the argument of a row to an accumulator.
    #[inline]
    fn add(
        &self,
        accumulator: &mut Accumulator,
        row: &RowReader<'_>,
        evaluate: impl FnOnce(&mut Accumulator) -> Result<(), SqlError>,
    ) -> Result<(), SqlError> {
        match self {
            Argument::Row => accumulator.add_rows(1),
            Argument::Presence(column) => accumulator.add_rows(usize::from(!row.is_null(*column))),
            Argument::Integer(column) => match row.integer(*column)? {
                Some(value) => accumulator.add_integer(value),
                None => Ok(()),
            },
            Argument::Number(number) => match number.value(row)? {
                Some((digits, scale)) => accumulator.add_number(digits, scale),
                None => Ok(()),
            },
            Argument::Value(column) => accumulator.add_value(&row.get(*column)?),
            Argument::Evaluated => evaluate(accumulator),
        }
    }
}

/// The surroundings in which expressions are evaluated.
struct Evaluation<'a> {
    params: Vec<Value>,
    context: &'a EvalContext,
}

/// Adds each row to its group.
struct Receiver<'a> {
    groups: &'a mut Groups,
    grouping: &'a Grouping,
    encoded: &'a EncodedGrouping,
    /// The first slot of the scan in the from row.
    first_slot: usize,
    keys: Vec<Value>,
    evaluation: &'a Evaluation<'a>,
    /// The from row, with the values of the columns that are evaluated.
    values: &'a mut Vec<Value>,
    /// The bytes that growing accumulators have taken.
    more_bytes: usize,
}

impl Receiver<'_> {
    /// Returns the group of a row. Returns `None` if it is not in memory.
    #[inline]
    fn group_of(&mut self, row: &RowReader<'_>) -> Result<Option<u32>, SqlError> {
        if self.encoded.keys.is_empty() {
            return Ok(Some(0));
        }
        self.keys.clear();
        self.groups.key.clear();
        for key in &self.encoded.keys {
            let key = match key {
                Key::Column(column) => row.get(*column)?,
                Key::Evaluated(nth) => {
                    let (params, context) = (&self.evaluation.params, self.evaluation.context);
                    eval(&self.grouping.keys[*nth], self.values, params, context)?
                }
            };
            push_comparable(&key, &mut self.groups.key);
            self.keys.push(key);
        }
        Ok(match self.groups.by_key.get(&self.groups.key) {
            Some(group) => Some(*group),
            None => self.groups.begin_keyed(self.grouping, &mut self.keys),
        })
    }

    /// Adds a row to the temporary file. Its group's key was encoded last.
    #[cold]
    fn spill(&mut self, row: &RowReader<'_>) -> Result<(), SqlError> {
        let Some(spill) = &mut self.groups.spill else {
            return Ok(());
        };
        self.keys.clear();
        for slot in spill.slots() {
            self.keys.push(row.get(slot - self.first_slot)?);
        }
        spill.add_slots(&self.groups.key, &self.keys)
    }
}

impl EncodedRows for Receiver<'_> {
    fn add(&mut self, row: &RowReader<'_>) -> Result<(), SqlError> {
        for column in &self.encoded.columns {
            self.values[self.first_slot + column] = row.get(*column)?;
        }
        let Some(group) = self.group_of(row)? else {
            return self.spill(row);
        };
        let arguments = &self.encoded.arguments;
        let first = group as usize * arguments.len();
        let accumulators = &mut self.groups.accumulators[first..first + arguments.len()];
        let aggregates = self.grouping.aggregates.iter();
        for ((argument, accumulator), aggregate) in
            arguments.iter().zip(accumulators).zip(aggregates)
        {
            let (evaluation, values, more) = (self.evaluation, &*self.values, &mut self.more_bytes);
            argument.add(accumulator, row, |accumulator| {
                let before = accumulator.bytes();
                let (params, context) = (&evaluation.params, evaluation.context);
                accumulator.update(aggregate, values, params, context)?;
                *more += accumulator.bytes().saturating_sub(before);
                Ok(())
            })?;
        }
        Ok(())
    }

    fn add_unread(&mut self, rows: usize) -> Result<(), SqlError> {
        // Without columns there are neither keys nor arguments: one group that counts rows.
        let accumulators = &mut self.groups.accumulators;
        accumulators
            .iter_mut()
            .try_for_each(|accumulator| accumulator.add_rows(rows))
    }
}

impl Groups {
    /// Adds all rows of a scan to their groups, without decoding them; rows of groups that are not
    /// among the `first` may be left out. Returns false, and has done nothing, if the rows must be
    /// decoded.
    ///
    /// # Errors
    /// Those of the scan and of the aggregates; 53200 if the groups exceed the memory limit.
    pub async fn add_encoded(
        &mut self,
        grouping: &Grouping,
        (scan, state): (&Scan, &mut ScanState),
        mut first: Option<FirstGroups>,
        cx: &mut Cx<'_>,
    ) -> Result<bool, StatementStop> {
        let Some(encoded) = EncodedGrouping::new(grouping, scan, cx.params()) else {
            return Ok(false);
        };
        let evaluation = Evaluation {
            params: cx.params().to_vec(),
            context: cx.eval,
        };
        let mut values = vec![Value::Null; scan.first_slot + scan.table.layout.width()];
        loop {
            let from = self.rows.len();
            let mut receiver = Receiver {
                groups: self,
                grouping,
                encoded: &encoded,
                first_slot: scan.first_slot,
                keys: Vec::new(),
                evaluation: &evaluation,
                values: &mut values,
                more_bytes: 0,
            };
            let next = state.next_encoded(scan, cx, &mut receiver, CHUNK).await?;
            let more_bytes = receiver.more_bytes;
            self.memory.add_bytes(cx, more_bytes)?;
            self.count(grouping, cx, from).await?;
            if let Some(first) = &mut first
                && let Some(last) = self.last_of_first(first)
                && let Some(Key::Column(column)) = encoded.keys.get(first.key())
                && let Some(cutoff) =
                    Cutoff::new(&scan.table.layout, *column, &last, first.direction())
            {
                state.cut_off(cutoff);
                self.remove_behind(grouping, cx, first, &last)?;
            }
            match next {
                EncodedNext::More => {}
                EncodedNext::Done => return Ok(true),
                EncodedNext::Unable => return Ok(false),
            }
        }
    }
}

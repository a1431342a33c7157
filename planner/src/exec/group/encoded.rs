//! Grouping of encoded rows: of a scan whose rows are only grouped.
//!
//! ```text
//! encoded row ─┬▶ key columns ─▶ group
//!              └▶ columns, numbers ─▶ accumulators of the group
//! ```
//! Only the columns of the keys become values.

use fencepost_sql::bound::{Aggregate, AggregateKind, Expr, Grouping, Node};
use fencepost_sql::error::SqlError;
use fencepost_sql::functions::Accumulator;
use fencepost_sql::row::RowReader;
use fencepost_sql::stop::StatementStop;
use fencepost_sql::types::TypeKind;
use fencepost_sql::value::Value;

use super::super::cx::Cx;
use super::super::encoded_number::NumberExpr;
use super::super::scan::{EncodedNext, EncodedRows, ScanState};
use super::{Groups, grows};
use crate::exec::join::push_comparable;
use crate::plan::Scan;

/// The number of rows after which the memory of new groups is charged.
const CHUNK: usize = 4096;

/// A grouping as it is computed from encoded rows.
struct EncodedGrouping {
    /// The columns of the keys.
    keys: Vec<usize>,
    arguments: Vec<Argument>,
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
}

impl EncodedGrouping {
    /// Converts a grouping. Returns `None` if it needs decoded rows.
    fn new(grouping: &Grouping, scan: &Scan, params: &[Value]) -> Option<EncodedGrouping> {
        if !grouping.sets.is_empty() {
            return None;
        }
        let keys = grouping.keys.iter().map(|key| column(key, scan));
        let arguments = grouping.aggregates.iter();
        Some(EncodedGrouping {
            keys: keys.collect::<Option<_>>()?,
            arguments: arguments
                .map(|aggregate| argument(aggregate, scan, params))
                .collect::<Option<_>>()?,
        })
    }
}

/// Returns the column of the scan that an expression is.
fn column(expr: &Expr, scan: &Scan) -> Option<usize> {
    match expr.node {
        Node::Column(slot) => slot.checked_sub(scan.first_slot),
        _ => None,
    }
}

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
    fn add(&self, accumulator: &mut Accumulator, row: &RowReader<'_>) -> Result<(), SqlError> {
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
        }
    }
}

/// Adds each row to its group.
struct Receiver<'a> {
    groups: &'a mut Groups,
    grouping: &'a Grouping,
    encoded: &'a EncodedGrouping,
    /// The first slot of the scan in the from row.
    first_slot: usize,
    keys: Vec<Value>,
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
        for column in &self.encoded.keys {
            let key = row.get(*column)?;
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
        let Some(group) = self.group_of(row)? else {
            return self.spill(row);
        };
        let arguments = &self.encoded.arguments;
        let first = group as usize * arguments.len();
        let accumulators = &mut self.groups.accumulators[first..first + arguments.len()];
        for (argument, accumulator) in arguments.iter().zip(accumulators) {
            argument.add(accumulator, row)?;
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
    /// Adds all rows of a scan to their groups, without decoding them. Returns false, and has done
    /// nothing, if the rows must be decoded.
    ///
    /// # Errors
    /// Those of the scan and of the aggregates; 53200 if the groups exceed the memory limit.
    pub async fn add_encoded(
        &mut self,
        grouping: &Grouping,
        (scan, state): (&Scan, &mut ScanState),
        cx: &mut Cx<'_>,
    ) -> Result<bool, StatementStop> {
        let Some(encoded) = EncodedGrouping::new(grouping, scan, cx.params()) else {
            return Ok(false);
        };
        loop {
            let from = self.rows.len();
            let mut receiver = Receiver {
                groups: self,
                grouping,
                encoded: &encoded,
                first_slot: scan.first_slot,
                keys: Vec::new(),
            };
            let next = state.next_encoded(scan, cx, &mut receiver, CHUNK).await?;
            self.count(grouping, cx, from).await?;
            match next {
                EncodedNext::More => {}
                EncodedNext::Done => return Ok(true),
                EncodedNext::Unable => return Ok(false),
            }
        }
    }
}

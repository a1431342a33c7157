//! Materialized rows that outlive a statement: the rows that a scrollable cursor may return to, and
//! the rows that a portal has produced in advance. They count against the memory limit.

use std::collections::VecDeque;
use std::sync::Arc;

use fencepost_sql::error::SqlError;
use fencepost_sql::stop::StatementStop;
use fencepost_sql::value::Value;
use fencepost_txn::{Machine, Stop};

use crate::sink::RowSink;

/// The growth in bytes after which the memory limit is charged again.
const STEP_BYTES: usize = 64 << 10;

/// A queue of rows with numbers from 1 on. The first rows may have been discarded.
pub struct MaterializedRows {
    machine: Arc<Machine>,
    /// The number of rows discarded at the front.
    passed: u64,
    rows: VecDeque<Box<[Value]>>,
    bytes: usize,
    counted: usize,
}

impl MaterializedRows {
    /// Creates an empty queue.
    pub fn new(machine: &Arc<Machine>) -> MaterializedRows {
        MaterializedRows {
            machine: Arc::clone(machine),
            passed: 0,
            rows: VecDeque::new(),
            bytes: 0,
            counted: 0,
        }
    }

    /// Returns the number of the last row.
    pub fn last(&self) -> u64 {
        self.passed + self.rows.len() as u64
    }

    /// Returns the row with this number; `None` if it is not kept.
    pub fn get(&self, number: u64) -> Option<&[Value]> {
        let place = number.checked_sub(self.passed + 1)?;
        let row = self.rows.get(usize::try_from(place).ok()?)?;
        Some(row)
    }

    /// Appends a row.
    ///
    /// # Errors
    /// 53200 at the memory limit.
    pub fn push(&mut self, row: &[Value]) -> Result<(), SqlError> {
        self.bytes += bytes_of(row);
        if self.bytes >= self.counted + STEP_BYTES {
            let more = (self.bytes - self.counted) as u64;
            let charged = self.machine.account().charge(more);
            charged.map_err(|refused| StatementStop::from(Stop::from(refused)).into_error())?;
            self.counted = self.bytes;
        }
        self.rows.push_back(row.into());
        Ok(())
    }

    /// Discards the rows up to and including this number.
    pub fn pass(&mut self, number: u64) {
        while self.passed < number
            && let Some(row) = self.rows.pop_front()
        {
            self.passed += 1;
            self.bytes -= bytes_of(&row);
        }
        self.recount();
    }

    /// Discards the rows after this number.
    fn back_to(&mut self, number: u64) {
        while self.last() > number
            && let Some(row) = self.rows.pop_back()
        {
            self.bytes -= bytes_of(&row);
        }
        self.recount();
    }

    fn recount(&mut self) {
        if self.counted > self.bytes + 2 * STEP_BYTES {
            let less = (self.counted - self.bytes) as u64;
            self.machine.account().release(less);
            self.counted = self.bytes;
        }
    }
}

impl std::fmt::Debug for MaterializedRows {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} rows, the last {}", self.last(), self.rows.len())
    }
}

impl Drop for MaterializedRows {
    fn drop(&mut self) {
        self.machine.account().release(self.counted as u64);
    }
}

fn bytes_of(row: &[Value]) -> usize {
    let apart: usize = row.iter().map(Value::bytes_apart).sum();
    size_of::<Box<[Value]>>() + size_of_val(row) + apart
}

/// The sink of one run that appends to materialized rows.
#[derive(Debug)]
pub struct MaterializedRowsSink<'a> {
    materialized: &'a mut MaterializedRows,
    /// The number of the last row before the run.
    before: u64,
}

impl MaterializedRowsSink<'_> {
    /// Creates a sink that appends to `materialized`.
    pub fn of(materialized: &mut MaterializedRows) -> MaterializedRowsSink<'_> {
        MaterializedRowsSink {
            before: materialized.last(),
            materialized,
        }
    }
}

impl RowSink for MaterializedRowsSink<'_> {
    fn row(&mut self, row: &[Value]) -> Result<(), SqlError> {
        self.materialized.push(row)
    }

    fn copy_data(&mut self, _data: &[u8]) -> Result<(), SqlError> {
        Err(SqlError::internal(
            "a COPY among rows that are materialized",
        ))
    }

    fn rewind(&mut self) -> bool {
        self.materialized.back_to(self.before);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fencepost_txn::{Machine, MachineOptions};

    #[test]
    fn materialized_rows_charge_memory_until_dropped() {
        let machine = Machine::open(MachineOptions::default()).expect("a machine");
        let before = machine.account().used();
        let mut materialized = MaterializedRows::new(&machine);
        let long = Value::text("x".repeat(100_000));
        for _ in 0..10 {
            MaterializedRowsSink::of(&mut materialized)
                .row(std::slice::from_ref(&long))
                .expect("room");
        }
        assert!(machine.account().used() >= before + 900_000);
        materialized.pass(8);
        assert!(machine.account().used() < before + 500_000);
        assert_eq!((materialized.get(8), materialized.last()), (None, 10));
        assert_eq!(materialized.get(9), Some(&[long][..]));
        let mut sink = MaterializedRowsSink::of(&mut materialized);
        sink.row(&[Value::Null]).expect("room");
        assert!(sink.rewind());
        assert_eq!(materialized.last(), 10);
        drop(materialized);
        assert_eq!(machine.account().used(), before);
    }
}

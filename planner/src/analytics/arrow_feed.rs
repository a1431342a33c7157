//! The session's side of an analytical SELECT: it produces the rows of scans, and computes
//! expressions of joined rows, as Arrow batches.
//!
//! It allocates nothing for a single row. Columns and numeric expressions go from the encoded row
//! to the builders of the columns. Where a scan needs its rows decoded, the values of a row go
//! through a reused batch.

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use fencepost_sql::bound::{Aggregate, Expr, Grouping, Node};
use fencepost_sql::error::SqlError;
use fencepost_sql::row::RowReader;
use fencepost_sql::stop::StatementStop;
use fencepost_sql::value::Value;

use super::columns::{Cells, ResultColumn, schema};
use super::form::Form;
use super::shape::{Column, GroupShape};
use crate::exec::{Batch, Cx, EncodedNext, EncodedRows, NumberExpr, ScanState};
use crate::plan::Scan;

/// The maximal number of rows of a batch.
pub const BATCH_ROWS: usize = 8192;
/// The number of rows that are read before they are added to columns.
const CHUNK: usize = 512;

/// The source of a column.
#[derive(Clone, Copy)]
enum ColumnSource {
    /// A slot of the from row.
    Slot(usize),
    /// A group key.
    Key(usize),
    /// The argument of an aggregate.
    Arg(usize),
}

/// A batch of columns under construction.
pub struct Columns {
    picks: Vec<(ColumnSource, Cells)>,
    schema: SchemaRef,
    rows: usize,
}

impl Columns {
    /// Creates columns of these slots.
    pub fn of_slots<'a>(columns: impl Iterator<Item = &'a Column> + Clone) -> Columns {
        let picks = columns.clone();
        Columns {
            schema: schema(columns.map(|column| column.form)),
            picks: picks
                .map(|column| {
                    (
                        ColumnSource::Slot(column.slot),
                        Cells::new(column.form, BATCH_ROWS),
                    )
                })
                .collect(),
            rows: 0,
        }
    }

    /// Creates columns of group keys and aggregate arguments.
    pub fn of_groups(shape: &GroupShape) -> Columns {
        let keys = (0..).map(ColumnSource::Key).zip(&shape.keys);
        let args = (0..).map(ColumnSource::Arg).zip(&shape.args);
        let new = |(pick, form): (ColumnSource, &Form)| (pick, Cells::new(*form, BATCH_ROWS));
        Columns {
            schema: schema(shape.keys.iter().chain(&shape.args).copied()),
            picks: keys.chain(args).map(new).collect(),
            rows: 0,
        }
    }

    /// Returns the schema of its batches.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    async fn push(
        &mut self,
        row: &[Value],
        cx: &mut Cx<'_>,
        grouping: Option<&Grouping>,
    ) -> Result<(), SqlError> {
        for (pick, cells) in &mut self.picks {
            match (*pick, grouping) {
                (ColumnSource::Slot(slot), _) => cells.push(&row[slot])?,
                (ColumnSource::Key(nth), Some(grouping)) => {
                    let key = &grouping.keys[nth];
                    cx.in_parts(|cx| push_value(cells, key, row, cx)).await?;
                }
                (ColumnSource::Arg(nth), Some(grouping)) => {
                    let aggregate = &grouping.aggregates[nth];
                    cx.in_parts(|cx| push_argument(cells, aggregate, row, cx))
                        .await?;
                }
                (_, None) => return Err(SqlError::internal("keys without groups")),
            }
        }
        self.rows += 1;
        Ok(())
    }

    fn finish(&mut self) -> Result<RecordBatch, SqlError> {
        let columns = self.picks.iter_mut().map(|(_, cells)| cells.finish());
        let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(self.rows));
        self.rows = 0;
        RecordBatch::try_new_with_options(self.schema.clone(), columns.collect(), &options)
            .map_err(|error| SqlError::internal(error.to_string()))
    }
}

#[inline]
fn push_value(cells: &mut Cells, expr: &Expr, row: &[Value], cx: &Cx<'_>) -> Result<(), SqlError> {
    match expr.node {
        Node::Column(slot) => cells.push(&row[slot]),
        _ => cells.push(&cx.value_here(expr, row)?),
    }
}

/// Adds the argument of an aggregate over a row. If FILTER rejects the row, the argument is NULL,
/// which the aggregate ignores.
fn push_argument(
    cells: &mut Cells,
    aggregate: &Aggregate,
    row: &[Value],
    cx: &Cx<'_>,
) -> Result<(), SqlError> {
    if aggregate.filter.is_some() && !cx.holds_here(aggregate.filter.as_ref(), row)? {
        return cells.push(&Value::Null);
    }
    match aggregate.args.first() {
        Some(arg) => push_value(cells, arg, row, cx),
        None => cells.push(&Value::Bool(true)),
    }
}

/// The state of a scan.
pub struct Leaf {
    state: ScanState,
    page: Batch,
    columns: Columns,
    more: bool,
    /// The sources of the columns in encoded rows; `None` if the rows are decoded.
    encoded: Option<Vec<EncodedSource>>,
    begun: bool,
}

impl Leaf {
    /// Creates the state before the first row; rows have `width` slots.
    pub fn new(columns: Columns, width: usize) -> Leaf {
        Leaf {
            state: ScanState::default(),
            page: Batch::new(width),
            columns,
            more: true,
            encoded: None,
            begun: false,
        }
    }

    /// Returns the next batch.
    pub async fn next(
        &mut self,
        scan: &Scan,
        cx: &mut Cx<'_>,
        grouping: Option<&Grouping>,
        filter: Option<&Expr>,
    ) -> Result<Option<RecordBatch>, StatementStop> {
        if !self.begun {
            self.begun = true;
            if filter.is_none() {
                self.encoded = self.columns.encoded_sources(scan, grouping, cx.params());
            }
        }
        while self.more && self.columns.rows + CHUNK <= BATCH_ROWS {
            if self.next_encoded(scan, cx).await? {
                continue;
            }
            self.page.clear();
            self.more = self.state.next(scan, cx, &mut self.page, CHUNK).await?;
            for i in 0..self.page.len() {
                if cx.is_due() {
                    cx.pause().await?;
                }
                let row = self.page.row(i);
                if filter.is_none() || cx.holds(filter, row).await? {
                    self.columns.push(row, cx, grouping).await?;
                }
            }
            if self.page.weight() > 0 {
                // Long rows are passed on before more rows are read.
                break;
            }
        }
        match self.columns.rows {
            0 if !self.more => Ok(None),
            _ => Ok(Some(self.columns.finish()?)),
        }
    }
}

impl Leaf {
    /// Adds rows to the columns without decoding them. Returns false if they must be decoded.
    async fn next_encoded(&mut self, scan: &Scan, cx: &mut Cx<'_>) -> Result<bool, StatementStop> {
        let Some(sources) = &self.encoded else {
            return Ok(false);
        };
        let mut receiver = Receiver {
            columns: &mut self.columns,
            sources,
        };
        let left = BATCH_ROWS - receiver.columns.rows;
        match self
            .state
            .next_encoded(scan, cx, &mut receiver, left)
            .await?
        {
            EncodedNext::More => {}
            EncodedNext::Done => self.more = false,
            EncodedNext::Unable => {
                self.encoded = None;
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// The source of a column in an encoded row.
enum EncodedSource {
    /// A column of the table.
    Column(usize),
    /// A numeric expression.
    Number(NumberExpr),
    /// TRUE for each row.
    Row,
}

impl Columns {
    /// Returns the sources of all columns in the encoded rows of a scan. Returns `None` if one of
    /// them needs decoded rows.
    fn encoded_sources(
        &self,
        scan: &Scan,
        grouping: Option<&Grouping>,
        params: &[Value],
    ) -> Option<Vec<EncodedSource>> {
        let of = |expr: &Expr| match expr.node {
            Node::Column(slot) => slot.checked_sub(scan.first_slot).map(EncodedSource::Column),
            _ => NumberExpr::new(expr, scan.first_slot, params).map(EncodedSource::Number),
        };
        let source = |(pick, _): &(ColumnSource, Cells)| match (*pick, grouping) {
            (ColumnSource::Slot(slot), _) => {
                slot.checked_sub(scan.first_slot).map(EncodedSource::Column)
            }
            (ColumnSource::Key(nth), Some(grouping)) => of(&grouping.keys[nth]),
            (ColumnSource::Arg(nth), Some(grouping)) => {
                let aggregate = &grouping.aggregates[nth];
                match (&aggregate.filter, aggregate.args.first()) {
                    (Some(_), _) => None,
                    (None, None) => Some(EncodedSource::Row),
                    (None, Some(arg)) => of(arg),
                }
            }
            (ColumnSource::Key(_) | ColumnSource::Arg(_), None) => None,
        };
        self.picks.iter().map(source).collect()
    }
}

/// Adds encoded rows to columns.
struct Receiver<'a> {
    columns: &'a mut Columns,
    sources: &'a [EncodedSource],
}

impl EncodedRows for Receiver<'_> {
    fn add(&mut self, row: &RowReader<'_>) -> Result<(), SqlError> {
        for ((_, cells), source) in self.columns.picks.iter_mut().zip(self.sources) {
            match source {
                EncodedSource::Column(column) => cells.push_encoded(row, *column)?,
                EncodedSource::Number(number) => cells.push_number(number.value(row)?)?,
                EncodedSource::Row => cells.push(&Value::Bool(true))?,
            }
        }
        self.columns.rows += 1;
        Ok(())
    }

    fn add_unread(&mut self, rows: usize) -> Result<(), SqlError> {
        // No column is read: all of them are TRUE.
        for (_, cells) in &mut self.columns.picks {
            for _ in 0..rows {
                cells.push(&Value::Bool(true))?;
            }
        }
        self.columns.rows += rows;
        Ok(())
    }
}

/// The computation of keys and arguments of joined rows.
pub struct Work {
    row: Vec<Value>,
    columns: Columns,
}

impl Work {
    /// Creates the state for rows with `width` slots.
    pub fn new(shape: &GroupShape, width: usize) -> Work {
        Work {
            row: vec![Value::Null; width],
            columns: Columns::of_groups(shape),
        }
    }

    /// Returns the schema of its batches.
    pub fn schema(&self) -> &SchemaRef {
        self.columns.schema()
    }

    /// Computes the keys and arguments of the rows of `batch` that pass `filter`.
    pub async fn compute(
        &mut self,
        batch: &RecordBatch,
        places: &[Column],
        cx: &mut Cx<'_>,
        (grouping, filter): (&Grouping, Option<&Expr>),
    ) -> Result<RecordBatch, SqlError> {
        let given = given(batch, places)?;
        for at in 0..batch.num_rows() {
            if cx.is_due() {
                cx.pause().await?;
            }
            for (place, given) in places.iter().zip(&given) {
                self.row[place.slot] = given.value(at, place.kind)?;
            }
            if cx.holds(filter, &self.row).await? {
                self.columns.push(&self.row, cx, Some(grouping)).await?;
            }
        }
        self.columns.finish()
    }
}

/// Returns the columns of a batch whose columns are `places`.
pub fn given<'a>(
    batch: &'a RecordBatch,
    places: &[Column],
) -> Result<Vec<ResultColumn<'a>>, SqlError> {
    let columns = batch.columns().iter().zip(places);
    columns
        .map(|(array, place)| ResultColumn::of(&**array, place.form))
        .collect()
}

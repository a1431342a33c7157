//! COPY FROM STDIN.

use std::sync::Arc;

use fencepost_sql::bound::{Copy, CopyFormat, CopyOptions, CopySource, Expr};
use fencepost_sql::error::{SqlError, SqlState};
use fencepost_sql::functions::{check_fields, read_text};
use fencepost_sql::sequences::wanted_range;
use fencepost_sql::stop::StatementStop;
use fencepost_sql::types::{binary_in, check_utf8};
use fencepost_sql::value::Value;
use fencepost_txn::Work;

use super::binary::{self, Tuples};
use super::records::{Record, RecordSplitter, fields};
use crate::exec::Cx;
use crate::plan::TablePlan;
use crate::write::{
    ForeignKeyActions, PendingTriggers, References, RowWriter, StatementEvent, Yield, finish,
    generate, recheck_unique_keys,
};

/// The event of the triggers of a COPY FROM.
const INSERT: StatementEvent = StatementEvent::INSERT;

/// The splitter of the data.
enum Records {
    Lines(RecordSplitter),
    Tuples(Tuples),
}

/// The state of a running COPY FROM.
pub struct CopyInput {
    table: Arc<TablePlan>,
    actions: Option<ForeignKeyActions>,
    triggers: Option<PendingTriggers>,
    /// Whether the first row is still to come.
    begins: bool,
    columns: Vec<usize>,
    defaults: Vec<Option<Expr>>,
    /// Whether a default calls a user-defined function.
    calls: bool,
    options: CopyOptions,
    filter: Option<Expr>,
    records: Records,
    line: Vec<u8>,
    line_number: u64,
    header_due: bool,
    record: Record,
    /// Whether the line must be read again, because a sequence had no values for it.
    again: bool,
    row: Vec<Value>,
    writer: RowWriter,
    count: u64,
}

impl CopyInput {
    /// Creates the input of `copy`, which copies into a table.
    pub fn new(copy: &Copy) -> Result<CopyInput, SqlError> {
        let CopySource::Table {
            table,
            columns,
            defaults,
            integrity,
        } = &copy.source
        else {
            return Err(SqlError::internal("COPY FROM into a query"));
        };
        let table_plan = Arc::new(TablePlan::written(table, integrity.rules.clone()));
        let triggers = PendingTriggers::of(&table_plan);
        Ok(CopyInput {
            begins: triggers.is_some(),
            table: table_plan,
            actions: References::of(integrity.related.clone()).map(|r| ForeignKeyActions::new(&r)),
            columns: columns.clone(),
            defaults: defaults.clone(),
            calls: defaults.iter().flatten().any(Expr::has_subquery),
            options: copy.options.clone(),
            filter: copy.filter.clone(),
            records: match copy.options.format {
                CopyFormat::Binary => Records::Tuples(Tuples::new(columns.len())),
                _ => Records::Lines(RecordSplitter::default()),
            },
            line: Vec::new(),
            line_number: 0,
            header_due: copy.options.header,
            record: Record::default(),
            again: false,
            row: vec![Value::Null; table.columns.len()],
            // A trigger finds the inserted rows through their index entries.
            writer: match triggers {
                None => RowWriter::of_many(),
                Some(_) => RowWriter::default(),
            },
            triggers,
            count: 0,
        })
    }

    /// Returns the target table.
    pub fn table(&self) -> &Arc<TablePlan> {
        &self.table
    }

    /// Returns whether the format is binary.
    pub fn is_binary(&self) -> bool {
        self.options.format == CopyFormat::Binary
    }

    /// Returns the number of columns in the data.
    pub fn width(&self) -> usize {
        self.columns.len()
    }

    /// Processes the next piece of the data.
    pub fn data<'a>(
        &'a mut self,
        cx: &'a mut Cx<'_>,
        data: &'a [u8],
    ) -> Work<'a, Result<(), StatementStop>> {
        Box::pin(async move {
            match &mut self.records {
                Records::Lines(lines) => lines.push(data),
                Records::Tuples(tuples) => tuples.push(data),
            }
            self.rows(cx, false).await
        })
    }

    /// Ends the data. Returns the number of inserted rows.
    pub fn finish<'a>(&'a mut self, cx: &'a mut Cx<'_>) -> Work<'a, Result<u64, StatementStop>> {
        Box::pin(async move {
            self.rows(cx, true).await?;
            let finished = self.writer.finish(cx, &self.table).await;
            finished.map_err(|halt| self.name_duplicate(halt))?;
            finish(&mut self.actions, &mut self.triggers, cx).await?;
            recheck_unique_keys(cx).await?;
            Ok(self.count)
        })
    }

    async fn rows(&mut self, cx: &mut Cx<'_>, last: bool) -> Result<(), StatementStop> {
        if let (Some(triggers), true) = (&mut self.triggers, self.begins) {
            triggers.begin(cx, &self.table, INSERT).await?;
            self.begins = false;
        }
        loop {
            if !std::mem::take(&mut self.again) {
                if !self.next_record(last)? {
                    break;
                }
                cx.eval.sequences.begin_part();
            }
            self.line_number += 1;
            cx.breathe().await?;
            if std::mem::take(&mut self.header_due) {
                self.check_header()?;
                continue;
            }
            if let Err(error) = self.read_line(cx).await {
                if wanted_range(&error).is_some() {
                    self.again = true;
                    self.line_number -= 1;
                }
                return Err(error.into());
            }
            if self.calls {
                let called = Box::pin(self.call_defaults(cx)).await;
                called.map_err(|halt| self.with_context(halt))?;
            }
            let wanted = cx.holds(self.filter.as_ref(), &self.row).await;
            if !wanted.map_err(|error| error.context(self.context()))? {
                continue;
            }
            if self.table.def.is_view() {
                match Box::pin(self.instead(cx)).await {
                    Ok(done) => self.count += u64::from(done),
                    Err(StatementStop::Error(error)) => return Err(self.in_line(error)),
                    Err(halt) => return Err(halt),
                }
                continue;
            }
            if self.triggers.is_some() {
                match Box::pin(self.before(cx)).await {
                    Ok(true) => {}
                    Ok(false) => continue,
                    Err(StatementStop::Error(error)) => return Err(self.in_line(error)),
                    Err(halt) => return Err(halt),
                }
            }
            let generated = generate(cx, &self.table, &mut self.row).await;
            generated.map_err(|halt| self.with_context(halt))?;
            let inserted = self.writer.insert(cx, &self.table, &self.row, Yield::Never);
            match inserted.await {
                Ok(_) => {
                    self.count += 1;
                    if let Some(actions) = &mut self.actions {
                        actions.inserted(cx, &self.row).await?;
                    }
                    if let Some(triggers) = &mut self.triggers {
                        triggers
                            .after(cx, &self.table, INSERT, (None, Some(&self.row)))
                            .await?;
                    }
                }
                Err(halt) if self.writer.duplicate().is_some() => {
                    return Err(self.name_duplicate(halt));
                }
                Err(StatementStop::Error(error)) => {
                    return Err(error.context(self.context()).into());
                }
                Err(halt) => return Err(halt),
            }
        }
        Ok(())
    }

    /// Fires the triggers before the row. Returns false if they suppress it.
    async fn before(&mut self, cx: &mut Cx<'_>) -> Result<bool, StatementStop> {
        let generated = self.table.rules.generated.iter();
        generated.for_each(|generated| self.row[generated.column] = Value::Null);
        match &mut self.triggers {
            None => Ok(true),
            Some(triggers) => {
                let rows = (None, Some(self.row.as_mut_slice()));
                triggers.before(cx, &self.table, INSERT, rows).await
            }
        }
    }

    /// Evaluates the defaults, if some call user-defined functions.
    async fn call_defaults(&mut self, cx: &mut Cx<'_>) -> Result<(), StatementStop> {
        for (column, default) in self.defaults.iter().enumerate() {
            if let Some(default) = default {
                self.row[column] = cx.deep_value(default, &[]).await?;
            }
        }
        Ok(())
    }

    /// Passes the row to the INSTEAD OF triggers of the view. Returns false if they did nothing.
    async fn instead(&mut self, cx: &mut Cx<'_>) -> Result<bool, StatementStop> {
        let Some(triggers) = &mut self.triggers else {
            return Err(SqlError::internal("a view without triggers").into());
        };
        let rows = (None, Some(self.row.as_mut_slice()));
        triggers.instead(cx, &self.table, INSERT, rows).await
    }

    fn with_context(&self, halt: StatementStop) -> StatementStop {
        match halt {
            StatementStop::Error(error) => error.context(self.context()).into(),
            halt => halt,
        }
    }

    /// Adds the line to the error of a trigger. If a sequence had no values, marks the line to be
    /// read again.
    fn in_line(&mut self, error: SqlError) -> StatementStop {
        if wanted_range(&error).is_some() {
            self.again = true;
            self.line_number -= 1;
            return error.into();
        }
        error.within(&self.context()).into()
    }

    /// Reads the next line or tuple, if it is complete.
    fn next_record(&mut self, last: bool) -> Result<bool, SqlError> {
        match &mut self.records {
            Records::Lines(lines) => Ok(lines.next(&self.options, last, &mut self.line)),
            Records::Tuples(tuples) => {
                if !tuples.begin(last)? {
                    return Ok(false);
                }
                let found = tuples.next(last, &mut self.line);
                found.map_err(|error| {
                    self.line_number += 1;
                    error.context(self.context())
                })
            }
        }
    }

    /// Adds the line number of a duplicate key to the error.
    fn name_duplicate(&self, halt: StatementStop) -> StatementStop {
        match (halt, self.writer.duplicate()) {
            (StatementStop::Error(error), Some(nth)) => {
                let line = u64::from(nth) + 1 + u64::from(self.options.header);
                let table = &self.table.def.name;
                error.context(format!("COPY {table}, line {line}")).into()
            }
            (halt, _) => halt,
        }
    }

    /// Stores the defaults and the values of the line in `row`.
    async fn read_line(&mut self, cx: &mut Cx<'_>) -> Result<(), SqlError> {
        self.cut()?;
        for (column, default) in self.defaults.iter().enumerate() {
            if let Some(default) = default.as_ref().filter(|_| !self.calls) {
                self.row[column] = cx.value(default, &[]).await?;
            }
        }
        cx.in_parts(|cx| self.read_fields(cx)).await
    }

    /// Splits the line into fields, one for each column.
    fn cut(&mut self) -> Result<(), SqlError> {
        let line_context = |e: SqlError, s: &CopyInput| e.context(s.context());
        if self.is_binary() {
            let columns = self.columns.len();
            binary::check_count(&self.line, columns).map_err(|e| line_context(e, self))?;
            let found = binary::fields(&self.line, columns, &mut self.record);
            found.map_err(|e| e.context(self.field_context(self.record.fields.len())))?;
        } else {
            let found = fields(&self.line, &self.options, &mut self.record);
            found.map_err(|e| line_context(e, self))?;
            self.force_nulls();
        }
        if self.record.fields.len() > self.columns.len() {
            let error = bad_format("extra data after last expected column");
            return Err(line_context(error, self));
        }
        if let Some(&missing) = self.columns.get(self.record.fields.len()) {
            let name = &self.table.def.columns[missing].name;
            let error = bad_format(format!("missing data for column \"{name}\""));
            return Err(line_context(error, self));
        }
        Ok(())
    }

    /// Converts the fields to values.
    fn read_fields(&mut self, cx: &Cx<'_>) -> Result<(), SqlError> {
        for (nth, &column) in self.columns.iter().enumerate() {
            if self.record.fields[nth].null {
                self.row[column] = Value::Null;
                continue;
            }
            let bytes = self.record.field(nth);
            let ty = &self.table.def.columns[column].ty;
            let value = match self.is_binary() {
                true => binary_in(ty, bytes),
                false => check_utf8(bytes).and_then(|text| read_text(text, ty, cx.eval)),
            };
            let checked = value.and_then(|value| match value {
                Value::Record(row) => check_fields(&row, cx.eval).map(|()| Value::Record(row)),
                value => Ok(value),
            });
            self.row[column] = checked.map_err(|e| e.context(self.field_context(nth)))?;
        }
        Ok(())
    }

    /// Applies FORCE_NULL and FORCE_NOT_NULL.
    fn force_nulls(&mut self) {
        for nth in &self.options.force_not_null {
            if let Some(field) = self.record.fields.get_mut(*nth) {
                field.null = false;
            }
        }
        for nth in &self.options.force_null {
            if let Some(field) = self.record.fields.get_mut(*nth) {
                let bytes = &self.record.bytes[field.start..field.end];
                field.null |= field.quoted && bytes == self.options.null.as_bytes();
            }
        }
    }

    fn check_header(&mut self) -> Result<(), SqlError> {
        if !self.options.header_match {
            return Ok(());
        }
        fields(&self.line, &self.options, &mut self.record)?;
        let found = self.record.fields.len();
        if found != self.columns.len() {
            return Err(bad_format(format!(
                "wrong number of fields in header line: got {found}, expected {}",
                self.columns.len()
            ))
            .context(self.context()));
        }
        for (nth, &column) in self.columns.iter().enumerate() {
            let name = &self.table.def.columns[column].name;
            let given = String::from_utf8_lossy(self.record.field(nth));
            if given != *name {
                return Err(bad_format(format!(
                    "column name mismatch in header line field {}: got \"{given}\", \
                     expected \"{name}\"",
                    nth + 1
                ))
                .context(self.context()));
            }
        }
        Ok(())
    }

    fn context(&self) -> String {
        if self.is_binary() {
            return format!("COPY {}, line {}", self.table.def.name, self.line_number);
        }
        format!(
            "COPY {}, line {}: \"{}\"",
            self.table.def.name,
            self.line_number,
            shortened(&self.line)
        )
    }

    fn field_context(&self, nth: usize) -> String {
        if self.is_binary() {
            let column = &self.table.def.columns[self.columns[nth]].name;
            return format!("{}, column {column}", self.context());
        }
        format!(
            "COPY {}, line {}, column {}: \"{}\"",
            self.table.def.name,
            self.line_number,
            self.table.def.columns[self.columns[nth]].name,
            shortened(self.record.field(nth))
        )
    }
}

fn bad_format(message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::BAD_COPY_FILE_FORMAT, message)
}

/// Shortens a long line to its first 100 bytes, as PostgreSQL does.
fn shortened(bytes: &[u8]) -> String {
    const SHOWN_BYTES: usize = 100;
    let text = String::from_utf8_lossy(bytes);
    if text.len() <= SHOWN_BYTES {
        return text.into_owned();
    }
    let mut end = SHOWN_BYTES;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}...", &text[..end])
}

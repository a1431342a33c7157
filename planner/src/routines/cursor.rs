//! OPEN, FETCH, MOVE and CLOSE.

use fencepost_sql::bound::Direction;
use fencepost_sql::error::{SqlError, SqlState};
use fencepost_sql::plpgsql::{FetchDirection, IntoClause, Op, RowSource};
use fencepost_sql::stop::StatementStop;
use fencepost_sql::types::Type;
use fencepost_sql::value::Value;

use super::loops::query_of;
use super::machine::BodyExecution;
use super::portals::no_cursor;
use super::returned::fit;
use super::variables::null_cursor;
use crate::exec::Cx;

impl BodyExecution {
    pub async fn cursor_step(&mut self, op: &Op, cx: &mut Cx<'_>) -> Result<(), StatementStop> {
        match op {
            Op::Open {
                cursor,
                source,
                scroll,
            } => self.open(*cursor, source, *scroll, cx).await,
            Op::Close(cursor) => {
                let name = self.cursor_name(*cursor)?;
                match cx.scratch.routines.portals.close(&name) {
                    true => Ok(()),
                    false => Err(no_cursor(&name).into()),
                }
            }
            Op::Fetch { cursor, way, into } => {
                let direction = self.direction(*way, cx).await?;
                self.fetch(*cursor, direction, into.as_ref(), cx).await
            }
            _ => Ok(()),
        }
    }

    /// Returns the cursor name in a cursor variable, or error 22004.
    fn cursor_name(&self, cursor: usize) -> Result<String, SqlError> {
        let name = self.slots.get(cursor);
        let name = name.as_text().map(str::to_owned);
        name.ok_or_else(|| null_cursor(&self.body.code.variables[cursor].name))
    }

    /// Runs OPEN. A variable without a name gets a generated one.
    async fn open(
        &mut self,
        cursor: usize,
        source: &RowSource,
        scroll: Option<bool>,
        cx: &mut Cx<'_>,
    ) -> Result<(), StatementStop> {
        let named = self.slots.get(cursor);
        if let Some(name) = named.as_text() {
            let portals = &cx.scratch.routines.portals;
            portals.check_free(name, cx.eval)?;
        }
        let (text, mut rows) = match source {
            RowSource::Query(text) => {
                let text = self.body.code.texts[*text].sql.clone();
                (text, self.rows_of(source, cx).await?)
            }
            RowSource::Cursor(cursor, _) => {
                let text = query_of(&self.body.code, *cursor).to_owned();
                (text, self.rows_of(source, cx).await?)
            }
            RowSource::Dynamic(text, using) => {
                let text = self.dynamic_text(*text, cx).await?;
                let (prepared, params) = self.dynamic_of(&text, using, cx).await?;
                (text, self.all_rows(&prepared, &params, cx).await?)
            }
        };
        rows.goes_back = scroll.unwrap_or(rows.goes_back);
        let portals = &mut cx.scratch.routines.portals;
        let name = match named.as_text() {
            Some(name) => name.to_owned(),
            None => portals.unnamed(),
        };
        portals.open(&name, (rows, &text), (cx.tx.machine(), cx.eval))?;
        self.slots.put(cursor, Value::text(name));
        Ok(())
    }

    /// Evaluates the direction of a FETCH.
    async fn direction(
        &mut self,
        way: FetchDirection,
        cx: &mut Cx<'_>,
    ) -> Result<Direction, StatementStop> {
        let (made, count): (fn(i64) -> Direction, usize) = match way {
            FetchDirection::Known(direction) => return Ok(direction),
            FetchDirection::Forward(count) => (Direction::Forward, count),
            FetchDirection::Backward(count) => (|n| Direction::Forward(n.saturating_neg()), count),
            FetchDirection::Absolute(count) => (Direction::Absolute, count),
            FetchDirection::Relative(count) => (Direction::Relative, count),
        };
        let (value, ty) = self.value(count, cx).await?;
        let value = fit(value, &ty, &Type::INT4, cx.eval)?;
        let count = value.as_int().ok_or_else(|| {
            SqlError::new(
                SqlState::new(b"22004"),
                "relative or absolute cursor position is null",
            )
        })?;
        Ok(made(count))
    }

    /// Runs FETCH, or MOVE if there is no target for the row.
    async fn fetch(
        &mut self,
        cursor: usize,
        direction: Direction,
        into: Option<&IntoClause>,
        cx: &mut Cx<'_>,
    ) -> Result<(), StatementStop> {
        let name = self.cursor_name(cursor)?;
        let open = cx.scratch.routines.portals.named(&name, cx.eval)?;
        let way = open.go(direction, into.is_none())?;
        if let Some(into) = into {
            let row = way.numbers().next().and_then(|number| open.row(number));
            let (row, columns) = (row.map(<[Value]>::to_vec), open.columns.clone());
            self.assign_row(into, row, &columns, cx).await?;
        }
        self.found(way.count);
        Ok(())
    }
}

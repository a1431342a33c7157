//! FETCH and MOVE: movement through a cursor's rows, with PostgreSQL's semantics.

use fencepost_planner::RowSink;
use fencepost_sql::bound::Direction;
use fencepost_sql::error::{SqlError, SqlState};
use fencepost_sql::stop::StatementStop;

use super::cursor::Cursor;
use super::{Completion, MaterializedRowsSink, Session, no_cursor};

/// The number of rows that are produced at a time.
const CHUNK: u64 = 256;

/// A sink that discards rows.
struct NullSink;

impl RowSink for NullSink {
    fn row(&mut self, _row: &[fencepost_sql::value::Value]) -> Result<(), SqlError> {
        Ok(())
    }

    fn copy_data(&mut self, _data: &[u8]) -> Result<(), SqlError> {
        Ok(())
    }

    fn rewind(&mut self) -> bool {
        true
    }
}

/// Returns the error 55000 for a backward fetch without SCROLL.
fn forward_only() -> SqlError {
    SqlError::new(
        SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
        "cursor can only scan forward",
    )
    .hint("Declare it with SCROLL option to enable backward scan.")
}

impl Session {
    /// Moves the cursor as `direction` says. Returns the number of rows that were fetched or
    /// skipped.
    pub(super) async fn with_cursor(
        &mut self,
        name: &str,
        direction: Direction,
        moves: bool,
        sink: &mut dyn RowSink,
    ) -> Result<u64, StatementStop> {
        let taken = self.cursors.named.remove_entry(name);
        let (name, mut cursor) = taken.ok_or_else(|| no_cursor(name))?;
        let went = match cursor.failed || !cursor.portal.is_select() {
            true => Err(cannot_run(&name).into()),
            false => self.go(&mut cursor, direction, moves, sink).await,
        };
        cursor.failed |= went.is_err();
        cursor.has_moved();
        self.cursors.named.insert(name, cursor);
        went
    }

    async fn go(
        &mut self,
        cursor: &mut Cursor,
        direction: Direction,
        moves: bool,
        sink: &mut dyn RowSink,
    ) -> Result<u64, StatementStop> {
        let mut nowhere = NullSink;
        let sink = match moves {
            true => &mut nowhere as &mut dyn RowSink,
            false => sink,
        };
        match direction {
            Direction::Forward(0) | Direction::Relative(0) => self.again(cursor, moves, sink).await,
            Direction::Forward(n) if n > 0 => {
                self.forward(cursor, Some(n.unsigned_abs()), sink).await
            }
            Direction::Forward(n) => backward(cursor, Some(n.unsigned_abs()), sink).await,
            Direction::ForwardAll => self.forward(cursor, None, sink).await,
            Direction::BackwardAll if moves => {
                let position = cursor.position;
                rewind(cursor)?;
                let on_row = u64::from(!position.at_end);
                Ok(position.row.saturating_sub(on_row))
            }
            Direction::BackwardAll => backward(cursor, None, sink).await,
            Direction::Absolute(n) => self.absolute(cursor, n, sink).await,
            Direction::Relative(n) => {
                let passed = Some(n.unsigned_abs() - 1);
                match n > 0 {
                    true => {
                        self.forward(cursor, passed, &mut NullSink).await?;
                        self.forward(cursor, Some(1), sink).await
                    }
                    false => {
                        backward(cursor, passed, &mut NullSink).await?;
                        backward(cursor, Some(1), sink).await
                    }
                }
            }
        }
    }

    /// Fetches the current row again.
    async fn again(
        &mut self,
        cursor: &mut Cursor,
        moves: bool,
        sink: &mut dyn RowSink,
    ) -> Result<u64, StatementStop> {
        let on_row = !cursor.position.at_start && !cursor.position.at_end;
        if moves || !on_row {
            return Ok(u64::from(on_row));
        }
        backward(cursor, Some(1), &mut NullSink).await?;
        self.forward(cursor, Some(1), sink).await
    }

    async fn absolute(
        &mut self,
        cursor: &mut Cursor,
        n: i64,
        sink: &mut dyn RowSink,
    ) -> Result<u64, StatementStop> {
        let wanted = n.unsigned_abs();
        if n < 0 {
            self.forward(cursor, None, &mut NullSink).await?;
            backward(cursor, Some(wanted - 1), &mut NullSink).await?;
            return backward(cursor, Some(1), sink).await;
        }
        let at_end = cursor.position.at_end;
        let reached = cursor.position.row + u64::from(at_end);
        if wanted <= reached || at_end && cursor.scrolls() {
            rewind(cursor)?;
        }
        if wanted == 0 {
            return Ok(0);
        }
        let passed = (wanted - 1).saturating_sub(cursor.position.row);
        self.forward(cursor, Some(passed), &mut NullSink).await?;
        self.forward(cursor, Some(1), sink).await
    }

    /// Moves forward by up to `wanted` rows (`None`: all).
    pub(super) async fn forward(
        &mut self,
        cursor: &mut Cursor,
        wanted: Option<u64>,
        sink: &mut dyn RowSink,
    ) -> Result<u64, StatementStop> {
        if cursor.position.at_end || wanted == Some(0) {
            return Ok(0);
        }
        let keeps = cursor.scrolls();
        let from = cursor.position.row;
        let (mut given, mut lost) = (0, 0);
        while wanted.is_none_or(|wanted| given < wanted) {
            let number = from + given + lost + 1;
            if number > cursor.materialized.last() {
                if cursor.over {
                    break;
                }
                if !keeps {
                    cursor.materialized.pass(number - 1);
                }
                let left = wanted.map_or(CHUNK, |wanted| (wanted - given).min(CHUNK));
                self.pull(cursor, left).await?;
                if sink.should_flush() {
                    sink.flush().await?;
                }
                continue;
            }
            if let Some(row) = cursor.materialized.get(number) {
                if self.tx.as_ref().is_some_and(|tx| cursor.has_lost(row, tx)) {
                    lost += 1;
                    continue;
                }
                sink.row(cursor.portal.client_columns(row))?;
                cursor.stands_on(row);
            }
            given += 1;
        }
        let position = &mut cursor.position;
        position.row += given + lost;
        position.at_start &= given == 0;
        position.at_end = wanted.is_none_or(|wanted| given < wanted);
        if !keeps {
            cursor.materialized.pass(from + given + lost);
        }
        Ok(given)
    }

    /// Produces `wanted` more rows of the cursor (0: all).
    pub(super) async fn pull(
        &mut self,
        cursor: &mut Cursor,
        wanted: u64,
    ) -> Result<(), StatementStop> {
        if cursor.over || cursor.failed {
            return Ok(());
        }
        let from = cursor.materialized.last() + 1;
        let mut sink = MaterializedRowsSink::of(&mut cursor.materialized);
        let wanted = usize::try_from(wanted).unwrap_or(0);
        let done = Box::pin(self.run_plan(&mut cursor.portal, wanted, &mut sink, false)).await?;
        if let Some(tx) = &self.tx {
            cursor.note_written(from, tx);
        }
        if matches!(done, Completion::Complete(_)) {
            cursor.end_run();
        }
        Ok(())
    }
}

/// Moves backward by up to `wanted` rows (`None`: all).
async fn backward(
    cursor: &mut Cursor,
    wanted: Option<u64>,
    sink: &mut dyn RowSink,
) -> Result<u64, StatementStop> {
    if !cursor.scrolls() {
        return Err(forward_only().into());
    }
    if cursor.position.at_start || wanted == Some(0) {
        return Ok(0);
    }
    let behind = cursor.position.row + u64::from(cursor.position.at_end);
    let before = behind - 1;
    let given = wanted.map_or(before, |wanted| wanted.min(before));
    for nth in 0..given {
        if let Some(row) = cursor.materialized.get(before - nth) {
            sink.row(cursor.portal.client_columns(row))?;
            cursor.stands_on(row);
        }
        if sink.should_flush() {
            sink.flush().await?;
        }
    }
    let position = &mut cursor.position;
    if given > 0 {
        position.at_end = false;
    }
    match wanted.is_none_or(|wanted| given < wanted) {
        true => {
            position.at_start = true;
            position.row = 0;
        }
        false => position.row = behind - given,
    }
    Ok(given)
}

fn rewind(cursor: &mut Cursor) -> Result<(), SqlError> {
    let position = &mut cursor.position;
    if position.at_start && !position.at_end {
        return Ok(());
    }
    if !cursor.scrolls() {
        return Err(forward_only());
    }
    let position = &mut cursor.position;
    position.row = 0;
    position.at_start = true;
    position.at_end = false;
    Ok(())
}

/// Returns the error 55000 for a portal that has failed.
pub(super) fn cannot_run(name: &str) -> SqlError {
    SqlError::new(
        SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
        format!("portal \"{name}\" cannot be run"),
    )
}

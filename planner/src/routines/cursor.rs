//! OPEN, FETCH, MOVE and CLOSE.

use fencepost_sql::error::{SqlError, SqlState};
use fencepost_sql::plpgsql::{Direction, Op};
use fencepost_sql::stop::Halt;
use fencepost_sql::types::Type;

use super::machine::Machine;
use super::returned::fit;
use super::variables::{Opened, Slot};
use crate::exec::Cx;

impl Machine {
    pub async fn cursor_step(&mut self, op: &Op, cx: &mut Cx<'_>) -> Result<(), Halt> {
        match op {
            Op::Open { cursor, source } => {
                if matches!(self.slots.0[*cursor], Slot::Cursor(Some(_))) {
                    let name = &self.body.code.variables[*cursor].name;
                    let message = format!("cursor \"{name}\" already in use");
                    return Err(SqlError::new(SqlState::DUPLICATE_CURSOR, message).into());
                }
                let rows = self.rows_of(source, cx).await?;
                self.slots.0[*cursor] = Slot::Cursor(Some(Opened {
                    rows,
                    at: 0,
                    loops: false,
                }));
            }
            Op::Close(cursor) => {
                if matches!(self.slots.0[*cursor], Slot::Cursor(None)) {
                    return Err(self.closed(*cursor).into());
                }
                self.slots.0[*cursor] = Slot::Cursor(None);
            }
            Op::Fetch {
                cursor,
                direction,
                count,
                backward,
                into,
            } => {
                let mut steps = 1;
                if let Some(count) = count {
                    let (value, ty) = self.value(*count, cx).await?;
                    let value = fit(value, &ty, &Type::INT8, cx.eval)?;
                    let Some(count) = value.as_int() else {
                        return Err(SqlError::new(
                            SqlState::new(b"22004"),
                            "relative or absolute cursor position is null",
                        )
                        .into());
                    };
                    steps = count;
                }
                if *backward {
                    steps = -steps;
                }
                let Slot::Cursor(Some(open)) = &mut self.slots.0[*cursor] else {
                    return Err(self.closed(*cursor).into());
                };
                let last = open.rows.rows.len() as i64;
                let before = open.at as i64;
                let to = match direction {
                    Direction::Relative => before.saturating_add(steps),
                    Direction::Absolute if steps >= 0 => steps,
                    Direction::Absolute => last + 1 + steps,
                    Direction::End => last + 1,
                    Direction::Start => 0,
                };
                let to = to.clamp(0, last + 1);
                open.at = to as usize;
                let row = match to >= 1 {
                    true => open.rows.rows.get(to as usize - 1).cloned(),
                    false => None,
                };
                let columns = open.rows.columns.clone();
                let found = row.is_some();
                match into {
                    Some(into) => self.assign_row(into, row, &columns, cx).await?,
                    None => {
                        let passed = (to - before).unsigned_abs();
                        self.row_count = passed - u64::from(!found && passed > 0);
                    }
                }
                let count = self.row_count;
                self.found(u64::from(found));
                if into.is_none() {
                    self.row_count = count;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// 34000
    fn closed(&self, cursor: usize) -> SqlError {
        let name = &self.body.code.variables[cursor].name;
        SqlError::new(
            SqlState::INVALID_CURSOR_NAME,
            format!("cursor \"{name}\" does not exist"),
        )
    }
}

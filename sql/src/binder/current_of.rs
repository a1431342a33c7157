//! `WHERE CURRENT OF`: the place of the row that a cursor is on.
//!
//! It is a value that the statement is given, of a cursor of PL/pgSQL by a parameter and of one of the session by a call, and
//! leads to the row as an index would. What is no such row is found when the statement runs.

use sqlparser::ast;

use super::{Binder, names};
use crate::bound::Expr;
use crate::catalog::TableDef;
use crate::cursors::CURRENT_OF;
use crate::error::{SqlError, SqlState};
use crate::parser::cursor_of;
use crate::types::Type;
use crate::value::Value;

impl Binder<'_> {
    /// The place that WHERE names, if it is CURRENT OF a cursor.
    pub(super) fn current_of(
        &mut self,
        filter: Option<&ast::Expr>,
        table: &TableDef,
    ) -> Result<Option<Expr>, SqlError> {
        let Some(cursor) = filter.and_then(cursor_of) else {
            return Ok(None);
        };
        if table.is_view() {
            let message = "WHERE CURRENT OF on a view is not implemented";
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
        }
        if table.is_parent() {
            return Err(SqlError::unsupported(
                "WHERE CURRENT OF on a partitioned table",
            ));
        }
        let name = names::fold(cursor);
        if let Some(place) = self.place_variable(&name, table) {
            return Ok(Some(place));
        }
        let args =
            [name, table.name.clone()].map(|text| Expr::constant(Type::TEXT, Value::text(text)));
        let mut args = Vec::from(args);
        args.push(Expr::constant(Type::INT8, Value::Int8(i64::from(table.id))));
        self.call(CURRENT_OF, args).map(Some)
    }
}

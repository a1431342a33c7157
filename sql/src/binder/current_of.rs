//! `WHERE CURRENT OF`: the location of the row that a cursor is on.
//!
//! The location is a value that the statement receives. It is a parameter for a PL/pgSQL cursor,
//! and the result of a function call for a cursor of the session. It leads to the row as an index
//! entry would. An invalid position of the cursor is detected when the statement runs.

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
    /// Returns the row location that WHERE names, if the condition is CURRENT OF a cursor.
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

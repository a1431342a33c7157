//! DECLARE … CURSOR.

use super::Binder;
use super::locking::name_of;
use crate::bound::{CursorOptions, Declare, From, LeafSource, LockingClause, Select, Statement};
use crate::error::{SqlError, SqlState};
use crate::parser;

impl Binder<'_> {
    pub(super) fn declare(
        &mut self,
        name: &str,
        options: CursorOptions,
        query: &parser::Statement,
    ) -> Result<Statement, SqlError> {
        let mut query = self.statement(query)?;
        let select = match &mut query {
            Statement::Select(select) => select,
            Statement::With(changes) if matches!(changes.main, Statement::Select(_)) => {
                return Err(SqlError::new(
                    SqlState::FEATURE_NOT_SUPPORTED,
                    "DECLARE CURSOR must not contain data-modifying statements in WITH",
                ));
            }
            _ => {
                return Err(SqlError::new(
                    SqlState::SYNTAX_ERROR,
                    "a cursor is of a query",
                ));
            }
        };
        if let Some(locking) = &select.locking {
            check_locking(options, locking)?;
        }
        select.places = true;
        let goes_back = goes_back(select);
        Ok(Statement::Declare(Declare {
            name: name.to_owned(),
            options,
            goes_back,
            query: Box::new(query),
        }))
    }
}

/// Checks that the options of the cursor are compatible with row locks.
fn check_locking(options: CursorOptions, locking: &LockingClause) -> Result<(), SqlError> {
    let clause = name_of(locking.hold.strength);
    let refused = |state, message: String, what: &str| {
        Err(SqlError::new(state, message).detail(format!("{what} cursors must be READ ONLY.")))
    };
    let unsupported = SqlState::FEATURE_NOT_SUPPORTED;
    if options.hold {
        let message = format!("DECLARE CURSOR WITH HOLD ... {clause} is not supported");
        return refused(unsupported, message, "Holdable");
    }
    if options.scroll == Some(true) {
        let message = format!("DECLARE SCROLL CURSOR ... {clause} is not supported");
        return refused(unsupported, message, "Scrollable");
    }
    if options.insensitive {
        let message = format!("DECLARE INSENSITIVE CURSOR ... {clause} is not valid");
        return refused(SqlState::INVALID_CURSOR_DEFINITION, message, "Insensitive");
    }
    Ok(())
}

/// Returns whether PostgreSQL, too, can read the rows of a query backward without SCROLL.
pub fn goes_back(select: &Select) -> bool {
    if select.locking.is_some() {
        return false;
    }
    if !select.order_by.is_empty() {
        return true;
    }
    if select.grouping.is_some() || select.distinct || !select.windows.is_empty() {
        return false;
    }
    match &select.from {
        From::Nothing | From::Join(_) => false,
        From::Leaf(leaf) => match &leaf.source {
            LeafSource::Subquery(inner) => goes_back(inner),
            LeafSource::Cte(cte) => goes_back(&cte.query),
            LeafSource::Set(_) | LeafSource::Lateral(_) => false,
            LeafSource::Table(_)
            | LeafSource::Function { .. }
            | LeafSource::System(_)
            | LeafSource::Values(_)
            | LeafSource::Recursive(_)
            | LeafSource::Work(_) => true,
        },
    }
}

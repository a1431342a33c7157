//! Actions of ALTER TABLE that sqlparser does not read. Each must be the only action of its
//! statement.
//!
//! ```text
//! ALTER TABLE t  ALTER COLUMN c DROP EXPRESSION     ALTER CONSTRAINT k DEFERRABLE …
//!                ADD CONSTRAINT k { UNIQUE | PRIMARY KEY } USING INDEX i
//! ```

use super::cursor::Cursor;
use super::lexer::Token;
use crate::error::SqlError;

/// An ALTER TABLE statement with one of these actions.
#[derive(Debug)]
pub struct ConstraintActionSyntax {
    /// IF EXISTS
    pub if_exists: bool,
    /// The schema and name of the table.
    pub table: (Option<String>, String),
    /// The action.
    pub does: ConstraintAction,
}

/// The action of the statement.
#[derive(Debug)]
pub enum ConstraintAction {
    /// Turns a generated column into a plain column.
    DropExpression {
        /// The column.
        column: String,
        /// Whether a column that is not generated is accepted.
        if_exists: bool,
    },
    /// Changes when a foreign key is checked.
    Defer {
        /// The name of the constraint.
        name: String,
        /// Whether it is DEFERRABLE, and whether it is INITIALLY DEFERRED.
        when: (bool, bool),
    },
    /// Makes an existing unique index the index of a new constraint.
    UseIndex {
        /// The name of the constraint; `None` for the name of the index.
        name: Option<String>,
        /// Whether the constraint is a primary key; otherwise it is UNIQUE.
        primary: bool,
        /// The index.
        index: String,
        /// Whether it is DEFERRABLE, and whether it is INITIALLY DEFERRED.
        when: (bool, bool),
    },
}

/// Parses the statement; returns `None` if it has none of these actions.
pub(super) fn alter(
    text: &str,
    tokens: &[Token],
) -> Result<Option<ConstraintActionSyntax>, SqlError> {
    let is = |i: usize, word: &str| tokens.get(i).is_some_and(|t: &Token| t.is(text, word));
    let concerned = |i: usize| {
        (is(i, "drop") && is(i + 1, "expression"))
            || (is(i, "alter") && is(i + 1, "constraint"))
            || (is(i, "using") && is(i + 1, "index"))
    };
    if !is(1, "table") || !(2..tokens.len()).any(concerned) {
        return Ok(None);
    }
    let mut c = Cursor::new(text, &tokens[2..]);
    let if_exists = c.accept_all(&["if", "exists"]);
    c.accept("only");
    let table = c.qualified()?;
    let does = if c.accept_all(&["alter", "constraint"]) {
        let name = c.identifier()?;
        let when = when(&mut c)?;
        ConstraintAction::Defer { name, when }
    } else if c.accept("alter") {
        c.accept("column");
        let column = c.identifier()?;
        if !c.accept_all(&["drop", "expression"]) {
            return Ok(None);
        }
        let if_exists = c.accept_all(&["if", "exists"]);
        ConstraintAction::DropExpression { column, if_exists }
    } else if c.accept("add") {
        let name = match c.accept("constraint") {
            true => Some(c.identifier()?),
            false => None,
        };
        let primary = c.accept_all(&["primary", "key"]);
        if !primary && !c.accept("unique") || !c.accept_all(&["using", "index"]) {
            return Ok(None);
        }
        ConstraintAction::UseIndex {
            name,
            primary,
            index: c.identifier()?,
            when: when(&mut c)?,
        }
    } else {
        return Ok(None);
    };
    if c.peek().is_some() {
        let what = "several actions with one of a constraint or expression";
        return Err(SqlError::unsupported(what));
    }
    Ok(Some(ConstraintActionSyntax {
        if_exists,
        table,
        does,
    }))
}

/// Reads `[NOT] DEFERRABLE` and `INITIALLY { DEFERRED | IMMEDIATE }`. Returns whether the
/// constraint is deferrable and whether it is initially deferred.
fn when(c: &mut Cursor<'_>) -> Result<(bool, bool), SqlError> {
    let (mut deferrable, mut deferred) = (None, false);
    loop {
        if c.accept_all(&["not", "deferrable"]) {
            deferrable = Some(false);
        } else if c.accept("deferrable") {
            deferrable = Some(true);
        } else if c.accept("initially") {
            deferred = c.accept("deferred");
            if !deferred {
                c.expect("immediate")?;
            }
        } else {
            break;
        }
    }
    if deferred && deferrable == Some(false) {
        return Err(SqlError::new(
            crate::error::SqlState::SYNTAX_ERROR,
            "constraint declared INITIALLY DEFERRED must be DEFERRABLE",
        ));
    }
    Ok((deferrable.unwrap_or(deferred), deferred))
}

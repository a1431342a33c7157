//! Actions of ALTER TABLE that sqlparser does not read; each stands alone in its statement.
//!
//! ```text
//! ALTER TABLE t  ALTER COLUMN c DROP EXPRESSION   ALTER CONSTRAINT k DEFERRABLE …
//!                ADD CONSTRAINT k { UNIQUE | PRIMARY KEY } USING INDEX i
//! ```

use super::cursor::Cursor;
use super::lexer::Token;
use crate::error::SqlError;

/// Such a statement.
#[derive(Debug)]
pub struct ConstraintActionSyntax {
    /// IF EXISTS
    pub if_exists: bool,
    /// Schema and name of the table.
    pub table: (Option<String>, String),
    /// What is done.
    pub does: ConstraintAction,
}

/// What is done.
#[derive(Debug)]
pub enum ConstraintAction {
    /// A generated column becomes a plain one.
    DropExpression {
        /// The column.
        column: String,
        /// It may be none.
        if_exists: bool,
    },
    /// A foreign key is checked at another time.
    Defer {
        /// Its name.
        name: String,
        /// DEFERRABLE, INITIALLY DEFERRED
        when: (bool, bool),
    },
    /// An index becomes the constraint that it could have come with.
    UseIndex {
        /// The constraint's name, if it gets one of its own.
        name: Option<String>,
        /// PRIMARY KEY
        primary: bool,
        /// The index.
        index: String,
        /// DEFERRABLE, INITIALLY DEFERRED
        when: (bool, bool),
    },
}

/// The statement, if it is one of these.
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

/// `[NOT] DEFERRABLE`, `INITIALLY { DEFERRED | IMMEDIATE }`
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

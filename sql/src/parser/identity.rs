//! Identity columns. The options of `GENERATED … AS IDENTITY (…)` can have any order and are parsed
//! separately from the rest of the statement. So are actions of ALTER TABLE that sqlparser does not
//! know.

use std::ops::Range;

use super::cursor::Cursor;
use super::lexer::{self, Kind, Token};
use super::utility::{changed_sequence, sequence_options};
use crate::bound::SequenceOptions;
use crate::catalog::Identity;
use crate::error::SqlError;

/// `ALTER TABLE … ALTER COLUMN …` with one of the actions `SET GENERATED …`, `DROP IDENTITY [IF
/// EXISTS]`, `SET sequence option …`, `RESTART …`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdentitySyntax {
    /// The schema and name of the table.
    pub table: (Option<String>, String),
    /// The column.
    pub column: String,
    /// SET GENERATED; `None` is DROP IDENTITY.
    pub identity: Option<Identity>,
    /// DROP IDENTITY IF EXISTS
    pub if_exists: bool,
    /// The new options of the sequence; for statements of RESTART and SET options only.
    pub sequence: Option<SequenceOptions>,
}

/// The words that begin a sequence option.
const OF_SEQUENCES: [&str; 7] = [
    "increment",
    "minvalue",
    "maxvalue",
    "no",
    "start",
    "cache",
    "cycle",
];

/// Parses such a statement after ALTER; returns `None` for any other.
pub(super) fn alter(text: &str, tokens: &[Token]) -> Result<Option<IdentitySyntax>, SqlError> {
    let is = |i: usize, word: &str| tokens.get(i).is_some_and(|t: &Token| t.is(text, word));
    let sets = |i: &usize| is(*i, "set") && is(i + 1, "generated");
    let drops = |i: &usize| is(*i, "drop") && is(i + 1, "identity");
    let options = |i: &usize| is(*i, "set") && OF_SEQUENCES.iter().any(|word| is(i + 1, word));
    let about = |i: usize| sets(&i) || drops(&i) || options(&i) || is(i, "restart");
    if !is(1, "table") || !(0..tokens.len()).any(about) {
        return Ok(None);
    }
    let mut c = Cursor::new(text, &tokens[2..]);
    c.accept_all(&["if", "exists"]);
    c.accept("only");
    let table = c.qualified()?;
    if !c.accept("alter") {
        // DROP of a column that has one of these words as its name.
        return Ok(None);
    }
    c.accept("column");
    let column = c.identifier()?;
    let mut syntax = IdentitySyntax {
        table,
        column,
        identity: None,
        if_exists: false,
        sequence: None,
    };
    let said = |c: &Cursor<'_>| {
        let next = c.peek_after(1);
        c.sees("restart")
            || c.sees("set") && next.is_some_and(|t| OF_SEQUENCES.iter().any(|w| t.is(text, w)))
    };
    if said(&c) {
        // SET precedes each option except RESTART.
        let mut left = Vec::new();
        while let Some(token) = c.next_token() {
            if !token.is(text, "set") {
                left.push(token);
            }
        }
        let mut options = Cursor::owning(text, left);
        syntax.sequence = Some(changed_sequence(&mut options)?);
        return Ok(Some(syntax));
    }
    let concerns = (0..tokens.len()).any(|i| sets(&i) || drops(&i));
    if !sets_or_drops(&c) && !concerns {
        return Ok(None);
    }
    if c.accept_all(&["drop", "identity"]) {
        syntax.if_exists = c.accept_all(&["if", "exists"]);
    } else if c.accept_all(&["set", "generated", "always"]) {
        syntax.identity = Some(Identity::Always);
    } else if c.accept_all(&["set", "generated", "by", "default"]) {
        syntax.identity = Some(Identity::ByDefault);
    } else {
        return Err(SqlError::unsupported(
            "this ALTER TABLE of an identity column",
        ));
    }
    if c.peek().is_some() {
        return Err(SqlError::unsupported(
            "several actions with one of an identity column",
        ));
    }
    Ok(Some(syntax))
}

fn sets_or_drops(c: &Cursor<'_>) -> bool {
    c.sees_all(&["set", "generated"]) || c.sees_all(&["drop", "identity"])
}

/// Returns the token range of the options of each identity column, including the parentheses.
pub(super) fn brackets(text: &str, tokens: &[Token]) -> Vec<Range<usize>> {
    let is = |i: usize, word: &str| tokens.get(i).is_some_and(|t: &Token| t.is(text, word));
    let kind = |i: usize| tokens.get(i).map(|token| token.kind);
    let opens =
        |i: &usize| is(*i, "as") && is(i + 1, "identity") && kind(i + 2) == Some(Kind::Open);
    let closes = |i: usize| {
        let close = (i + 3..tokens.len()).find(|j| kind(*j) == Some(Kind::Close))?;
        Some(i + 2..close + 1)
    };
    (0..tokens.len()).filter(opens).filter_map(closes).collect()
}

/// Returns the options of the identity column whose name is at the character `column`.
pub(crate) fn identity_options(sql: &str, column: u32) -> Result<SequenceOptions, SqlError> {
    let tokens = lexer::tokens(sql)?;
    let is_identity = |i: &usize| {
        let token = &tokens[*i];
        token.is(sql, "identity") && lexer::position(sql, token.start) > column
    };
    let Some(identity) = (0..tokens.len()).find(is_identity) else {
        return Ok(SequenceOptions::default());
    };
    let mut own = brackets(sql, &tokens).into_iter();
    match own.find(|range| range.start == identity + 1) {
        None => Ok(SequenceOptions::default()),
        Some(range) => {
            let inner = &tokens[range.start + 1..range.end - 1];
            sequence_options(&mut Cursor::new(sql, inner))
        }
    }
}

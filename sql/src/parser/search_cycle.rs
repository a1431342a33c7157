//! SEARCH and CYCLE of a WITH query, which sqlparser does not read. They are blanked out; the tree
//! carries their text in a name.
//!
//! ```text
//! SEARCH { BREADTH | DEPTH } FIRST BY column, … SET column
//! CYCLE column, … SET column [TO value DEFAULT value] USING column
//! ```

use sqlparser::ast;

use super::cursor::Cursor;
use super::dialect::EVERY_FIELD;
use super::lexer::{self, Kind, Token};
use super::position_of;
use crate::error::SqlError;
use crate::walk::{TreeMut, VisitorMut};

/// The SEARCH and CYCLE clauses of a WITH query.
#[derive(Debug)]
pub(crate) struct SearchCycle {
    pub(crate) search: Option<Search>,
    pub(crate) cycle: Option<Cycle>,
}

/// A SEARCH clause.
#[derive(Debug)]
pub(crate) struct Search {
    pub(crate) depth: bool,
    pub(crate) columns: Vec<String>,
    pub(crate) sequence: String,
}

/// A CYCLE clause.
#[derive(Debug)]
pub(crate) struct Cycle {
    pub(crate) columns: Vec<String>,
    pub(crate) mark: String,
    /// The TO and DEFAULT expressions, as text.
    pub(crate) values: Option<(String, String)>,
    pub(crate) path: String,
}

/// The clauses of one WITH query and their position in a text.
pub(super) struct Clauses {
    /// The position of the query's name, in characters from 1.
    position: u32,
    pub(super) tokens: std::ops::Range<usize>,
    text: String,
}

/// Returns the clauses of all WITH queries of a text.
pub(super) fn clauses(text: &str, tokens: &[Token]) -> Result<Vec<Clauses>, SqlError> {
    let is = |i: usize, word: &str| tokens.get(i).is_some_and(|t: &Token| t.is(text, word));
    let mut found = Vec::new();
    let mut next = 0;
    for i in 1..tokens.len() {
        if i < next || tokens[i - 1].text(text) != ")" || !(is(i, "search") || is(i, "cycle")) {
            continue;
        }
        let Some(name) = name_before(text, tokens, i - 1) else {
            continue;
        };
        let mut c = Cursor::new(text, &tokens[i..]);
        clause(&mut c)?;
        let left = c.peek().map_or(0, |_| {
            let rest = c.rest().len();
            tokens
                .iter()
                .filter(|t| t.start + rest >= text.len())
                .count()
        });
        next = tokens.len() - left;
        let of = text.get(tokens[i].start..tokens[next - 1].end);
        found.push(Clauses {
            position: lexer::position(text, tokens[name].start),
            tokens: i..next,
            text: of.unwrap_or("").to_owned(),
        });
    }
    Ok(found)
}

/// Returns the token of the name of the WITH query whose closing parenthesis is at `close`.
fn name_before(text: &str, tokens: &[Token], close: usize) -> Option<usize> {
    let is = |i: usize, word: &str| tokens[i].is(text, word);
    let mut at = opening(tokens, close)?.checked_sub(1)?;
    if is(at, "materialized") {
        at = at.checked_sub(1)?;
        at = at.checked_sub(usize::from(is(at, "not")))?;
    }
    if !is(at, "as") {
        return None;
    }
    at = at.checked_sub(1)?;
    if tokens[at].kind == Kind::Close {
        at = opening(tokens, at)?.checked_sub(1)?;
    }
    matches!(tokens[at].kind, Kind::Word | Kind::QuotedIdent).then_some(at)
}

/// Returns the opening parenthesis for a closing one.
pub(super) fn opening(tokens: &[Token], close: usize) -> Option<usize> {
    let mut depth = 0usize;
    (0..=close).rev().find(|i| {
        match tokens[*i].kind {
            Kind::Close => depth += 1,
            Kind::Open => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0
    })
}

fn clause(c: &mut Cursor<'_>) -> Result<SearchCycle, SqlError> {
    let mut both = SearchCycle {
        search: None,
        cycle: None,
    };
    if c.accept("search") {
        let depth = c.accept("depth");
        if !depth {
            c.expect("breadth")?;
        }
        c.expect("first")?;
        c.expect("by")?;
        let columns = names(c)?;
        c.expect("set")?;
        both.search = Some(Search {
            depth,
            columns,
            sequence: c.identifier()?,
        });
    }
    if c.accept("cycle") {
        let columns = names(c)?;
        c.expect("set")?;
        let mark = c.identifier()?;
        let mut values = None;
        if c.accept("to") {
            let value = c.text_until(&|sql, token| token.is(sql, "default"));
            c.expect("default")?;
            let default = c.text_until(&|sql, token| token.is(sql, "using"));
            values = Some((value.to_owned(), default.to_owned()));
        }
        c.expect("using")?;
        both.cycle = Some(Cycle {
            columns,
            mark,
            values,
            path: c.identifier()?,
        });
    }
    Ok(both)
}

fn names(c: &mut Cursor<'_>) -> Result<Vec<String>, SqlError> {
    let mut names = vec![c.identifier()?];
    while c.accept_kind(Kind::Comma).is_some() {
        names.push(c.identifier()?);
    }
    Ok(names)
}

/// Attaches the clauses to the WITH queries of a tree.
pub(super) fn attach(tree: &mut impl TreeMut, text: &str, clauses: &[Clauses]) {
    // The visitor never stops early.
    let _ = tree.walk_mut(&mut ClauseAttacher { text, clauses });
}

struct ClauseAttacher<'a> {
    text: &'a str,
    clauses: &'a [Clauses],
}

impl VisitorMut for ClauseAttacher<'_> {
    fn query(&mut self, query: &mut ast::Query) -> Result<(), SqlError> {
        for cte in query.with.iter_mut().flat_map(|with| &mut with.cte_tables) {
            let start = cte.alias.name.span.start;
            let position = position_of(self.text, start.line, start.column);
            let of = self.clauses.iter().find(|of| of.position == position);
            cte.from =
                of.map(|of| ast::Ident::with_quote('"', format!("{EVERY_FIELD}{}", of.text)));
        }
        Ok(())
    }
}

/// Returns the clauses of a WITH query, if it has any.
pub(crate) fn search_cycle(cte: &ast::Cte) -> Result<Option<SearchCycle>, SqlError> {
    let text = cte
        .from
        .as_ref()
        .and_then(|of| of.value.strip_prefix(EVERY_FIELD));
    let Some(text) = text else {
        return Ok(None);
    };
    let tokens = lexer::tokens(text)?;
    clause(&mut Cursor::new(text, &tokens)).map(Some)
}

/// Restores the original spelling of replaced constructs in the text of a query that was deparsed
/// from its tree.
pub(crate) fn spelled(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(EVERY_FIELD) {
        let (before, from) = rest.split_at(at);
        let from = &from[EVERY_FIELD.len_utf8()..];
        let clause = before.strip_suffix(" FROM \"");
        let list = before.strip_suffix(", \"").map(|list| (list, "\""));
        let list = list.or_else(|| before.strip_suffix(", ").map(|list| (list, "")));
        match (clause, list) {
            (Some(before), _) => {
                let end = closing_quote(from);
                out += before;
                out.push(' ');
                out += &from[..end].replace("\"\"", "\"");
                rest = from.get(end + 1..).unwrap_or("");
            }
            (None, Some((before, quote))) => {
                let end = match quote.is_empty() {
                    true => from.find(')').unwrap_or(from.len()),
                    false => closing_quote(from) + 1,
                };
                out += before;
                out += ") AS ";
                out += quote;
                out += from.get(..end).unwrap_or(from);
                rest = from.get(end + 1..).unwrap_or("");
            }
            (None, None) => {
                out += before;
                out.push(EVERY_FIELD);
                rest = from;
            }
        }
    }
    out + rest
}

/// Returns the position of the quote that ends a name.
fn closing_quote(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        match (byte, bytes.get(at + 1)) {
            (b'"', Some(b'"')) => at += 2,
            (b'"', _) => return at,
            _ => at += 1,
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::spelled;

    #[test]
    fn placeholders_are_deparsed_as_original_text() {
        for (text, wanted) in [
            (
                "a JOIN b USING(x, \u{1}j) WHERE 1",
                "a JOIN b USING(x) AS j WHERE 1",
            ),
            (
                "a JOIN b USING(x, \"\u{1}J \"\"k\")",
                "a JOIN b USING(x) AS \"J \"\"k\"",
            ),
            (
                "t AS (SELECT 1) FROM \"\u{1}CYCLE \"\"A\"\" SET m USING p\" SELECT",
                "t AS (SELECT 1) CYCLE \"A\" SET m USING p SELECT",
            ),
            ("SELECT (row).\u{1}", "SELECT (row).\u{1}"),
        ] {
            assert_eq!(spelled(text), wanted);
        }
    }
}

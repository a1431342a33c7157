//! Syntax that sqlparser reads only in another spelling.
//!
//! ```text
//! SUBSTRING(x SIMILAR p ESCAPE e)           is   SUBSTRING(x FROM p FOR e)
//! ORDER BY x USING <                        is   ORDER BY x ASC
//! FETCH FIRST n ROWS ONLY OFFSET m          is   LIMIT n OFFSET m
//! integer ARRAY[4]                          is   integer[4]
//! FETCH FIRST (1 + 1) ROWS ONLY             is   LIMIT (1 + 1)
//! GROUP BY DISTINCT a, b                    is   GROUP BY a, b
//! GROUPING SETS (a, GROUPING SETS (b, c))   is   GROUPING SETS (a, b, c)
//! ```
//! No new spelling is longer than the original, so positions stay. The search is linear: a text
//! that repeats these words is not searched to its end from each of them.

use std::cell::OnceCell;
use std::ops::Range;

use super::is_reserved;
use super::lexer::{Kind, Token};
use crate::error::SqlError;
use crate::types::TypeKind;

/// The last words of type names that differ from their names in the catalog.
const OTHER_NAMES: [&str; 14] = [
    "bigint",
    "bit",
    "boolean",
    "char",
    "character",
    "dec",
    "decimal",
    "float",
    "int",
    "integer",
    "precision",
    "real",
    "smallint",
    "varying",
];

/// Words that are not types and that can precede an array.
const BEFORE_EXPRESSIONS: [&str; 8] = [
    "between", "by", "escape", "ilike", "like", "overlaps", "return", "values",
];

/// The words for several grouping sets in one GROUP BY.
const SETS: [&str; 3] = ["rollup", "cube", "grouping"];

type Replacement = (Range<usize>, &'static str);

/// The parentheses of a text, by token.
struct Parentheses {
    /// For each token, the innermost open parenthesis before it.
    around: Vec<Option<usize>>,
    /// For each opening parenthesis, its closing one, if there is one.
    ends: Vec<Option<usize>>,
}

impl Parentheses {
    fn of(tokens: &[Token]) -> Parentheses {
        let mut brackets = Parentheses {
            around: Vec::with_capacity(tokens.len()),
            ends: vec![None; tokens.len()],
        };
        let mut open = Vec::new();
        for (i, token) in tokens.iter().enumerate() {
            brackets.around.push(open.last().copied());
            match token.kind {
                Kind::Open => open.push(i),
                Kind::Close => {
                    if let Some(begin) = open.pop() {
                        brackets.ends[begin] = Some(i);
                    }
                }
                _ => {}
            }
        }
        brackets
    }

    /// Returns the tokens from `from` on at the same parenthesis level, up to `end` or a semicolon.
    fn level<'t>(
        &'t self,
        tokens: &'t [Token],
        from: usize,
        end: impl Fn(&Token) -> bool + 't,
    ) -> impl Iterator<Item = usize> + 't {
        let mut next = Some(from);
        std::iter::from_fn(move || {
            let at = next?;
            let token = tokens.get(at)?;
            let over = matches!(token.kind, Kind::Close | Kind::Semicolon) || end(token);
            if over {
                next = None;
                return None;
            }
            next = match token.kind {
                Kind::Open => self.ends[at].map(|close| close + 1),
                _ => Some(at + 1),
            };
            Some(at)
        })
    }
}

/// Returns the byte ranges to replace and their replacements.
///
/// # Errors
/// If the syntax has no equivalent spelling.
pub(super) fn words(text: &str, tokens: &[Token]) -> Result<Vec<Replacement>, SqlError> {
    let is = |i: usize, word: &str| tokens.get(i).is_some_and(|t: &Token| t.is(text, word));
    let (brackets, last_set) = (OnceCell::new(), OnceCell::new());
    let brackets = || brackets.get_or_init(|| Parentheses::of(tokens));
    let is_set = |t: &Token| SETS.iter().any(|word| t.is(text, word));
    let last_set = || *last_set.get_or_init(|| tokens.iter().rposition(is_set));
    let mut found = Vec::new();
    for (i, token) in tokens.iter().enumerate() {
        let before = &tokens[..i];
        if token.kind != Kind::Word || before.last().is_some_and(|t| t.kind == Kind::Dot) {
            continue;
        }
        if token.is(text, "using") {
            let next = tokens.get(i + 1).filter(|next| next.kind == Kind::Operator);
            let order = match next.map(|next| next.text(text)) {
                Some("<") => "ASC",
                Some(">") => "DESC",
                _ => continue,
            };
            found.push((token.start..tokens[i + 1].end, order));
        } else if token.is(text, "similar")
            && !is(i + 1, "to")
            && is_in_substring(text, before, brackets())
        {
            found.push((token.start..token.end, "FROM"));
            let another = |t: &Token| t.is(text, "similar");
            let mut rest = brackets().level(tokens, i + 1, another);
            if let Some(escape) = rest.find(|at| is(*at, "escape")) {
                found.push((tokens[escape].start..tokens[escape].end, "FOR"));
            }
        } else if token.is(text, "fetch") && (is(i + 1, "first") || is(i + 1, "next")) {
            found.extend(limit_of(text, tokens, i, brackets())?);
        } else if token.is(text, "group") && is(i + 1, "by") {
            let sets = last_set().is_some_and(|last| last > i + 2);
            found.extend(of_groups(text, &tokens[i + 2..], sets)?);
        } else if token.is(text, "grouping") && is(i + 1, "sets") {
            found.extend(sets_of_sets(text, tokens, i, brackets()));
        } else if token.is(text, "array") && ends_a_type(text, before) {
            let bracket = tokens.get(i + 1).map(|next| next.text(text));
            let size = if bracket == Some("[") { "" } else { "[]" };
            found.push((token.start..token.end, size));
        }
    }
    Ok(found)
}

/// Handles DISTINCT and ALL of GROUP BY. DISTINCT has no effect with one grouping set, and ALL
/// never has. `sets` tells whether the text can have several sets.
fn of_groups(text: &str, tokens: &[Token], sets: bool) -> Result<Option<Replacement>, SqlError> {
    let Some((first, rest)) = tokens.split_first() else {
        return Ok(None);
    };
    let begins_key = |token: &Token| token.kind != Kind::Close && token.kind != Kind::Semicolon;
    let ends = ["having", "order", "limit", "window", "union"];
    let is_end = |token: &Token| ends.iter().any(|word| token.is(text, word));
    let listed = rest.first().is_some_and(|t| begins_key(t) && !is_end(t));
    if first.is(text, "distinct") {
        if sets {
            return Err(SqlError::unsupported("GROUP BY DISTINCT of grouping sets"));
        }
    } else if !first.is(text, "all") || !listed {
        return Ok(None);
    }
    Ok(Some((first.start..first.end, "")))
}

/// Returns the words and parentheses of GROUPING SETS inside GROUPING SETS: the inner sets become
/// sets of the outer one.
fn sets_of_sets(
    text: &str,
    tokens: &[Token],
    at: usize,
    brackets: &Parentheses,
) -> Vec<Replacement> {
    let is = |i: usize, word: &str| tokens.get(i).is_some_and(|t: &Token| t.is(text, word));
    let among = brackets.around[at].filter(|open| *open >= 2);
    let is_among_sets = among.is_some_and(|open| is(open - 2, "grouping") && is(open - 1, "sets"));
    let close = brackets.ends.get(at + 2).copied().flatten();
    let Some(close) = close.filter(|_| is_among_sets) else {
        return Vec::new();
    };
    let parts = [at, at + 1, at + 2, close];
    let blank = parts.map(|part| (tokens[part].start..tokens[part].end, ""));
    blank.to_vec()
}

/// Returns the replacements that turn a FETCH before OFFSET into a LIMIT.
fn limit_of(
    text: &str,
    tokens: &[Token],
    fetch: usize,
    brackets: &Parentheses,
) -> Result<Vec<Replacement>, SqlError> {
    let is = |i: usize, word: &str| tokens.get(i).is_some_and(|t: &Token| t.is(text, word));
    let another = |t: &Token| t.is(text, "fetch");
    let mut level = brackets.level(tokens, fetch + 2, another);
    let Some(rows) = level.find(|at| is(*at, "row") || is(*at, "rows")) else {
        return Ok(Vec::new());
    };
    if is(rows + 1, "with") && is(rows + 2, "ties") && is(rows + 3, "offset") {
        let what = "OFFSET behind FETCH ... WITH TIES";
        return Err(SqlError::unsupported(what));
    }
    // After FETCH FIRST, sqlparser accepts only a literal.
    let opens = tokens.get(fetch + 2).is_some_and(|t| t.kind == Kind::Open);
    let computes = opens && rows != fetch + 5;
    if !is(rows + 1, "only") || !(computes || is(rows + 2, "offset")) {
        return Ok(Vec::new());
    }
    let count = if rows == fetch + 2 { "1" } else { "" };
    let words = [
        (fetch, "LIMIT"),
        (fetch + 1, count),
        (rows, ""),
        (rows + 1, ""),
    ];
    let spelled = words.map(|(at, how)| (tokens[at].start..tokens[at].end, how));
    Ok(spelled.to_vec())
}

/// Returns whether the last token ends a type. A user-defined type is recognized only after `::`
/// and in definitions of columns and functions.
fn ends_a_type(text: &str, tokens: &[Token]) -> bool {
    let Some((last, before)) = tokens.split_last() else {
        return false;
    };
    let defines = || tokens[0].is(text, "create") || tokens[0].is(text, "alter");
    let cast = || before.last().is_some_and(|t| t.text(text) == "::");
    match last.kind {
        Kind::Word => {
            let word = last.text(text).to_ascii_lowercase();
            let word = word.as_str();
            let zone = word == "zone" && before.last().is_some_and(|t| t.is(text, "time"));
            let any = !is_reserved(word) && !BEFORE_EXPRESSIONS.contains(&word);
            zone || OTHER_NAMES.contains(&word)
                || TypeKind::from_catalog_name(word).is_some()
                || (any && (defines() || cast()))
        }
        Kind::QuotedIdent => defines() || cast(),
        Kind::Close => {
            // As in `numeric(10, 2)`; the opening parenthesis is never further back.
            let open = before
                .iter()
                .rev()
                .take(4)
                .position(|t| t.kind == Kind::Open);
            let named = open.map(|back| &before[..before.len() - 1 - back]);
            named.is_some_and(|of| {
                let ends_in_word = of.last().is_some_and(|t| t.kind == Kind::Word);
                ends_in_word && ends_a_type(text, of)
            })
        }
        _ => false,
    }
}

/// Returns whether the innermost open parenthesis of these tokens belongs to SUBSTRING and is not
/// empty.
fn is_in_substring(text: &str, tokens: &[Token], brackets: &Parentheses) -> bool {
    let Some(open) = brackets.around[tokens.len()] else {
        return false;
    };
    let function = tokens[..open].last();
    open + 1 < tokens.len() && function.is_some_and(|t| t.is(text, "substring"))
}

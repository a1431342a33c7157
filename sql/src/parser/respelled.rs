//! What sqlparser reads in another spelling only.
//!
//! ```text
//! SUBSTRING(x SIMILAR p ESCAPE e)    is   SUBSTRING(x FROM p FOR e)
//! ORDER BY x USING <                 is   ORDER BY x ASC
//! FETCH FIRST n ROWS ONLY OFFSET m   is   LIMIT n OFFSET m
//! integer ARRAY[4]                   is   integer[4]
//! GROUP BY DISTINCT a, b             is   GROUP BY a, b
//! ```
//! No spelling is longer than what it stands for, so positions stay.

use std::ops::Range;

use super::is_reserved;
use super::lexer::{Kind, Token};
use crate::error::SqlError;
use crate::types::TypeKind;

/// Last words of types that are not their names in the catalog.
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

/// Words that are no types, behind which an array may be.
const BEFORE_EXPRESSIONS: [&str; 8] = [
    "between", "by", "escape", "ilike", "like", "overlaps", "return", "values",
];

type Respelled = (Range<usize>, &'static str);

/// What is to be replaced, and by what.
///
/// # Errors
/// Where there is no such spelling.
pub(super) fn words(text: &str, tokens: &[Token]) -> Result<Vec<Respelled>, SqlError> {
    let is = |i: usize, word: &str| tokens.get(i).is_some_and(|t: &Token| t.is(text, word));
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
        } else if token.is(text, "similar") && !is(i + 1, "to") && is_in_substring(text, before) {
            found.push((token.start..token.end, "FROM"));
            if let Some(escape) = escape_behind(text, &tokens[i + 1..]) {
                found.push((escape.start..escape.end, "FOR"));
            }
        } else if token.is(text, "fetch") && (is(i + 1, "first") || is(i + 1, "next")) {
            found.extend(limit_of(text, &tokens[i..])?);
        } else if token.is(text, "group") && is(i + 1, "by") {
            found.extend(of_groups(text, &tokens[i + 2..])?);
        } else if token.is(text, "array") && ends_a_type(text, before) {
            let bracket = tokens.get(i + 1).map(|next| next.text(text));
            let size = if bracket == Some("[") { "" } else { "[]" };
            found.push((token.start..token.end, size));
        }
    }
    Ok(found)
}

/// DISTINCT of GROUP BY changes nothing where there is one set, and ALL nothing at all.
fn of_groups(text: &str, tokens: &[Token]) -> Result<Option<Respelled>, SqlError> {
    let Some((first, rest)) = tokens.split_first() else {
        return Ok(None);
    };
    let begins_key = |token: &Token| token.kind != Kind::Close && token.kind != Kind::Semicolon;
    let ends = ["having", "order", "limit", "window", "union"];
    let is_end = |token: &Token| ends.iter().any(|word| token.is(text, word));
    let listed = rest.first().is_some_and(|t| begins_key(t) && !is_end(t));
    if first.is(text, "distinct") {
        let sets = ["rollup", "cube", "grouping"];
        if rest
            .iter()
            .any(|t| sets.iter().any(|word| t.is(text, word)))
        {
            return Err(SqlError::unsupported("GROUP BY DISTINCT of grouping sets"));
        }
    } else if !first.is(text, "all") || !listed {
        return Ok(None);
    }
    Ok(Some((first.start..first.end, "")))
}

/// What the words of a FETCH that is before OFFSET are in a LIMIT.
fn limit_of(text: &str, tokens: &[Token]) -> Result<Vec<Respelled>, SqlError> {
    let is = |i: usize, word: &str| tokens.get(i).is_some_and(|t: &Token| t.is(text, word));
    let mut depth = 0_usize;
    for (i, token) in tokens.iter().enumerate().skip(2) {
        match token.kind {
            Kind::Open => depth += 1,
            Kind::Close if depth == 0 => break,
            Kind::Close => depth -= 1,
            Kind::Word if depth == 0 && (is(i, "row") || is(i, "rows")) => {
                let spelled = |at: usize, how| (tokens[at].start..tokens[at].end, how);
                if is(i + 1, "with") && is(i + 2, "ties") && is(i + 3, "offset") {
                    let what = "OFFSET behind FETCH ... WITH TIES";
                    return Err(SqlError::unsupported(what));
                }
                if !is(i + 1, "only") || !is(i + 2, "offset") {
                    break;
                }
                let count = if i == 2 { "1" } else { "" };
                let words = [(0, "LIMIT"), (1, count), (i, ""), (i + 1, "")];
                return Ok(words.map(|(at, how)| spelled(at, how)).to_vec());
            }
            _ => {}
        }
    }
    Ok(Vec::new())
}

/// Is the last token the end of a type? One of users is known behind `::`, and where columns and functions are made.
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
            // As in `numeric(10, 2)`; further back there is none, however many brackets there are.
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

/// Are the brackets that these tokens leave open last those of SUBSTRING, and is there something in them?
fn is_in_substring(text: &str, tokens: &[Token]) -> bool {
    let mut depth = 0_usize;
    for (i, token) in tokens.iter().enumerate().rev() {
        match token.kind {
            Kind::Close => depth += 1,
            Kind::Open if depth == 0 => {
                let function = tokens[..i].last();
                let is_empty = i + 1 == tokens.len();
                return !is_empty && function.is_some_and(|t| t.is(text, "substring"));
            }
            Kind::Open => depth -= 1,
            _ => {}
        }
    }
    false
}

/// The ESCAPE in the brackets that these tokens are in.
fn escape_behind<'t>(text: &str, tokens: &'t [Token]) -> Option<&'t Token> {
    let mut depth = 0_usize;
    for token in tokens {
        match token.kind {
            Kind::Open => depth += 1,
            Kind::Close => depth = depth.checked_sub(1)?,
            Kind::Word if depth == 0 && token.is(text, "escape") => return Some(token),
            _ => {}
        }
    }
    None
}

//! EXCLUDE in window frames, which sqlparser does not read.
//!
//! ```text
//! ORDER BY x ROWS 1 PRECEDING EXCLUDE TIES   becomes   ORDER BY x, "$ties" ROWS 1 PRECEDING
//! ```
//! The exclusion becomes the last item of the window's ORDER BY, where the binder finds it. EXCLUDE
//! NO OTHERS is omitted.

use std::ops::Range;

use super::lexer::{Kind, Token};
use super::patch::{insert, put};

/// The names that replace EXCLUDE CURRENT ROW, GROUP and TIES.
pub(crate) const MARKS: [&str; 3] = ["$current", "$group", "$ties"];

/// An EXCLUDE clause of a frame.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Exclusion {
    /// Its byte range.
    pub bytes: Range<usize>,
    /// The start of the frame and the text to insert there; `None` for EXCLUDE NO OTHERS.
    pub mark: Option<(usize, String)>,
}

/// Returns all EXCLUDE clauses of a text, in order.
pub(super) fn exclusions(text: &str, tokens: &[Token]) -> Vec<Exclusion> {
    let is = |i: usize, word: &str| tokens.get(i).is_some_and(|t: &Token| t.is(text, word));
    let mut found = Vec::new();
    for i in 0..tokens.len() {
        if !is(i, "exclude") {
            continue;
        }
        let (mark, length) = if is(i + 1, "no") && is(i + 2, "others") {
            (None, 3)
        } else if is(i + 1, "current") && is(i + 2, "row") {
            (Some(MARKS[0]), 3)
        } else if is(i + 1, "group") {
            (Some(MARKS[1]), 2)
        } else if is(i + 1, "ties") {
            (Some(MARKS[2]), 2)
        } else {
            continue;
        };
        // EXCLUDE is the last clause of a window.
        let closed = tokens
            .get(i + length)
            .is_some_and(|t| t.kind == Kind::Close);
        let Some((frame, ordered)) = frame_before(text, tokens, i).filter(|_| closed) else {
            continue;
        };
        let by = if ordered { "," } else { "ORDER BY" };
        found.push(Exclusion {
            bytes: tokens[i].start..tokens[i + length - 1].end,
            mark: mark.map(|mark| (tokens[frame].start, format!("{by} \"{mark}\" "))),
        });
    }
    found
}

/// Returns the first token of the frame that ends before `end`, and whether its window has an ORDER
/// BY.
fn frame_before(text: &str, tokens: &[Token], end: usize) -> Option<(usize, bool)> {
    let is = |i: usize, word: &str| tokens[i].is(text, word);
    let is_unit = |i: usize| is(i, "rows") || is(i, "range") || is(i, "groups");
    let (mut depth, mut frame) = (0usize, None);
    for i in (0..end).rev() {
        match tokens[i].kind {
            Kind::Close => depth += 1,
            Kind::Open if depth == 0 => return frame.map(|frame| (frame, false)),
            Kind::Open => depth -= 1,
            _ if depth > 0 => {}
            _ if is_unit(i) && frame.is_none() => frame = Some(i),
            _ if frame.is_none() => {}
            _ if is(i, "order") && is(i + 1, "by") => return frame.map(|frame| (frame, true)),
            _ => {}
        }
    }
    None
}

/// Removes the clauses from the text and inserts their marks.
pub(super) fn apply(patched: &mut String, exclusions: &[Exclusion]) {
    // The order is from last to first, so that earlier positions stay valid.
    for exclusion in exclusions.iter().rev() {
        let length = exclusion.bytes.len();
        let mark = exclusion.mark.as_ref();
        let shorter = length.saturating_sub(mark.map_or(0, |(_, mark)| mark.len()));
        put(patched, exclusion.bytes.clone(), &" ".repeat(shorter));
        if let Some((at, mark)) = mark {
            insert(patched, *at, mark);
        }
    }
}

//! The parts of MERGE's WHEN clauses that sqlparser does not read: DO NOTHING and INSERT DEFAULT
//! VALUES. Each is replaced by a clause that it reads and that is no longer. The original meaning
//! is read from the text again.

use std::ops::Range;

use super::lexer::{Kind, Token};

/// A WHEN clause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WhenSyntax {
    /// Whether it is WHEN MATCHED.
    pub matched: bool,
    /// Whether its action is DO NOTHING.
    pub nothing: bool,
    /// Whether its action is INSERT DEFAULT VALUES.
    pub default_values: bool,
}

/// Returns the tokens of each WHEN clause of a MERGE; empty for any other statement.
fn clauses<'a>(text: &str, tokens: &'a [Token]) -> Vec<&'a [Token]> {
    let mut depth = 0usize;
    let mut cases = 0usize;
    let mut merge = false;
    let mut starts = Vec::new();
    for (i, token) in tokens.iter().enumerate() {
        match token.kind {
            Kind::Open => depth += 1,
            Kind::Close => depth = depth.saturating_sub(1),
            Kind::Word if depth == 0 => {
                let firsts = ["merge", "with", "explain"];
                let first = firsts.iter().any(|word| tokens[0].is(text, word));
                merge |= first && token.is(text, "merge");
                if token.is(text, "case") {
                    cases += 1;
                } else if token.is(text, "end") {
                    cases = cases.saturating_sub(1);
                } else if merge && cases == 0 && token.is(text, "when") {
                    starts.push(i);
                }
            }
            _ => {}
        }
    }
    let ends = starts.iter().skip(1).copied().chain([tokens.len()]);
    let ranges = starts.iter().copied().zip(ends);
    ranges.map(|(from, to)| &tokens[from..to]).collect()
}

/// Returns the byte range of a sequence of words.
fn find(text: &str, tokens: &[Token], words: &[&str]) -> Option<Range<usize>> {
    let fits = |window: &&[Token]| {
        window
            .iter()
            .zip(words)
            .all(|(token, word)| token.is(text, word))
    };
    let found = tokens.windows(words.len()).find(fits)?;
    Some(found.first()?.start..found.last()?.end)
}

const NOTHING: &[&str] = &["then", "do", "nothing"];
const DEFAULT_VALUES: &[&str] = &["then", "insert", "default", "values"];

/// Returns the WHEN clauses of a MERGE.
pub(super) fn whens(text: &str, tokens: &[Token]) -> Vec<WhenSyntax> {
    let each = clauses(text, tokens).into_iter().map(|clause| WhenSyntax {
        matched: !clause.get(1).is_some_and(|token| token.is(text, "not")),
        nothing: find(text, clause, NOTHING).is_some(),
        default_values: find(text, clause, DEFAULT_VALUES).is_some(),
    });
    each.collect()
}

/// Returns the replacements for sqlparser: byte ranges and texts that are no longer than the
/// ranges.
pub(super) fn patches(text: &str, tokens: &[Token]) -> Vec<(Range<usize>, &'static str)> {
    let mut patches = Vec::new();
    for clause in clauses(text, tokens) {
        if let Some(range) = find(text, clause, NOTHING) {
            patches.push((range, "THEN DELETE"));
            if let Some(not) = clause.get(1).filter(|token| token.is(text, "not")) {
                patches.push((not.start..not.end, ""));
            }
        }
        if let Some(range) = find(text, clause, DEFAULT_VALUES) {
            patches.push((range, "THEN INSERT VALUES (0)"));
        }
    }
    patches
}

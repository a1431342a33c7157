//! Patterns with lookaround or back references: `(?=…)`, `(?!…)`, `(?<=…)`, `(?<!…)` and `\1`.
//!
//! No automaton matches these; `fancy-regex` backtracks. The number of backtracking steps is
//! limited: a pattern that exceeds it ends with 2201B, like a pattern that is too complex for
//! PostgreSQL.

use std::panic::{AssertUnwindSafe, catch_unwind};

use fancy_regex::{Error, Regex, RegexBuilder};

use super::compiled::{Match, PATTERN_BYTES_MAX, unreadable};
use super::translate::{TranslatedPattern, invalid};
use crate::error::SqlError;

/// The maximum number of backtracking steps of a search.
const TURNS_MAX: usize = 1_000_000;
/// The maximum number of instructions of a compiled pattern.
const STEPS_MAX: usize = 100_000;

/// A compiled pattern with lookaround or back references.
pub(super) struct LookaroundPattern {
    pattern: Regex,
}

impl LookaroundPattern {
    pub(super) fn new(translated: &TranslatedPattern) -> Result<LookaroundPattern, SqlError> {
        let build = || {
            RegexBuilder::new(&translated.text)
                .case_insensitive(translated.insensitive)
                .dot_matches_new_line(!translated.newline_stops_dot)
                .multi_line(translated.newline_anchors)
                .ignore_whitespace(translated.expanded)
                .leftmost_longest(!translated.lazy)
                .backtrack_limit(TURNS_MAX)
                .max_prog_size(STEPS_MAX)
                .delegate_size_limit(PATTERN_BYTES_MAX)
                .build()
        };
        let pattern = unbroken(build)?.map_err(|error| refused(&error))?;
        Ok(LookaroundPattern { pattern })
    }

    /// Returns the first match from a byte offset on.
    pub(super) fn find(&self, text: &str, from: usize) -> Result<Option<Match>, SqlError> {
        let found = unbroken(|| self.pattern.captures_from_pos(text, from))?;
        let found = found.map_err(|error| refused(&error))?;
        Ok(found.map(|found| Match {
            spans: (0..found.len())
                .map(|group| found.get(group).map(|at| (at.start(), at.end())))
                .collect(),
        }))
    }
}

/// Runs `work` and converts a panic of the library to error XX000, so that a pattern ends at most
/// its statement.
fn unbroken<T>(work: impl FnOnce() -> T) -> Result<T, SqlError> {
    catch_unwind(AssertUnwindSafe(work))
        .map_err(|_| SqlError::internal("the regular expression library has failed"))
}

#[cold]
fn refused(error: &Error) -> SqlError {
    match error {
        Error::RuntimeError(_) => invalid("regular expression is too complex"),
        Error::ParseError(_, why) => unreadable(why),
        other => unreadable(other),
    }
}

#[cfg(test)]
mod tests {
    use super::super::compiled::CompiledPattern;

    fn matches(pattern: &str, text: &str) -> Result<bool, String> {
        let compiled = CompiledPattern::get(pattern, "").map_err(|error| error.to_string())?;
        compiled.is_match(text).map_err(|error| error.to_string())
    }

    #[test]
    fn excessive_backtracking_fails() {
        let text = "x".repeat(4000);
        let error = matches("^(x+x+)+(x+x+)+\\1y(?=z)", &text).expect_err("too much");
        assert!(error.contains("too complex"), "{error}");
    }

    #[test]
    fn longest_match_wins() {
        let found = |pattern: &str| {
            let compiled = CompiledPattern::get(pattern, "").expect("a pattern");
            let found = compiled.find("abab", 0).expect("no error").expect("found");
            found.whole()
        };
        assert_eq!(found("(a|ab)(c|bab)?(?!c)"), (0, 4));
        assert_eq!(found("(?:a|ab)(?!c)"), (0, 2));
        assert_eq!(found("(?:a|ab)+?(?!c)"), (0, 1));
    }

    #[test]
    fn excessive_repeat_is_refused() {
        let error = matches("((((a{1,200}){1,200}){1,200})\\1){1,200}(?=b)", "ab").unwrap_err();
        assert!(error.contains("invalid regular expression"), "{error}");
    }
}

//! Searches for large patterns in long texts, byte by byte, so that a statement can be stopped
//! during a search.
//!
//! ```text
//! forward  ─► the end of the first match
//! backward ─► its start
//! longest  ─► the end of the longest match that starts there
//! ```
//! Each of the three is a lazy automaton: its states are built when they are needed. Building a
//! state takes time proportional to the size of the pattern. The library searches without
//! interruption, for minutes in the worst case. This search checks every few bytes whether the call
//! must stop.

use std::cell::RefCell;

use regex_automata::hybrid::dfa::{Cache, Config, DFA};
use regex_automata::nfa::thompson;
use regex_automata::{Anchored, Input, MatchKind};

use super::compiled::{PATTERN_BYTES_MAX, unreadable};
use super::translate::TranslatedPattern;
use crate::error::SqlError;
use crate::functions::long::check_stop;

/// The minimum number of states of a large pattern.
const STATES_MIN: usize = 256;
/// The minimum of the states times the bytes of the text for a search that takes long.
const STEPS_MIN: usize = 10_000_000;
/// The number of bytes between two checks whether the call must stop.
const BYTES: usize = 64;
/// The memory for the states of an automaton, in bytes. When it is full, the states are rebuilt.
const STATES_BYTES: usize = 2 * PATTERN_BYTES_MAX;

/// Returns whether a search of a pattern with `states` states in `bytes` bytes must be
/// interruptible.
#[inline]
pub(super) fn is_long(states: usize, bytes: usize) -> bool {
    states >= STATES_MIN && states.saturating_mul(bytes) >= STEPS_MIN
}

/// The reason why a search has no result.
pub(super) enum SearchStop {
    /// The statement must stop.
    Error(SqlError),
    /// The automaton cannot decide: the text has characters beyond ASCII, and the pattern has word
    /// boundaries.
    Undecided,
}

impl From<SqlError> for SearchStop {
    fn from(error: SqlError) -> SearchStop {
        SearchStop::Error(error)
    }
}

/// A lazy automaton and its states.
struct Automaton {
    dfa: DFA,
    cache: RefCell<Cache>,
}

/// The automata of a pattern.
pub(super) struct Steps {
    forward: Automaton,
    backward: Automaton,
    longest: Automaton,
}

impl Steps {
    /// Creates the automata.
    pub(super) fn new(pattern: &TranslatedPattern) -> Result<Steps, SqlError> {
        let longest = if pattern.lazy {
            MatchKind::LeftmostFirst
        } else {
            MatchKind::All
        };
        Ok(Steps {
            forward: Automaton::new(pattern, MatchKind::LeftmostFirst, false)?,
            backward: Automaton::new(pattern, MatchKind::All, true)?,
            longest: Automaton::new(pattern, longest, false)?,
        })
    }

    /// Returns whether the text has a match.
    pub(super) fn is_match(&self, text: &str) -> Result<bool, SearchStop> {
        Ok(self.forward.end(&Input::new(text))?.is_some())
    }

    /// Returns the byte range of the first match from a byte offset on.
    pub(super) fn find(
        &self,
        text: &str,
        from: usize,
    ) -> Result<Option<(usize, usize)>, SearchStop> {
        let Some(end) = self.forward.end(&Input::new(text).range(from..))? else {
            return Ok(None);
        };
        let before = Input::new(text).range(from..end).anchored(Anchored::Yes);
        let Some(start) = self.backward.begin(&before)? else {
            return Err(SearchStop::Undecided);
        };
        let behind = Input::new(text).range(start..).anchored(Anchored::Yes);
        let end = self.longest.end(&behind)?;
        Ok(end.map(|end| (start, end)))
    }
}

impl Automaton {
    fn new(
        pattern: &TranslatedPattern,
        kind: MatchKind,
        is_reverse: bool,
    ) -> Result<Automaton, SqlError> {
        let nfa = thompson::Config::new()
            .nfa_size_limit(Some(PATTERN_BYTES_MAX))
            .reverse(is_reverse);
        let config = Config::new()
            .match_kind(kind)
            .unicode_word_boundary(true)
            .skip_cache_capacity_check(true)
            .cache_capacity(STATES_BYTES);
        let dfa = DFA::builder()
            .syntax(pattern.syntax())
            .thompson(nfa)
            .configure(config)
            .build(&pattern.text)
            .map_err(|error| unreadable(&error))?;
        let cache = RefCell::new(dfa.create_cache());
        Ok(Automaton { dfa, cache })
    }

    /// Returns the end of the match that begins first, or of the one at the start of an anchored
    /// input.
    fn end(&self, input: &Input<'_>) -> Result<Option<usize>, SearchStop> {
        let cache = &mut *self.cache.borrow_mut();
        let (dfa, text) = (&self.dfa, input.haystack());
        let start = dfa.start_state_forward(cache, input);
        let mut state = start.map_err(|_| SearchStop::Undecided)?;
        let mut end = None;
        for at in input.get_range() {
            state = dfa
                .next_state(cache, state, text[at])
                .map_err(|_| SearchStop::Undecided)?;
            if state.is_tagged() {
                if state.is_match() {
                    // The automaton reports a match one byte late.
                    end = Some(at);
                } else if state.is_dead() {
                    return Ok(end);
                } else if state.is_quit() {
                    return Err(SearchStop::Undecided);
                }
            }
            if at % BYTES == 0 {
                check_stop()?;
            }
        }
        let last = match text.get(input.end()) {
            Some(byte) => dfa.next_state(cache, state, *byte),
            None => dfa.next_eoi_state(cache, state),
        };
        let last = last.map_err(|_| SearchStop::Undecided)?;
        match last {
            last if last.is_match() => Ok(Some(input.end())),
            last if last.is_quit() => Err(SearchStop::Undecided),
            _ => Ok(end),
        }
    }

    /// Returns the start of the longest match that ends where the input does.
    fn begin(&self, input: &Input<'_>) -> Result<Option<usize>, SearchStop> {
        let cache = &mut *self.cache.borrow_mut();
        let (dfa, text) = (&self.dfa, input.haystack());
        let start = dfa.start_state_reverse(cache, input);
        let mut state = start.map_err(|_| SearchStop::Undecided)?;
        let mut begin = None;
        for at in input.get_range().rev() {
            state = dfa
                .next_state(cache, state, text[at])
                .map_err(|_| SearchStop::Undecided)?;
            if state.is_tagged() {
                if state.is_match() {
                    begin = Some(at + 1);
                } else if state.is_dead() {
                    return Ok(begin);
                } else if state.is_quit() {
                    return Err(SearchStop::Undecided);
                }
            }
            if at % BYTES == 0 {
                check_stop()?;
            }
        }
        let first = match input.start().checked_sub(1) {
            Some(before) => dfa.next_state(cache, state, text[before]),
            None => dfa.next_eoi_state(cache, state),
        };
        let first = first.map_err(|_| SearchStop::Undecided)?;
        match first {
            first if first.is_match() => Ok(Some(input.start())),
            first if first.is_quit() => Err(SearchStop::Undecided),
            _ => Ok(begin),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::compiled::CompiledPattern;
    use super::super::translate::translated;
    use super::{SearchStop, Steps};

    fn found(pattern: &str, text: &str, from: usize) -> Option<(usize, usize)> {
        let pattern = translated(pattern, "").expect("a pattern");
        let steps = Steps::new(&pattern).expect("automata");
        match steps.find(text, from) {
            Ok(found) => found,
            Err(SearchStop::Error(error)) => panic!("{error}"),
            Err(SearchStop::Undecided) => panic!("undecided"),
        }
    }

    proptest! {
        #[test]
        fn steps_find_the_match_that_the_library_finds(
            pattern in "[ab.]{1,3}[*+?]?(\\|[abc]{1,2})?(\\(b\\|bc\\))?[$]?",
            text in "[abcé]{0,12}",
        ) {
            prop_assume!(translated(&pattern, "").is_ok());
            if let Ok(compiled) = CompiledPattern::get(&pattern, "") {
                let expected = compiled.find(&text, 0).expect("a search");
                let expected = expected.map(|found| found.whole());
                prop_assert_eq!(found(&pattern, &text, 0), expected);
            }
        }
    }

    #[test]
    fn search_begins_at_the_byte_that_is_asked_for() {
        assert_eq!(found("a|ab", "xabab", 0), Some((1, 3)));
        assert_eq!(found("a|ab", "xabab", 2), Some((3, 5)));
        assert_eq!(found("^a", "aa", 1), None);
        assert_eq!(found("a+?", "xaaa", 0), Some((1, 2)));
        assert_eq!(found("c", "xaaa", 0), None);
    }
}

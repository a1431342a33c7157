//! Compiled patterns. Each thread caches the most recently used ones.

use std::cell::{OnceCell, RefCell};
use std::rc::Rc;

use regex_automata::nfa::thompson;
use regex_automata::nfa::thompson::pikevm::{self, PikeVM};
use regex_automata::util::captures::Captures;
use regex_automata::{Anchored, Input, MatchKind, meta};

use super::looking::LookaroundPattern;
use super::steps::{self, SearchStop, Steps};
use super::translate::{TranslatedPattern, invalid, translated};
use crate::error::SqlError;
use crate::functions::long::check_stop;

/// The number of patterns that a thread caches.
const PATTERNS_MAX: usize = 32;
/// The maximum memory of a compiled pattern, in bytes.
pub(super) const PATTERN_BYTES_MAX: usize = 4 << 20;

/// The maximum length of a pattern, in bytes. PostgreSQL rejects patterns above some 70,000
/// characters as too complex.
const PATTERN_TEXT_MAX: usize = 64 << 10;
/// The number of matches between two checks whether the call must stop.
const MATCHES: usize = 256;

/// A compiled pattern.
pub(super) enum CompiledPattern {
    /// A pattern that is matched in one pass.
    Plain(Box<SinglePassPattern>),
    /// A pattern with lookaround or back references.
    Looking(LookaroundPattern),
}

/// A pattern that is matched in one pass.
pub(super) struct SinglePassPattern {
    /// Decides whether there is a match and finds where the first one begins.
    first: meta::Regex,
    /// Finds the longest match from there.
    longest: PikeVM,
    pattern: TranslatedPattern,
    /// The automata for searches that take long.
    steps: OnceCell<Steps>,
}

impl SinglePassPattern {
    /// Returns the automata for a search in `bytes` bytes, if that takes long.
    fn steps(&self, bytes: usize) -> Result<Option<&Steps>, SqlError> {
        if !steps::is_long(self.longest.get_nfa().states().len(), bytes) {
            return Ok(None);
        }
        if self.steps.get().is_none() {
            // The cell is empty: no other search on this thread runs in between.
            let _ = self.steps.set(Steps::new(&self.pattern)?);
        }
        Ok(self.steps.get())
    }

    /// Returns the start of the first match from a byte offset on, and its end if that is known.
    fn find(&self, text: &str, from: usize) -> Result<Option<(usize, Option<usize>)>, SqlError> {
        if let Some(steps) = self.steps(text.len() - from)? {
            match steps.find(text, from) {
                Ok(found) => return Ok(found.map(|(begin, end)| (begin, Some(end)))),
                Err(SearchStop::Error(error)) => return Err(error),
                Err(SearchStop::Undecided) => {}
            }
        }
        let found = self.first.find(Input::new(text).range(from..));
        Ok(found.map(|found| (found.start(), None)))
    }

    fn has_groups(&self) -> bool {
        self.longest.get_nfa().group_info().all_group_len() > 1
    }

    fn is_match(&self, text: &str) -> Result<bool, SqlError> {
        if let Some(steps) = self.steps(text.len())? {
            match steps.is_match(text) {
                Ok(found) => return Ok(found),
                Err(SearchStop::Error(error)) => return Err(error),
                Err(SearchStop::Undecided) => {}
            }
        }
        Ok(self.first.is_match(text))
    }
}

/// The byte ranges of a match and of its groups.
pub(super) struct Match {
    pub(super) spans: Vec<Option<(usize, usize)>>,
}

impl Match {
    /// Returns the byte range of the whole match.
    pub(super) fn whole(&self) -> (usize, usize) {
        self.spans.first().copied().flatten().unwrap_or((0, 0))
    }
}

thread_local! {
    static CACHE: RefCell<Vec<(String, Rc<CompiledPattern>)>> = const { RefCell::new(Vec::new()) };
}

impl CompiledPattern {
    /// Returns the compiled form of a pattern with the given flags.
    pub(super) fn get(pattern: &str, flags: &str) -> Result<Rc<CompiledPattern>, SqlError> {
        if pattern.len() > PATTERN_TEXT_MAX {
            return Err(invalid("regular expression is too complex"));
        }
        let key = format!("{flags}/{pattern}");
        let known = CACHE.with_borrow_mut(|cache| {
            let at = cache.iter().position(|(k, _)| *k == key)?;
            // The entries are ordered by last use, the most recent last.
            let entry = cache.remove(at);
            let compiled = Rc::clone(&entry.1);
            cache.push(entry);
            Some(compiled)
        });
        if let Some(known) = known {
            return Ok(known);
        }
        let compiled = Rc::new(CompiledPattern::new(pattern, flags)?);
        CACHE.with_borrow_mut(|cache| {
            if cache.len() >= PATTERNS_MAX {
                cache.remove(0);
            }
            cache.push((key, Rc::clone(&compiled)));
        });
        Ok(compiled)
    }

    fn new(pattern: &str, flags: &str) -> Result<CompiledPattern, SqlError> {
        if pattern.len() > PATTERN_TEXT_MAX {
            return Err(invalid("regular expression is too complex"));
        }
        let pattern = translated(pattern, flags)?;
        if pattern.looks {
            return LookaroundPattern::new(&pattern).map(CompiledPattern::Looking);
        }
        let syntax = pattern.syntax();
        let first = meta::Regex::builder()
            .syntax(syntax)
            .configure(meta::Config::new().nfa_size_limit(Some(PATTERN_BYTES_MAX)))
            .build(&pattern.text)
            .map_err(|e| match e.syntax_error() {
                Some(syntax) => unreadable(syntax),
                None => unreadable(&e),
            })?;
        let kind = match pattern.lazy {
            true => MatchKind::LeftmostFirst,
            false => MatchKind::All,
        };
        let longest = PikeVM::builder()
            .syntax(syntax)
            .thompson(thompson::Config::new().nfa_size_limit(Some(PATTERN_BYTES_MAX)))
            .configure(pikevm::Config::new().match_kind(kind))
            .build(&pattern.text)
            .map_err(|e| unreadable(&e))?;
        Ok(CompiledPattern::Plain(Box::new(SinglePassPattern {
            first,
            longest,
            pattern,
            steps: OnceCell::new(),
        })))
    }

    /// Returns whether a text matches.
    pub(super) fn is_match(&self, text: &str) -> Result<bool, SqlError> {
        match self {
            CompiledPattern::Plain(pattern) => pattern.is_match(text),
            CompiledPattern::Looking(pattern) => Ok(pattern.find(text, 0)?.is_some()),
        }
    }

    /// Returns the first match from a byte offset on.
    pub(super) fn find(&self, text: &str, from: usize) -> Result<Option<Match>, SqlError> {
        self.find_with(text, from, &mut None)
    }

    /// Finds a match like [`Self::find`], with memory that is reused from match to match.
    fn find_with(
        &self,
        text: &str,
        from: usize,
        memory: &mut Option<(pikevm::Cache, Captures)>,
    ) -> Result<Option<Match>, SqlError> {
        let pattern = match self {
            CompiledPattern::Plain(pattern) => pattern,
            CompiledPattern::Looking(pattern) => return pattern.find(text, from),
        };
        let Some((begin, end)) = pattern.find(text, from)? else {
            return Ok(None);
        };
        if let Some(end) = end
            && !pattern.has_groups()
        {
            let spans = vec![Some((begin, end))];
            return Ok(Some(Match { spans }));
        }
        let longest = &pattern.longest;
        let input = Input::new(text)
            .range(begin..end.unwrap_or(text.len()))
            .anchored(Anchored::Yes);
        let (cache, found) =
            memory.get_or_insert_with(|| (longest.create_cache(), longest.create_captures()));
        longest.captures(cache, input, found);
        let spans = (0..found.group_len())
            .map(|i| found.get_group(i).map(|span| (span.start, span.end)))
            .collect();
        Ok(found.is_match().then_some(Match { spans }))
    }

    /// Calls `each` on consecutive matches from a byte offset on, at most `limit`. Returns the
    /// number of matches.
    pub(super) fn for_each(
        &self,
        text: &str,
        from: usize,
        limit: usize,
        mut each: impl FnMut(Match) -> Result<(), SqlError>,
    ) -> Result<usize, SqlError> {
        let mut count = 0;
        let mut memory = None;
        let mut at = from;
        while count < limit && at <= text.len() {
            if count % MATCHES == 0 {
                check_stop()?;
            }
            let Some(found) = self.find_with(text, at, &mut memory)? else {
                break;
            };
            let (start, end) = found.whole();
            at = match end > start {
                true => end,
                // After an empty match the search continues one character later.
                false => end + text[end..].chars().next().map_or(1, char::len_utf8),
            };
            each(found)?;
            count += 1;
        }
        Ok(count)
    }
}

/// Returns error 2201B with the library's reason, in PostgreSQL's wording where it has one.
#[cold]
pub(super) fn unreadable(error: &dyn std::fmt::Display) -> SqlError {
    let text = error.to_string();
    let last = text.lines().last().unwrap_or_default();
    invalid(match last.trim_start_matches("error: ") {
        "unclosed group" | "unopened group" => "parentheses () not balanced",
        "invalid character class range, the start must be <= the end" => "invalid character range",
        why => why,
    })
}

//! A LIKE pattern that is prepared once for many texts.
//!
//! ```text
//! 'a%bc%d'   starts with a │ then bc, the first one that follows │ ends with d, behind bc
//! ```
//! The first occurrence of each inner part leaves the most text for the parts behind it, so no
//! other occurrence has to be tried. UTF-8 makes a search for bytes a search for characters.

use memchr::memmem::Finder;

use super::like::{LikeEscape, Step, step};

/// A case-sensitive pattern without `_`.
#[derive(Debug)]
pub struct LikeMatcher {
    /// The text before the first `%`; the whole text if there is no `%`.
    first: Box<[u8]>,
    /// The texts between two `%`.
    inner: Vec<Finder<'static>>,
    /// The text behind the last `%`; `None` if there is no `%`.
    last: Option<Box<[u8]>>,
}

impl LikeMatcher {
    /// Prepares a pattern. Returns `None` if it contains `_` or is not valid.
    pub fn new(pattern: &str, escape: LikeEscape) -> Option<LikeMatcher> {
        let mut parts = vec![String::new()];
        let mut rest = pattern;
        loop {
            let (next, behind) = step(rest, escape).ok()?;
            match next {
                Step::Char(c) => parts.last_mut()?.push(c),
                Step::Any => parts.push(String::new()),
                Step::One => return None,
                Step::End => break,
            }
            rest = behind;
        }
        let last = (parts.len() > 1).then(|| parts.pop()).flatten();
        let mut parts = parts.into_iter();
        let first = parts.next()?.into_bytes().into();
        let inner = parts.filter(|part| !part.is_empty());
        Some(LikeMatcher {
            first,
            inner: inner
                .map(|part| Finder::new(part.as_bytes()).into_owned())
                .collect(),
            last: last.map(|last| last.into_bytes().into()),
        })
    }

    /// Returns whether a text matches the pattern.
    pub fn matches(&self, text: &[u8]) -> bool {
        let Some(last) = &self.last else {
            return *text == *self.first;
        };
        let Some(mut rest) = text.strip_prefix(&*self.first) else {
            return false;
        };
        for part in &self.inner {
            let Some(at) = part.find(rest) else {
                return false;
            };
            rest = &rest[at + part.needle().len()..];
        }
        rest.ends_with(last)
    }
}

#[cfg(test)]
mod tests {
    use super::super::like::like;
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn prepared_pattern_matches_as_like_does(
            pattern in "[ab%ä\\\\]{0,8}",
            texts in prop::collection::vec("[abä%]{0,10}", 1..20),
        ) {
            let escape = LikeEscape::BACKSLASH;
            if let Some(matcher) = LikeMatcher::new(&pattern, escape) {
                for text in &texts {
                    let expected = like(text, &pattern, escape, false).expect("a valid pattern");
                    prop_assert_eq!(matcher.matches(text.as_bytes()), expected);
                }
            }
        }
    }

    #[test]
    fn one_character_and_invalid_patterns_are_refused() {
        assert!(LikeMatcher::new("a_b", LikeEscape::BACKSLASH).is_none());
        assert!(LikeMatcher::new("a\\", LikeEscape::BACKSLASH).is_none());
        assert!(LikeMatcher::new("a\\_b", LikeEscape::BACKSLASH).is_some());
    }
}

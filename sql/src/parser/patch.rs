//! Patches of a text on its way to the parser.
//!
//! The patches of a statement are found in the text as it was written, where each has a place of its own. Places that
//! overlap are those of a text that is no statement: what does not fit any more is left as it is, and the parser refuses
//! the text.

use std::ops::Range;

/// Puts `with` in the place of a range.
pub(super) fn put(text: &mut String, range: Range<usize>, with: &str) {
    if text.get(range.clone()).is_some() {
        text.replace_range(range, with);
    }
}

/// Inserts `what` at a place.
pub(super) fn insert(text: &mut String, at: usize, what: &str) {
    if text.is_char_boundary(at) {
        text.insert_str(at, what);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patch_that_does_not_fit_is_left_out() {
        let mut text = "aéb".to_owned();
        put(&mut text, 0..2, "x");
        put(&mut text, 2..9, "x");
        insert(&mut text, 2, "x");
        assert_eq!(text, "aéb");
        put(&mut text, 1..3, "e");
        insert(&mut text, 3, "c");
        assert_eq!(text, "aebc");
    }
}

//! Patches of a text before sqlparser parses it.
//!
//! The ranges of all patches are computed in the original text. Ranges overlap only in an invalid
//! statement. A patch whose range is no longer valid is skipped, and the parser rejects the text.

use std::ops::Range;

/// Replaces a range by `with`; skips a range that is not valid.
pub(super) fn put(text: &mut String, range: Range<usize>, with: &str) {
    if text.get(range.clone()).is_some() {
        text.replace_range(range, with);
    }
}

/// Replaces a range by a text that is not longer, and by blanks up to the length of the range.
pub(super) fn put_padded(text: &mut String, range: Range<usize>, with: &str) {
    let blanks = " ".repeat(range.len().saturating_sub(with.len()));
    put(text, range, &(with.to_owned() + &blanks));
}

/// Inserts text at a byte offset; skips an offset within a character.
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

    #[test]
    fn padded_patch_keeps_the_length_of_the_text() {
        let mut text = "a long b".to_owned();
        put_padded(&mut text, 2..6, "s");
        assert_eq!(text, "a s    b");
        put_padded(&mut text, 2..3, "");
        assert_eq!(text, "a      b");
    }
}

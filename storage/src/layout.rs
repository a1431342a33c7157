//! The positions of the words of an object's payload: between the line versions.
//!
//! ```text
//!  slot at word s of its cache line (here s = 5)
//!  line 0            line 1                          line 2
//!  .....|W0|L0|L1|   |V|L2|L3|L4|L5|L6|L7|L8|        |V|L9|...
//!        ^ header     ^ line version = copy of word 0, unlocked
//!           L0 = header word 1, L1.. = payload words 0..
//! ```
//! A slot may begin at any word of a cache line. Each further line that it covers begins with a
//! line version (NSDI'14 §3.5). With these, a reader that copies the object in one operation can
//! detect a torn copy. `L(i)` are the *logical* words: 0 is header word 1, and payload word `p` is
//! logical word `p + 1`.

/// Words of a cache line.
pub const LINE_WORDS: usize = 8;

/// Returns the index, from the start of the slot, of logical word `i` of a slot that starts at word
/// `s` of a line.
#[inline]
pub const fn physical(s: usize, i: usize) -> usize {
    let first = LINE_WORDS - 1 - s;
    if i < first {
        1 + i
    } else {
        // The header, the first line version, and one more for every seven words after it.
        i + 2 + a_seventh(i - first)
    }
}

/// Returns `n / 7` for all words of a block. A general division is slower, and a search pays for it
/// at every word.
#[inline]
const fn a_seventh(n: usize) -> usize {
    n.wrapping_mul(149_797) >> 20
}

/// Returns the payload words in `words` slot words beginning at word `s` of a line.
#[inline]
pub const fn payload_words(s: usize, words: usize) -> usize {
    words.saturating_sub(2 + line_versions(s, words))
}

/// Returns the number of line versions in a slot of `words` words at word `s` of a line.
#[inline]
pub const fn line_versions(s: usize, words: usize) -> usize {
    let first = LINE_WORDS - s;
    if words > first {
        (words - first).div_ceil(LINE_WORDS)
    } else {
        0
    }
}

/// Returns the payload words that fit every slot of `words` words, wherever in a block it begins.
/// Slots of whole lines begin at a line.
pub const fn class_payload_words(words: usize) -> usize {
    if words.is_multiple_of(LINE_WORDS) {
        payload_words(0, words)
    } else {
        words - 2 - (words - 1).div_ceil(LINE_WORDS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn division_by_seven_is_exact_for_every_word_of_block() {
        for n in 0..crate::classes::MAX_SLOT_WORDS + 8 {
            assert_eq!(a_seventh(n), n / 7);
        }
    }

    #[test]
    fn payload_and_line_versions_fill_a_slot_exactly_once() {
        for s in 0..LINE_WORDS {
            for words in LINE_WORDS..200 {
                let mut seen = vec![false; words];
                seen[0] = true;
                let mut line = LINE_WORDS - s;
                while line < words {
                    seen[line] = true;
                    line += LINE_WORDS;
                }
                for i in 0..=payload_words(s, words) {
                    let at = physical(s, i);
                    assert!(!seen[at], "s {s} words {words} logical {i} hits {at} twice");
                    seen[at] = true;
                }
                assert!(seen.iter().all(|x| *x), "s {s} words {words} leaves a hole");
                assert!(
                    words % LINE_WORDS == 0 && s != 0
                        || class_payload_words(words) <= payload_words(s, words)
                );
            }
        }
    }
}

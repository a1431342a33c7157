//! The ranges of an object that a commit changes. The log records the ranges. Replicas receive them
//! instead of the whole object where they are clearly smaller.
//!
//! ```text
//! ranges | first word (32), words (32) | word | word | ...      repeated, in order
//! ```
//! Ranges apply to one version, their *base*, and to no other; the writer names the base. A primary
//! has the object locked at that version. A backup waits for that version (`network/backup.rs`,
//! BACKUP-1). Replay reaches it by following the order of the log ([`crate::replay`]).
//!
//! # Failure
//! Ranges are read from disks and from peers: decoding bounds every count and returns
//! [`BadRecord`].

use fencepost_storage::{ObjectRef, View};

use crate::record::BadRecord;

/// Largest size in words, 256 bytes, of an object that is always sent whole.
pub(crate) const LEAST_WORDS: usize = 32;
/// Most unchanged words between two changes that are in one range; a longer gap begins another
/// range.
const GAP: usize = 2;
/// Number of words that are compared at a time.
const STRIDE: usize = 64;
const FROM_SHIFT: u32 = 32;
const COUNT_MASK: u64 = (1 << FROM_SHIFT) - 1;

/// Returns the most words that the ranges of an object of `len` words take. Each range but the
/// first costs a word, and follows more than one skipped word.
pub(crate) const fn most_words(len: usize) -> usize {
    1 + len
}

/// Appends all of `new` as one range. Returns the number of ranges.
pub(crate) fn put_whole(out: &mut Vec<u64>, new: &[u64]) -> u64 {
    put_range(out, new, (0, new.len()));
    1
}

/// Appends the ranges in which `new` differs from `base`. Returns the number of ranges.
pub(crate) fn put(out: &mut Vec<u64>, new: &[u64], base: &View<'_>) -> u64 {
    put_up_to(usize::MAX, out, new, base).unwrap_or(0)
}

/// Appends ranges as [`put`] does. Returns `false` if they are not clearly smaller than the whole;
/// the appended words are then useless.
pub(crate) fn put_if_less(out: &mut Vec<u64>, new: &[u64], base: &View<'_>) -> bool {
    let most = out.len() + new.len() / 4 * 3;
    put_up_to(most, out, new, base).is_some()
}

/// Appends ranges until `out` has more than `most` words. Returns the number of ranges; `None` if
/// the limit is exceeded.
fn put_up_to(most: usize, out: &mut Vec<u64>, new: &[u64], base: &View<'_>) -> Option<u64> {
    let mut before = [0; STRIDE];
    let mut open: Option<(usize, usize)> = None;
    let mut ranges = 0;
    for (stride, new_part) in new.chunks(STRIDE).enumerate() {
        let first = stride * STRIDE;
        let before = &mut before[..new_part.len()];
        base.copy(first, before);
        if before == new_part {
            continue;
        }
        for at in (0..new_part.len()).filter(|at| before[*at] != new_part[*at]) {
            let at = first + at;
            match &mut open {
                Some((_, end)) if at <= *end + GAP => *end = at + 1,
                _ => {
                    if let Some(range) = open.replace((at, at + 1)) {
                        put_range(out, new, range);
                    }
                    if out.len() > most {
                        return None;
                    }
                    ranges += 1;
                }
            }
        }
    }
    if let Some(range) = open {
        put_range(out, new, range);
    }
    (out.len() <= most).then_some(ranges)
}

fn put_range(out: &mut Vec<u64>, new: &[u64], (from, to): (usize, usize)) {
    out.push(((from as u64) << FROM_SHIFT) | (to - from) as u64);
    out.extend_from_slice(&new[from..to]);
}

/// The index of the first word of a range, and its words.
type Range<'a> = (usize, &'a [u64]);

/// Decodes the first range. Returns it and the words after it.
fn first(ranges: &[u64]) -> Result<(Range<'_>, &[u64]), BadRecord> {
    const SHORT: BadRecord = BadRecord("the ranges of a change end too early");
    let (about, rest) = ranges.split_first().ok_or(SHORT)?;
    let words = rest.split_at_checked((about & COUNT_MASK) as usize);
    let (words, rest) = words.ok_or(SHORT)?;
    Ok((((about >> FROM_SHIFT) as usize, words), rest))
}

/// Splits `words` after `ranges` encoded ranges.
pub(crate) fn split(words: &[u64], ranges: u64) -> Result<(&[u64], &[u64]), BadRecord> {
    let mut rest = words;
    for _ in 0..ranges {
        (_, rest) = first(rest)?;
    }
    Ok(words.split_at(words.len() - rest.len()))
}

/// Calls `f` for each range, with the index of its first word and its words.
fn each(mut ranges: &[u64], mut f: impl FnMut(usize, &[u64])) -> Result<(), BadRecord> {
    while !ranges.is_empty() {
        let ((from, words), rest) = first(ranges)?;
        f(from, words);
        ranges = rest;
    }
    Ok(())
}

/// Checks that the words are ranges within an object of `words` words.
pub(crate) fn check(ranges: &[u64], words: usize) -> Result<(), BadRecord> {
    let mut within = true;
    each(ranges, |from, range| within &= from + range.len() <= words)?;
    match within {
        true => Ok(()),
        false => Err(BadRecord("a change of what is beyond an object")),
    }
}

/// Writes ranges into an object that no other thread writes to. Writes nothing beyond the object's
/// end.
pub(crate) fn install(object: ObjectRef<'_>, ranges: &[u64]) {
    // An encoding error ends the loop: `check` or `split` has refused such ranges before.
    let _ = each(ranges, |from, words| object.put(from, words));
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use proptest::prelude::*;

    use super::*;

    fn applied(base: &[u64], ranges: &[u64]) -> Vec<u64> {
        let mut words = base.to_vec();
        let put =
            |from: usize, range: &[u64]| words[from..from + range.len()].copy_from_slice(range);
        each(ranges, put).expect("ranges");
        words
    }

    /// Returns the ranges from `base` to `new`, unless they are not clearly smaller.
    fn between(base: &[u64], new: &[u64]) -> Option<Vec<u64>> {
        let mut out = vec![99];
        put_if_less(&mut out, new, &View::Own(base)).then(|| out.split_off(1))
    }

    #[test]
    fn near_changes_are_one_range_and_many_are_the_whole() {
        let base = vec![0; 100];
        let mut new = base.clone();
        assert_eq!(between(&base, &new), Some(vec![]));
        for at in [3, 4, 7, 63, 64, 99] {
            new[at] = at as u64;
        }
        let expected = vec![
            3 << 32 | 5,
            3,
            4,
            0,
            0,
            7,
            63 << 32 | 2,
            63,
            64,
            99 << 32 | 1,
            99,
        ];
        assert_eq!(between(&base, &new), Some(expected));
        assert_eq!(between(&base, &[1; 100]), None);
        let every =
            |nth: u64| -> Vec<u64> { (0..100).map(|at| u64::from(at % nth == 0)).collect() };
        assert_eq!(between(&base, &every(3)), None);
        assert_eq!(
            between(&base, &every(4)).map(|ranges| ranges.len()),
            Some(50)
        );
    }

    proptest! {
        #[test]
        fn ranges_make_the_new_contents_of_the_base_and_are_less(
            len in 1..400usize,
            changes in proptest::collection::vec((0..400usize, 1..40usize, 0..3u64), 0..12),
        ) {
            let base: Vec<u64> = (0..len as u64).map(|at| at % 3).collect();
            let mut new = base.clone();
            for (from, count, value) in changes {
                new.iter_mut().skip(from).take(count).for_each(|word| *word = value);
            }
            if let Some(ranges) = between(&base, &new) {
                prop_assert!(ranges.len() <= len / 4 * 3);
                prop_assert_eq!(check(&ranges, len), Ok(()));
                prop_assert_eq!(applied(&base, &ranges), new.clone());
                // The same ranges result in a slot, whose words have line versions between them.
                let memory: Vec<AtomicU64> = (0..len * 2 + 20).map(|_| AtomicU64::new(0)).collect();
                let object = ObjectRef::new(&memory, 5);
                object.put(0, &base);
                let mut same = Vec::new();
                prop_assert!(put_if_less(&mut same, &new, &View::Live(object)));
                prop_assert_eq!(&same, &ranges);
                install(object, &ranges);
                let mut words = vec![0; len];
                object.copy(0, &mut words);
                prop_assert_eq!(&words, &new);
            } else {
                let differ = base.iter().zip(&new).filter(|(a, b)| a != b).count();
                prop_assert!(differ * 4 >= len, "{} of {}", differ, len);
            }
            // The log takes the ranges even if they are not clearly smaller.
            let mut all = Vec::new();
            let count = put(&mut all, &new, &View::Own(&base));
            prop_assert!(all.len() <= most_words(len));
            prop_assert_eq!(applied(&base, &all), new);
            all.push(u64::MAX);
            prop_assert_eq!(split(&all, count), Ok((&all[..all.len() - 1], &[u64::MAX][..])));
            prop_assert!(split(&all, count + 1).is_err());
        }

        #[test]
        fn garbage_is_refused_or_within_bounds(
            words in proptest::collection::vec(prop_oneof![0..9u64, any::<u64>()], 0..30),
        ) {
            if check(&words, 20).is_ok() {
                applied(&[0; 20], &words);
            }
            if let Ok((ranges, _)) = split(&words, 3) {
                prop_assert_eq!(each(ranges, |_, _| ()), Ok(()));
            }
        }
    }
}

//! Keys as bytes and as words.
//!
//! A key is an order-preserving byte string. Nodes store it in 64-bit words, big-endian within the
//! word and padded with zero bytes. So comparing words as numbers and then lengths gives the order
//! of the byte strings.

use std::cmp::Ordering;

use fencepost_storage::View;

/// Returns the number of words that `bytes` bytes of a key take.
#[inline]
pub(crate) const fn words_for(bytes: usize) -> usize {
    bytes.div_ceil(8)
}

/// Returns up to eight bytes of `key` from `at` on as one comparable word.
#[inline]
pub(crate) fn word_at(key: &[u8], at: usize) -> u64 {
    match key.get(at..at + 8) {
        Some(eight) => {
            let mut bytes = [0u8; 8];
            bytes.copy_from_slice(eight);
            u64::from_be_bytes(bytes)
        }
        None => {
            let rest = key.get(at..).unwrap_or(&[]);
            let mut bytes = [0u8; 8];
            bytes[..rest.len()].copy_from_slice(rest);
            u64::from_be_bytes(bytes)
        }
    }
}

/// Returns up to four bytes of `key` from `at` on: the part of a suffix that is stored in the slot.
#[inline]
pub(crate) fn head_at(key: &[u8], at: usize) -> u32 {
    match key.get(at..at + 4) {
        Some(four) => {
            let mut bytes = [0u8; 4];
            bytes.copy_from_slice(four);
            u32::from_be_bytes(bytes)
        }
        None => (word_at(key, at) >> 32) as u32,
    }
}

/// Compares `key` with the `len` bytes in the words of `view` from `at` on.
#[inline]
pub(crate) fn cmp_words(key: &[u8], view: &View<'_>, at: usize, len: usize) -> Ordering {
    let shared = words_for(key.len().min(len));
    for i in 0..shared {
        match word_at(key, i * 8).cmp(&view.word(at + i)) {
            Ordering::Equal => {}
            unequal => return unequal,
        }
    }
    key.len().cmp(&len)
}

/// Returns the number of leading bytes that `key` shares with the `len` bytes in the words of
/// `view` from `at` on.
#[inline]
pub(crate) fn shared_with_words(key: &[u8], view: &View<'_>, at: usize, len: usize) -> usize {
    let most = key.len().min(len);
    for i in 0..words_for(most) {
        let difference = word_at(key, i * 8) ^ view.word(at + i);
        if difference != 0 {
            return (i * 8 + difference.leading_zeros() as usize / 8).min(most);
        }
    }
    most
}

/// Returns the number of leading bytes that two keys share.
pub(crate) fn shared(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(x, y)| x == y).count()
}

/// Appends to `out` the `len` bytes in the words of `view` from `at` on.
pub(crate) fn append_words(view: &View<'_>, at: usize, len: usize, out: &mut Vec<u8>) {
    let mut done = 0;
    while done < len {
        let run = (len - done).min(8);
        out.extend_from_slice(&view.word(at + done / 8).to_be_bytes()[..run]);
        done += run;
    }
}

/// Writes `key` into words from the start of `out`. Returns the number of words.
pub(crate) fn put_words(key: &[u8], out: &mut [u64]) -> usize {
    let words = words_for(key.len());
    for (i, word) in out.iter_mut().take(words).enumerate() {
        *word = word_at(key, i * 8);
    }
    words
}

/// Returns the shortest key above `left` and not above `right`; requires `left < right`.
pub(crate) fn separator<'a>(left: &[u8], right: &'a [u8]) -> &'a [u8] {
    let until = (shared(left, right) + 1).min(right.len());
    &right[..until]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn key() -> impl Strategy<Value = Vec<u8>> {
        proptest::collection::vec(
            prop_oneof![Just(0u8), Just(1), Just(255), any::<u8>()],
            0..20,
        )
    }

    proptest! {
        #[test]
        fn words_compare_as_bytes_do(a in key(), b in key()) {
            let mut words = vec![0; 1 + words_for(b.len())];
            prop_assert_eq!(put_words(&b, &mut words[1..]), words_for(b.len()));
            let view = View::Own(&words);
            prop_assert_eq!(cmp_words(&a, &view, 1, b.len()), a.cmp(&b));
            prop_assert_eq!(shared_with_words(&a, &view, 1, b.len()), shared(&a, &b));
            let mut back = Vec::new();
            append_words(&view, 1, b.len(), &mut back);
            prop_assert_eq!(&back, &b);
        }

        #[test]
        fn separator_is_short_and_between_keys(a in key(), b in key()) {
            prop_assume!(a != b);
            let (left, right) = if a < b { (a, b) } else { (b, a) };
            let cut = separator(&left, &right);
            prop_assert!(left.as_slice() < cut && cut <= right.as_slice());
        }
    }
}

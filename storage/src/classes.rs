//! The 256 size classes of slots, from 64 B to 1 MiB (NSDI'14 §3.3).
//!
//! For small sizes, where one word of waste is less than the allowed worst case, each class is one
//! word larger than the previous one. From there each is the previous one times a constant, rounded
//! to words. Counted on sizes rounded up to 8 bytes, the average fragmentation is at most 1.8 % and
//! the worst at most 3.6 %.

use crate::layout::class_payload_words;
use fencepost_fabric::memory::WORD_BYTES;

/// Number of classes.
pub const CLASSES: usize = 256;
/// Words of the smallest slot.
pub const MIN_SLOT_WORDS: usize = 64 / WORD_BYTES;
/// Words of the largest slot: a whole block.
pub const MAX_SLOT_WORDS: usize = (1 << 20) / WORD_BYTES;

/// Growth of the geometric part, in millionths: chosen so that class 255 is 1 MiB.
const GROWTH_MILLIONTHS: u64 = 36_700;

/// Words of a slot of each class, in ascending order.
pub const SLOT_WORDS: [u32; CLASSES] = slot_words();

const fn slot_words() -> [u32; CLASSES] {
    let mut table = [0u32; CLASSES];
    let mut class = 0;
    // Counted in millionths of a word, so that rounding does not accumulate.
    let mut exact = MIN_SLOT_WORDS as u64 * 1_000_000;
    while class < CLASSES {
        let words = exact / 1_000_000;
        table[class] = words as u32;
        let grown = exact + exact / 1_000_000 * GROWTH_MILLIONTHS;
        let stepped = (words + 1) * 1_000_000;
        exact = if grown > stepped { grown } else { stepped };
        class += 1;
    }
    table[CLASSES - 1] = MAX_SLOT_WORDS as u32;
    table
}

/// A size class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Class(pub u8);

impl Class {
    /// Returns the smallest class whose every slot holds `payload_words`; `None` beyond the
    /// largest.
    #[inline]
    pub fn for_payload(payload_words: usize) -> Option<Class> {
        if let Some(class) = SMALL.get(payload_words) {
            return Some(Class(*class));
        }
        let class = SLOT_WORDS
            .partition_point(|words| class_payload_words(*words as usize) < payload_words);
        (class < CLASSES).then_some(Class(class as u8))
    }

    /// Returns the words of a slot.
    #[inline]
    pub const fn slot_words(self) -> usize {
        SLOT_WORDS[self.0 as usize] as usize
    }

    /// Returns the payload words that each slot is sure to hold.
    pub const fn payload_words(self) -> usize {
        class_payload_words(self.slot_words())
    }

    /// Returns the number of slots in a block.
    pub const fn slots(self) -> usize {
        MAX_SLOT_WORDS / self.slot_words()
    }
}

/// Payload words of the largest object.
pub const MAX_PAYLOAD_WORDS: usize = class_payload_words(MAX_SLOT_WORDS);

const SMALL_LIMIT: usize = 512;

/// Class of each small payload, for a lookup instead of a search.
static SMALL: [u8; SMALL_LIMIT] = small();

const fn small() -> [u8; SMALL_LIMIT] {
    let mut table = [0u8; SMALL_LIMIT];
    let mut payload = 0;
    let mut class = 0;
    while payload < SMALL_LIMIT {
        while class_payload_words(SLOT_WORDS[class] as usize) < payload {
            class += 1;
        }
        table[payload] = class as u8;
        payload += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fragmentation_is_within_the_papers_bounds() {
        let (mut worst, mut sum, mut count) = (0f64, 0f64, 0u32);
        for words in MIN_SLOT_WORDS..=MAX_SLOT_WORDS {
            let class = SLOT_WORDS.partition_point(|c| (*c as usize) < words);
            let slot = SLOT_WORDS[class] as f64;
            let waste = (slot - words as f64) / slot;
            worst = worst.max(waste);
            sum += waste;
            count += 1;
        }
        let average = sum / f64::from(count);
        assert!(worst <= 0.036, "worst {worst}");
        assert!(average <= 0.018, "average {average}");
    }

    #[test]
    fn payload_gets_smallest_sufficient_class() {
        assert!(SLOT_WORDS.windows(2).all(|w| w[0] < w[1]));
        for payload in 0..20_000 {
            let class = Class::for_payload(payload).expect("20,000 words fit a block");
            assert!(class.payload_words() >= payload);
            assert!(class.0 == 0 || Class(class.0 - 1).payload_words() < payload);
        }
        assert_eq!(
            Class::for_payload(MAX_PAYLOAD_WORDS).map(Class::slots),
            Some(1)
        );
        assert_eq!(Class::for_payload(MAX_PAYLOAD_WORDS + 1), None);
    }
}

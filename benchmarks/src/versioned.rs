//! Values that contain their key, their version and a checksum.
//!
//! ```text
//! number | version | checksum of both | words that follow from the checksum ...
//! ```
//!
//! A reader detects a partial update, and the sum of the versions of all values equals the number
//! of committed updates.

use crate::draw::scatter;

/// Returns the value of `number` after `version` updates.
#[inline]
pub(crate) fn value<const WORDS: usize>(number: u64, version: u64) -> [u64; WORDS] {
    let sum = scatter(number ^ version.rotate_left(32));
    std::array::from_fn(|at| match at {
        0 => number,
        1 => version,
        2 => sum,
        _ => (!sum).rotate_left(at as u32 - 3),
    })
}

/// Returns the version of the value found for `number`; `None` if it belongs to another number, or
/// is invalid.
#[inline]
pub(crate) fn version<const WORDS: usize>(number: u64, found: &[u64; WORDS]) -> Option<u64> {
    (*found == value(number, found[1])).then_some(found[1])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bit_of_a_value_matters() {
        let whole: [u64; 5] = value(7, 3);
        assert_eq!(version(7, &whole), Some(3));
        assert_eq!(version(8, &whole), None);
        for word in 0..5 {
            for bit in 0..64 {
                let mut torn = whole;
                torn[word] ^= 1 << bit;
                assert_eq!(version(7, &torn), None, "{word} {bit}");
            }
        }
    }
}

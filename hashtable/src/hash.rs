//! The hash of a key. It determines the positions of keys in regions, so it must never change.
//! Therefore it is implemented here and depends on no library.

const FIRST: u64 = 0xA076_1D64_78BD_642F;
const SECOND: u64 = 0xE703_7ED1_A0B4_28DB;
const THIRD: u64 = 0x8EBC_6AF0_9C88_C6E3;

/// Multiplies to 128 bits and folds the halves together.
#[inline]
const fn fold(a: u64, b: u64) -> u64 {
    let product = (a as u128) * (b as u128);
    (product as u64) ^ ((product >> 64) as u64)
}

/// Returns the word of up to eight bytes, little-endian, padded with zeros.
#[inline]
pub(crate) fn word(bytes: &[u8]) -> u64 {
    match bytes.first_chunk::<8>() {
        Some(eight) => u64::from_le_bytes(*eight),
        None => {
            let mut padded = [0u8; 8];
            padded[..bytes.len()].copy_from_slice(bytes);
            u64::from_le_bytes(padded)
        }
    }
}

/// Returns the hash of a key.
#[inline]
pub(crate) fn hash(key: &[u8]) -> u64 {
    let mut state = FIRST ^ (key.len() as u64).wrapping_mul(THIRD);
    for chunk in key.chunks(8) {
        state = fold(state ^ word(chunk), SECOND);
    }
    fold(state ^ THIRD, FIRST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hash_function_is_stable() {
        let known = [hash(b""), hash(b"a"), hash(b"fencepost")];
        assert_eq!(
            known,
            [
                0x9960_507C_D3FA_4327,
                0xBB70_AB25_E45A_17BE,
                0x5CAA_DFCF_FB36_F02A
            ]
        );
    }

    #[test]
    fn bits_of_sequential_keys_are_spread() {
        for shift in [0, 16, 32, 48, 60] {
            let mut buckets = [0u32; 16];
            for n in 0..16_000u64 {
                buckets[(hash(&n.to_be_bytes()) >> shift) as usize % 16] += 1;
            }
            assert!(
                buckets.iter().all(|count| (850..1150).contains(count)),
                "shift {shift}: {buckets:?}"
            );
        }
    }
}

//! Random mutations of inputs, for runs without libFuzzer.

use crate::random::Random;

/// The maximal length of an input, in bytes.
const INPUT_BYTES_MAX: usize = 1 << 14;

/// The maximal number of mutations of one input.
const MUTATIONS_MAX: usize = 8;

/// Numbers at the limits of decoders.
const NUMBERS: [u64; 12] = [
    0,
    1,
    0x7F,
    0x80,
    0xFF,
    0x7FFF,
    0xFFFF,
    0x7FFF_FFFF,
    0x8000_0000,
    0xFFFF_FFFF,
    0x7FFF_FFFF_FFFF_FFFF,
    u64::MAX,
];

/// Returns a mutation of a random seed, sometimes combined with a part of another seed.
pub fn mutated(random: &mut Random, seeds: &[Vec<u8>]) -> Vec<u8> {
    let mut input = random.pick(seeds).cloned().unwrap_or_default();
    for _ in 0..random.below(MUTATIONS_MAX) + 1 {
        mutate(random, &mut input, seeds);
    }
    input.truncate(INPUT_BYTES_MAX);
    input
}

fn mutate(random: &mut Random, input: &mut Vec<u8>, seeds: &[Vec<u8>]) {
    let at = random.below(input.len() + 1);
    match random.below(9) {
        0 => {
            if let Some(byte) = input.get_mut(at) {
                *byte ^= 1 << random.below(8);
            }
        }
        1 => {
            if let Some(byte) = input.get_mut(at) {
                *byte = random.number() as u8;
            }
        }
        2 => input.insert(at, random.number() as u8),
        3 => {
            let end = input.len().min(at + random.below(16));
            input.drain(at..end);
        }
        4 => put_number(random, input, at),
        5 => input.truncate(at),
        6 => {
            let end = input.len().min(at + random.below(32));
            let part = input[at..end].to_vec();
            let to = random.below(input.len() + 1);
            input.splice(to..to, part);
        }
        7 => {
            let other = random.pick(seeds).cloned().unwrap_or_default();
            let from = random.below(other.len() + 1);
            let end = other.len().min(from + random.below(64));
            input.splice(at..at, other[from..end].iter().copied());
        }
        _ => {
            let other = random.pick(seeds).cloned().unwrap_or_default();
            input.truncate(at);
            input.extend_from_slice(&other[random.below(other.len() + 1)..]);
        }
    }
}

/// Overwrites a part of the input with one of the numbers, in either byte order.
fn put_number(random: &mut Random, input: &mut [u8], at: usize) {
    let number = random.pick(&NUMBERS).copied().unwrap_or(0);
    let width = [1, 2, 4, 8][random.below(4)];
    let mut bytes = number.to_le_bytes()[..width].to_vec();
    if random.is_one_in(2) {
        bytes.reverse();
    }
    for (to, byte) in input[at..].iter_mut().zip(bytes) {
        *to = byte;
    }
}

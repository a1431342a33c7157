//! PostgreSQL's hashes of partition keys: a row belongs to the same partition as in PostgreSQL.

use crate::types::TypeKind;
use crate::value::Value;

/// PostgreSQL's `HASH_PARTITION_SEED`.
const SEED: u64 = 0x7A5B_2236_7996_DCFD;

/// Returns whether hashes of the type are supported.
pub fn can_hash(kind: TypeKind) -> bool {
    use TypeKind as T;
    matches!(
        kind,
        T::Bool
            | T::Int2
            | T::Int4
            | T::Int8
            | T::Float4
            | T::Float8
            | T::Text
            | T::VarChar
            | T::BpChar
            | T::Bytea
            | T::Date
            | T::Time
            | T::Timestamp
            | T::TimestampTz
            | T::Uuid
            | T::Oid
    )
}

/// Returns the hash of a row of values; NULLs are ignored.
pub fn hash_of<'a>(values: impl Iterator<Item = &'a Value>) -> u64 {
    values
        .filter_map(hash)
        .fold(0u64, |a, b| a ^ combined(a, b))
}

/// Returns the value that PostgreSQL's `hash_combine64` combines with the first hash.
fn combined(a: u64, b: u64) -> u64 {
    b.wrapping_add(0x49A0_F4DD_15E5_A8E3)
        .wrapping_add(a << 54)
        .wrapping_add(a >> 7)
}

fn hash(value: &Value) -> Option<u64> {
    Some(match value {
        Value::Bool(b) => of_word(u32::from(*b)),
        Value::Int2(v) => of_word(i32::from(*v) as u32),
        Value::Int4(v) | Value::Date(v) => of_word(*v as u32),
        Value::Oid(v) => of_word(*v),
        Value::Int8(v) | Value::Timestamp(v) | Value::TimestampTz(v) | Value::Time(v) => {
            of_long(*v)
        }
        Value::Float4(v) => of_float(f64::from(*v)),
        Value::Float8(v) => of_float(*v),
        Value::Text(text) => of_bytes(text.as_bytes()),
        Value::Bytea(bytes) => of_bytes(bytes),
        Value::Uuid(bytes) => of_bytes(bytes),
        _ => return None,
    })
}

fn of_long(v: i64) -> u64 {
    let high = (v >> 32) as u32;
    of_word(v as u32 ^ if v >= 0 { high } else { !high })
}

fn of_float(v: f64) -> u64 {
    if v == 0.0 {
        SEED
    } else if v.is_nan() {
        of_bytes(&f64::NAN.to_le_bytes())
    } else {
        of_bytes(&v.to_le_bytes())
    }
}

struct State {
    a: u32,
    b: u32,
    c: u32,
}

impl State {
    fn new(bytes: usize) -> State {
        let start = 0x9E37_79B9_u32
            .wrapping_add(bytes as u32)
            .wrapping_add(3_923_095);
        let mut state = State {
            a: start.wrapping_add((SEED >> 32) as u32),
            b: start.wrapping_add(SEED as u32),
            c: start,
        };
        state.mix();
        state
    }

    fn mix(&mut self) {
        let State { a, b, c } = self;
        for (x, y, z, bits) in [
            (0, 2, 1, 4),
            (1, 0, 2, 6),
            (2, 1, 0, 8),
            (0, 2, 1, 16),
            (1, 0, 2, 19),
            (2, 1, 0, 4),
        ] {
            let mut words = [*a, *b, *c];
            words[x] = words[x].wrapping_sub(words[y]) ^ words[y].rotate_left(bits);
            words[y] = words[y].wrapping_add(words[z]);
            [*a, *b, *c] = words;
        }
    }

    fn end(mut self) -> u64 {
        let State { a, b, c } = &mut self;
        for (x, y, bits) in [
            (2, 1, 14),
            (0, 2, 11),
            (1, 0, 25),
            (2, 1, 16),
            (0, 2, 4),
            (1, 0, 14),
            (2, 1, 24),
        ] {
            let mut words = [*a, *b, *c];
            words[x] = (words[x] ^ words[y]).wrapping_sub(words[y].rotate_left(bits));
            [*a, *b, *c] = words;
        }
        u64::from(self.b) << 32 | u64::from(self.c)
    }
}

fn of_word(word: u32) -> u64 {
    let mut state = State::new(4);
    state.a = state.a.wrapping_add(word);
    state.end()
}

fn of_bytes(bytes: &[u8]) -> u64 {
    let mut state = State::new(bytes.len());
    let word = |chunk: &[u8], at: usize| {
        let end = chunk.len().min(at + 4);
        let part = chunk.get(at..end).unwrap_or(&[]);
        part.iter()
            .rev()
            .fold(0u32, |word, byte| word << 8 | u32::from(*byte))
    };
    let mut chunks = bytes.chunks_exact(12);
    for chunk in &mut chunks {
        state.a = state.a.wrapping_add(word(chunk, 0));
        state.b = state.b.wrapping_add(word(chunk, 4));
        state.c = state.c.wrapping_add(word(chunk, 8));
        state.mix();
    }
    let rest = chunks.remainder();
    state.a = state.a.wrapping_add(word(rest, 0));
    state.b = state.b.wrapping_add(word(rest, 4));
    // The lowest byte is reserved for the length.
    state.c = state.c.wrapping_add(word(rest, 8) << 8);
    state.end()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares with values from PostgreSQL 15: `hashint4extended(1, 8816678312871386365)` and
    /// similar calls.
    #[test]
    fn hashes_match_postgresql() {
        let known = [
            (Value::Int4(1), HASHES[0]),
            (Value::Int8(-7), HASHES[1]),
            (Value::text("fencepost"), HASHES[2]),
            (Value::text("a longer text of several words"), HASHES[3]),
            (Value::Float8(1.5), HASHES[4]),
            (Value::Bool(true), HASHES[5]),
        ];
        for (value, expected) in known {
            assert_eq!(hash(&value), Some(expected as u64), "{value:?}");
        }
    }

    const HASHES: [i64; 6] = [
        5_968_994_663_651_403_477,
        -7_298_374_200_968_567_817,
        -4_531_936_472_776_887_570,
        -5_884_772_313_710_968_689,
        -2_826_383_321_045_882_978,
        5_968_994_663_651_403_477,
    ];
}

//! A growing list of keys in blocks. Unlike a vector, a large list does not copy its keys when it
//! grows, and takes little more memory than they need.

/// The bytes of a block; the first one grows up to them.
const BLOCK_BYTES: usize = 1 << 20;

/// The place of a key in [`KeyBlocks`].
#[derive(Clone, Copy, Debug)]
pub struct KeyPlace {
    block: u32,
    start: u32,
    len: u32,
}

/// A growing list of keys.
#[derive(Debug, Default)]
pub struct KeyBlocks {
    blocks: Vec<Vec<u8>>,
    bytes: usize,
}

impl KeyBlocks {
    /// Appends a key of two parts.
    #[inline]
    pub fn push(&mut self, prefix: &[u8], key: &[u8]) -> KeyPlace {
        let len = prefix.len() + key.len();
        let fits = |last: &Vec<u8>| last.len() + len <= BLOCK_BYTES;
        if !self.blocks.last().is_some_and(fits) {
            let capacity = if self.blocks.is_empty() {
                0
            } else {
                BLOCK_BYTES
            };
            self.blocks.push(Vec::with_capacity(capacity.max(len)));
            self.bytes += BLOCK_BYTES.max(len);
        }
        let block = self.blocks.len() - 1;
        let last = &mut self.blocks[block];
        let start = last.len();
        last.extend_from_slice(prefix);
        last.extend_from_slice(key);
        KeyPlace {
            block: block as u32,
            start: start as u32,
            len: len as u32,
        }
    }

    /// Returns a key.
    ///
    /// # Panics
    /// If the place is of another list.
    #[inline]
    pub fn get(&self, place: KeyPlace) -> &[u8] {
        let start = place.start as usize;
        &self.blocks[place.block as usize][start..start + place.len as usize]
    }

    /// Returns the bytes of memory that the list takes.
    pub fn bytes(&self) -> usize {
        match &self.blocks[..] {
            [] => 0,
            [first] => first.capacity(),
            _ => self.bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_found_in_every_block() {
        let mut keys = KeyBlocks::default();
        let key = |n: u64| n.to_be_bytes().repeat(1 + n as usize % 7);
        let count = 300_000u64;
        let places: Vec<KeyPlace> = (0..count)
            .map(|n: u64| keys.push(&n.to_be_bytes()[..4], &key(n)))
            .collect();
        let long = keys.push(&[], &vec![7; 3 * BLOCK_BYTES]);
        let short = keys.push(b"a", b"b");
        for (n, place) in (0..count).zip(places) {
            assert_eq!(keys.get(place), [&n.to_be_bytes()[..4], &key(n)].concat());
        }
        assert_eq!(keys.get(long), vec![7; 3 * BLOCK_BYTES]);
        assert_eq!(keys.get(short), b"ab");
        assert!(keys.bytes() < 64 * count as usize);
    }
}

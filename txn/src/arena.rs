//! Words that are added piece by piece, in blocks. Unlike a vector, a large arena does not copy its
//! words when it grows, and takes little more memory than they need.
//!
//! A piece is within one block. Its position is the number of its block and the offset there:
//! `| block | offset 16 |`. A piece that is longer than a block has a block of its own.

const OFFSET_BITS: u32 = 16;
/// Words of a block; the first one grows up to them.
const BLOCK_WORDS: usize = 1 << OFFSET_BITS;

/// A growing list of pieces.
#[derive(Debug, Default)]
pub(crate) struct Arena {
    blocks: Vec<Vec<u64>>,
    /// Words of memory of all blocks but the last.
    full_words: usize,
}

impl Arena {
    /// Removes all pieces, and keeps the memory of one block.
    pub fn clear(&mut self) {
        if self.blocks.len() > 1 {
            self.blocks.truncate(1);
            self.full_words = 0;
        }
        if let Some(first) = self.blocks.first_mut() {
            first.clear();
        }
    }

    /// Shrinks the memory of an empty arena to at most `words` words.
    pub fn shrink(&mut self, words: usize) {
        if let Some(first) = self.blocks.first_mut() {
            first.shrink_to(words);
        }
    }

    /// Returns the words of memory that the arena takes.
    pub fn capacity(&self) -> usize {
        self.full_words + self.blocks.last().map_or(0, Vec::capacity)
    }

    /// Adds a piece of `words` words, which `fill` appends, and returns its position.
    #[inline]
    pub fn push(&mut self, words: usize, fill: impl FnOnce(&mut Vec<u64>)) -> usize {
        let fits = |last: &Vec<u64>| last.len() + words <= BLOCK_WORDS;
        if !self.blocks.last().is_some_and(fits) {
            self.add_block(words);
        }
        let block = self.blocks.len() - 1;
        let last = &mut self.blocks[block];
        let position = (block << OFFSET_BITS) + last.len();
        fill(last);
        position
    }

    #[cold]
    fn add_block(&mut self, words: usize) {
        self.full_words = self.capacity();
        let capacity = if self.blocks.is_empty() {
            0
        } else {
            BLOCK_WORDS
        };
        self.blocks.push(Vec::with_capacity(capacity.max(words)));
    }

    /// Returns `words` words from a position on, which are in one piece.
    #[inline]
    pub fn get(&self, position: usize, words: usize) -> &[u64] {
        if words == 0 {
            return &[];
        }
        let offset = position % BLOCK_WORDS;
        &self.blocks[position >> OFFSET_BITS][offset..offset + words]
    }

    /// Returns the words of [`Self::get`] to be changed.
    #[inline]
    pub fn get_mut(&mut self, position: usize, words: usize) -> &mut [u64] {
        if words == 0 {
            return &mut [];
        }
        let offset = position % BLOCK_WORDS;
        &mut self.blocks[position >> OFFSET_BITS][offset..offset + words]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_found_in_every_block_until_the_arena_is_cleared() {
        let mut arena = Arena::default();
        for _ in 0..2 {
            let sizes: Vec<usize> = (0..2_000)
                .map(|n| {
                    if n % 500 == 7 {
                        2 * BLOCK_WORDS + n
                    } else {
                        n % 230
                    }
                })
                .collect();
            let positions: Vec<usize> = sizes
                .iter()
                .enumerate()
                .map(|(n, size)| arena.push(*size, |out| out.resize(out.len() + size, n as u64)))
                .collect();
            for (n, (position, size)) in positions.iter().zip(&sizes).enumerate() {
                arena
                    .get_mut(*position, *size)
                    .iter_mut()
                    .for_each(|word| *word += 1);
                assert_eq!(arena.get(*position, *size), vec![n as u64 + 1; *size]);
            }
            let words: usize = sizes.iter().sum();
            assert!(arena.capacity() >= words && arena.capacity() < words + 6 * BLOCK_WORDS);
            arena.clear();
            assert!(arena.capacity() <= 2 * BLOCK_WORDS);
        }
        arena.shrink(100);
        assert!(arena.capacity() <= 100);
    }
}

//! Growing lists in blocks. Unlike a vector, a large list does not copy its values when it grows,
//! and takes little more memory than they need.

/// Values of a block; the last one grows up to them.
const BLOCK: usize = 1 << 15;

/// A growing list of small values.
#[derive(Clone, Debug)]
pub struct Blocks<T> {
    full: Vec<Vec<T>>,
    last: Vec<T>,
}

impl<T> Default for Blocks<T> {
    fn default() -> Self {
        Blocks {
            full: Vec::new(),
            last: Vec::new(),
        }
    }
}

impl<T: Copy> Blocks<T> {
    /// Appends a value.
    #[inline]
    pub fn push(&mut self, value: T) {
        if self.last.len() == BLOCK {
            self.begin_block();
        }
        self.last.push(value);
    }

    #[cold]
    fn begin_block(&mut self) {
        let next = Vec::with_capacity(BLOCK);
        self.full.push(std::mem::replace(&mut self.last, next));
    }

    /// Returns the number of values.
    #[inline]
    pub fn len(&self) -> usize {
        self.full.len() * BLOCK + self.last.len()
    }

    /// Returns whether there are no values.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn block(&self, at: usize) -> &[T] {
        self.full.get(at / BLOCK).unwrap_or(&self.last)
    }

    /// Returns the value at a position.
    ///
    /// # Panics
    /// If there is none.
    #[inline]
    pub fn get(&self, at: usize) -> T {
        self.block(at)[at % BLOCK]
    }

    /// Returns the value at a position to be changed.
    ///
    /// # Panics
    /// If there is none.
    pub fn get_mut(&mut self, at: usize) -> &mut T {
        let block = self.full.get_mut(at / BLOCK).unwrap_or(&mut self.last);
        &mut block[at % BLOCK]
    }

    /// Returns the blocks of values in their order.
    #[inline]
    pub fn blocks(&self) -> impl Iterator<Item = &[T]> {
        self.full
            .iter()
            .map(Vec::as_slice)
            .chain(std::iter::once(&self.last[..]))
    }

    /// Removes the values from `len` on.
    pub fn truncate(&mut self, len: usize) {
        if len < self.full.len() * BLOCK {
            self.full.truncate(len / BLOCK + 1);
            self.last = self.full.pop().unwrap_or_default();
        }
        self.last.truncate(len - self.full.len() * BLOCK);
    }

    /// Removes all values, and keeps the memory of one block.
    pub fn clear(&mut self) {
        self.full.clear();
        self.last.clear();
    }

    /// Shrinks the memory of an empty list to that of `values` values.
    pub fn shrink(&mut self, values: usize) {
        self.last.shrink_to(values);
    }

    /// Returns the bytes of memory that the list takes.
    pub fn bytes(&self) -> usize {
        (self.full.len() * BLOCK + self.last.capacity()) * size_of::<T>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn list_equals_a_vector(
            steps in proptest::collection::vec((0u8..3, 0usize..3 * BLOCK), 0..12),
        ) {
            let (mut list, mut model) = (Blocks::default(), Vec::new());
            for (what, count) in steps {
                match what {
                    0 => for n in 0..count {
                        list.push(n);
                        model.push(n);
                    },
                    1 => {
                        let len = model.len().saturating_sub(count);
                        list.truncate(len);
                        model.truncate(len);
                    }
                    _ => if let Some(value) = model.get_mut(count) {
                        *value += 7;
                        *list.get_mut(count) += 7;
                    },
                }
                prop_assert_eq!(list.len(), model.len());
                prop_assert!(list.blocks().flatten().eq(&model));
                if let Some(last) = model.len().checked_sub(1) {
                    prop_assert_eq!(list.get(last / 2), model[last / 2]);
                }
                prop_assert!(list.bytes() <= (model.len() + 2 * BLOCK) * 8);
            }
        }
    }
}

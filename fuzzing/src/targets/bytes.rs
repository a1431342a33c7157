//! A reader that consumes an input from its front.

/// The rest of an input. After its end, the bytes are zeros.
#[derive(Clone, Copy, Debug)]
pub struct Bytes<'a>(pub &'a [u8]);

impl<'a> Bytes<'a> {
    /// Returns whether the end of the input is reached.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Reads a byte.
    pub fn byte(&mut self) -> u8 {
        let (first, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        *first
    }

    /// Reads a little-endian number of two bytes.
    pub fn short(&mut self) -> u16 {
        u16::from(self.byte()) | u16::from(self.byte()) << 8
    }

    /// Reads a little-endian number of eight bytes.
    pub fn long(&mut self) -> u64 {
        (0..8).fold(0, |number, at| number | u64::from(self.byte()) << (8 * at))
    }

    /// Reads at most `count` bytes.
    pub fn take(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        taken
    }

    /// Reads a number below `bound` from one byte; 0 if `bound` is 0.
    pub fn below(&mut self, bound: usize) -> usize {
        usize::from(self.byte()).checked_rem(bound).unwrap_or(0)
    }

    /// Reads a byte and returns whether it is odd.
    pub fn is_odd(&mut self) -> bool {
        self.byte() & 1 == 1
    }

    /// Selects an item by one byte; `None` without items.
    pub fn pick<'t, T>(&mut self, items: &'t [T]) -> Option<&'t T> {
        items.get(self.below(items.len()))
    }
}

//! The lines of a text by byte offset.

/// The offsets at which the lines of a text begin.
#[derive(Debug)]
pub struct LineIndex {
    starts: Vec<usize>,
}

impl LineIndex {
    /// Returns the index of a text.
    pub fn new(text: &str) -> Self {
        let after_newlines = text.match_indices('\n').map(|(offset, _)| offset + 1);
        LineIndex {
            starts: std::iter::once(0).chain(after_newlines).collect(),
        }
    }

    /// Returns the line of a byte offset, from 1.
    pub fn line_of(&self, offset: usize) -> usize {
        self.starts.partition_point(|start| *start <= offset)
    }

    /// Returns the offset at which a line begins; lines count from 1.
    pub fn start_of(&self, line: usize) -> usize {
        self.starts[line - 1]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newline_belongs_to_the_line_that_it_ends() {
        let index = LineIndex::new("ab\n\nc");
        let lines: Vec<usize> = (0..5).map(|offset| index.line_of(offset)).collect();
        assert_eq!(lines, [1, 1, 1, 2, 3]);
        assert_eq!(index.start_of(3), 4);
    }
}

//! The layout of a machine's memory in the one file to which it is saved.
//!
//! # Picture
//! ```text
//! files of memory    ####......##    ....####    ..      #: pages that were written
//! pieces             ####      ##        ####            adjacent grains of 64 KiB make a piece
//! saved              |####|##|####|                      pieces in order, in whole disk blocks
//! chunks             |-------|----|                      4 MiB, each with a checksum
//! ```
//! Memory that was never written, or was returned to the system, is not saved.

use std::fs::File;
use std::io;
use std::ops::Range;

use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;

/// The size of a chunk, which is the unit of writing, reading and checking.
pub const CHUNK_BYTES: u64 = 4 << 20;
/// The block size of pieces, which permits I/O that bypasses the system's cache.
pub const BLOCK_BYTES: u64 = 4096;
/// The granularity of pieces: smaller holes are saved, too.
const GRAIN_BYTES: u64 = 64 << 10;

/// The directory of a machine that contains a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DirectoryKind {
    /// The directory of one incarnation.
    Incarnation,
    /// The directory of regions, which pass from one incarnation to the next.
    Regions,
}

/// A file of memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The directory of the file.
    pub home: DirectoryKind,
    /// The name of the file in its directory.
    pub name: String,
    /// The length of the file.
    pub bytes: u64,
}

/// A written part of a file: whole blocks, of which the last may extend beyond the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The index of the file.
    pub source: u32,
    /// The offset in the file.
    pub offset: u64,
    /// The length of the piece.
    pub bytes: u64,
}

/// The saved memory of a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    pub sources: Vec<Source>,
    pub pieces: Vec<Piece>,
}

/// A part of a piece that is in one chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkSlice {
    pub source: u32,
    /// The offset in the file.
    pub offset: u64,
    /// The offset in the chunk.
    pub at: usize,
    pub bytes: usize,
}

impl Layout {
    /// Adds a file with its written parts.
    pub fn add(&mut self, source: Source, file: &File) -> io::Result<()> {
        let number = u32::try_from(self.sources.len()).map_err(io::Error::other)?;
        let mut grains = Grains::default();
        let mut from = 0;
        while from < source.bytes {
            let data = match seek(file, SeekFrom::Data(from)) {
                Ok(data) => data,
                // The rest of the file is a hole.
                Err(Errno::NXIO) => break,
                Err(error) => return Err(error.into()),
            };
            let hole = seek(file, SeekFrom::Hole(data))?;
            grains.add(data..hole);
            from = hole;
        }
        let end = source.bytes.next_multiple_of(BLOCK_BYTES);
        for run in grains.0 {
            self.pieces.push(Piece {
                source: number,
                offset: run.start,
                bytes: run.end.min(end) - run.start,
            });
        }
        self.sources.push(source);
        Ok(())
    }

    /// Returns the number of bytes to save.
    pub fn bytes(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.bytes).sum()
    }

    /// Returns the chunks of the layout.
    pub fn chunks(&self) -> Chunks<'_> {
        let mut end = 0;
        let ends = self.pieces.iter().map(|piece| {
            end += piece.bytes;
            end
        });
        let ends: Vec<u64> = ends.collect();
        Chunks {
            layout: self,
            bytes: ends.last().copied().unwrap_or(0),
            ends,
        }
    }
}

/// Ranges of whole grains, none of which is adjacent to the next.
#[derive(Default)]
struct Grains(Vec<Range<u64>>);

impl Grains {
    fn add(&mut self, data: Range<u64>) {
        let from = data.start / GRAIN_BYTES * GRAIN_BYTES;
        let to = data.end.next_multiple_of(GRAIN_BYTES);
        match self.0.last_mut() {
            Some(last) if from <= last.end => last.end = to,
            _ => self.0.push(from..to),
        }
    }
}

/// The chunks of a layout.
pub struct Chunks<'a> {
    layout: &'a Layout,
    /// The end of each piece in the saved file.
    ends: Vec<u64>,
    bytes: u64,
}

impl Chunks<'_> {
    /// Returns the number of chunks.
    pub fn count(&self) -> usize {
        self.bytes.div_ceil(CHUNK_BYTES) as usize
    }

    /// Returns the range of a chunk in the saved file.
    pub fn place(&self, chunk: usize) -> Range<u64> {
        let from = chunk as u64 * CHUNK_BYTES;
        from..(from + CHUNK_BYTES).min(self.bytes)
    }

    /// Returns the parts of a chunk, in order and without gaps.
    pub fn parts(&self, chunk: usize) -> impl Iterator<Item = ChunkSlice> {
        let place = self.place(chunk);
        let first = self.ends.partition_point(|end| *end <= place.start);
        let pieces = self.layout.pieces[first..].iter().zip(&self.ends[first..]);
        pieces
            .map(|(piece, end)| (piece, end - piece.bytes, *end))
            .take_while(move |(_, start, _)| *start < place.end)
            .map(move |(piece, start, end)| {
                let from = start.max(place.start);
                ChunkSlice {
                    source: piece.source,
                    offset: piece.offset + (from - start),
                    at: (from - place.start) as usize,
                    bytes: (end.min(place.end) - from) as usize,
                }
            })
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;

    fn source(bytes: u64) -> Source {
        Source {
            home: DirectoryKind::Regions,
            name: "0001000000000007".into(),
            bytes,
        }
    }

    #[test]
    fn layout_has_written_pieces_and_no_holes() {
        let file = tempfile::tempfile().expect("a file");
        file.set_len(64 << 20).expect("grows");
        for (at, bytes) in [(0, 10), (20 << 20, 9 << 20), ((64 << 20) - 8, 8)] {
            file.write_all_at(&vec![1; bytes], at).expect("is written");
        }
        let mut layout = Layout::default();
        layout.add(source(64 << 20), &file).expect("is looked at");
        let small = tempfile::tempfile().expect("a file");
        small.write_all_at(&[1; 24], 0).expect("is written");
        layout.add(source(24), &small).expect("is looked at");
        let empty = tempfile::tempfile().expect("a file");
        empty.set_len(1 << 20).expect("grows");
        layout.add(source(1 << 20), &empty).expect("is looked at");
        let pieces: Vec<_> = layout
            .pieces
            .iter()
            .map(|piece| (piece.source, piece.offset, piece.bytes))
            .collect();
        let grain = GRAIN_BYTES;
        assert_eq!(
            pieces,
            [
                (0, 0, grain),
                (0, 20 << 20, 9 << 20),
                (0, (64 << 20) - grain, grain),
                (1, 0, BLOCK_BYTES)
            ]
        );
        // The chunks contain all pieces, in order.
        let chunks = layout.chunks();
        assert_eq!(chunks.count(), 3);
        let mut all: Vec<(u32, u64, u64)> = Vec::new();
        for chunk in 0..chunks.count() {
            let place = chunks.place(chunk);
            let mut at = 0;
            for part in chunks.parts(chunk) {
                assert_eq!(part.at, at);
                at += part.bytes;
                match all.last_mut() {
                    Some(last) if last.0 == part.source && last.1 + last.2 == part.offset => {
                        last.2 += part.bytes as u64;
                    }
                    _ => all.push((part.source, part.offset, part.bytes as u64)),
                }
            }
            assert_eq!(at as u64, place.end - place.start);
        }
        assert_eq!(all, pieces);
        assert_eq!(layout.bytes(), chunks.place(2).end);
        assert_eq!(Layout::default().chunks().count(), 0);
    }
}

//! The manifest of a save: it confirms that a machine's memory is completely saved, and describes
//! its parts.
//!
//! ```text
//! magic 8 | version 4 | machine 4 | life 8 | sources 4 | pieces 4 | chunks 4
//! source: home 1 | name length 1 | name | length 8        piece: source 4 | offset 8 | bytes 8
//! chunk: CRC-32C 4                                        CRC-32C of all before 4
//! ```
//! It is written after all other data is on the disk. Numbers are little-endian.

use super::layout::{BLOCK_BYTES, DirectoryKind, Layout, Piece, Source};
use super::segment_of;
use crate::machine::MachineId;
use crate::memory::WORD_BYTES;

const MAGIC: &[u8; 8] = b"FENCSAVE";
const VERSION: u32 = 1;

/// The manifest of a machine's save in one incarnation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    pub machine: MachineId,
    pub incarnation: u64,
    pub layout: Layout,
    /// The checksum of each chunk.
    pub checksums: Vec<u32>,
}

fn u32_of(number: usize) -> [u8; 4] {
    let number = u32::try_from(number);
    number
        .expect("fewer files than there are segments")
        .to_le_bytes()
}

impl Manifest {
    /// Encodes the manifest.
    pub fn seal(&self) -> Vec<u8> {
        let Layout { sources, pieces } = &self.layout;
        let mut out = MAGIC.to_vec();
        out.extend(VERSION.to_le_bytes());
        out.extend(self.machine.0.to_le_bytes());
        out.extend(self.incarnation.to_le_bytes());
        for count in [sources.len(), pieces.len(), self.checksums.len()] {
            out.extend(u32_of(count));
        }
        for source in sources {
            // The names of segments are short, so the cast loses nothing.
            out.extend([source.home as u8, source.name.len() as u8]);
            out.extend(source.name.as_bytes());
            out.extend(source.bytes.to_le_bytes());
        }
        for piece in pieces {
            out.extend(piece.source.to_le_bytes());
            out.extend(piece.offset.to_le_bytes());
            out.extend(piece.bytes.to_le_bytes());
        }
        for checksum in &self.checksums {
            out.extend(checksum.to_le_bytes());
        }
        let checksum = crc32c::crc32c(&out);
        out.extend(checksum.to_le_bytes());
        out
    }

    /// Decodes a manifest; `None` if the checksum, magic or version is wrong, or the content is
    /// invalid.
    pub fn unseal(bytes: &[u8]) -> Option<Manifest> {
        let (body, checksum) = bytes.split_last_chunk::<4>()?;
        let whole = crc32c::crc32c(body) == u32::from_le_bytes(*checksum);
        let mut from = ManifestReader(body);
        let known = whole && from.take(8)? == MAGIC && from.u32()? == VERSION;
        known.then_some(())?;
        let (machine, incarnation) = (MachineId(from.u32()?), from.u64()?);
        let [sources, pieces, chunks] = [from.u32()?, from.u32()?, from.u32()?];
        let layout = Layout {
            sources: (0..sources).map(|_| from.source()).collect::<Option<_>>()?,
            pieces: (0..pieces).map(|_| from.piece()).collect::<Option<_>>()?,
        };
        let checksums = (0..chunks)
            .map(|_| from.u32())
            .collect::<Option<Vec<_>>>()?;
        let right = from.0.is_empty()
            && layout.pieces.iter().all(|piece| fits(&layout, piece))
            && layout.chunks().count() == checksums.len();
        right.then_some(Manifest {
            machine,
            incarnation,
            layout,
            checksums,
        })
    }
}

fn fits(layout: &Layout, piece: &Piece) -> bool {
    let source = layout.sources.get(piece.source as usize);
    let end = piece.offset.checked_add(piece.bytes);
    let blocks = [piece.offset, piece.bytes];
    source.is_some_and(|source| {
        end.is_some_and(|end| end <= source.bytes.next_multiple_of(BLOCK_BYTES))
            && blocks.iter().all(|bytes| bytes.is_multiple_of(BLOCK_BYTES))
            && piece.bytes > 0
    })
}

struct ManifestReader<'a>(&'a [u8]);

impl<'a> ManifestReader<'a> {
    fn take(&mut self, bytes: usize) -> Option<&'a [u8]> {
        let (first, rest) = self.0.split_at_checked(bytes)?;
        self.0 = rest;
        Some(first)
    }

    fn u32(&mut self) -> Option<u32> {
        let bytes = self.take(4)?.try_into().ok()?;
        Some(u32::from_le_bytes(bytes))
    }

    fn u64(&mut self) -> Option<u64> {
        let bytes = self.take(8)?.try_into().ok()?;
        Some(u64::from_le_bytes(bytes))
    }

    fn source(&mut self) -> Option<Source> {
        let &[home, length] = self.take(2)? else {
            return None;
        };
        let homes = [DirectoryKind::Incarnation, DirectoryKind::Regions].into_iter();
        let home = homes.into_iter().find(|known| *known as u8 == home)?;
        let name = str::from_utf8(self.take(length.into())?).ok()?;
        let bytes = self.u64()?;
        let right = segment_of(name).is_some()
            && bytes.is_multiple_of(WORD_BYTES as u64)
            && i64::try_from(bytes).is_ok();
        right.then(|| Source {
            home,
            name: name.into(),
            bytes,
        })
    }

    fn piece(&mut self) -> Option<Piece> {
        Some(Piece {
            source: self.u32()?,
            offset: self.u64()?,
            bytes: self.u64()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest() -> Manifest {
        let source = |home, name: &str| Source {
            home,
            name: name.into(),
            bytes: 6 << 20,
        };
        Manifest {
            machine: MachineId(3),
            incarnation: 7,
            layout: Layout {
                sources: vec![
                    source(DirectoryKind::Incarnation, "0002000000000002.m2"),
                    source(DirectoryKind::Regions, "0001000000000000"),
                ],
                pieces: vec![
                    Piece {
                        source: 0,
                        offset: 4096,
                        bytes: 8192,
                    },
                    Piece {
                        source: 1,
                        offset: 0,
                        bytes: 6 << 20,
                    },
                ],
            },
            checksums: vec![1, 2],
        }
    }

    fn again(bent: impl FnOnce(&mut Manifest)) -> Option<Manifest> {
        let mut manifest = manifest();
        bent(&mut manifest);
        Manifest::unseal(&manifest.seal())
    }

    #[test]
    fn damaged_manifest_is_refused() {
        assert_eq!(again(|_| {}), Some(manifest()));
        let sealed = manifest().seal();
        for at in 0..sealed.len() {
            let mut bent = sealed.clone();
            bent[at] ^= 1;
            assert_eq!(Manifest::unseal(&bent), None, "byte {at}");
            assert_eq!(Manifest::unseal(&sealed[..at]), None, "{at} bytes");
        }
    }

    #[test]
    fn impossible_manifest_is_refused() {
        let bents: [fn(&mut Manifest); 8] = [
            |bent| bent.layout.sources[0].name = "../../secret".into(),
            |bent| bent.layout.sources[0].name = "0002000000000002.new".into(),
            |bent| bent.layout.sources[1].bytes = u64::MAX - 7,
            |bent| bent.layout.pieces[0].source = 2,
            |bent| bent.layout.pieces[0].offset = u64::MAX - 4095,
            |bent| bent.layout.pieces[1].bytes = 8 << 20,
            |bent| bent.layout.pieces[0].offset = 1,
            |bent| bent.checksums.truncate(1),
        ];
        for (number, bent) in bents.into_iter().enumerate() {
            assert_eq!(again(bent), None, "number {number}");
        }
    }
}

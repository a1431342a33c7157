//! The encoding of a checkpoint's files. Pure functions on words.
//!
//! *Picture* (64-bit words, little endian).
//!
//! ```text
//!   file header, 512 words    0 magic  1 version  2 sequence  3 region bytes  511 crc
//!   section header, 8 words   0 magic  1 sequence  2 region << 32 | block  3 class
//!                             4 objects  5 words of objects  6 zero  7 crc of section but this
//!   object                    0 header word  1 incarnation << 48 | slot << 24 | words
//!                             2 … payload without the zeros at its end; none for a tombstone
//!   index entry, 4 words      0 offset in the file  1 words  2 region << 32 | block  3 class
//!   index                     entries, then one word: crc of them all
//! ```

use crate::addr::RegionId;
use crate::classes::{CLASSES, Class};
use crate::header::Header;
use crate::region::BlockId;

pub(super) const WORD: usize = 8;
pub(super) const FILE_HEADER_WORDS: usize = 512;
pub(super) const SECTION_HEADER_WORDS: usize = 8;
pub(super) const INDEX_ENTRY_WORDS: usize = 4;

const FILE_MAGIC: u64 = u64::from_le_bytes(*b"FencChk\x01");
const SECTION_MAGIC: u64 = u64::from_le_bytes(*b"FencSec\x01");
const VERSION: u64 = 1;
const FIELD: u64 = (1 << 24) - 1;

/// Returns the checksum of words, as a word.
pub(super) fn crc(words: &[u64]) -> u64 {
    u64::from(crc32c::crc32c(bytemuck::cast_slice(words)))
}

/// Returns the first page of a checkpoint.
pub(super) fn file_header(sequence: u64, region_bytes: u64) -> Vec<u64> {
    let mut words = vec![0; FILE_HEADER_WORDS];
    words[..4].copy_from_slice(&[FILE_MAGIC, VERSION, sequence, region_bytes]);
    words[FILE_HEADER_WORDS - 1] = crc(&words[..FILE_HEADER_WORDS - 1]);
    words
}

/// The position of a section and the block in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Section {
    pub offset: u64,
    pub words: u64,
    pub block: BlockId,
    pub class: Class,
}

impl Section {
    pub fn encode(&self) -> [u64; INDEX_ENTRY_WORDS] {
        [
            self.offset,
            self.words,
            block_word(self.block),
            u64::from(self.class.0),
        ]
    }

    pub fn decode(words: &[u64]) -> Option<Self> {
        let [offset, length, block, class] = *words.first_chunk()?;
        let class = u8::try_from(class)
            .ok()
            .filter(|class| usize::from(*class) < CLASSES)?;
        let id = BlockId {
            region: RegionId((block >> 32) as u32),
            block: block as u32,
        };
        // A slot has at least 8 words, and its entry is at most 2 words longer than the slot.
        let most = SECTION_HEADER_WORDS + 2 * crate::region::BLOCK_BYTES / WORD;
        let sound = (SECTION_HEADER_WORDS as u64..=most as u64).contains(&length);
        sound.then_some(Self {
            offset,
            words: length,
            block: id,
            class: Class(class),
        })
    }
}

fn block_word(id: BlockId) -> u64 {
    u64::from(id.region.0) << 32 | u64::from(id.block)
}

/// Writes the header of a section over its first words, once the objects are behind them.
pub(super) fn seal_section(
    words: &mut [u64],
    sequence: u64,
    block: BlockId,
    class: Class,
    objects: u64,
) {
    let body = (words.len() - SECTION_HEADER_WORDS) as u64;
    let class = u64::from(class.0);
    words[..SECTION_HEADER_WORDS].copy_from_slice(&[
        SECTION_MAGIC,
        sequence,
        block_word(block),
        class,
        objects,
        body,
        0,
        0,
    ]);
    words[7] = crc(words);
}

/// Checks a whole section. Returns the number of its objects, or a description of the damage.
pub(super) fn check_section(
    words: &mut [u64],
    sequence: u64,
    expected: &Section,
) -> Result<u64, &'static str> {
    let Some(stored_crc) = words.get_mut(7).map(std::mem::take) else {
        return Err("a section is too short");
    };
    if crc(words) != stored_crc {
        return Err("the checksum of a section is wrong");
    }
    let body = (words.len() - SECTION_HEADER_WORDS) as u64;
    let class = u64::from(expected.class.0);
    let block = block_word(expected.block);
    match words[..6] {
        [SECTION_MAGIC, seq, b, c, objects, n]
            if (seq, b, c, n) == (sequence, block, class, body) =>
        {
            Ok(objects)
        }
        _ => Err("a section is not the one that the index names"),
    }
}

/// The head of one object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ObjectHead {
    pub header: Header,
    pub incarnation: u16,
    pub slot: usize,
    pub words: usize,
}

impl ObjectHead {
    pub const WORDS: usize = 2;

    pub fn encode(&self) -> [u64; Self::WORDS] {
        let place = (self.slot as u64 & FIELD) << 24 | (self.words as u64 & FIELD);
        [self.header.0, u64::from(self.incarnation) << 48 | place]
    }

    pub fn decode(words: &[u64]) -> Option<Self> {
        let [header, rest] = *words.first_chunk()?;
        Some(Self {
            header: Header(header),
            incarnation: (rest >> 48) as u16,
            slot: (rest >> 24 & FIELD) as usize,
            words: (rest & FIELD) as usize,
        })
    }
}

/// Splits an index with its checksum into sections; `None` if it is damaged.
pub(super) fn decode_index(words: &[u64]) -> Option<Vec<Section>> {
    let (stored_crc, entries) = words.split_last()?;
    if crc(entries) != *stored_crc || !entries.len().is_multiple_of(INDEX_ENTRY_WORDS) {
        return None;
    }
    entries
        .chunks(INDEX_ENTRY_WORDS)
        .map(Section::decode)
        .collect()
}

/// Checks the first page of a checkpoint.
pub(super) fn check_file_header(
    words: &[u64],
    sequence: u64,
    region_bytes: u64,
) -> Result<(), &'static str> {
    match words {
        [FILE_MAGIC, version, ..] if *version != VERSION => {
            Err("the checkpoint has a format version this program does not know")
        }
        words if *words == file_header(sequence, region_bytes) => Ok(()),
        _ => Err("the checkpoint's header is damaged"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timestamp::Timestamp;

    #[test]
    fn sections_and_indexes_show_any_flip() {
        let block = BlockId {
            region: RegionId(3),
            block: 9,
        };
        let section = Section {
            offset: 4096,
            words: 12,
            block,
            class: Class(7),
        };
        let mut words = vec![0; 8];
        let head = ObjectHead {
            header: Header(0).succeed(Timestamp::from_raw(5), true),
            incarnation: 65_535,
            slot: 16_000,
            words: 2,
        };
        words.extend_from_slice(&head.encode());
        words.extend_from_slice(&[1, 2]);
        assert_eq!(ObjectHead::decode(&words[8..]), Some(head));
        seal_section(&mut words, 1, block, Class(7), 1);
        assert_eq!(check_section(&mut words.clone(), 1, &section), Ok(1));
        assert!(check_section(&mut words.clone(), 2, &section).is_err());
        for at in 0..words.len() {
            let mut bad = words.clone();
            bad[at] ^= 1 << (at * 5);
            assert!(
                check_section(&mut bad, 1, &section).is_err(),
                "flip in word {at}"
            );
        }
        let mut index = section.encode().to_vec();
        index.push(crc(&index));
        assert_eq!(decode_index(&index), Some(vec![section]));
        for at in 0..index.len() {
            let mut bad = index.clone();
            bad[at] ^= 1 << (at * 5);
            assert_eq!(decode_index(&bad), None, "flip in word {at}");
        }
    }
}

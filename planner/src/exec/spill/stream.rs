//! A sequence of rows in a temporary file: a run of a sort, or a partition of a hash table.

use fencepost_sql::error::SqlError;
use fencepost_sql::value::Value;

use super::codec::RowCodec;
use super::file::{Block, BlockFile, BlockRead};

/// The temporary file of an operator, and the codec of its rows.
pub struct SpillFile {
    blocks: BlockFile,
    codec: RowCodec,
}

/// The rows of a stream that is being written.
#[derive(Default)]
pub struct Stream {
    blocks: Vec<Block>,
    /// The bytes behind those of the blocks.
    rest: Vec<u8>,
    rows: u64,
}

/// The rows of a stream that is being read.
pub struct StreamReader {
    blocks: std::vec::IntoIter<Block>,
    /// The block after those in `bytes`.
    next: Option<BlockRead>,
    bytes: Vec<u8>,
    at: usize,
    /// The bytes behind those of the blocks.
    rest: Vec<u8>,
}

impl Stream {
    /// Returns the number of rows.
    pub fn rows(&self) -> u64 {
        self.rows
    }
}

impl SpillFile {
    /// Creates the file of an operator.
    pub fn new(blocks: BlockFile) -> SpillFile {
        SpillFile {
            blocks,
            codec: RowCodec::default(),
        }
    }

    /// Adds a row to a stream, in memory. [`Self::write`] must follow before many rows are added.
    ///
    /// # Errors
    /// 54000 if the row is too long.
    pub fn add<'a>(
        &mut self,
        stream: &mut Stream,
        row: impl IntoIterator<Item = &'a Value>,
    ) -> Result<(), SqlError> {
        self.codec.encode(row, &mut stream.rest)?;
        stream.rows += 1;
        Ok(())
    }

    /// Returns whether [`Self::write`] has something to do.
    #[inline]
    pub fn has_full_block(&self, stream: &Stream) -> bool {
        stream.rest.len() >= self.blocks.block_bytes()
    }

    /// Writes the full blocks of a stream to the file.
    ///
    /// # Errors
    /// Those of [`BlockFile::write`].
    pub async fn write(&mut self, stream: &mut Stream) -> Result<(), SqlError> {
        if !self.has_full_block(stream) {
            return Ok(());
        }
        let size = self.blocks.block_bytes();
        let full = stream.rest.len() / size * size;
        let rest = stream.rest.split_off(full);
        let full = std::mem::replace(&mut stream.rest, rest);
        stream.blocks.extend(self.blocks.write(full).await?);
        Ok(())
    }

    /// Begins to read a stream.
    pub fn reader(&self, stream: Stream) -> StreamReader {
        StreamReader {
            blocks: stream.blocks.into_iter(),
            next: None,
            bytes: Vec::new(),
            at: 0,
            rest: stream.rest,
        }
    }

    /// Moves the next row to the places that `slots` lists. Returns false after the last row.
    ///
    /// # Errors
    /// Those of reading the file.
    pub async fn next<'a>(
        &mut self,
        reader: &mut StreamReader,
        slots: impl IntoIterator<Item = &'a mut Value>,
    ) -> Result<bool, SqlError> {
        let length = loop {
            let unread = &reader.bytes[reader.at..];
            if let Some(length) = RowCodec::first_row(unread) {
                break length;
            }
            if !self.read_more(reader).await? {
                return Ok(false);
            }
        };
        let row = &reader.bytes[reader.at..reader.at + length];
        reader.at += length;
        self.codec.decode(row, slots)?;
        Ok(true)
    }

    /// Reads more bytes of a stream. Returns false after the last ones.
    async fn read_more(&mut self, reader: &mut StreamReader) -> Result<bool, SqlError> {
        reader.bytes.drain(..reader.at);
        reader.at = 0;
        let block = match (reader.next.take(), reader.blocks.next()) {
            (Some(read), next) => {
                let bytes = self.blocks.take(read).await?;
                if let Some(next) = next {
                    reader.next = Some(self.blocks.read(next).await?);
                }
                bytes
            }
            (None, Some(first)) => {
                let read = self.blocks.read(first).await?;
                if let Some(second) = reader.blocks.next() {
                    reader.next = Some(self.blocks.read(second).await?);
                }
                self.blocks.take(read).await?
            }
            (None, None) if reader.rest.is_empty() => return Ok(false),
            (None, None) => std::mem::take(&mut reader.rest),
        };
        if reader.bytes.is_empty() {
            reader.bytes = block;
        } else {
            reader.bytes.extend_from_slice(&block);
        }
        Ok(true)
    }
}

//! The durable redo log of one machine.
//!
//! *What.* Records are appended to a buffer in memory; one flusher thread writes whatever has
//! gathered as one *batch* with one `fdatasync`, so many commits share a flush. After a crash
//! [`LogRecovery`] gives back every record up to the last whole one.
//!
//! *Picture.* The log is one sequence of bytes, cut into segment files of equal size; an [`Lsn`]
//! is a place in it: segment number × segment size + offset in the file.
//!
//! ```text
//!   segment   ┌────────┬─────────┬─────────┬───┬───────────┐   zero-filled ahead by the filler,
//!             │ header │ batch   │ batch   │ … │ too small │   removed or used again once a
//!             └────────┴─────────┴─────────┴───┴───────────┘   checkpoint has passed it
//!   batch     ┌────────┬────────┬────────┬───┬─────────┐       begins at a multiple of 512,
//!             │ header │ record │ record │ … │ padding │       names its own LSN and the end
//!             └────────┴────────┴────────┴───┴─────────┘       of the batch before it
//!   record    ┌─────┬─────┬─────────────┬──────┬─────┐
//!             │ len │ crc │ LSN, kind   │ body │ pad │         body begins at a multiple of 8
//!             └─────┴─────┴─────────────┴──────┴─────┘
//! ```
//!
//! *Invariants.*
//! - LOG-1. A batch is written only after the `fdatasync` of the one before it returned. So a
//!   damaged place with a good batch header behind it was durable once: that is corruption, and
//!   recovery refuses. A damaged place with none behind it is the torn tail of a flush nobody was
//!   told about: whole records before it are kept, the rest is cut off.
//! - LOG-2. `flushed` moves only after the `fdatasync` that covers it.
//! - LOG-3. A batch is written only onto bytes that are already allocated, so a full disk shows
//!   at [`Log::reserve`], before anybody counts on the record, and a flush changes no metadata.
//! - LOG-4. Batch headers hold the log's random id and their own LSN: neither bytes of a segment's
//!   earlier life nor anything users store can pass for a batch.
//! - LOG-5. A segment file gets its `log-` name only when its header and first space are durable.
//!
//! *Concurrency.* One mutex guards the tail (the batch being gathered and the filled horizon);
//! appends copy under it, and wait only for the [`Room`] that they reserve before. The flusher alone writes batches, the filler alone makes segments.
//!
//! *Failure.* The first I/O error of a flush is final: what the disk holds is unknown from then
//! on, so every later append and wait answers [`LogError::Failed`]. No space for more segments
//! is not a failure: reservations answer [`LogError::Full`] until there is space again.

mod batch;
mod error;
mod filler;
mod flusher;
mod format;
mod reader;
mod recovery;
mod room;
mod segments;
mod tail;
mod waiters;
mod writer;

pub use error::LogError;
pub use format::{Lsn, MAX_APPEND_BYTES, RECORD_HEADER_BYTES};
pub use reader::{Chunk, Record};
pub use recovery::{LogRecovery, Needed, RecoveryReport, TornTail};
pub use room::Room;
pub use waiters::WaitFlushed;
pub use writer::{Log, LogCounters, LogOptions, NewRecord, Watermark};

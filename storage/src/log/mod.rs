//! The durable redo log of one machine.
//!
//! Records are appended to a buffer in memory. One flusher thread writes all gathered records as
//! one *batch* with one `fdatasync`, so many commits share a flush. After a crash [`LogRecovery`]
//! returns every record up to the last complete one.
//!
//! *Picture.* The log is one sequence of bytes, cut into segment files of equal size. An [`Lsn`] is
//! a position in it: segment number × segment size + offset in the file.
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
//!   damaged position followed by a good batch header was durable: that is corruption, and recovery
//!   refuses. A damaged position with no good header after it is the torn tail of a flush that was
//!   never reported: complete records before it are kept, and the rest is cut off.
//! - LOG-2. `flushed` moves only after the `fdatasync` that covers it.
//! - LOG-3. A batch is written only onto bytes that are already allocated. So a full disk is
//!   noticed at [`Log::reserve`], before a transaction depends on the record, and a flush changes
//!   no metadata.
//! - LOG-4. Batch headers contain the log's random id and their own LSN. So neither bytes of a
//!   segment file's earlier use nor users' data can be taken for a batch.
//! - LOG-5. A segment file gets its `log-` name only when its header and first space are durable.
//!
//! *Concurrency.* One mutex guards the tail (the batch being gathered and the filled horizon).
//! Appends copy under it, and wait only for the [`LogReservation`] that they reserve before. Only
//! the flusher writes batches, and only the filler makes segments.
//!
//! *Failure.* The first I/O error of a flush is final: the contents of the disk are unknown from
//! then on. So every later append and wait returns [`LogError::Failed`]. No space for more segments
//! is not a failure: reservations return [`LogError::Full`] until there is space again.

mod batch;
mod error;
mod filler;
mod flusher;
mod format;
mod reader;
mod recovery;
mod reservation;
mod segments;
mod tail;
mod waiters;
mod writer;

pub use error::LogError;
pub use format::{Lsn, MAX_APPEND_BYTES, RECORD_HEADER_BYTES};
pub use reader::{Chunk, Record};
pub use recovery::{LogRecovery, RecoveryReport, RequiredLog, TornTail};
pub use reservation::LogReservation;
pub use waiters::FlushWait;
pub use writer::{Log, LogCounters, LogOptions, NewRecord, Watermark};

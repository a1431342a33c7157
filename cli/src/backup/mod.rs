//! Backups: everything of a running database as of one moment, in a directory.
//!
//! ```text
//! DIR/manifest    checksum of what follows, as eight hexadecimal digits and a line end; then JSON (`Manifest`):
//!                 the statements that make everything (`pg_fencepost_ddl`), and what the files of the tables hold
//! DIR/0.copy      rows of the first table, as COPY writes them in its text format
//! DIR/1.copy      …
//! ```
//! A backup is a reader like any other: it holds nobody up, and what it says is one snapshot of the whole database.
//!
//! # Invariants
//! * BACKUP-WHOLE: a directory of the name that was asked for is there once all in it is on the disk, and not before.
//! * BACKUP-CHECKED: nothing is restored from a backup of which any byte is not what it was.
//!
//! It is of the database that its URL names. Roles, which all databases have in common, are in it, too, with what of their
//! passwords the server keeps, which does not tell them. Rows of materialized views are made again, as `pg_dump` has it.

mod files;
mod restore;
mod take;

pub use restore::Restore;
pub use take::Take;

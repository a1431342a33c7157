//! Backups: all objects and rows of a running database as of one snapshot, in a directory.
//!
//! ```text
//! DIR/manifest    checksum of the rest, as eight hexadecimal digits and a line end; then JSON
//!                 (`Manifest`): the statements that create all objects (`pg_fencepost_ddl`), and
//!                 a description of the tables' files
//! DIR/0.copy      rows of the first table, in the text format of COPY
//! DIR/1.copy      …
//! ```
//! A backup is an ordinary reader: it blocks no other transaction, and its content is one snapshot
//! of the whole database.
//!
//! # Invariants
//! * BACKUP-WHOLE: a directory with the requested name exists only after all of its content is on
//!   the disk.
//! * BACKUP-CHECKED: a backup with any changed byte is not restored.
//!
//! A backup has the database that its URL names. It includes roles, which all databases share, with
//! the password verifiers that the server stores, not the passwords. Rows of materialized views are
//! computed again, as by `pg_dump`.

mod files;
mod restore;
mod take;

pub use restore::Restore;
pub use take::BackupArgs;

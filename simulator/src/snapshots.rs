//! The check of timestamps (TXN-1): a reader at R sees the newest version at or below R. The reads
//! of a writer are validated at its W, and must be the newest versions below W.
//!
//! This check is stricter than [`crate::checker`], and describes faults more directly.

use crate::history::{ObservedTransaction, ReadVersion, SOMETIME};
use crate::versions::{Position, Versions};

/// Compares every read with the version that its reader's timestamp requires. Of two commits with
/// the same timestamp either may be the first.
///
/// # Errors
/// A description of the wrong read.
pub fn check_snapshots(history: &[ObservedTransaction]) -> Result<(), String> {
    let versions = Versions::of(history)?;
    for t in history.iter().filter(|t| t.began != SOMETIME) {
        for (object, saw) in &t.reads {
            let order = versions.order(*object);
            let (due, tied) = (versions.due(t, *object), versions.tied(t, *object));
            let is = |position: Position| match (saw, position) {
                (ReadVersion::Absent, _) => !versions.is_there(*object, position),
                (ReadVersion::By(writer), None) => *writer == 0,
                (ReadVersion::By(writer), Some(position)) => {
                    order[position].stays && history[order[position].by].id == *writer
                }
            };
            if !(is(due) || tied.is_some() && is(tied)) {
                let there = due.map(|position| {
                    let version = order[position];
                    (history[version.by].id, version.at, version.stays)
                });
                return Err(format!(
                    "at its timestamp {object} was {there:?} (writer, timestamp, \
                     whether it is there) and not {saw:?} for {t:?}"
                ));
            }
        }
    }
    Ok(())
}

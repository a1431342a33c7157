//! Whether timestamps say what happened: TXN-1, that whoever reads at R meets the newest version at or
//! below R, and the same for W of those who write, which is where their reads were validated.
//!
//! This asks for more than [`crate::checker`] does, and says sooner what is wrong.

use crate::history::{SOMETIME, Saw, Seen};
use crate::versions::{Position, Versions};

/// Compares every read with what its reader's timestamp asks for. Of two commits that share a timestamp
/// either may be the first.
///
/// # Errors
/// What is wrong, for people.
pub fn check_snapshots(history: &[Seen]) -> Result<(), String> {
    let versions = Versions::of(history)?;
    for t in history.iter().filter(|t| t.began != SOMETIME) {
        for (object, saw) in &t.reads {
            let order = versions.order(*object);
            let (due, tied) = (versions.due(t, *object), versions.tied(t, *object));
            let is = |position: Position| match (saw, position) {
                (Saw::Absent, _) => !versions.is_there(*object, position),
                (Saw::By(writer), None) => *writer == 0,
                (Saw::By(writer), Some(position)) => {
                    order[position].stays && history[order[position].by].id == *writer
                }
            };
            if !(is(due) || tied.is_some() && is(tied)) {
                let there = due.map(|position| {
                    let version = order[position];
                    (history[version.by].id, version.at, version.stays)
                });
                return Err(format!(
                    "at its timestamp {object} was {there:?} (writer, timestamp, whether it is there) and not {saw:?} for {t:?}"
                ));
            }
        }
    }
    Ok(())
}

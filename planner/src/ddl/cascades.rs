//! Notices about objects that DROP … CASCADE drops: the notices for single objects are merged into
//! one for the client.

use std::fmt::Display;

use fencepost_sql::error::SqlState;

use super::{DdlCx, Notice};

const BEGINNING: &str = "drop cascades to ";
/// The maximal number of objects that the merged notice names.
const NAMED_MAX: usize = 100;

/// Adds the notice about a dropped dependent object.
pub(super) fn tell(what: impl Display, ddl: &mut DdlCx<'_>) {
    let message = format!("{BEGINNING}{what}");
    ddl.notices
        .push(Notice::new(SqlState::SUCCESSFUL_COMPLETION, message));
}

/// Merges the notices about dependent objects from `from` on into one.
pub(super) fn gather(notices: &mut Vec<Notice>, from: usize) {
    let tells = |notice: &Notice| notice.report.message().starts_with(BEGINNING);
    let own = notices.get(from..).unwrap_or_default();
    let mut lines: Vec<String> = own
        .iter()
        .filter(|notice| tells(notice))
        .map(|notice| notice.report.message().to_owned())
        .collect();
    if lines.len() < 2 {
        return;
    }
    let message = format!("{BEGINNING}{} other objects", lines.len());
    if lines.len() > NAMED_MAX {
        let more = lines.len() - NAMED_MAX;
        lines.truncate(NAMED_MAX);
        lines.push(format!(
            "and {more} other objects (see server log for list)"
        ));
    }
    let mut kept = notices.split_off(from);
    kept.retain(|notice| !tells(notice));
    notices.append(&mut kept);
    let mut notice = Notice::new(SqlState::SUCCESSFUL_COMPLETION, message);
    notice.report = notice.report.detail(lines.join("\n"));
    notices.push(notice);
}

//! The labels of enum types: their names and their sort positions.

use fencepost_sql::error::{SqlError, SqlState};
use fencepost_sql::types::Enum;
use fencepost_sql::types::enums::{LABEL_BYTES_MAX, Label};

pub(super) fn check_label(name: &str) -> Result<(), SqlError> {
    if name.len() <= LABEL_BYTES_MAX {
        return Ok(());
    }
    let message = format!("invalid enum label \"{name}\"");
    let detail = format!("Labels must be {LABEL_BYTES_MAX} bytes or less.");
    Err(SqlError::new(SqlState::INVALID_NAME, message).detail(detail))
}

pub(super) fn labels_of(of: Enum) -> Vec<Label> {
    let label = |label: &Label| Label {
        id: label.id,
        place: label.place,
        name: label.name.clone(),
    };
    of.definition().labels.iter().map(label).collect()
}

pub(super) fn label_exists(label: &str, end: &str) -> SqlError {
    SqlError::new(
        SqlState::DUPLICATE_OBJECT,
        format!("enum label \"{label}\" already exists{end}"),
    )
}

pub(super) fn position(labels: &[Label], name: &str) -> Result<usize, SqlError> {
    let found = labels.iter().position(|label| label.name == name);
    found.ok_or_else(|| {
        SqlError::new(
            SqlState::INVALID_PARAMETER_VALUE,
            format!("\"{name}\" is not an existing enum label"),
        )
    })
}

/// Returns a sort position at the end, or before or after (true) another label. Positions never
/// change, because index keys contain them (ENUM-1). So the number of labels between two others is
/// limited.
pub(super) fn free_place(labels: &[Label], beside: Option<(bool, &str)>) -> Result<f64, SqlError> {
    let Some((after, name)) = beside else {
        return Ok(labels.last().map_or(1.0, |last| last.place + 1.0));
    };
    let at = position(labels, name)?;
    let beside_place = labels[at].place;
    let other = match after {
        true => labels.get(at + 1).map(|next| next.place),
        false => at.checked_sub(1).map(|before| labels[before].place),
    };
    let place = match (other, after) {
        (Some(other), _) => (beside_place + other) / 2.0,
        (None, true) => beside_place + 1.0,
        (None, false) => beside_place - 1.0,
    };
    match place == beside_place || Some(place) == other {
        false => Ok(place),
        true => Err(SqlError::new(
            SqlState::PROGRAM_LIMIT_EXCEEDED,
            format!("there is no place left beside the enum label \"{name}\""),
        )),
    }
}

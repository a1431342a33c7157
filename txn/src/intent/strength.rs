//! How strong an intent is.

/// Which others an intent goes along with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Strength {
    /// Nobody is to write the row: others may want the same.
    Share,
    /// Nobody else is to write the row, or to want that nobody does.
    Update,
}

impl Strength {
    /// Whether two cannot have a row with these at a time.
    pub fn conflicts(self, other: Strength) -> bool {
        self == Strength::Update || other == Strength::Update
    }
}

//! The strength of an intent: PostgreSQL's four row locks, weakest first.
//!
//! ```text
//!                KeyShare  Share  NoKeyUpdate  Update
//! KeyShare          ·        ·         ·          x
//! Share             ·        ·         x          x        x: the two strengths conflict
//! NoKeyUpdate       ·        x         x          x
//! Update            x        x         x          x
//! ```
//! Each strength conflicts with every strength that a weaker one conflicts with. So a stronger one
//! implies a weaker one.

/// The strength of an intent on a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Strength {
    /// The row is not deleted and its keys do not change: the lock of a foreign key on the row that
    /// is referenced.
    KeyShare,
    /// No other transaction writes the row.
    Share,
    /// The transaction changes the row, but no key of it.
    NoKeyUpdate,
    /// The transaction deletes the row or changes a key of it.
    Update,
}

impl Strength {
    /// All strengths, weakest first.
    pub const ALL: [Strength; 4] = [
        Strength::KeyShare,
        Strength::Share,
        Strength::NoKeyUpdate,
        Strength::Update,
    ];

    /// Returns whether two transactions cannot have a row with these strengths at the same time.
    pub fn conflicts(self, other: Strength) -> bool {
        match self.max(other) {
            Strength::Update => true,
            Strength::NoKeyUpdate => self.min(other) > Strength::KeyShare,
            Strength::Share | Strength::KeyShare => false,
        }
    }

    /// Returns the number of the strength in a message.
    pub fn code(self) -> u8 {
        match self {
            Strength::KeyShare => 1,
            Strength::Share => 2,
            Strength::NoKeyUpdate => 3,
            Strength::Update => 4,
        }
    }

    /// Returns the strength of a number in a message; `None` if the number stands for no strength.
    pub fn of_code(code: u64) -> Option<Strength> {
        let mut all = Strength::ALL.into_iter();
        all.find(|strength| u64::from(strength.code()) == code)
    }
}

#[cfg(test)]
mod tests {
    use super::Strength;

    #[test]
    fn strengths_conflict_as_the_row_locks_of_postgresql() {
        const CONFLICTS: [[bool; 4]; 4] = [
            [false, false, false, true],
            [false, false, true, true],
            [false, true, true, true],
            [true, true, true, true],
        ];
        for (one, row) in Strength::ALL.into_iter().zip(CONFLICTS) {
            for (other, conflicts) in Strength::ALL.into_iter().zip(row) {
                assert_eq!(one.conflicts(other), conflicts, "{one:?} and {other:?}");
            }
            assert_eq!(Strength::of_code(one.code().into()), Some(one));
        }
        assert_eq!(Strength::of_code(0), None);
        assert_eq!(Strength::of_code(5), None);
    }
}

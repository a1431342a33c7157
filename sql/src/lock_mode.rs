//! The modes of locks, and which of them go together.

/// How a lock is had, from the weakest on: PostgreSQL's modes. Advisory locks are had in [`LockMode::Share`] and
/// [`LockMode::Exclusive`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum LockMode {
    /// ACCESS SHARE
    AccessShare = 1,
    /// ROW SHARE
    RowShare,
    /// ROW EXCLUSIVE
    RowExclusive,
    /// SHARE UPDATE EXCLUSIVE
    ShareUpdateExclusive,
    /// SHARE
    Share,
    /// SHARE ROW EXCLUSIVE
    ShareRowExclusive,
    /// EXCLUSIVE
    Exclusive,
    /// ACCESS EXCLUSIVE
    AccessExclusive,
}

impl LockMode {
    /// Returns whether it conflicts with a mode that statements on rows take: up to ROW EXCLUSIVE.
    pub fn conflicts_with_statements(self) -> bool {
        self >= LockMode::Share
    }

    /// Returns whether it conflicts with all modes that `other` conflicts with.
    pub fn includes(self, other: LockMode) -> bool {
        // SHARE does not conflict with itself, so it does not replace ROW EXCLUSIVE and SHARE UPDATE EXCLUSIVE.
        self == other || self > other && (self != LockMode::Share || other <= LockMode::RowShare)
    }

    /// All of them.
    pub const ALL: [LockMode; 8] = [
        LockMode::AccessShare,
        LockMode::RowShare,
        LockMode::RowExclusive,
        LockMode::ShareUpdateExclusive,
        LockMode::Share,
        LockMode::ShareRowExclusive,
        LockMode::Exclusive,
        LockMode::AccessExclusive,
    ];

    /// Its number.
    pub fn number(self) -> u8 {
        self as u8
    }

    /// The mode of a number.
    pub fn of_number(number: u8) -> Option<LockMode> {
        LockMode::ALL
            .into_iter()
            .find(|mode| mode.number() == number)
    }

    /// Whether nobody else may have a lock like this while somebody has it like `other`.
    pub fn conflicts(self, other: LockMode) -> bool {
        use LockMode::*;
        let (weaker, stronger) = (self.min(other), self.max(other));
        match weaker {
            AccessShare => stronger == AccessExclusive,
            RowShare => stronger >= Exclusive,
            // A SHARE lock, which others may share, is in the way of those who write.
            RowExclusive => stronger >= Share,
            Share => stronger > Share,
            _ => true,
        }
    }

    /// As PostgreSQL calls it.
    pub fn name(self) -> &'static str {
        match self {
            LockMode::AccessShare => "AccessShareLock",
            LockMode::RowShare => "RowShareLock",
            LockMode::RowExclusive => "RowExclusiveLock",
            LockMode::ShareUpdateExclusive => "ShareUpdateExclusiveLock",
            LockMode::Share => "ShareLock",
            LockMode::ShareRowExclusive => "ShareRowExclusiveLock",
            LockMode::Exclusive => "ExclusiveLock",
            LockMode::AccessExclusive => "AccessExclusiveLock",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_conflict_as_postgresqls_do() {
        // A row for each mode, and in it an x for each that it conflicts with.
        let table = [
            ".......x", "......xx", "....xxxx", "...xxxxx", "..xx.xxx", "..xxxxxx", ".xxxxxxx",
            "xxxxxxxx",
        ];
        for (one, row) in LockMode::ALL.into_iter().zip(table) {
            let conflicts = LockMode::ALL.map(|other| match one.conflicts(other) {
                true => 'x',
                false => '.',
            });
            assert_eq!(String::from_iter(conflicts), row, "{one:?}");
        }
    }

    #[test]
    fn a_mode_includes_those_whose_conflicts_it_has() {
        for one in LockMode::ALL {
            for other in LockMode::ALL {
                let modes = LockMode::ALL.into_iter();
                let mut conflicts = modes.filter(|mode| other.conflicts(*mode));
                let includes = conflicts.all(|mode| one.conflicts(mode));
                assert_eq!(one.includes(other), includes, "{one:?}, {other:?}");
            }
        }
    }

    #[test]
    fn each_has_a_number() {
        for mode in LockMode::ALL {
            assert_eq!(LockMode::of_number(mode.number()), Some(mode));
        }
        assert_eq!(
            (LockMode::of_number(0), LockMode::of_number(9)),
            (None, None)
        );
    }
}

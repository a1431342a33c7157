//! Lock modes and their conflicts.

/// A lock mode of PostgreSQL; the order is from weak to strong. Advisory locks use
/// [`LockMode::Share`] and [`LockMode::Exclusive`].
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
    /// Returns whether the mode conflicts with a mode of DML statements: ROW EXCLUSIVE or weaker.
    pub fn conflicts_with_statements(self) -> bool {
        self >= LockMode::Share
    }

    /// Returns whether the mode conflicts with all modes that `other` conflicts with.
    pub fn includes(self, other: LockMode) -> bool {
        // SHARE does not conflict with itself. It therefore does not replace ROW EXCLUSIVE and
        // SHARE UPDATE EXCLUSIVE.
        self == other || self > other && (self != LockMode::Share || other <= LockMode::RowShare)
    }

    /// All modes, from weak to strong.
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

    /// Returns the number of the mode.
    pub fn number(self) -> u8 {
        self as u8
    }

    /// Returns the mode with a number; `None` for an invalid number.
    pub fn of_number(number: u8) -> Option<LockMode> {
        LockMode::ALL
            .into_iter()
            .find(|mode| mode.number() == number)
    }

    /// Returns whether two sessions cannot hold the modes `self` and `other` at the same time.
    pub fn conflicts(self, other: LockMode) -> bool {
        use LockMode::*;
        let (weaker, stronger) = (self.min(other), self.max(other));
        match weaker {
            AccessShare => stronger == AccessExclusive,
            RowShare => stronger >= Exclusive,
            // SHARE does not conflict with itself, but with all modes that write.
            RowExclusive => stronger >= Share,
            Share => stronger > Share,
            _ => true,
        }
    }

    /// Returns the name of the mode in `pg_locks`.
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
        // One row for each mode, with an x for each mode that it conflicts with.
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
    fn mode_includes_modes_with_subset_of_conflicts() {
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

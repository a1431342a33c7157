//! The supported collations. All of them order by bytes; the collation of a column or index is
//! stored only so that clients can see it.

/// A collation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Collation {
    /// The default collation of the database.
    #[default]
    Default,
    /// `"C"`
    C,
    /// `"POSIX"`
    Posix,
    /// `ucs_basic`
    UcsBasic,
}

impl Collation {
    /// All collations, in the order of their codes in stored definitions.
    pub const ALL: [Collation; 4] = [
        Collation::Default,
        Collation::C,
        Collation::Posix,
        Collation::UcsBasic,
    ];

    /// Returns the collation of this name.
    pub fn called(name: &str) -> Option<Collation> {
        let mut all = Collation::ALL.into_iter();
        all.find(|of| of.name() == name)
    }

    /// Returns the name of the collation.
    pub fn name(self) -> &'static str {
        match self {
            Collation::Default => "default",
            Collation::C => "C",
            Collation::Posix => "POSIX",
            Collation::UcsBasic => "ucs_basic",
        }
    }

    /// Returns the oid of the collation.
    pub fn oid(self) -> u32 {
        match self {
            Collation::Default => 100,
            Collation::C => 950,
            Collation::Posix => 951,
            Collation::UcsBasic => 12340,
        }
    }
}

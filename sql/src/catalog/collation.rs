//! The collations that there are. All of them order by bytes: which one a column or an index has is kept for who asks.

/// A collation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Collation {
    /// The database's.
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
    /// All of them, in the order of their bytes in the catalog.
    pub const ALL: [Collation; 4] = [
        Collation::Default,
        Collation::C,
        Collation::Posix,
        Collation::UcsBasic,
    ];

    /// The one called so.
    pub fn called(name: &str) -> Option<Collation> {
        let mut all = Collation::ALL.into_iter();
        all.find(|of| of.name() == name)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Collation::Default => "default",
            Collation::C => "C",
            Collation::Posix => "POSIX",
            Collation::UcsBasic => "ucs_basic",
        }
    }

    /// Its oid.
    pub fn oid(self) -> u32 {
        match self {
            Collation::Default => 100,
            Collation::C => 950,
            Collation::Posix => 951,
            Collation::UcsBasic => 12340,
        }
    }
}

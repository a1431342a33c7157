//! Ordered-set aggregates: WITHIN GROUP gives the order of their input.

/// An ordered-set aggregate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrderedSet {
    /// percentile_cont(fraction)
    PercentileCont,
    /// percentile_disc(fraction)
    PercentileDisc,
    /// mode()
    Mode,
    /// rank(a hypothetical row)
    Rank,
    /// dense_rank(…)
    DenseRank,
    /// percent_rank(…)
    PercentRank,
    /// cume_dist(…)
    CumeDist,
}

impl OrderedSet {
    const NAMES: [(&'static str, OrderedSet); 7] = [
        ("percentile_cont", OrderedSet::PercentileCont),
        ("percentile_disc", OrderedSet::PercentileDisc),
        ("mode", OrderedSet::Mode),
        ("rank", OrderedSet::Rank),
        ("dense_rank", OrderedSet::DenseRank),
        ("percent_rank", OrderedSet::PercentRank),
        ("cume_dist", OrderedSet::CumeDist),
    ];

    /// Returns the aggregate of this name; `None` for other names.
    pub fn of(name: &str) -> Option<OrderedSet> {
        let found = OrderedSet::NAMES.iter().find(|(known, _)| *known == name);
        found.map(|(_, kind)| *kind)
    }

    /// Returns the name of the aggregate.
    pub fn name(self) -> &'static str {
        let found = OrderedSet::NAMES.iter().find(|(_, known)| *known == self);
        found.map_or("", |(name, _)| name)
    }

    /// Returns whether it is a hypothetical-set aggregate.
    pub fn is_hypothetical(self) -> bool {
        !matches!(
            self,
            OrderedSet::PercentileCont | OrderedSet::PercentileDisc | OrderedSet::Mode
        )
    }
}

//! The time zone abbreviations that literals and AT TIME ZONE accept: PostgreSQL's default set.

/// Returns the fixed offset of an abbreviation, in seconds east of UTC.
pub(crate) fn abbreviated_offset(word: &str) -> Option<i32> {
    let lowered = word.to_ascii_lowercase();
    let at = ABBREVIATIONS.binary_search_by_key(&lowered.as_str(), |(name, _)| *name);
    at.ok().map(|at| ABBREVIATIONS[at].1)
}

/// Abbreviations, sorted, and their offsets. An abbreviation whose offset changed has the latest
/// one.
#[rustfmt::skip]
const ABBREVIATIONS: [(&str, i32); 195] = [
    ("acdt", 37_800), ("acsst", 37_800), ("acst", 34_200), ("act", -18_000), ("acwst", 31_500),
    ("adt", -10_800), ("aedt", 39_600), ("aesst", 39_600), ("aest", 36_000), ("aft", 16_200),
    ("akdt", -28_800), ("akst", -32_400), ("almst", 25_200), ("almt", 21_600), ("amst", 14_400),
    ("amt", -14_400), ("anast", 43_200), ("anat", 43_200), ("arst", -10_800), ("art", -10_800),
    ("ast", -14_400), ("awsst", 32_400), ("awst", 28_800), ("azost", 0), ("azot", -3600),
    ("azst", 14_400), ("azt", 14_400), ("bdst", 7200), ("bdt", 21_600), ("bnt", 28_800),
    ("bort", 28_800), ("bot", -14_400), ("bra", -10_800), ("brst", -7200), ("brt", -10_800),
    ("bst", 3600), ("btt", 21_600), ("cadt", 37_800), ("cast", 34_200), ("cct", 28_800),
    ("cdt", -18_000), ("cest", 7200), ("cet", 3600), ("cetdst", 7200), ("chadt", 49_500),
    ("chast", 45_900), ("chut", 36_000), ("ckt", -36_000), ("clst", -10_800), ("clt", -10_800),
    ("cot", -18_000), ("cst", -21_600), ("cxt", 25_200), ("davt", 25_200), ("ddut", 36_000),
    ("easst", -18_000), ("east", -18_000), ("eat", 10_800), ("edt", -14_400), ("eest", 10_800),
    ("eet", 7200), ("eetdst", 10_800), ("egst", 0), ("egt", -3600), ("est", -18_000),
    ("fet", 10_800), ("fjst", 46_800), ("fjt", 43_200), ("fkst", -10_800), ("fkt", -10_800),
    ("fnst", -3600), ("fnt", -7200), ("galt", -21_600), ("gamt", -32_400), ("gest", 14_400),
    ("get", 14_400), ("gft", -10_800), ("gilt", 43_200), ("gmt", 0), ("gyt", -14_400),
    ("hkt", 28_800), ("hst", -36_000), ("ict", 25_200), ("idt", 10_800), ("iot", 21_600),
    ("irkst", 28_800), ("irkt", 28_800), ("irt", 12_600), ("ist", 7200), ("jayt", 32_400),
    ("jst", 32_400), ("kdt", 36_000), ("kgst", 21_600), ("kgt", 21_600), ("kost", 39_600),
    ("krast", 25_200), ("krat", 25_200), ("kst", 32_400), ("lhdt", 39_600), ("lhst", 37_800),
    ("ligt", 36_000), ("lint", 50_400), ("lkt", 19_800), ("magst", 39_600), ("magt", 39_600),
    ("mart", -34_200), ("mawt", 18_000), ("mdt", -21_600), ("mest", 7200), ("mesz", 7200),
    ("met", 3600), ("metdst", 7200), ("mez", 3600), ("mht", 43_200), ("mmt", 23_400),
    ("mpt", 36_000), ("msd", 14_400), ("msk", 10_800), ("mst", -25_200), ("must", 18_000),
    ("mut", 14_400), ("mvt", 18_000), ("myt", 28_800), ("ndt", -9000), ("nft", -12_600),
    ("novst", 25_200), ("novt", 25_200), ("npt", 20_700), ("nst", -12_600), ("nut", -39_600),
    ("nzdt", 46_800), ("nzst", 43_200), ("nzt", 43_200), ("omsst", 21_600), ("omst", 21_600),
    ("pdt", -25_200), ("pet", -18_000), ("petst", 43_200), ("pett", 43_200), ("pgt", 36_000),
    ("pht", 28_800), ("pkst", 21_600), ("pkt", 18_000), ("pmdt", -7200), ("pmst", -10_800),
    ("pont", 39_600), ("pst", -28_800), ("pwt", 32_400), ("pyst", -10_800), ("pyt", -10_800),
    ("ret", 14_400), ("sadt", 37_800), ("sast", 7200), ("sct", 14_400), ("sgt", 28_800),
    ("taht", -36_000), ("tft", 18_000), ("tjt", 18_000), ("tkt", 46_800), ("tmt", 18_000),
    ("tot", 46_800), ("trut", 36_000), ("tvt", 43_200), ("uct", 0), ("ulast", 32_400),
    ("ulat", 28_800), ("ut", 0), ("utc", 0), ("uyst", -7200), ("uyt", -10_800), ("uzst", 21_600),
    ("uzt", 18_000), ("vet", -14_400), ("vlast", 36_000), ("vlat", 36_000), ("volt", 10_800),
    ("vut", 39_600), ("wadt", 28_800), ("wakt", 43_200), ("wast", 25_200), ("wat", 3600),
    ("wdt", 32_400), ("wet", 0), ("wetdst", 3600), ("wft", 43_200), ("wgst", -7200),
    ("wgt", -10_800), ("xjt", 21_600), ("yakst", 32_400), ("yakt", 32_400), ("yapt", 36_000),
    ("yekst", 21_600), ("yekt", 18_000), ("z", 0), ("zulu", 0),
];

#[cfg(test)]
mod tests {
    use super::{ABBREVIATIONS, abbreviated_offset};

    #[test]
    fn abbreviations_are_in_order() {
        assert!(ABBREVIATIONS.is_sorted_by_key(|(name, _)| *name));
        assert_eq!(abbreviated_offset("CET"), Some(3600));
        assert_eq!(abbreviated_offset("nosuch"), None);
    }
}

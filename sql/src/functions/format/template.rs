//! Templates of dates and times, cut into fields and text.

/// A part of a template.
#[derive(Clone, Debug)]
pub(super) enum Part {
    /// A field.
    Field(Field),
    /// Text in quotes, or characters that are letters or digits and no field.
    Text(String),
    /// Blanks and punctuation.
    Separator(String),
}

/// A field, as it is written and changed.
#[derive(Clone, Debug)]
pub(super) struct Field {
    /// The name in the table, upper case where the case makes no difference.
    pub(super) name: &'static str,
    /// FM: no padding.
    pub(super) bare: bool,
    /// TH or th behind it.
    pub(super) ordinal: Option<bool>,
}

/// The fields that begin with a letter, as they are written and as they are called; longer ones before those that they
/// begin with.
fn fields(first: u8) -> &'static [(&'static str, &'static str)] {
    match first {
        b'A' => &[
            ("A.D.", "A.D."),
            ("AD", "AD"),
            ("A.M.", "A.M."),
            ("AM", "AM"),
        ],
        b'B' => &[("B.C.", "B.C."), ("BC", "BC")],
        b'C' => &[("CC", "CC")],
        b'D' => &[
            ("DAY", "DAY"),
            ("Day", "Day"),
            ("DDD", "DDD"),
            ("DD", "DD"),
            ("DY", "DY"),
            ("Dy", "Dy"),
            ("D", "D"),
        ],
        b'F' => &[
            ("FF1", "FF1"),
            ("FF2", "FF2"),
            ("FF3", "FF3"),
            ("FF4", "FF4"),
            ("FF5", "FF5"),
            ("FF6", "FF6"),
        ],
        b'H' => &[("HH24", "HH24"), ("HH12", "HH12"), ("HH", "HH")],
        b'I' => &[
            ("IDDD", "IDDD"),
            ("ID", "ID"),
            ("IW", "IW"),
            ("IYYY", "IYYY"),
            ("IYY", "IYY"),
            ("IY", "IY"),
            ("I", "I"),
        ],
        b'J' => &[("J", "J")],
        b'M' => &[
            ("MI", "MI"),
            ("MM", "MM"),
            ("MONTH", "MONTH"),
            ("Month", "Month"),
            ("MON", "MON"),
            ("Mon", "Mon"),
            ("MS", "MS"),
        ],
        b'O' => &[("OF", "OF")],
        b'P' => &[("P.M.", "P.M."), ("PM", "PM")],
        b'Q' => &[("Q", "Q")],
        b'R' => &[("RM", "RM")],
        b'S' => &[("SSSSS", "SSSSS"), ("SSSS", "SSSS"), ("SS", "SS")],
        b'T' => &[("TZH", "TZH"), ("TZM", "TZM"), ("TZ", "TZ")],
        b'U' => &[("US", "US")],
        b'W' => &[("WW", "WW"), ("W", "W")],
        b'Y' => &[
            ("Y,YYY", "Y,YYY"),
            ("YYYY", "YYYY"),
            ("YYY", "YYY"),
            ("YY", "YY"),
            ("Y", "Y"),
        ],
        b'a' => &[
            ("a.d.", "a.d."),
            ("ad", "ad"),
            ("a.m.", "a.m."),
            ("am", "am"),
        ],
        b'b' => &[("b.c.", "b.c."), ("bc", "bc")],
        b'c' => &[("cc", "CC")],
        b'd' => &[
            ("day", "day"),
            ("ddd", "DDD"),
            ("dd", "DD"),
            ("dy", "dy"),
            ("d", "D"),
        ],
        b'f' => &[
            ("ff1", "FF1"),
            ("ff2", "FF2"),
            ("ff3", "FF3"),
            ("ff4", "FF4"),
            ("ff5", "FF5"),
            ("ff6", "FF6"),
        ],
        b'h' => &[("hh24", "HH24"), ("hh12", "HH12"), ("hh", "HH")],
        b'i' => &[
            ("iddd", "IDDD"),
            ("id", "ID"),
            ("iw", "IW"),
            ("iyyy", "IYYY"),
            ("iyy", "IYY"),
            ("iy", "IY"),
        ],
        b'j' => &[("j", "J")],
        b'm' => &[
            ("mi", "MI"),
            ("mm", "MM"),
            ("month", "month"),
            ("mon", "mon"),
            ("ms", "MS"),
        ],
        b'p' => &[("p.m.", "p.m."), ("pm", "pm")],
        b'q' => &[("q", "Q")],
        b'r' => &[("rm", "rm")],
        b's' => &[("sssss", "SSSSS"), ("ssss", "SSSS"), ("ss", "SS")],
        b't' => &[("tz", "tz")],
        b'u' => &[("us", "US")],
        b'w' => &[("ww", "WW"), ("w", "W")],
        b'y' => &[
            ("y,yyy", "Y,YYY"),
            ("yyyy", "YYYY"),
            ("yyy", "YYY"),
            ("yy", "YY"),
            ("y", "Y"),
        ],
        _ => &[],
    }
}

/// The text in the quotes that a template begins with, and what stands behind them. A backslash quotes what follows it.
pub(super) fn quoted(template: &str) -> (String, &str) {
    let mut text = String::new();
    let mut chars = template[1..].char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return (text, &template[at + 2..]),
            '\\' => text.extend(chars.next().map(|(_, c)| c)),
            c => text.push(c),
        }
    }
    (text, "")
}

/// These mean something else in another case.
const CASED: [&str; 14] = [
    "A.D.", "AD", "A.M.", "AM", "B.C.", "BC", "P.M.", "PM", "DAY", "DY", "MONTH", "MON", "RM", "TZ",
];

/// Whether the field means something else in another case.
pub(super) fn case_matters(name: &str) -> bool {
    CASED.iter().any(|cased| cased.eq_ignore_ascii_case(name))
}

/// The parts of a template.
pub(super) fn parts(template: &str) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    let mut rest = template;
    while let Some(first) = rest.chars().next() {
        let mut behind = rest;
        let mut bare = false;
        while let Some(prefix @ ("FM" | "fm" | "TM" | "tm" | "FX" | "fx")) = behind.get(..2) {
            bare |= matches!(prefix, "FM" | "fm");
            behind = &behind[2..];
        }
        let begins = behind.bytes().next().map_or(&[][..], fields);
        let field = begins.iter().find(|(name, _)| behind.starts_with(name));
        if let Some((written, name)) = field {
            rest = &behind[written.len()..];
            let ordinal = match rest.get(..2) {
                Some("TH") => Some(true),
                Some("th") => Some(false),
                _ => None,
            };
            if ordinal.is_some() {
                rest = &rest[2..];
            }
            parts.push(Part::Field(Field {
                name,
                bare,
                ordinal,
            }));
            continue;
        }
        if first == '"' {
            let (text, behind) = quoted(rest);
            parts.push(Part::Text(text));
            rest = behind;
            continue;
        }
        let (c, length) = match first {
            '\\' if rest[1..].starts_with('"') => ('"', 2),
            c => (c, c.len_utf8()),
        };
        rest = &rest[length..];
        let separator = !c.is_alphanumeric();
        match (parts.last_mut(), separator) {
            (Some(Part::Separator(text)), true) | (Some(Part::Text(text)), false) => text.push(c),
            (_, true) => parts.push(Part::Separator(c.to_string())),
            (_, false) => parts.push(Part::Text(c.to_string())),
        }
    }
    parts
}

pub(super) const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
pub(super) const DAYS: [&str; 7] = [
    "Sunday",
    "Monday",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
];
pub(super) const ROMAN: [&str; 12] = [
    "I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X", "XI", "XII",
];

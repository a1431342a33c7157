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

/// Longer names before those that they begin with.
const NAMES: [&str; 84] = [
    "A.D.", "a.d.", "AD", "ad", "A.M.", "a.m.", "AM", "am", "B.C.", "b.c.", "BC", "bc", "CC", "cc",
    "DAY", "Day", "day", "DDD", "ddd", "DD", "dd", "DY", "Dy", "dy", "D", "d", "FF1", "FF2", "FF3",
    "FF4", "FF5", "FF6", "ff1", "ff2", "ff3", "ff4", "ff5", "ff6", "HH24", "hh24", "HH12", "hh12",
    "HH", "hh", "IDDD", "iddd", "ID", "id", "IW", "iw", "IYYY", "iyyy", "IYY", "iyy", "IY", "iy",
    "I", "J", "j", "MI", "mi", "MM", "mm", "MONTH", "Month", "month", "MON", "Mon", "mon", "MS",
    "ms", "OF", "P.M.", "p.m.", "PM", "pm", "Q", "q", "RM", "rm", "SSSSS", "SSSS", "SS", "TZH",
];
const MORE: [&str; 22] = [
    "sssss", "ssss", "ss", "TZM", "TZ", "tz", "US", "us", "WW", "ww", "W", "w", "Y,YYY", "y,yyy",
    "YYYY", "yyyy", "YYY", "yyy", "YY", "yy", "Y", "y",
];

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
pub(super) fn case_matters(name: &str) -> bool {
    let upper = name.to_ascii_uppercase();
    matches!(
        upper.as_str(),
        "A.D."
            | "AD"
            | "A.M."
            | "AM"
            | "B.C."
            | "BC"
            | "P.M."
            | "PM"
            | "DAY"
            | "DY"
            | "MONTH"
            | "MON"
            | "RM"
            | "TZ"
    )
}

/// The field's name in upper case, unless its case matters.
fn canonical(name: &'static str) -> &'static str {
    if case_matters(name) {
        return name;
    }
    let all = || NAMES.iter().chain(&MORE);
    all()
        .find(|known| {
            known.eq_ignore_ascii_case(name) && !known.contains(|c: char| c.is_ascii_lowercase())
        })
        .copied()
        .unwrap_or(name)
}

/// The parts of a template.
pub(super) fn parts(template: &str) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    let mut rest = template;
    while let Some(first) = rest.chars().next() {
        let mut behind = rest;
        let mut bare = false;
        while let Some(tail) = ["FM", "fm", "TM", "tm", "FX", "fx"]
            .iter()
            .find_map(|prefix| behind.strip_prefix(prefix))
        {
            bare |= behind[..2].eq_ignore_ascii_case("fm");
            behind = tail;
        }
        let name = NAMES
            .iter()
            .chain(&MORE)
            .find(|name| behind.starts_with(**name));
        if let Some(name) = name {
            rest = &behind[name.len()..];
            let ordinal = match rest.get(..2) {
                Some("TH") => Some(true),
                Some("th") => Some(false),
                _ => None,
            };
            if ordinal.is_some() {
                rest = &rest[2..];
            }
            parts.push(Part::Field(Field {
                name: canonical(name),
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

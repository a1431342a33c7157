//! Templates of dates and times, cut into fields and text.

/// A part of a template.
#[derive(Clone, Debug)]
pub(super) enum TemplateItem {
    /// A field.
    Field(Field),
    /// Quoted text, or letters and digits that are not a field.
    Text(String),
    /// Blanks and punctuation.
    Separator(String),
}

/// A field of a template with its modifiers.
#[derive(Clone, Debug)]
pub(super) struct Field {
    /// The name in the table; upper case if the case does not matter.
    pub(super) name: &'static str,
    /// FM: no padding
    pub(super) bare: bool,
    /// The suffix TH (true) or th (false) after the field.
    pub(super) ordinal: Option<bool>,
}

/// Returns the fields that begin with a letter, and their names in `Field`. A field precedes the
/// fields that are prefixes of it.
fn fields(letter: u8) -> &'static [(&'static str, &'static str)] {
    match letter.to_ascii_uppercase() {
        b'A' => &[
            ("A.D.", "A.D."),
            ("AD", "AD"),
            ("A.M.", "A.M."),
            ("AM", "AM"),
            ("a.d.", "a.d."),
            ("ad", "ad"),
            ("a.m.", "a.m."),
            ("am", "am"),
        ],
        b'B' => &[
            ("B.C.", "B.C."),
            ("BC", "BC"),
            ("b.c.", "b.c."),
            ("bc", "bc"),
        ],
        b'C' => &[("CC", "cc")],
        b'D' => &[
            ("DAY", "DAY"),
            ("Day", "Day"),
            ("day", "day"),
            ("DDD", "ddd"),
            ("DD", "dd"),
            ("DY", "DY"),
            ("Dy", "Dy"),
            ("dy", "dy"),
            ("D", "d"),
        ],
        b'F' => &[
            ("FF1", "ff1"),
            ("FF2", "ff2"),
            ("FF3", "ff3"),
            ("FF4", "ff4"),
            ("FF5", "ff5"),
            ("FF6", "ff6"),
        ],
        b'H' => &[("HH24", "hh24"), ("HH12", "hh12"), ("HH", "hh")],
        b'I' => &[
            ("IDDD", "iddd"),
            ("ID", "id"),
            ("IW", "iw"),
            ("IYYY", "iyyy"),
            ("IYY", "iyy"),
            ("IY", "iy"),
            ("I", "I"),
        ],
        b'J' => &[("J", "j")],
        b'M' => &[
            ("MI", "mi"),
            ("MM", "mm"),
            ("MONTH", "MONTH"),
            ("Month", "Month"),
            ("month", "month"),
            ("MON", "MON"),
            ("Mon", "Mon"),
            ("mon", "mon"),
            ("MS", "ms"),
        ],
        b'O' => &[("OF", "OF")],
        b'P' => &[
            ("P.M.", "P.M."),
            ("PM", "PM"),
            ("p.m.", "p.m."),
            ("pm", "pm"),
        ],
        b'Q' => &[("Q", "q")],
        b'R' => &[("RM", "RM"), ("rm", "rm")],
        b'S' => &[("SSSSS", "sssss"), ("SSSS", "ssss"), ("SS", "ss")],
        b'T' => &[("TZH", "TZH"), ("TZM", "TZM"), ("TZ", "TZ"), ("tz", "tz")],
        b'U' => &[("US", "us")],
        b'W' => &[("WW", "ww"), ("W", "w")],
        b'Y' => &[
            ("Y,YYY", "y,yyy"),
            ("YYYY", "yyyy"),
            ("YYY", "yyy"),
            ("YY", "yy"),
            ("Y", "y"),
        ],
        _ => &[],
    }
}

/// Returns the quoted text at the beginning of a template, and the rest. A backslash escapes the
/// next character.
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

/// Fields whose case affects the output.
const CASED: [&str; 14] = [
    "A.D.", "AD", "A.M.", "AM", "B.C.", "BC", "P.M.", "PM", "DAY", "DY", "MONTH", "MON", "RM", "TZ",
];

/// Returns whether the case of the field affects the output.
pub(super) fn case_matters(name: &str) -> bool {
    CASED.iter().any(|cased| cased.eq_ignore_ascii_case(name))
}

/// Splits a template into its parts.
pub(super) fn parts(template: &str) -> Vec<TemplateItem> {
    let mut parts: Vec<TemplateItem> = Vec::new();
    let mut rest = template;
    while let Some(first) = rest.chars().next() {
        let mut behind = rest;
        let mut bare = false;
        while let Some(prefix @ ("FM" | "fm" | "TM" | "tm" | "FX" | "fx")) = behind.get(..2) {
            bare |= matches!(prefix, "FM" | "fm");
            behind = &behind[2..];
        }
        let begins = behind.bytes().next().map_or(&[][..], fields);
        let is =
            |(name, other): &&(&str, &str)| behind.starts_with(name) || behind.starts_with(other);
        if let Some((name, _)) = begins.iter().find(is) {
            rest = &behind[name.len()..];
            let ordinal = match rest.get(..2) {
                Some("TH") => Some(true),
                Some("th") => Some(false),
                _ => None,
            };
            if ordinal.is_some() {
                rest = &rest[2..];
            }
            parts.push(TemplateItem::Field(Field {
                name,
                bare,
                ordinal,
            }));
            continue;
        }
        if first == '"' {
            let (text, behind) = quoted(rest);
            parts.push(TemplateItem::Text(text));
            rest = behind;
            continue;
        }
        let (c, length) = match first {
            '\\' if rest.starts_with("\\\"") => ('"', 2),
            c => (c, c.len_utf8()),
        };
        rest = &rest[length..];
        let separator = !c.is_alphanumeric();
        match (parts.last_mut(), separator) {
            (Some(TemplateItem::Separator(text)), true)
            | (Some(TemplateItem::Text(text)), false) => text.push(c),
            (_, true) => parts.push(TemplateItem::Separator(c.to_string())),
            (_, false) => parts.push(TemplateItem::Text(c.to_string())),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_field_is_found_whole_in_each_spelling() {
        let mut found = 0;
        for (name, other) in (b'A'..=b'Z').flat_map(fields) {
            for written in [name, other] {
                match &parts(written)[..] {
                    [TemplateItem::Field(field)] => assert_eq!(field.name, *name),
                    other => panic!("{written}: {other:?}"),
                }
                found += 1;
            }
        }
        assert!(found > 100);
    }
}

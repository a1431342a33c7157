//! Units of settings: memory and time, read and shown as in PostgreSQL.

/// The unit of a setting's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    /// Bytes.
    B,
    /// Kilobytes.
    Kb,
    /// Pages of 8 kB.
    Blocks,
    /// Megabytes.
    Mb,
    /// Milliseconds.
    Ms,
    /// Seconds.
    S,
}

/// Units and their size in kilobytes or milliseconds; the largest first.
type UnitSizes = [(&'static str, f64)];

const MEMORY: &UnitSizes = &[
    ("TB", 1_073_741_824.0),
    ("GB", 1_048_576.0),
    ("MB", 1024.0),
    ("kB", 1.0),
    ("B", 1.0 / 1024.0),
];
const TIME: &UnitSizes = &[
    ("d", 86_400_000.0),
    ("h", 3_600_000.0),
    ("min", 60_000.0),
    ("s", 1000.0),
    ("ms", 1.0),
    ("us", 0.001),
];

impl Unit {
    pub(super) fn name(self) -> &'static str {
        match self {
            Unit::B => "B",
            Unit::Kb => "kB",
            Unit::Blocks => "8kB",
            Unit::Mb => "MB",
            Unit::Ms => "ms",
            Unit::S => "s",
        }
    }

    fn known(self) -> &'static UnitSizes {
        match self {
            Unit::B | Unit::Kb | Unit::Blocks | Unit::Mb => MEMORY,
            Unit::Ms | Unit::S => TIME,
        }
    }

    /// Returns the size of the unit in kilobytes or milliseconds.
    fn size(self) -> f64 {
        match self {
            Unit::Kb | Unit::Ms => 1.0,
            Unit::B => 1.0 / 1024.0,
            Unit::Blocks => 8.0,
            Unit::Mb => 1024.0,
            Unit::S => 1000.0,
        }
    }

    /// Returns the HINT that lists the valid units.
    pub(super) fn hint(self) -> &'static str {
        match self {
            Unit::B | Unit::Kb | Unit::Blocks | Unit::Mb => {
                "Valid units for this parameter are \"B\", \"kB\", \"MB\", \"GB\", and \"TB\"."
            }
            Unit::Ms | Unit::S => {
                "Valid units for this parameter are \"us\", \"ms\", \"s\", \"min\", \"h\", and \
                 \"d\"."
            }
        }
    }

    /// Reads a number with an optional unit and converts it to this unit. A fraction is rounded to
    /// a multiple of the next smaller unit.
    pub(super) fn read(self, text: &str) -> Option<f64> {
        let (given, rest) = leading(text)?;
        if rest.is_empty() {
            return Some(given);
        }
        let known = self.known();
        let at = known.iter().position(|(name, _)| *name == rest)?;
        let exact = given * known[at].1 / self.size();
        let Some((_, smaller)) = known.get(at + 1).filter(|_| exact.fract() != 0.0) else {
            return Some(exact);
        };
        let step = smaller / self.size();
        Some((exact / step).round_ties_even() * step)
    }

    /// Formats a number in the largest unit in which it is an integer.
    pub(super) fn format_with_unit(self, number: f64) -> String {
        if number <= 0.0 {
            return format_number(number);
        }
        let base = number * self.size();
        let whole = |(_, size): &&(&str, f64)| (base / size).fract() == 0.0;
        match self.known().iter().find(whole) {
            Some((name, size)) => format!("{}{name}", format_number(base / size)),
            None => format!("{}{}", format_number(number), self.name()),
        }
    }
}

/// Parses a text that is only a number.
pub(super) fn number(text: &str) -> Option<f64> {
    leading(text)
        .filter(|(_, rest)| rest.is_empty())
        .map(|(number, _)| number)
}

/// Parses the number at the beginning of a text (also hexadecimal or octal), and returns the rest.
fn leading(text: &str) -> Option<(f64, &str)> {
    let text = text.trim();
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let sign = if text.starts_with('-') { -1.0 } else { 1.0 };
    if let Some(hex) = unsigned
        .strip_prefix("0x")
        .or_else(|| unsigned.strip_prefix("0X"))
    {
        let end = hex.find(|c: char| !c.is_ascii_hexdigit());
        let (digits, rest) = hex.split_at(end.unwrap_or(hex.len()));
        let number = u64::from_str_radix(digits, 16).ok()?;
        return Some((sign * number as f64, rest.trim_start()));
    }
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let mut end = digits(unsigned);
    let whole = end;
    if unsigned[end..].starts_with('.') {
        end += 1 + digits(&unsigned[end + 1..]);
    }
    if let Some(exponent) = unsigned[end..].strip_prefix(['e', 'E']) {
        let signed = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
        let count = digits(signed);
        if count > 0 {
            end += 1 + exponent.len() - signed.len() + count;
        }
    }
    let (number, rest) = unsigned.split_at(end);
    let octal = whole == end && whole > 1 && number.starts_with('0');
    let number = match octal {
        true => u64::from_str_radix(number, 8).ok()? as f64,
        false => number.parse().ok()?,
    };
    Some((sign * number, rest.trim_start()))
}

/// Formats a number with six digits, like `%g`.
pub(super) fn format_number(number: f64) -> String {
    if number.fract() == 0.0 && number.abs() < 1e15 {
        return format!("{number:.0}");
    }
    if number.abs() >= 1e15 || number.abs() < 1e-4 {
        let text = format!("{number:.5e}");
        let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let digits = digits.trim_end_matches('0').trim_end_matches('.');
        let power: i32 = exponent.parse().unwrap_or(0);
        let sign = if power < 0 { '-' } else { '+' };
        return format!("{digits}e{sign}{:02}", power.abs());
    }
    let places = 5 - number.abs().log10().floor() as i32;
    let text = format!("{number:.*}", usize::try_from(places).unwrap_or(0));
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_and_shown_with_units() {
        for (unit, given, number, text) in [
            (Unit::Kb, "64", 64.0, "64kB"),
            (Unit::Kb, " 1.5 GB", 1_572_864.0, "1536MB"),
            (Unit::Kb, "0x400", 1024.0, "1MB"),
            (Unit::Blocks, "8MB", 1024.0, "8MB"),
            (Unit::Blocks, "16kB", 2.0, "16kB"),
            (Unit::Ms, "1.5s", 1500.0, "1500ms"),
            (Unit::Ms, "2min", 120_000.0, "2min"),
            (Unit::S, "1h", 3600.0, "1h"),
            (Unit::Ms, "0", 0.0, "0"),
            (Unit::Ms, "-1", -1.0, "-1"),
            (Unit::Ms, "0.5", 0.5, "500us"),
        ] {
            assert_eq!(unit.read(given), Some(number), "{given}");
            assert_eq!(unit.format_with_unit(number), text);
        }
        for bad in ["", "much", "1 parsec", "1 GB", "0x", "--1", "1s s"] {
            assert_eq!(Unit::Ms.read(bad), None, "{bad}");
        }
        assert_eq!(format_number(1.1), "1.1");
        assert_eq!(format_number(0.0025), "0.0025");
        assert_eq!(format_number(f64::MAX), "1.79769e+308");
    }
}

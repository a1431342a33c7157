//! to_char of numbers.
//!
//! The template is processed twice. `Shape` determines the number of digits on both sides of the
//! decimal point and the position of the sign. `Writer` then follows the template digit by digit,
//! as PostgreSQL does.

use rust_decimal::Decimal;

use super::Outcome;
use super::timestamp::ordinal;
use crate::error::{SqlError, SqlState};
use crate::functions::decimal;
use crate::types::numeric;
use crate::value::Value;

/// The maximum number of digits after the decimal point.
const FRACTION_DIGITS_MAX: usize = 16_383;

/// A token of a template.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token {
    Nine,
    Zero,
    Point,
    Comma,
    Sign,
    Minus,
    Plus,
    PlusMinus,
    Bracket,
    Fill,
    Blank,
    Currency,
    Roman(bool),
    Ordinal(bool),
    Shift,
    Exponent,
    Text(String),
}

static TOKENS: [(&str, Token); 21] = [
    ("EEEE", Token::Exponent),
    ("FM", Token::Fill),
    ("MI", Token::Minus),
    ("PL", Token::Plus),
    ("PR", Token::Bracket),
    ("RN", Token::Roman(true)),
    ("SG", Token::PlusMinus),
    ("SP", Token::Text(String::new())),
    ("TH", Token::Ordinal(true)),
    ("th", Token::Ordinal(false)),
    ("rn", Token::Roman(false)),
    ("9", Token::Nine),
    ("0", Token::Zero),
    (".", Token::Point),
    ("D", Token::Point),
    (",", Token::Comma),
    ("G", Token::Comma),
    ("S", Token::Sign),
    ("V", Token::Shift),
    ("L", Token::Currency),
    // PostgreSQL reads this token, and ignores it.
    ("C", Token::Blank),
];

pub(super) fn tokens(template: &str) -> Vec<Token> {
    let mut found = Vec::new();
    let mut rest = template;
    while let Some(first) = rest.chars().next() {
        let upper: String = rest
            .chars()
            .take(4)
            .collect::<String>()
            .to_ascii_uppercase();
        let known = TOKENS.iter().find(|(name, _)| {
            rest.starts_with(name) || (upper.starts_with(name) && !name.eq_ignore_ascii_case("th"))
        });
        // The case of a token matters only for `RN`.
        let known = match known {
            Some((_, Token::Roman(_))) if rest.starts_with("rn") => Some(Token::Roman(false)),
            other => other.map(|(_, token)| token.clone()),
        };
        if let Some(token) = known {
            let length = match &token {
                Token::Exponent => 4,
                Token::Fill
                | Token::Minus
                | Token::Plus
                | Token::Bracket
                | Token::Roman(_)
                | Token::PlusMinus
                | Token::Ordinal(_) => 2,
                Token::Text(_) => 2,
                _ => 1,
            };
            rest = &rest[length..];
            found.push(token);
            continue;
        }
        if first == 'B' || first == 'b' {
            found.push(Token::Blank);
            rest = &rest[1..];
            continue;
        }
        if first == '"' {
            let (text, behind) = super::template::quoted(rest);
            found.push(Token::Text(text));
            rest = behind;
            continue;
        }
        let (text, length) = match first {
            '\\' if rest.starts_with("\\\"") => ('"', 2),
            c => (c, c.len_utf8()),
        };
        found.push(Token::Text(text.to_string()));
        rest = &rest[length..];
    }
    found
}

/// The position of the sign that the template's S requests.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum SignAt {
    #[default]
    None,
    Before,
    Behind,
}

/// The format that a template describes.
#[derive(Debug, Default)]
pub(super) struct Shape {
    pub(super) before: usize,
    pub(super) behind: usize,
    zero: bool,
    zero_start: usize,
    zero_end: usize,
    decimal: bool,
    fill: bool,
    sign: SignAt,
    before_sign: usize,
    plus: bool,
    minus: bool,
    bracket: bool,
    pub(super) shift: Option<usize>,
    exponent: bool,
    roman: bool,
}

impl Shape {
    pub(super) fn of(tokens: &[Token]) -> Result<Shape, SqlError> {
        let refused =
            |message: &str| Err(SqlError::new(SqlState::SYNTAX_ERROR, message.to_owned()));
        let mut shape = Shape::default();
        for token in tokens {
            if shape.exponent && !matches!(token, Token::Text(_) | Token::Fill) {
                return refused("\"EEEE\" must be the last pattern used");
            }
            match token {
                Token::Nine => match (&mut shape.shift, shape.decimal) {
                    _ if shape.bracket => return refused("\"9\" must be ahead of \"PR\""),
                    (Some(shift), _) => *shift += 1,
                    (None, true) => shape.behind += 1,
                    (None, false) => shape.before += 1,
                },
                Token::Zero => {
                    if shape.bracket {
                        return refused("\"0\" must be ahead of \"PR\"");
                    }
                    if !shape.zero && !shape.decimal {
                        shape.zero = true;
                        shape.zero_start = shape.before;
                    }
                    match shape.decimal {
                        true => shape.behind += 1,
                        false => shape.before += 1,
                    }
                    shape.zero_end = shape.before + shape.behind;
                }
                Token::Point if shape.decimal => return refused("multiple decimal points"),
                Token::Point if shape.shift.is_some() => {
                    return refused("cannot use \"V\" and decimal point together");
                }
                Token::Point => shape.decimal = true,
                Token::Fill => shape.fill = true,
                Token::Sign => {
                    if shape.sign != SignAt::None && !shape.decimal {
                        return refused("cannot use \"S\" twice");
                    }
                    if shape.plus || shape.minus || shape.bracket {
                        return refused(
                            "cannot use \"S\" and \"PL\"/\"MI\"/\"SG\"/\"PR\" together",
                        );
                    }
                    if !shape.decimal {
                        shape.sign = SignAt::Before;
                        shape.before_sign = shape.before;
                    } else if shape.sign == SignAt::None {
                        shape.sign = SignAt::Behind;
                    }
                }
                Token::Minus | Token::Plus | Token::PlusMinus if shape.sign != SignAt::None => {
                    return refused("cannot use \"S\" and \"MI\" together");
                }
                Token::Minus => shape.minus = true,
                Token::Plus => shape.plus = true,
                Token::PlusMinus => {
                    shape.plus = true;
                    shape.minus = true;
                }
                Token::Bracket => {
                    if shape.sign != SignAt::None || shape.plus || shape.minus {
                        return refused(
                            "cannot use \"PR\" and \"S\"/\"PL\"/\"MI\"/\"SG\" together",
                        );
                    }
                    shape.bracket = true;
                }
                Token::Roman(_) => shape.roman = true,
                Token::Shift if shape.decimal => {
                    return refused("cannot use \"V\" and decimal point together");
                }
                Token::Shift => shape.shift = Some(0),
                Token::Exponent => shape.exponent = true,
                Token::Comma
                | Token::Blank
                | Token::Currency
                | Token::Ordinal(_)
                | Token::Text(_) => {}
            }
        }
        Ok(shape)
    }
}

/// Formats a number by a template. With EEEE a tie is rounded to an `even` digit if that is set,
/// otherwise away from 0.
pub(super) fn to_char(value: &Decimal, template: &str, even: bool) -> Outcome {
    let tokens = tokens(template);
    let mut shape = Shape::of(&tokens)?;
    if shape.roman {
        return Ok(Value::text(roman(value, &tokens)));
    }
    if shape.exponent {
        return Ok(Value::text(scientific(value, &shape, even)));
    }
    let mut value = *value;
    if let Some(shift) = shape.shift {
        let power = 10i128
            .checked_pow(shift as u32)
            .and_then(|p| Decimal::try_from_i128_with_scale(p, 0).ok())
            .ok_or_else(numeric::overflow)?;
        value = decimal::mul(&value, &power)?;
        shape.before += shift;
    }
    let behind = shape.behind.min(numeric::MAX_SCALE as usize);
    let rounded = numeric::round(&value, behind as i32)?;
    let negative = rounded.is_sign_negative() && !rounded.is_zero();
    let digits = rounded.abs().to_string();
    let (whole, fraction) = digits.split_once('.').unwrap_or((&digits, ""));
    let mut text = whole.to_owned();
    let overflow = whole.len() > shape.before;
    if overflow {
        text = "#".repeat(shape.before);
    }
    let spaces = shape.before.saturating_sub(whole.len());
    if shape.decimal && shape.behind > 0 {
        text.push('.');
        match overflow {
            true => text.push_str(&"#".repeat(shape.behind)),
            false => {
                let digits = shape.behind.min(FRACTION_DIGITS_MAX);
                text.push_str(fraction);
                text.push_str(&"0".repeat(digits.saturating_sub(fraction.len())));
            }
        }
    }
    let mut writer = Writer::new(shape, text.into_bytes(), spaces, negative);
    writer.all(&tokens);
    Ok(Value::text(writer.out))
}

struct Writer {
    shape: Shape,
    /// The digits and the decimal point, or `#` if the number does not fit.
    digits: Vec<u8>,
    /// The current index in `digits`.
    at: usize,
    spaces: usize,
    negative: bool,
    sign_written: bool,
    /// The index of the last digit that FM keeps.
    last: Option<usize>,
    /// The index among the digits of the template.
    nth: usize,
    count: usize,
    /// Whether a digit was just written.
    inside: bool,
    out: String,
}

impl Writer {
    fn new(mut shape: Shape, digits: Vec<u8>, spaces: usize, negative: bool) -> Writer {
        let sign_written = if shape.plus || shape.minus {
            !shape.plus || shape.minus
        } else {
            if !negative && shape.bracket && shape.fill {
                shape.bracket = false;
            }
            let unneeded = !negative && shape.fill && shape.sign == SignAt::None;
            if shape.sign == SignAt::Before && shape.before == shape.before_sign {
                shape.sign = SignAt::Behind;
            }
            unneeded
        };
        let mut count = (shape.behind + shape.before).saturating_sub(1);
        let mut last = None;
        if shape.fill && shape.decimal {
            last = digits.iter().position(|b| *b == b'.').map(|point| {
                let tail = digits[point + 1..].iter().rposition(|b| *b != b'0');
                tail.map_or(point, |at| point + 1 + at)
            });
            if let Some(last) = &mut last
                && shape.zero_end > spaces
            {
                // The decimal point takes a position, too.
                let kept = (shape.zero_end - spaces).min(digits.len().saturating_sub(1));
                *last = (*last).max(kept);
            }
        }
        if !sign_written && spaces == 0 {
            count += 1;
        }
        Writer {
            shape,
            digits,
            at: 0,
            spaces,
            negative,
            sign_written,
            last,
            nth: 0,
            count,
            inside: false,
            out: String::new(),
        }
    }

    fn all(&mut self, tokens: &[Token]) {
        for token in tokens {
            match token {
                Token::Nine => self.digit(false),
                Token::Zero => self.digit(true),
                Token::Point => self.digit(false),
                Token::Comma if self.inside => self.out.push(','),
                Token::Comma if !self.shape.fill => self.out.push(' '),
                Token::Minus if self.negative => self.out.push('-'),
                Token::Minus if !self.shape.fill => self.out.push(' '),
                Token::Plus if !self.negative => self.out.push('+'),
                Token::Plus if !self.shape.fill => self.out.push(' '),
                Token::PlusMinus => self.out.push(if self.negative { '-' } else { '+' }),
                Token::Currency => self.out.push(' '),
                Token::Ordinal(upper) => {
                    let hidden = self.negative || self.shape.decimal || self.digits.contains(&b'#');
                    if !hidden {
                        let digits = String::from_utf8_lossy(&self.digits).into_owned();
                        let suffix = ordinal(&digits);
                        match upper {
                            true => self.out.push_str(&suffix.to_ascii_uppercase()),
                            false => self.out.push_str(suffix),
                        }
                    }
                }
                Token::Text(text) => self.out.push_str(text),
                _ => {}
            }
        }
    }

    /// Returns whether a zero before the decimal point stands at a 9 of the template.
    fn leads_with_zero(&self) -> bool {
        !self.shape.zero
            && self.at == 0
            && self.digits.first() == Some(&b'0')
            && self.shape.behind != 0
    }

    fn last_is_point(&self) -> bool {
        self.last
            .is_some_and(|at| self.digits.get(at) == Some(&b'.'))
    }

    fn digit(&mut self, zero: bool) {
        let shape = &self.shape;
        self.inside = false;
        let begins = self.nth >= self.spaces || (shape.zero && shape.zero_start == self.nth);
        if !self.sign_written && begins && (!self.leads_with_zero() || self.last_is_point()) {
            match shape.sign {
                SignAt::Before => {
                    self.out.push(if self.negative { '-' } else { '+' });
                    self.sign_written = true;
                }
                SignAt::Behind => {}
                SignAt::None => {
                    match (shape.bracket, self.negative) {
                        (true, false) => self.out.push(' '),
                        (true, true) => self.out.push('<'),
                        (false, false) if !shape.fill => self.out.push(' '),
                        (false, false) => {}
                        (false, true) => self.out.push('-'),
                    }
                    self.sign_written = true;
                }
            }
        }
        let current = self.digits.get(self.at).copied();
        if self.nth < self.spaces && !(shape.zero && shape.zero_start <= self.nth) {
            if !shape.fill {
                self.out.push(' ');
            }
        } else if self.nth < self.spaces {
            self.out.push('0');
            self.inside = true;
        } else {
            match current {
                Some(b'.') if !self.last_is_point() || shape.fill => self.out.push('.'),
                Some(b'.') => {}
                Some(_) if self.last.is_some_and(|last| self.at > last) && !zero => {}
                Some(_) if self.leads_with_zero() => {
                    if !shape.fill {
                        self.out.push(' ');
                    } else if self.last_is_point() {
                        self.out.push('0');
                    }
                }
                Some(digit) => {
                    self.out.push(char::from(digit));
                    self.inside = true;
                }
                None => {}
            }
            if current.is_some() {
                self.at += 1;
            }
        }
        let mut end = self.count + usize::from(self.spaces > 0) + usize::from(self.shape.decimal);
        if self.last == Some(self.at) {
            end = self.nth;
        }
        if self.nth + 1 == end {
            if self.sign_written && self.shape.bracket {
                self.out.push(if self.negative { '>' } else { ' ' });
            } else if self.shape.sign == SignAt::Behind {
                self.out.push(if self.negative { '-' } else { '+' });
            }
        }
        self.nth += 1;
    }
}

/// Formats a number in Roman numerals up to 3999, others as `#`.
fn roman(value: &Decimal, tokens: &[Token]) -> String {
    const ONES: [&str; 10] = ["", "I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX"];
    const TENS: [&str; 10] = ["", "X", "XX", "XXX", "XL", "L", "LX", "LXX", "LXXX", "XC"];
    const HUNDREDS: [&str; 10] = ["", "C", "CC", "CCC", "CD", "D", "DC", "DCC", "DCCC", "CM"];
    let number = numeric::to_i64(value).filter(|n| (1..4000).contains(n));
    let text = match number {
        Some(n) => {
            let n = n as usize;
            let thousands = "M".repeat(n / 1000);
            format!(
                "{thousands}{}{}{}",
                HUNDREDS[n / 100 % 10],
                TENS[n / 10 % 10],
                ONES[n % 10]
            )
        }
        None => "#".repeat(15),
    };
    let text = match tokens.contains(&Token::Roman(false)) {
        true => text.to_ascii_lowercase(),
        false => text,
    };
    match tokens.contains(&Token::Fill) {
        true => text,
        false => format!("{text:>15}"),
    }
}

/// Formats a number in scientific notation: ` 1.235e+03`.
fn scientific(value: &Decimal, shape: &Shape, even: bool) -> String {
    let digits = value.mantissa().unsigned_abs().to_string();
    let mut exponent = digits.len() as i32 - 1 - value.scale() as i32;
    let wanted = shape.behind + 1;
    let mut kept: Vec<u8> = digits.bytes().take(wanted + 1).collect();
    if value.is_zero() {
        exponent = 0;
        kept = vec![b'0'];
    }
    kept.resize(wanted + 1, b'0');
    let next = kept.pop().unwrap_or(b'0');
    let tie = next == b'5' && digits.bytes().skip(wanted + 1).all(|b| b == b'0');
    let odd = kept.last().is_some_and(|b| b % 2 == 1);
    let up = next >= b'5' && !(even && tie && !odd);
    if up {
        let mut at = kept.len();
        loop {
            match at.checked_sub(1) {
                None => {
                    kept.insert(0, b'1');
                    kept.pop();
                    exponent += 1;
                    break;
                }
                Some(i) if kept[i] == b'9' => {
                    kept[i] = b'0';
                    at = i;
                }
                Some(i) => {
                    kept[i] += 1;
                    break;
                }
            }
        }
    }
    let sign = match value.is_sign_negative() && !value.is_zero() {
        true => "-",
        false if shape.fill => "",
        false => " ",
    };
    let text = String::from_utf8(kept).unwrap_or_default();
    let (first, rest) = text.split_at(1);
    let point = if shape.behind > 0 { "." } else { "" };
    let direction = if exponent < 0 { '-' } else { '+' };
    format!(
        "{sign}{first}{point}{rest}e{direction}{:02}",
        exponent.abs()
    )
}

//! Translation of PostgreSQL's patterns to the syntax of `regex-automata`, which `fancy-regex`
//! shares.

use regex_automata::util::syntax;

use crate::error::{SqlError, SqlState};

/// A translated pattern and the options with which the crate must read it.
pub(super) struct TranslatedPattern {
    pub(super) text: String,
    pub(super) insensitive: bool,
    /// Whether `.` and `[^…]` do not match a line feed.
    pub(super) newline_stops_dot: bool,
    /// Whether `^` and `$` also match at line feeds.
    pub(super) newline_anchors: bool,
    /// Whether blanks and comments in the pattern are ignored.
    pub(super) expanded: bool,
    /// Whether it has a non-greedy quantifier.
    pub(super) lazy: bool,
    /// Whether it has lookaround or back references.
    pub(super) looks: bool,
}

impl TranslatedPattern {
    /// Returns the syntax options with which the library reads the text.
    pub(super) fn syntax(&self) -> syntax::Config {
        syntax::Config::new()
            .case_insensitive(self.insensitive)
            .dot_matches_new_line(!self.newline_stops_dot)
            .multi_line(self.newline_anchors)
            .ignore_whitespace(self.expanded)
    }
}

pub(super) fn translated(pattern: &str, flags: &str) -> Result<TranslatedPattern, SqlError> {
    let mut out = TranslatedPattern {
        text: String::with_capacity(pattern.len() + 8),
        insensitive: false,
        newline_stops_dot: false,
        newline_anchors: false,
        expanded: false,
        lazy: false,
        looks: false,
    };
    let mut literal = false;
    let mut set = |flag: char, out: &mut TranslatedPattern| {
        match flag {
            'g' | 't' | 'e' | 'b' => {}
            'c' => out.insensitive = false,
            'i' => out.insensitive = true,
            'n' | 'm' => {
                out.newline_stops_dot = true;
                out.newline_anchors = true;
            }
            's' => {
                out.newline_stops_dot = false;
                out.newline_anchors = false;
            }
            'p' => out.newline_stops_dot = true,
            'w' => out.newline_anchors = true,
            'x' => out.expanded = true,
            'q' => literal = true,
            other => {
                return Err(SqlError::new(
                    SqlState::INVALID_PARAMETER_VALUE,
                    format!("invalid regular expression option: \"{other}\""),
                ));
            }
        }
        Ok(())
    };
    for flag in flags.chars() {
        set(flag, &mut out)?;
    }
    let mut rest = pattern.strip_prefix("***:").unwrap_or(pattern);
    // Options can precede the pattern.
    if let Some(body) = rest.strip_prefix("(?")
        && let Some((options, behind)) = body.split_once(')')
        && !options.is_empty()
        && options.bytes().all(|b| b.is_ascii_lowercase())
    {
        for flag in options.chars() {
            set(flag, &mut out)?;
        }
        rest = behind;
    }
    let rest = match rest.strip_prefix("***=") {
        Some(text) => {
            literal = true;
            text
        }
        None => rest,
    };
    if literal {
        rest.chars().for_each(|c| escaped(c, &mut out.text));
        return Ok(out);
    }
    let mut reader = PatternTranslator {
        rest: rest.chars().collect(),
        at: 0,
        repeatable: false,
        open: Vec::new(),
        groups: Vec::new(),
        out,
    };
    reader.all()?;
    Ok(reader.out)
}

/// Appends a character that stands for itself.
fn escaped(c: char, out: &mut String) {
    if c.is_ascii_punctuation() || c == ' ' {
        out.push('\\');
    }
    out.push(c);
}

#[cold]
pub(super) fn invalid(why: &str) -> SqlError {
    SqlError::new(
        SqlState::new(b"2201B"),
        format!("invalid regular expression: {why}"),
    )
}

/// The maximum number of a bound.
const REPEATS_MAX: u32 = 255;

struct PatternTranslator {
    rest: Vec<char>,
    at: usize,
    /// Whether the last element can have a quantifier.
    repeatable: bool,
    /// The open parentheses.
    open: Vec<Bracket>,
    /// For each group so far, whether it has ended.
    groups: Vec<bool>,
    out: TranslatedPattern,
}

/// The construct that an opening parenthesis has begun.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Bracket {
    /// A capturing group, by its index.
    Group(usize),
    /// A non-capturing group.
    Plain,
    /// A lookaround constraint: it contains no capturing groups and no back references.
    Around,
}

impl PatternTranslator {
    fn peek(&self, ahead: usize) -> Option<char> {
        self.rest.get(self.at + ahead).copied()
    }

    fn starts_with(&self, text: &str) -> bool {
        text.chars()
            .enumerate()
            .all(|(i, c)| self.peek(i) == Some(c))
    }

    fn all(&mut self) -> Result<(), SqlError> {
        while let Some(c) = self.peek(0) {
            self.at += 1;
            let quantifier = matches!(c, '*' | '+' | '?')
                || c == '{' && self.peek(0).is_some_and(|c| c.is_ascii_digit());
            if quantifier && !self.repeatable {
                return Err(invalid("quantifier operand invalid"));
            }
            self.repeatable = !quantifier && !matches!(c, '(' | '|' | '^');
            match c {
                '\\' => self.escape(false)?,
                '[' if self.starts_with("[:<:]]") => {
                    self.at += 6;
                    self.out.text.push_str("\\b{start}");
                }
                '[' if self.starts_with("[:>:]]") => {
                    self.at += 6;
                    self.out.text.push_str("\\b{end}");
                }
                '[' => self.bracket()?,
                '(' => self.bracket_opens()?,
                ')' => {
                    if let Some(Bracket::Group(at)) = self.open.pop() {
                        self.groups[at] = true;
                    }
                    self.out.text.push(')');
                }
                '{' if !self.peek(0).is_some_and(|c| c.is_ascii_digit()) => {
                    self.out.text.push_str("\\{");
                }
                '}' => self.out.text.push_str("\\}"),
                '*' | '+' | '?' => {
                    self.out.text.push(c);
                    self.greed();
                }
                '{' => {
                    self.bound()?;
                    self.greed();
                }
                // The crate would give these characters a special meaning.
                '#' | '&' | '~' | '-' | ' ' if !self.out.expanded => {
                    escaped(c, &mut self.out.text);
                }
                c => self.out.text.push(c),
            }
        }
        Ok(())
    }

    /// Translates a construct that begins with `(`.
    fn bracket_opens(&mut self) -> Result<(), SqlError> {
        let around = ["?=", "?!", "?<=", "?<!"].into_iter();
        if let Some(around) = around.into_iter().find(|begin| self.starts_with(begin)) {
            self.at += around.len();
            self.out.looks = true;
            self.open.push(Bracket::Around);
            self.out.text.push('(');
            self.out.text.push_str(around);
            return Ok(());
        }
        if self.starts_with("?:") {
            self.at += 2;
            self.open.push(Bracket::Plain);
            self.out.text.push_str("(?:");
            return Ok(());
        }
        if self.starts_with("?#") {
            // A comment.
            while self.peek(0).is_some_and(|c| c != ')') {
                self.at += 1;
            }
            self.at += 1;
            return Ok(());
        }
        if self.peek(0) == Some('?') {
            return Err(invalid("quantifier operand invalid"));
        }
        match self.open.contains(&Bracket::Around) {
            true => {
                self.open.push(Bracket::Plain);
                self.out.text.push_str("(?:");
            }
            false => {
                self.open.push(Bracket::Group(self.groups.len()));
                self.groups.push(false);
                self.out.text.push('(');
            }
        }
        Ok(())
    }

    /// Translates a digit after a backslash: a reference to a group, or an octal code if there are
    /// not that many groups.
    fn refer_back(&mut self) -> Result<String, SqlError> {
        let digits = &self.rest[self.at..];
        let count = digits.iter().take_while(|c| c.is_ascii_digit()).count();
        let number = digits[..count].iter().try_fold(0usize, |number, c| {
            let digit = c.to_digit(10)? as usize;
            number.checked_mul(10)?.checked_add(digit)
        });
        let known = number.filter(|number| count == 1 || *number <= self.groups.len());
        let Some(group) = known.filter(|_| digits[0] != '0') else {
            return self.octal();
        };
        self.at += count;
        let has_ended = self.groups.get(group - 1).is_some_and(|ended| *ended);
        if !has_ended || self.open.contains(&Bracket::Around) {
            return Err(invalid("invalid backreference number"));
        }
        self.out.looks = true;
        Ok(format!("(?:\\{group})"))
    }

    /// Translates up to three octal digits.
    fn octal(&mut self) -> Result<String, SqlError> {
        let digits = self.rest[self.at..].iter().map_while(|c| c.to_digit(8));
        let digits: Vec<u32> = digits.take(3).collect();
        if digits.is_empty() {
            return Err(invalid("invalid escape \\ sequence"));
        }
        self.at += digits.len();
        let code = digits.iter().fold(0, |code, digit| code * 8 + digit);
        Ok(format!("\\x{{{code:x}}}"))
    }

    /// Translates a bound `m}`, `m,}` or `m,n}` after its `{`.
    fn bound(&mut self) -> Result<(), SqlError> {
        let mut bound = String::new();
        while let Some(c) = self.peek(0) {
            self.at += 1;
            bound.push(c);
            if c == '}' {
                break;
            }
        }
        let mut counts = bound.split(|c: char| !c.is_ascii_digit());
        let is_valid =
            |count: &str| count.is_empty() || count.parse().is_ok_and(|n: u32| n <= REPEATS_MAX);
        if !counts.all(is_valid) {
            return Err(invalid("invalid repetition count(s)"));
        }
        self.out.text.push('{');
        self.out.text.push_str(&bound);
        Ok(())
    }

    /// Translates a `?` after a quantifier.
    fn greed(&mut self) {
        if self.peek(0) == Some('?') {
            self.at += 1;
            self.out.text.push('?');
            self.out.lazy = true;
        }
    }

    /// Translates an escape after its backslash.
    fn escape(&mut self, in_bracket: bool) -> Result<(), SqlError> {
        let Some(c) = self.peek(0) else {
            return Err(invalid("invalid escape \\ sequence"));
        };
        self.at += 1;
        let text = match c {
            'd' | 'w' | 's' | 'D' | 'W' | 'S' => format!("\\{c}"),
            'A' if !in_bracket => "\\A".to_owned(),
            'Z' if !in_bracket => "\\z".to_owned(),
            'm' if !in_bracket => "\\b{start}".to_owned(),
            'M' if !in_bracket => "\\b{end}".to_owned(),
            'y' if !in_bracket => "\\b".to_owned(),
            'Y' if !in_bracket => "\\B".to_owned(),
            'a' => "\\x07".to_owned(),
            'b' => "\\x08".to_owned(),
            'B' => "\\\\".to_owned(),
            'e' => "\\x1b".to_owned(),
            'f' | 'n' | 'r' | 't' | 'v' => format!("\\{c}"),
            'u' => self.code(4)?,
            'U' => self.code(8)?,
            'x' => self.code(0)?,
            '0'..='9' => {
                self.at -= 1;
                match in_bracket {
                    true => self.octal()?,
                    false => self.refer_back()?,
                }
            }
            c if c.is_ascii_alphanumeric() => {
                return Err(invalid("invalid escape \\ sequence"));
            }
            c => {
                let mut text = String::new();
                escaped(c, &mut text);
                text
            }
        };
        self.out.text.push_str(&text);
        Ok(())
    }

    /// Translates `count` hexadecimal digits, or as many as there are if `count` is 0.
    fn code(&mut self, count: usize) -> Result<String, SqlError> {
        let most = if count == 0 { 8 } else { count };
        let mut digits = String::new();
        while digits.len() < most
            && let Some(c) = self.peek(0).filter(char::is_ascii_hexdigit)
        {
            digits.push(c);
            self.at += 1;
        }
        if digits.is_empty() || (count > 0 && digits.len() < count) {
            return Err(invalid("invalid escape \\ sequence"));
        }
        Ok(format!("\\x{{{digits}}}"))
    }

    /// Translates a bracket expression after its `[`.
    fn bracket(&mut self) -> Result<(), SqlError> {
        self.out.text.push('[');
        let mut first = true;
        if self.peek(0) == Some('^') {
            self.at += 1;
            self.out.text.push('^');
            if self.out.newline_stops_dot {
                self.out.text.push_str("\\n");
            }
        }
        loop {
            let Some(c) = self.peek(0) else {
                return Err(invalid("brackets [] not balanced"));
            };
            self.at += 1;
            match c {
                ']' if !first => {
                    self.out.text.push(']');
                    return Ok(());
                }
                '[' if self.peek(0) == Some(':') => {
                    self.class()?;
                }
                '[' if matches!(self.peek(0), Some('.' | '=')) => {
                    return Err(SqlError::unsupported(
                        "a collating element in a regular expression",
                    ));
                }
                '\\' => self.escape(true)?,
                '-' => {
                    let ends = first || self.peek(0) == Some(']');
                    self.out.text.push_str(if ends { "\\-" } else { "-" });
                }
                c => escaped(c, &mut self.out.text),
            }
            first = false;
        }
    }

    /// Translates a character class such as `[:alpha:]`, after its first `[`.
    fn class(&mut self) -> Result<(), SqlError> {
        const NAMES: [&str; 13] = [
            "alnum", "alpha", "blank", "cntrl", "digit", "graph", "lower", "print", "punct",
            "space", "upper", "xdigit", "word",
        ];
        let known = NAMES
            .iter()
            .find(|name| self.starts_with(&format!(":{name}:]")));
        let Some(name) = known else {
            return Err(invalid("invalid character class"));
        };
        self.at += name.len() + 3;
        self.out.text.push_str(&format!("[:{name}:]"));
        Ok(())
    }
}

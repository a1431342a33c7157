//! Command tags: the command that a statement ran, and its number of rows.

use std::fmt;

/// The text of a CommandComplete message, such as `INSERT 0 3`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag {
    command: &'static str,
    rows: Option<u64>,
}

impl Tag {
    /// Creates the tag of a command without a row count.
    pub const fn plain(command: &'static str) -> Tag {
        Tag {
            command,
            rows: None,
        }
    }

    /// Creates the tag of a command that returned or changed `rows` rows.
    pub const fn counted(command: &'static str, rows: u64) -> Tag {
        Tag {
            command,
            rows: Some(rows),
        }
    }

    /// Returns the number of rows; 0 if the tag has no count.
    pub fn rows(self) -> u64 {
        self.rows.unwrap_or(0)
    }

    /// Appends the text. Every statement ends with it, so it avoids the formatter.
    pub fn write(self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.command.as_bytes());
        let Some(mut rest) = self.rows else {
            return;
        };
        let mut digits = [0u8; 20];
        let mut at = digits.len();
        loop {
            at -= 1;
            digits[at] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        out.push(b' ');
        out.extend_from_slice(&digits[at..]);
    }
}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = Vec::new();
        self.write(&mut text);
        f.write_str(&String::from_utf8_lossy(&text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_read_as_postgres_writes_them() {
        assert_eq!(Tag::plain("CREATE TABLE").to_string(), "CREATE TABLE");
        assert_eq!(Tag::counted("INSERT 0", 0).to_string(), "INSERT 0 0");
        let most = Tag::counted("SELECT", u64::MAX);
        assert_eq!(most.to_string(), format!("SELECT {}", u64::MAX));
    }
}

//! Rule `columns`: a line of Rust or Markdown has at most 100 characters.
//!
//! Text that cannot be broken passes if it holds the first character beyond the limit: a raw string
//! literal, a literal without a space, a URL, a table, a link and a `console` block.

use crate::tidy::finding::Finding;
use crate::tidy::rule::{Check, Measure, Rule};
use crate::tidy::source::tokens::{StringKind, Token};
use crate::tidy::source::{Content, RustFile, Source};

/// The rule.
pub const RULE: Rule = Rule {
    name: NAME,
    measure: Measure::Count,
    check: Check::Source(check),
};

const NAME: &str = "columns";
const COLUMNS_LIMIT: usize = 100;

fn check(source: &Source<'_>, findings: &mut Vec<Finding>) {
    for (index, line) in source.text.lines().enumerate() {
        let Some((beyond, _)) = line.char_indices().nth(COLUMNS_LIMIT) else {
            continue;
        };
        let number = index + 1;
        if is_unbreakable(source, number, line, beyond) {
            continue;
        }
        let problem = format!("the line has {} columns", line.chars().count());
        let advice = format!("break it at {COLUMNS_LIMIT}");
        findings.push(Finding::new(NAME, source.path, number, problem, advice));
    }
}

/// Tells whether the character at `beyond` in the line is part of text that cannot be broken.
fn is_unbreakable(source: &Source<'_>, number: usize, line: &str, beyond: usize) -> bool {
    if word_at(line, beyond).contains("://") {
        return true;
    }
    let offset = source.lines.start_of(number) + beyond;
    match &source.content {
        Content::Rust(rust) => is_table_row(line) || is_in_literal(source, rust, number, offset),
        Content::Markdown(document) => {
            let ranges = document.table_ranges.iter().chain(&document.link_ranges);
            let mut ranges = ranges.chain(&document.console_ranges);
            ranges.any(|range| range.contains(&offset))
        }
        Content::Opaque => true,
    }
}

fn word_at(line: &str, position: usize) -> &str {
    let start = line[..position]
        .rfind(char::is_whitespace)
        .map_or(0, |space| space + 1);
    line[start..].split_whitespace().next().unwrap_or_default()
}

/// Tells whether a line of Rust is a row of a table in a comment.
fn is_table_row(line: &str) -> bool {
    let line = line.trim_start();
    line.starts_with("//") && line.trim_start_matches(['/', '!', ' ']).starts_with('|')
}

fn is_in_literal(source: &Source<'_>, rust: &RustFile, number: usize, offset: usize) -> bool {
    let index = rust.tokens.partition_point(|token| token.end <= offset);
    let Some(token) = rust.tokens.get(index) else {
        return false;
    };
    match token.string_kind() {
        Some(StringKind::Raw) => true,
        Some(StringKind::Escaped) => !part_on_line(source, token, number).contains(' '),
        None => false,
    }
}

/// Returns the part of a token that stands on a line.
fn part_on_line<'a>(source: &Source<'a>, token: &Token, number: usize) -> &'a str {
    let start = token.start.max(source.lines.start_of(number));
    let part = &source.text[start..token.end];
    part.split('\n').next().unwrap_or(part).trim_start()
}

#[cfg(test)]
mod tests {
    use super::NAME;
    use crate::tidy::rules::testing::findings;

    const ADVICE: &str = "break it at 100";

    #[test]
    fn line_of_101_columns_is_found() {
        let text = format!("// {}\n// {} x\n", "ä".repeat(97), "ä".repeat(96));
        let expected = [format!(
            "a.rs:2: columns: the line has 101 columns; {ADVICE}"
        )];
        assert_eq!(findings(NAME, "a.rs", &text), expected);
        let text = format!("{}\n", "word ".repeat(21).trim_end());
        let expected = [format!(
            "a.md:1: columns: the line has 104 columns; {ADVICE}"
        )];
        assert_eq!(findings(NAME, "a.md", &text), expected);
    }

    #[test]
    fn breakable_literal_is_found() {
        let text = format!("const S: &str = \"{}\";\n", "word ".repeat(20));
        let expected = [format!(
            "a.rs:1: columns: the line has 119 columns; {ADVICE}"
        )];
        assert_eq!(findings(NAME, "a.rs", &text), expected);
    }

    #[test]
    fn output_in_a_console_block_passes() {
        let line = "word ".repeat(21);
        let block = |language: &str| format!("```{language}\n{line}\n```\n");
        assert_eq!(findings(NAME, "a.md", &block("console")), [""; 0]);
        assert_eq!(findings(NAME, "a.md", &block("text")).len(), 1);
    }

    #[test]
    fn unbreakable_literal_passes() {
        let (word, words) = ("x".repeat(99), "word ".repeat(20));
        let text = format!("const A: &str = \"{word}\";\nconst B: &str = r#\"{words}\"#;\n");
        assert_eq!(findings(NAME, "a.rs", &text), [""; 0]);
    }

    #[test]
    fn address_table_and_link_pass() {
        let (word, words) = ("x".repeat(99), "word ".repeat(20));
        let text = format!("// https://{word}\n//! | {words} |\n");
        assert_eq!(findings(NAME, "a.rs", &text), [""; 0]);
        let text = format!("[a]({word})\n\n| {words} |\n|---|\n| {words} |\n");
        assert_eq!(findings(NAME, "a.md", &text), [""; 0]);
    }

    #[test]
    fn generated_file_passes() {
        assert_eq!(findings(NAME, "generated.md", &"word ".repeat(30)), [""; 0]);
    }
}

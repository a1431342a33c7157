//! Markdown tables whose cells hold any text.
//!
//! A cell is one line, so a table may be wider than the columns of prose. A vertical bar is escaped
//! also inside a code span, as GitHub demands.

/// A table under construction.
pub struct Table {
    text: String,
}

impl Table {
    /// Begins a table with the headings of its columns.
    pub fn new(headings: &[&str]) -> Table {
        let mut text = String::new();
        push_line(&mut text, headings.iter().copied());
        let rule = "---|".repeat(headings.len());
        text.push_str(&format!("|{rule}\n"));
        Table { text }
    }

    /// Appends a row; the cells are Markdown text from [`code`], [`plain`] and literals.
    pub fn push(&mut self, cells: &[String]) {
        push_line(&mut self.text, cells.iter().map(String::as_str));
    }

    /// Returns the text of the table.
    pub fn into_text(self) -> String {
        self.text
    }
}

fn push_line<'a>(text: &mut String, cells: impl Iterator<Item = &'a str>) {
    text.push('|');
    for cell in cells {
        match cell {
            "" => text.push_str(" |"),
            cell => text.push_str(&format!(" {cell} |")),
        }
    }
    text.push('\n');
}

/// Returns a code span for a cell; the empty text has none.
pub fn code(text: &str) -> String {
    let text = one_line(text).replace('|', "\\|");
    if text.is_empty() {
        return text;
    }
    if text.contains('`') {
        return format!("`` {text} ``");
    }
    format!("`{text}`")
}

/// Returns running text for a cell. Code spans of the text stay; other marks are escaped.
pub fn plain(text: &str) -> String {
    let mut escaped = String::new();
    let mut is_code = false;
    for character in one_line(text).chars() {
        match character {
            '`' => is_code = !is_code,
            '|' => escaped.push('\\'),
            '<' | '*' | '[' | ']' | '\\' if !is_code => escaped.push('\\'),
            _ => {}
        }
        escaped.push(character);
    }
    escaped
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_one_line_each() {
        let mut table = Table::new(&["a", "b"]);
        table.push(&[code("x|y"), plain("one\n  two")]);
        table.push(&[code(""), plain("")]);
        let expected = "| a | b |\n|---|---|\n| `x\\|y` | one two |\n| | |\n";
        assert_eq!(table.into_text(), expected);
    }

    #[test]
    fn marks_of_markdown_are_escaped_outside_of_code() {
        assert_eq!(plain("a < b * c, `d < e`"), "a \\< b \\* c, `d < e`");
        assert_eq!(plain("[env: X]"), "\\[env: X\\]");
    }

    #[test]
    fn code_span_may_hold_a_backtick() {
        assert_eq!(code("a`b"), "`` a`b ``");
    }
}

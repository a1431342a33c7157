//! The tokens of a Rust file with their offsets, and its comment blocks.
//!
//! A block is a run of line comments of one kind on consecutive lines, or one block comment. The
//! text of a block has one line for each line of the file, without comment marks.

use ra_ap_rustc_lexer::{DocStyle, FrontmatterAllowed, LiteralKind, TokenKind, tokenize};

use super::lines::LineIndex;

/// A token of a Rust file.
#[derive(Debug)]
pub struct Token {
    /// The kind, as the compiler's lexer reports it.
    pub kind: TokenKind,
    /// Byte offset of the first byte.
    pub start: usize,
    /// Byte offset after the last byte.
    pub end: usize,
}

/// The breakability of a string literal over several lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StringKind {
    /// A literal in which a backslash continues the line.
    Escaped,
    /// A raw literal, in which each line break counts.
    Raw,
}

impl Token {
    /// Returns the kind of a string literal; `None` for other tokens.
    pub fn string_kind(&self) -> Option<StringKind> {
        let TokenKind::Literal { kind, .. } = self.kind else {
            return None;
        };
        match kind {
            LiteralKind::Str { .. } | LiteralKind::ByteStr { .. } | LiteralKind::CStr { .. } => {
                Some(StringKind::Escaped)
            }
            LiteralKind::RawStr { .. }
            | LiteralKind::RawByteStr { .. }
            | LiteralKind::RawCStr { .. } => Some(StringKind::Raw),
            _ => None,
        }
    }
}

/// The kind of a comment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommentKind {
    /// A comment that rustdoc does not read.
    Plain,
    /// A doc comment of the item that follows.
    Outer,
    /// A doc comment of the module around it.
    Inner,
}

/// Adjacent comments of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommentBlock {
    /// The kind of all its lines.
    pub kind: CommentKind,
    /// The first line, from 1.
    pub line: usize,
    /// The text without comment marks, one line for each line of the file.
    pub text: String,
}

/// Splits a Rust file into tokens.
pub fn tokens(text: &str) -> Vec<Token> {
    let mut start = 0;
    tokenize(text, FrontmatterAllowed::No)
        .map(|token| {
            let end = start + token.len as usize;
            let token = Token {
                kind: token.kind,
                start,
                end,
            };
            start = end;
            token
        })
        .collect()
}

/// Collects the comment blocks of a Rust file.
pub fn comment_blocks(text: &str, tokens: &[Token], lines: &LineIndex) -> Vec<CommentBlock> {
    let mut blocks: Vec<CommentBlock> = Vec::new();
    let mut next_line = None;
    for token in tokens {
        let line = lines.line_of(token.start);
        let comment = &text[token.start..token.end];
        match token.kind {
            TokenKind::LineComment { doc_style } => {
                let kind = comment_kind(doc_style);
                let content = strip_line_marks(comment, kind);
                let is_alone = text[lines.start_of(line)..token.start].trim().is_empty();
                match blocks.last_mut() {
                    Some(block) if next_line == Some(line) && is_alone && block.kind == kind => {
                        block.text.push('\n');
                        block.text.push_str(content);
                    }
                    _ => blocks.push(CommentBlock {
                        kind,
                        line,
                        text: content.to_owned(),
                    }),
                }
                next_line = is_alone.then_some(line + 1);
            }
            TokenKind::BlockComment { doc_style, .. } => {
                let kind = comment_kind(doc_style);
                blocks.push(CommentBlock {
                    kind,
                    line,
                    text: strip_block_marks(comment),
                });
                next_line = None;
            }
            _ => {}
        }
    }
    blocks
}

fn comment_kind(style: Option<DocStyle>) -> CommentKind {
    match style {
        None => CommentKind::Plain,
        Some(DocStyle::Outer) => CommentKind::Outer,
        Some(DocStyle::Inner) => CommentKind::Inner,
    }
}

fn strip_line_marks(comment: &str, kind: CommentKind) -> &str {
    let marks = match kind {
        CommentKind::Plain => "//",
        CommentKind::Outer => "///",
        CommentKind::Inner => "//!",
    };
    let content = comment.strip_prefix(marks).unwrap_or(comment);
    content.strip_prefix(' ').unwrap_or(content)
}

fn strip_block_marks(comment: &str) -> String {
    let content = comment.trim_start_matches(['/', '*', '!']);
    let content = content.strip_suffix("*/").unwrap_or(content);
    let lines = content.lines().map(|line| {
        let line = line.trim();
        line.strip_prefix('*').unwrap_or(line).trim_start()
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks(text: &str) -> Vec<(CommentKind, usize, String)> {
        comment_blocks(text, &tokens(text), &LineIndex::new(text))
            .into_iter()
            .map(|block| (block.kind, block.line, block.text))
            .collect()
    }

    #[test]
    fn consecutive_lines_of_one_kind_form_one_block() {
        let text = "//! A\n//! b.\n\n/// C\n// d\nfn f() {} // e\n// f\n";
        let expected = [
            (CommentKind::Inner, 1, "A\nb."),
            (CommentKind::Outer, 4, "C"),
            (CommentKind::Plain, 5, "d"),
            (CommentKind::Plain, 6, "e"),
            (CommentKind::Plain, 7, "f"),
        ];
        let expected = expected.map(|(kind, line, text)| (kind, line, text.to_owned()));
        assert_eq!(blocks(text), expected);
    }

    #[test]
    fn comment_marks_in_a_string_are_no_comment() {
        assert_eq!(
            blocks("const S: &str = \"// no\";\nconst R: &str = r#\"/* \" */\"#;\n"),
            []
        );
    }

    #[test]
    fn block_comment_keeps_its_lines() {
        let expected = vec![(CommentKind::Outer, 1, "One\ntwo.\n".to_owned())];
        assert_eq!(blocks("/** One\n * two.\n */\nfn f() {}\n"), expected);
    }
}

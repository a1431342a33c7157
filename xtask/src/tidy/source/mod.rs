//! A file of the repository, parsed once for all rules.
//!
//! Comments and documents are split into sentences. A Rust file that does not parse keeps its
//! tokens and comments; the rule `syntax` reports the error and rules over its items pass.

pub mod document;
pub mod lines;
pub mod prose;
pub mod tokens;

use document::Document;
use lines::LineIndex;
use prose::Sentence;
use tokens::{CommentBlock, Token};

use super::settings::Settings;

/// A file of the repository.
pub struct Source<'a> {
    /// The path from the root, with `/` between segments.
    pub path: &'a str,
    /// The contents; empty for files that are neither Rust nor Markdown.
    pub text: &'a str,
    /// The data files of tidy.
    pub settings: &'a Settings,
    /// The lines of the text.
    pub lines: LineIndex,
    /// The sentences of comments or of the document.
    pub sentences: Vec<Sentence>,
    /// The parsed contents.
    pub content: Content,
}

/// The parsed contents of a file.
pub enum Content {
    /// A Rust file.
    Rust(RustFile),
    /// A Markdown document.
    Markdown(Document),
    /// A file of which only the path is checked.
    Opaque,
}

/// The parsed contents of a Rust file.
pub struct RustFile {
    /// All tokens, including white space and comments.
    pub tokens: Vec<Token>,
    /// Blocks of adjacent comments.
    pub comments: Vec<CommentBlock>,
    /// The syntax tree, or the reason why there is none.
    pub syntax: syn::Result<syn::File>,
}

/// The format of a file, by its extension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Rust.
    Rust,
    /// Markdown.
    Markdown,
    /// Any other format.
    Opaque,
}

impl Format {
    /// Returns the format of a path.
    pub fn of(path: &str) -> Format {
        match path.rsplit_once('.') {
            Some((_, "rs")) => Format::Rust,
            Some((_, "md")) => Format::Markdown,
            _ => Format::Opaque,
        }
    }
}

impl<'a> Source<'a> {
    /// Parses a file.
    pub fn parse(path: &'a str, text: &'a str, settings: &'a Settings) -> Source<'a> {
        let lines = LineIndex::new(text);
        let abbreviations = &settings.words.sentences.abbreviations;
        let (sentences, content) = match Format::of(path) {
            Format::Rust => {
                let tokens = tokens::tokens(text);
                let comments = tokens::comment_blocks(text, &tokens, &lines);
                let sentences = comments
                    .iter()
                    .flat_map(|block| prose::sentences(&block.text, block.line, abbreviations));
                let sentences = sentences.collect();
                let syntax = syn::parse_file(text);
                (
                    sentences,
                    Content::Rust(RustFile {
                        tokens,
                        comments,
                        syntax,
                    }),
                )
            }
            Format::Markdown => {
                let sentences = prose::sentences(text, 1, abbreviations);
                (sentences, Content::Markdown(Document::parse(text, &lines)))
            }
            Format::Opaque => (Vec::new(), Content::Opaque),
        };
        Source {
            path,
            text,
            settings,
            lines,
            sentences,
            content,
        }
    }

    /// Returns the contents of a Rust file.
    pub fn rust(&self) -> Option<&RustFile> {
        match &self.content {
            Content::Rust(rust) => Some(rust),
            _ => None,
        }
    }

    /// Returns the syntax tree of a Rust file that parses.
    pub fn syntax(&self) -> Option<&syn::File> {
        self.rust()?.syntax.as_ref().ok()
    }

    /// Returns the structure of a Markdown document.
    pub fn document(&self) -> Option<&Document> {
        match &self.content {
            Content::Markdown(document) => Some(document),
            _ => None,
        }
    }
}

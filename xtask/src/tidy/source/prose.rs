//! Sentences of Markdown text: documents, and comments, which are read as Markdown, too.
//!
//! Code blocks, tables and HTML hold no sentences. An inline code span becomes [`CODE`], which is
//! one word. Line breaks inside a sentence are kept, so that each word has a line. Splitting is a
//! heuristic: a sentence ends at `.`, `!` or `?` before white space, except after an abbreviation.

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

use super::lines::LineIndex;

/// The character that stands for an inline code span or for quoted text.
pub const CODE: char = '\u{FFFC}';

/// The kind of block that holds a sentence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SentenceKind {
    /// A heading.
    Heading,
    /// Running text, including list items.
    Text,
}

/// A sentence with the line of its first word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sentence {
    /// The kind of block that holds the sentence.
    pub kind: SentenceKind,
    /// The line of the first word in the file, from 1.
    pub line: usize,
    /// The text, with the line breaks of the file and [`CODE`] for code spans.
    pub text: String,
}

/// A word of a sentence, without punctuation around it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word<'a> {
    /// The text of the word.
    pub text: &'a str,
    /// The line in the file, from 1.
    pub line: usize,
}

impl<'a> Word<'a> {
    /// Returns the word without the ending of a possessive or of a short `is`.
    pub fn stem(&self) -> &'a str {
        self.text.split(['\'', '’']).next().unwrap_or(self.text)
    }
}

impl Sentence {
    /// Returns the words; punctuation alone is no word.
    pub fn words(&self) -> Vec<Word<'_>> {
        let lines = self.text.split('\n').enumerate();
        lines
            .flat_map(|(index, text)| words_of_line(text, self.line + index))
            .collect()
    }

    /// Tells whether the sentence is a question.
    pub fn is_question(&self) -> bool {
        self.text
            .trim_end_matches(['"', '”', ')', '*', '_'])
            .ends_with('?')
    }

    /// Returns the sentence with [`CODE`] in place of text in double quotes.
    pub fn without_quotes(&self) -> Sentence {
        let mut text = String::new();
        let mut rest = self.text.as_str();
        while let Some((before, quoted, after)) = split_quote(rest) {
            text.push_str(before);
            text.extend(quoted.chars().filter(|character| *character == '\n'));
            text.push(CODE);
            rest = after;
        }
        text.push_str(rest);
        Sentence { text, ..*self }
    }
}

fn words_of_line(text: &str, line: usize) -> impl Iterator<Item = Word<'_>> {
    text.split_whitespace().filter_map(move |word| {
        let text = word.trim_matches(|character: char| !is_word_character(character));
        (!text.is_empty()).then_some(Word { text, line })
    })
}

fn is_word_character(character: char) -> bool {
    character.is_alphanumeric() || character == CODE
}

/// Splits at the first pair of double quotes: the text before, inside and after.
fn split_quote(text: &str) -> Option<(&str, &str, &str)> {
    let open = text.find(['"', '“'])?;
    let mark = text[open..].chars().next()?;
    let inside = open + mark.len_utf8();
    let length = text[inside..].find(['"', '”'])?;
    let close = text[inside + length..].chars().next()?;
    let after = inside + length + close.len_utf8();
    Some((
        &text[..open],
        &text[inside..inside + length],
        &text[after..],
    ))
}

/// Splits Markdown text into sentences; `first_line` is the line of the text in its file.
pub fn sentences(text: &str, first_line: usize, abbreviations: &[String]) -> Vec<Sentence> {
    let mut reader = Reader {
        lines: LineIndex::new(text),
        first_line,
        abbreviations,
        buffer: String::new(),
        offsets: Vec::new(),
        kind: SentenceKind::Text,
        sentences: Vec::new(),
    };
    let mut skip_depth = 0;
    for (event, range) in Parser::new_ext(text, options()).into_offset_iter() {
        match event {
            Event::Start(tag) if is_opaque(&tag) => skip_depth += 1,
            Event::End(TagEnd::CodeBlock | TagEnd::Table | TagEnd::HtmlBlock) => skip_depth -= 1,
            _ if skip_depth > 0 => {}
            event => reader.read(event, range.start, &text[range]),
        }
    }
    reader.flush();
    reader.sentences
}

/// Returns the Markdown extensions that documents use.
pub fn options() -> Options {
    Options::ENABLE_TABLES | Options::ENABLE_FOOTNOTES
}

fn is_opaque(tag: &Tag<'_>) -> bool {
    matches!(tag, Tag::CodeBlock(_) | Tag::Table(_) | Tag::HtmlBlock)
}

/// The block of text that is being read, and the sentences before it.
struct Reader<'a> {
    lines: LineIndex,
    first_line: usize,
    abbreviations: &'a [String],
    buffer: String,
    /// Pairs of a position in the buffer and the offset in the source, ascending.
    offsets: Vec<(usize, usize)>,
    kind: SentenceKind,
    sentences: Vec<Sentence>,
}

impl Reader<'_> {
    fn read(&mut self, event: Event<'_>, offset: usize, source: &str) {
        match event {
            Event::Text(text) => self.push(&text, offset),
            Event::Code(_) => {
                let breaks = source.matches('\n').count();
                self.push(&"\n".repeat(breaks), offset);
                self.push(CODE.encode_utf8(&mut [0; 4]), offset + source.len() - 1);
            }
            Event::SoftBreak | Event::HardBreak => self.push("\n", offset),
            Event::Start(Tag::Heading { .. }) => {
                self.flush();
                self.kind = SentenceKind::Heading;
            }
            Event::Start(tag) if is_inline(&tag) => {}
            Event::End(tag) if is_inline_end(tag) => {}
            Event::Start(_) | Event::End(_) => self.flush(),
            _ => {}
        }
    }

    fn push(&mut self, text: &str, offset: usize) {
        self.offsets.push((self.buffer.len(), offset));
        self.buffer.push_str(text);
    }

    /// Ends the block: splits its text into sentences.
    fn flush(&mut self) {
        let text = std::mem::take(&mut self.buffer);
        let mut start = 0;
        for end in sentence_ends(&text, self.abbreviations) {
            let sentence = &text[start..end];
            let begin = start + (sentence.len() - sentence.trim_start().len());
            if !sentence.trim().is_empty() {
                let line = self.first_line + self.lines.line_of(self.offset_of(begin)) - 1;
                let text = sentence.trim().to_owned();
                self.sentences.push(Sentence {
                    kind: self.kind,
                    line,
                    text,
                });
            }
            start = end;
        }
        self.offsets.clear();
        self.kind = SentenceKind::Text;
    }

    fn offset_of(&self, position: usize) -> usize {
        let index = self
            .offsets
            .partition_point(|(start, _)| *start <= position);
        let (start, offset) = self.offsets[index - 1];
        offset + (position - start)
    }
}

fn is_inline(tag: &Tag<'_>) -> bool {
    matches!(
        tag,
        Tag::Emphasis | Tag::Strong | Tag::Link { .. } | Tag::Image { .. } | Tag::Strikethrough
    )
}

fn is_inline_end(tag: TagEnd) -> bool {
    matches!(
        tag,
        TagEnd::Emphasis | TagEnd::Strong | TagEnd::Link | TagEnd::Image | TagEnd::Strikethrough
    )
}

/// Returns the positions after each sentence; the last is the end of the text.
fn sentence_ends(text: &str, abbreviations: &[String]) -> Vec<usize> {
    let mut ends = Vec::new();
    for (position, mark) in text.match_indices(['.', '!', '?']) {
        let after = &text[position + mark.len()..];
        let closed = after.trim_start_matches(['"', '”', '\'', '’', ')', ']']);
        let is_before_space = closed.starts_with(char::is_whitespace);
        if is_before_space && !ends_in_abbreviation(&text[..=position], abbreviations) {
            ends.push(text.len() - closed.len());
        }
    }
    ends.push(text.len());
    ends
}

fn ends_in_abbreviation(text: &str, abbreviations: &[String]) -> bool {
    let word = text.rsplit(char::is_whitespace).next().unwrap_or(text);
    let word = word.trim_start_matches(|character: char| !character.is_alphanumeric());
    abbreviations
        .iter()
        .any(|abbreviation| abbreviation.eq_ignore_ascii_case(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(text: &str) -> Vec<(usize, String)> {
        let abbreviations = ["e.g.".to_owned()];
        let sentences = sentences(text, 1, &abbreviations).into_iter();
        sentences
            .map(|sentence| (sentence.line, sentence.text))
            .collect()
    }

    fn pair(line: usize, text: &str) -> (usize, String) {
        (line, text.to_owned())
    }

    #[test]
    fn paragraph_splits_at_ends_of_sentences() {
        let text = "One\ntwo (e.g. 1.5). \"Three?\" Four!\n";
        let expected = [
            pair(1, "One\ntwo (e.g. 1.5)."),
            pair(2, "\"Three?\""),
            pair(2, "Four!"),
        ];
        assert_eq!(split(text), expected);
    }

    #[test]
    fn code_blocks_and_tables_hold_no_sentences() {
        let text = "A.\n\n```sh\nWhat.\n```\n\n| What | b |\n|---|---|\n| Who | d |\n\nE.\n";
        assert_eq!(split(text), [pair(1, "A."), pair(11, "E.")]);
    }

    #[test]
    fn list_items_are_separate_sentences() {
        assert_eq!(
            split("- a\n- b\n\n  c\n"),
            [pair(1, "a"), pair(2, "b"), pair(4, "c")]
        );
    }

    #[test]
    fn emphasis_and_links_do_not_split_a_sentence() {
        let text = "*One* [two](a.md) **three**\n![four](b.svg) five.\n";
        assert_eq!(split(text), [pair(1, "One two three\nfour five.")]);
    }

    #[test]
    fn only_the_heading_is_a_heading() {
        let kinds = sentences("a\n\n# b\n\nc\n", 1, &[])
            .into_iter()
            .map(|item| item.kind);
        let (heading, text) = (SentenceKind::Heading, SentenceKind::Text);
        assert_eq!(kinds.collect::<Vec<_>>(), [text, heading, text]);
    }

    #[test]
    fn code_span_is_one_word_and_keeps_lines() {
        let sentences = sentences("The `a b\nc` ends here.", 10, &[]);
        let words = sentences[0].words();
        let words: Vec<_> = words.iter().map(|word| (word.line, word.text)).collect();
        assert_eq!(
            words,
            [(10, "The"), (11, "\u{FFFC}"), (11, "ends"), (11, "here")]
        );
    }

    #[test]
    fn quoted_text_becomes_one_word() {
        let sentence = &sentences("Print \"who\nis there\" and “x” now.", 1, &[])[0];
        assert_eq!(
            sentence.without_quotes().text,
            "Print \n\u{FFFC} and \u{FFFC} now."
        );
    }
}

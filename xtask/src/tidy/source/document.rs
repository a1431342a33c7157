//! The structure of a Markdown document: links, anchors, tables and console blocks.
//!
//! Anchors are those of GitHub: the heading in lower case, without punctuation, with hyphens in
//! place of spaces, and a number after the second heading of one name; also `id` and `name` of
//! HTML elements.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use pulldown_cmark::{CodeBlockKind, Event, Parser, Tag, TagEnd};

use super::lines::LineIndex;
use super::prose::options;

/// A link or an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hyperlink {
    /// The line in the file, from 1.
    pub line: usize,
    /// The destination as written.
    pub destination: String,
}

/// The structure of a Markdown document.
#[derive(Debug, Default)]
pub struct Document {
    /// Links and images in their order.
    pub links: Vec<Hyperlink>,
    /// Byte ranges of links and images.
    pub link_ranges: Vec<Range<usize>>,
    /// Byte ranges of tables.
    pub table_ranges: Vec<Range<usize>>,
    /// Byte ranges of `console` blocks: commands with the output that they gave.
    pub console_ranges: Vec<Range<usize>>,
    /// Anchors to which a link may lead.
    pub anchors: BTreeSet<String>,
}

impl Document {
    /// Parses a document; every text is valid Markdown.
    pub fn parse(text: &str, lines: &LineIndex) -> Document {
        let mut document = Document::default();
        let mut heading: Option<String> = None;
        let mut uses = BTreeMap::new();
        for (event, range) in Parser::new_ext(text, options()).into_offset_iter() {
            match event {
                Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                    let line = lines.line_of(range.start);
                    document.links.push(Hyperlink {
                        line,
                        destination: dest_url.into_string(),
                    });
                    document.link_ranges.push(range);
                }
                Event::Start(Tag::Table(_)) => document.table_ranges.push(range),
                Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(language)))
                    if *language == *"console" =>
                {
                    document.console_ranges.push(range);
                }
                Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
                Event::End(TagEnd::Heading(_)) => {
                    let name = slug(&heading.take().unwrap_or_default());
                    document.anchors.insert(numbered(&mut uses, name));
                }
                Event::Text(text) | Event::Code(text) => {
                    if let Some(heading) = &mut heading {
                        heading.push_str(&text);
                    }
                }
                Event::Html(html) | Event::InlineHtml(html) => {
                    document.anchors.extend(html_anchors(&html));
                }
                _ => {}
            }
        }
        document
    }
}

/// Returns the name of a heading's anchor.
fn slug(heading: &str) -> String {
    let kept = heading
        .trim()
        .chars()
        .filter_map(|character| match character {
            ' ' => Some('-'),
            '-' | '_' => Some(character),
            _ if character.is_alphanumeric() => Some(character),
            _ => None,
        });
    kept.flat_map(char::to_lowercase).collect()
}

fn numbered(uses: &mut BTreeMap<String, usize>, name: String) -> String {
    let count = uses.entry(name.clone()).or_insert(0);
    let anchor = match *count {
        0 => name,
        number => format!("{name}-{number}"),
    };
    *count += 1;
    anchor
}

fn html_anchors(html: &str) -> Vec<String> {
    let attributes = ["id=\"", "name=\""];
    let values = attributes
        .iter()
        .flat_map(|attribute| html.split(attribute).skip(1));
    values
        .filter_map(|rest| rest.split('"').next())
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Document {
        Document::parse(text, &LineIndex::new(text))
    }

    #[test]
    fn headings_have_the_anchors_of_github() {
        let text = "# A `b` (C): d_e\n\n## Twice\n\n## Twice\n\n<a id=\"own\"></a>\n";
        let anchors: Vec<String> = parse(text).anchors.into_iter().collect();
        assert_eq!(anchors, ["a-b-c-d_e", "own", "twice", "twice-1"]);
    }

    #[test]
    fn links_and_images_have_lines() {
        let document = parse("[a](b.md)\n![c](d.svg) <https://e>\n\n```\n[f](g)\n```\n");
        let links: Vec<_> = document
            .links
            .iter()
            .map(|link| (link.line, link.destination.as_str()))
            .collect();
        assert_eq!(links, [(1, "b.md"), (2, "d.svg"), (2, "https://e")]);
    }
}

//! Rule `openers`: no sentence of a comment or a document begins with a banned word.
//!
//! Questions and headings pass: a reader's question may be a heading. Code spans, code blocks,
//! tables and quoted text are not read.

use crate::tidy::finding::Finding;
use crate::tidy::rule::{Check, Measure, Rule};
use crate::tidy::source::Source;
use crate::tidy::source::prose::{Sentence, SentenceKind};

/// The rule.
pub const RULE: Rule = Rule {
    name: NAME,
    measure: Measure::Count,
    check: Check::Source(check),
};

const NAME: &str = "openers";

fn check(source: &Source<'_>, findings: &mut Vec<Finding>) {
    for sentence in &source.sentences {
        if sentence.kind == SentenceKind::Heading || sentence.is_question() {
            continue;
        }
        findings.extend(opener(source, &sentence.without_quotes()));
    }
}

fn opener(source: &Source<'_>, sentence: &Sentence) -> Option<Finding> {
    let words = sentence.words();
    let first = words.first()?;
    let stem = first.stem();
    let banned = &source.settings.words.openers;
    let (word, advice) = banned
        .iter()
        .find(|(word, _)| word.eq_ignore_ascii_case(stem))?;
    let problem = format!("a sentence begins with `{word}`");
    Some(Finding::new(NAME, source.path, first.line, problem, advice))
}

#[cfg(test)]
mod tests {
    use super::NAME;
    use crate::tidy::rules::testing::findings;

    #[test]
    fn banned_first_word_is_found() {
        let text = "//! Lines.\n\n/// Starts. Who\n/// waits is next.\nfn f() {} // what's left\n";
        let expected = [
            "a.rs:3: openers: a sentence begins with `Who`; name the actor",
            "a.rs:5: openers: a sentence begins with `What`; name the thing",
        ];
        assert_eq!(findings(NAME, "a.rs", text), expected);
        let expected = ["a.md:1: openers: a sentence begins with `What`; name the thing"];
        assert_eq!(findings(NAME, "a.md", "What is left stays.\n"), expected);
    }

    #[test]
    fn question_heading_code_and_string_pass() {
        let document = "# What is it\n\nWhat is it? `What` counts.\n\n```\nWhat is it.\n```\n";
        assert_eq!(findings(NAME, "a.md", document), [""; 0]);
        let code =
            "/// `What` is a word.\nconst S: &str = \"What is it.\"; // that is what counts\n";
        assert_eq!(findings(NAME, "a.rs", code), [""; 0]);
    }

    #[test]
    fn quoted_text_at_the_beginning_passes() {
        assert_eq!(
            findings(NAME, "a.md", "\"What is it\" is the prompt.\n"),
            [""; 0]
        );
    }

    #[test]
    fn generated_file_passes() {
        assert_eq!(
            findings(NAME, "generated.md", "What is left stays.\n"),
            [""; 0]
        );
    }
}

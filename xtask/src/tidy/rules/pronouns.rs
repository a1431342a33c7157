//! Rule `pronouns`: comments and documents name machines, transactions and records.
//!
//! Some words are banned at every place, some phrases only as the beginning of a sentence. Code
//! spans, code blocks, tables and quoted text are not read.

use crate::tidy::finding::Finding;
use crate::tidy::rule::{Check, Measure, Rule};
use crate::tidy::source::Source;
use crate::tidy::source::prose::{Sentence, Word};

/// The rule.
pub const RULE: Rule = Rule {
    name: NAME,
    measure: Measure::Count,
    check: Check::Source(check),
};

const NAME: &str = "pronouns";

fn check(source: &Source<'_>, findings: &mut Vec<Finding>) {
    for sentence in &source.sentences {
        let sentence = sentence.without_quotes();
        for word in sentence.words() {
            findings.extend(banned_word(source, &word));
        }
        findings.extend(banned_beginning(source, &sentence));
    }
}

fn banned_word(source: &Source<'_>, word: &Word<'_>) -> Option<Finding> {
    let stem = word.stem();
    let banned = &source.settings.words.pronouns.anywhere;
    let (pronoun, advice) = banned
        .iter()
        .find(|(text, _)| text.eq_ignore_ascii_case(stem))?;
    let problem = format!("the text says `{pronoun}`");
    Some(Finding::new(NAME, source.path, word.line, problem, advice))
}

fn banned_beginning(source: &Source<'_>, sentence: &Sentence) -> Option<Finding> {
    let words = sentence.words();
    let first = words.first()?;
    let mut phrases = source.settings.words.pronouns.first.iter();
    let (phrase, advice) = phrases.find(|(phrase, _)| begins_with(&words, phrase))?;
    let problem = format!("a sentence begins with `{phrase}`");
    Some(Finding::new(NAME, source.path, first.line, problem, advice))
}

fn begins_with(words: &[Word<'_>], phrase: &str) -> bool {
    let phrase: Vec<&str> = phrase.split(' ').collect();
    let head = words.get(..phrase.len()).unwrap_or_default();
    head.len() == phrase.len()
        && head
            .iter()
            .zip(phrase)
            .all(|(word, part)| word.text.eq_ignore_ascii_case(part))
}

#[cfg(test)]
mod tests {
    use super::NAME;
    use crate::tidy::rules::testing::findings;

    #[test]
    fn banned_word_is_found_in_its_line() {
        let text = "// The lock is\n// nobody's.\nfn f() {}\n";
        let expected = ["a.rs:2: pronouns: the text says `nobody`; name the actor"];
        assert_eq!(findings(NAME, "a.rs", text), expected);
    }

    #[test]
    fn banned_beginning_is_found() {
        let expected = ["a.md:1: pronouns: a sentence begins with `those that`; name the things"];
        assert_eq!(
            findings(NAME, "a.md", "Those that wait are next.\n"),
            expected
        );
        for text in [
            "It wakes those that wait.\n",
            "Those.\n",
            "Those which wait.\n",
        ] {
            assert_eq!(findings(NAME, "a.md", text), [""; 0], "{text}");
        }
    }

    #[test]
    fn code_quote_and_string_pass() {
        let text = "// The role `nobody`, \"nobody\".\nconst S: &str = \"nobody\";\n";
        assert_eq!(findings(NAME, "a.rs", text), [""; 0]);
    }
}

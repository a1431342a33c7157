//! Rule `sentences`: a sentence of a document has at most 25 words.
//!
//! Code blocks and tables are not read; a code span is one word.

use crate::tidy::finding::Finding;
use crate::tidy::rule::{Check, Measure, Rule};
use crate::tidy::source::Source;

/// The rule.
pub const RULE: Rule = Rule {
    name: NAME,
    measure: Measure::Count,
    check: Check::Source(check),
};

const NAME: &str = "sentences";
const WORDS_LIMIT: usize = 25;

fn check(source: &Source<'_>, findings: &mut Vec<Finding>) {
    if source.document().is_none() {
        return;
    }
    for sentence in &source.sentences {
        let count = sentence.words().len();
        if count > WORDS_LIMIT {
            let problem = format!("a sentence has {count} words");
            let advice = format!("write sentences of at most {WORDS_LIMIT}");
            findings.push(Finding::new(
                NAME,
                source.path,
                sentence.line,
                problem,
                advice,
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::NAME;
    use crate::tidy::rules::testing::findings;

    #[test]
    fn sentence_of_26_words_is_found() {
        let text = format!("Short one.\n{}last.\n", "word ".repeat(25));
        let expected =
            ["a.md:2: sentences: a sentence has 26 words; write sentences of at most 25"];
        assert_eq!(findings(NAME, "a.md", &text), expected);
    }

    #[test]
    fn sentence_of_25_words_passes() {
        let text = format!("{}`several words of code` — last.\n", "word ".repeat(23));
        assert_eq!(findings(NAME, "a.md", &text), [""; 0]);
    }

    #[test]
    fn table_code_and_comment_pass() {
        let long = "word ".repeat(30);
        let text = format!("| a |\n|---|\n| {long} |\n\n```\n{long}\n```\n");
        assert_eq!(findings(NAME, "a.md", &text), [""; 0]);
        assert_eq!(findings(NAME, "a.rs", &format!("// {long}\n")), [""; 0]);
    }
}

//! The data files of tidy: `xtask/words.toml` and `xtask/tree.toml`.
//!
//! Both are read at run time, so that a new word needs no build. Unknown keys are errors: a
//! misspelled table must not silently switch a rule off.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::error::TidyError;

/// Path of the banned words.
pub const WORDS_PATH: &str = "xtask/words.toml";
/// Path of the facts about the tree.
pub const TREE_PATH: &str = "xtask/tree.toml";

/// A banned word and the text to write instead.
pub type Replacements = BTreeMap<String, String>;

/// The contents of both data files.
#[derive(Debug)]
pub struct Settings {
    /// Banned words.
    pub words: Words,
    /// Facts about the tree.
    pub tree: TreeFacts,
}

/// Banned words by rule.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Words {
    /// First words of a sentence.
    pub openers: Replacements,
    /// Pronouns that stand for a thing.
    pub pronouns: Pronouns,
    /// Hints for splitting text into sentences.
    pub sentences: SentenceHints,
    /// Hints for commit subjects.
    pub subjects: SubjectHints,
    /// Names from the glossary.
    pub names: Names,
}

/// Pronouns that stand for a thing.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pronouns {
    /// Words that are banned at every place of a sentence.
    pub anywhere: Replacements,
    /// Phrases that are banned as the beginning of a sentence, in lower case.
    pub first: Replacements,
}

/// Hints for splitting text into sentences.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SentenceHints {
    /// Abbreviations in lower case, with their period.
    pub abbreviations: Vec<String>,
}

/// Hints for commit subjects.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SubjectHints {
    /// Imperative verbs that end in -ed or -ing.
    pub verbs: Vec<String>,
}

/// Names that the glossary replaced, by kind.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Names {
    /// Words of any identifier, in lower case.
    pub words: Replacements,
    /// Ends of module paths, in whole segments.
    pub modules: Replacements,
    /// Whole names of types.
    pub types: Replacements,
    /// Whole names of functions.
    pub functions: Replacements,
    /// Whole names of constants.
    pub constants: Replacements,
}

/// Facts about the tree.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TreeFacts {
    /// Files that a program writes.
    pub generated: Vec<String>,
    /// Folders of crates, the lowest layer first.
    pub layers: Vec<Vec<String>>,
    /// Facts about commits.
    pub subjects: SubjectFacts,
}

/// Facts about commits.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SubjectFacts {
    /// The last commit that is not checked.
    pub base: String,
    /// Scopes that are no top-level folders.
    pub scopes: Vec<String>,
}

impl Settings {
    /// Reads both data files under the repository's root.
    pub fn read(root: &Path) -> Result<Settings, TidyError> {
        Ok(Settings {
            words: read(root, WORDS_PATH)?,
            tree: read(root, TREE_PATH)?,
        })
    }
}

fn read<T: DeserializeOwned>(root: &Path, path: &str) -> Result<T, TidyError> {
    let file = root.join(path);
    let text = std::fs::read_to_string(&file).map_err(|source| TidyError::File {
        path: file.clone(),
        source,
    })?;
    parse(path, &text)
}

/// Parses a data file; the path is for the error message.
pub fn parse<T: DeserializeOwned>(path: &str, text: &str) -> Result<T, TidyError> {
    toml::from_str(text).map_err(|source| TidyError::Data {
        path: path.to_owned(),
        source: Box::new(source),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_key_is_an_error() {
        let text = "generated = []\nlayres = []\n[subjects]\nbase = ''\nscopes = []\n";
        let error = parse::<TreeFacts>("tree.toml", text).unwrap_err();
        assert!(error.to_string().contains("layres"), "{error}");
    }

    #[test]
    fn committed_data_files_parse() {
        parse::<Words>(WORDS_PATH, include_str!("../../words.toml")).unwrap();
        parse::<TreeFacts>(TREE_PATH, include_str!("../../tree.toml")).unwrap();
    }
}

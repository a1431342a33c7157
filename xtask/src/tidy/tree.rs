//! Facts about the whole tree, for rules that read more than one file.

use std::collections::{BTreeMap, BTreeSet};

use super::imports::{self, Import};
use super::manifest::Manifest;
use super::repository::History;
use super::settings::Settings;
use super::source::document::Document;
use super::source::tokens::CommentBlock;
use super::source::{Content, Source};

/// Facts about one file that outlive its syntax tree.
#[derive(Debug)]
pub struct Summary {
    /// The path from the root.
    pub path: String,
    /// Paths to other modules, of a Rust file.
    pub imports: Vec<Import>,
    /// Comments, of a Rust file.
    pub comments: Vec<CommentBlock>,
    /// The structure, of a Markdown document.
    pub document: Option<Document>,
    /// The manifest, of a crate's `Cargo.toml`.
    pub manifest: Option<Manifest>,
}

/// The folder of a crate in a path: the first segment; `None` for a file at the root.
pub fn folder_of(path: &str) -> Option<&str> {
    path.split_once('/').map(|(folder, _)| folder)
}

/// Tells whether a path is the manifest of a crate in a top-level folder.
pub fn is_manifest(path: &str) -> bool {
    path.split_once('/')
        .is_some_and(|(_, file)| file == "Cargo.toml")
}

impl Summary {
    /// Extracts the facts of a file.
    pub fn of(source: Source<'_>) -> Summary {
        let manifest = is_manifest(source.path)
            .then(|| Manifest::parse(source.text))
            .flatten();
        let mut summary = Summary {
            path: source.path.to_owned(),
            imports: source.syntax().map(imports::imports).unwrap_or_default(),
            comments: Vec::new(),
            document: None,
            manifest,
        };
        match source.content {
            Content::Rust(rust) => summary.comments = rust.comments,
            Content::Markdown(document) => summary.document = Some(document),
            Content::Opaque => {}
        }
        summary
    }
}

/// Facts about the whole tree.
pub struct Tree<'a> {
    /// The data files of tidy.
    pub settings: &'a Settings,
    /// All tracked files, by path.
    pub files: BTreeMap<String, Summary>,
    /// All folders with a tracked file.
    pub folders: BTreeSet<String>,
    /// Commits since the base.
    pub history: History,
}

impl<'a> Tree<'a> {
    /// Collects the facts of all files.
    pub fn new(settings: &'a Settings, summaries: Vec<Summary>, history: History) -> Tree<'a> {
        let mut folders = BTreeSet::new();
        for summary in &summaries {
            let ends = summary.path.match_indices('/');
            folders.extend(ends.map(|(end, _)| summary.path[..end].to_owned()));
        }
        let files = summaries
            .into_iter()
            .map(|summary| (summary.path.clone(), summary));
        Tree {
            settings,
            files: files.collect(),
            folders,
            history,
        }
    }

    /// Returns the manifests of crates by folder.
    pub fn manifests(&self) -> BTreeMap<&str, &Manifest> {
        let files = self.files.values();
        files
            .filter_map(|file| Some((folder_of(&file.path)?, file.manifest.as_ref()?)))
            .collect()
    }
}

//! The git repository: its root, tracked files and commits.
//!
//! A tracked file that is missing from the work tree is skipped: its removal is not committed yet.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::error::TidyError;

/// A commit after the base.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commit {
    /// The full hash.
    pub hash: String,
    /// The first line of the message.
    pub subject: String,
}

/// Commits since the base, without merges.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum History {
    /// The commits, the newest first.
    Commits(Vec<Commit>),
    /// The base is not in the history, as in a shallow clone.
    BaseMissing,
}

/// Returns the root of the repository around the current folder.
pub fn root() -> Result<PathBuf, TidyError> {
    let output = git(Path::new("."), &["rev-parse", "--show-toplevel"])?;
    Ok(PathBuf::from(output.trim_end()))
}

/// Returns the sorted paths of tracked files that exist, with `/` between segments.
pub fn tracked_paths(root: &Path) -> Result<Vec<String>, TidyError> {
    let output = git(root, &["ls-files", "-z"])?;
    let mut paths: Vec<String> = output
        .split('\0')
        .filter(|path| !path.is_empty() && root.join(path).is_file())
        .map(str::to_owned)
        .collect();
    paths.sort();
    paths.dedup();
    Ok(paths)
}

/// Returns the commits that the base does not contain.
pub fn history(root: &Path, base: &str) -> Result<History, TidyError> {
    let range = format!("{base}..HEAD");
    match git(root, &["merge-base", "--is-ancestor", base, "HEAD"]) {
        Ok(_) => {}
        Err(TidyError::GitFailed { .. }) => return Ok(History::BaseMissing),
        Err(error) => return Err(error),
    }
    let output = git(root, &["log", "--no-merges", "--format=%H%x09%s", &range])?;
    let commits = output.lines().filter_map(|line| {
        let (hash, subject) = line.split_once('\t')?;
        Some(Commit {
            hash: hash.to_owned(),
            subject: subject.to_owned(),
        })
    });
    Ok(History::Commits(commits.collect()))
}

fn git(folder: &Path, arguments: &[&str]) -> Result<String, TidyError> {
    let output = Command::new("git")
        .arg("-C")
        .arg(folder)
        .args(arguments)
        .output()
        .map_err(TidyError::GitMissing)?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(TidyError::GitFailed {
        command: arguments.join(" "),
        message: String::from_utf8_lossy(&output.stderr)
            .trim_end()
            .to_owned(),
    })
}

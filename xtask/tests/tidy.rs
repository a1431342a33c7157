//! Tests of the command `xtask tidy`, on temporary repositories and on this one.
//!
//! Each test skips, and says so, where git cannot be run.

use std::error::Error;
use std::path::Path;
use std::process::{Command, Output};

use tempfile::TempDir;

const WORDS: &str = include_str!("../words.toml");
/// A comment of 101 columns.
const LONG: &str = concat!(
    "// 3456789 123456789 123456789 123456789 123456789",
    " 123456789 123456789 123456789 123456789 123456789x\n"
);

type TestResult<T = ()> = Result<T, Box<dyn Error>>;

fn git(folder: &Path, arguments: &[&str]) -> TestResult<String> {
    let identity = ["-c", "user.name=test", "-c", "user.email=test@example.org"];
    let output = Command::new("git")
        .current_dir(folder)
        .args(identity)
        .args(arguments)
        .output()?;
    if output.status.success() {
        return Ok(stdout(&output).trim().to_owned());
    }
    Err(format!("git {arguments:?}: {}", stderr(&output)).into())
}

fn tidy(folder: &Path, arguments: &[&str]) -> TestResult<Output> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
    Ok(command
        .current_dir(folder)
        .arg("tidy")
        .args(arguments)
        .output()?)
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Tells whether git can be run; says so if it cannot.
fn has_git() -> bool {
    let has_git = Command::new("git").arg("--version").output().is_ok();
    if !has_git {
        eprintln!("skipped: no git");
    }
    has_git
}

/// A temporary repository with the data files of tidy and no layers.
struct Repository {
    folder: TempDir,
}

impl Repository {
    fn new(ratchet: &str) -> TestResult<Repository> {
        let repository = Repository {
            folder: tempfile::tempdir()?,
        };
        git(repository.path(), &["init", "--quiet"])?;
        repository.write("xtask/words.toml", WORDS)?;
        repository.write_base("none")?;
        repository.write("xtask/ratchet.toml", ratchet)?;
        Ok(repository)
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn write(&self, path: &str, text: &str) -> TestResult {
        let file = self.path().join(path);
        if let Some(folder) = file.parent() {
            std::fs::create_dir_all(folder)?;
        }
        Ok(std::fs::write(file, text)?)
    }

    fn write_base(&self, base: &str) -> TestResult {
        let subjects = format!("[subjects]\nbase = \"{base}\"\nscopes = [\"docs\"]\n");
        self.write(
            "xtask/tree.toml",
            &format!("generated = []\nlayers = []\n{subjects}"),
        )
    }

    fn track(&self, path: &str, text: &str) -> TestResult {
        self.write(path, text)?;
        git(self.path(), &["add", path]).map(drop)
    }

    /// Commits nothing and returns the hash.
    fn commit(&self, subject: &str) -> TestResult<String> {
        git(
            self.path(),
            &["commit", "--quiet", "--allow-empty", "-m", subject],
        )?;
        git(self.path(), &["rev-parse", "HEAD"])
    }

    fn ratchet(&self) -> TestResult<String> {
        Ok(std::fs::read_to_string(
            self.path().join("xtask/ratchet.toml"),
        )?)
    }
}

#[test]
fn tracked_file_with_finding_fails() -> TestResult {
    if !has_git() {
        return Ok(());
    }
    let repository = Repository::new("")?;
    repository.write("src/untracked.rs", LONG)?;
    assert_eq!(tidy(repository.path(), &[])?.status.code(), Some(0));
    repository.track("src/tracked.rs", LONG)?;
    let output = tidy(repository.path(), &[])?;
    let expected = "src/tracked.rs:1: columns: the line has 101 columns; break it at 100\n";
    assert_eq!(
        (output.status.code(), stdout(&output).as_str()),
        (Some(1), expected)
    );
    let below = repository.path().join("src");
    assert_eq!(stdout(&tidy(&below, &[])?), expected);
    Ok(())
}

#[test]
fn tracked_file_that_is_gone_passes() -> TestResult {
    if !has_git() {
        return Ok(());
    }
    let repository = Repository::new("")?;
    repository.track("gone.rs", LONG)?;
    std::fs::remove_file(repository.path().join("gone.rs"))?;
    assert_eq!(tidy(repository.path(), &[])?.status.code(), Some(0));
    Ok(())
}

#[test]
fn merge_commit_passes() -> TestResult {
    if !has_git() {
        return Ok(());
    }
    let repository = Repository::new("")?;
    let base = repository.commit("docs: add a page")?;
    repository.write_base(&base)?;
    git(repository.path(), &["checkout", "--quiet", "-b", "side"])?;
    let side = repository.commit("docs: add a figure")?;
    git(
        repository.path(),
        &["checkout", "--quiet", "--detach", &base],
    )?;
    git(
        repository.path(),
        &["merge", "--quiet", "--no-ff", "-m", "Merged it", &side],
    )?;
    assert_eq!(
        git(repository.path(), &["log", "-1", "--format=%s"])?,
        "Merged it"
    );
    let output = tidy(repository.path(), &[])?;
    assert_eq!(
        output.status.code(),
        Some(0),
        "{}{}",
        stdout(&output),
        stderr(&output)
    );
    assert!(!stderr(&output).contains("not in the history"));
    Ok(())
}

#[test]
fn tighten_rewrites_the_ratchet() -> TestResult {
    if !has_git() {
        return Ok(());
    }
    let ratchet = "[columns]\n\"a.rs\" = 3\n\"gone.rs\" = 1\n";
    let repository = Repository::new(ratchet)?;
    repository.track("a.rs", &LONG.repeat(2))?;
    assert_eq!(tidy(repository.path(), &[])?.status.code(), Some(1));
    assert_eq!(repository.ratchet()?, ratchet);
    assert_eq!(
        tidy(repository.path(), &["--tighten"])?.status.code(),
        Some(0)
    );
    let tight = repository.ratchet()?;
    assert!(tight.ends_with("\n[columns]\n\"a.rs\" = 2\n"), "{tight}");
    repository.track("a.rs", &LONG.repeat(3))?;
    assert_eq!(
        tidy(repository.path(), &["--tighten"])?.status.code(),
        Some(1)
    );
    assert_eq!(repository.ratchet()?, tight);
    Ok(())
}

#[test]
fn commits_after_the_base_are_checked() -> TestResult {
    if !has_git() {
        return Ok(());
    }
    let repository = Repository::new("")?;
    repository.commit("Anything goes")?;
    let base = repository.commit("Before the base")?;
    let bad = repository.commit("docs: Added a page")?;
    repository.commit("docs: add a page")?;
    let output = tidy(repository.path(), &[])?;
    assert_eq!(output.status.code(), Some(0));
    assert!(stderr(&output).contains("the base commit is not in the history"));
    repository.write_base(&base)?;
    let output = tidy(repository.path(), &[])?;
    assert_eq!(output.status.code(), Some(1));
    let (found, start) = (
        stdout(&output),
        format!("commit {}:1: subjects: ", &bad[..12]),
    );
    assert!(
        found.lines().count() == 1 && found.starts_with(&start),
        "{found}"
    );
    Ok(())
}

#[test]
fn sample_prints_comments_and_checks_nothing() -> TestResult {
    if !has_git() {
        return Ok(());
    }
    let repository = Repository::new("")?;
    repository.track("a.rs", &format!("{LONG}\n// A second block.\n"))?;
    let output = tidy(repository.path(), &["--sample", "2", "--seed", "1"])?;
    assert_eq!(output.status.code(), Some(0));
    let (first, second) = ("a.rs:1\n    3456789 ", "a.rs:3\n    A second block.\n");
    let text = stdout(&output);
    assert!(text.starts_with(first) && text.contains(second), "{text}");
    Ok(())
}

#[test]
fn folder_without_git_or_data_files_is_an_error() -> TestResult {
    let folder = tempfile::tempdir()?;
    assert_eq!(tidy(folder.path(), &[])?.status.code(), Some(2));
    if !has_git() {
        return Ok(());
    }
    git(folder.path(), &["init", "--quiet"])?;
    let output = tidy(folder.path(), &[])?;
    assert_eq!(output.status.code(), Some(2));
    assert!(
        stderr(&output).contains("words.toml"),
        "{}",
        stderr(&output)
    );
    Ok(())
}

#[test]
fn this_repository_is_tidy() -> TestResult {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = git(folder, &["rev-parse", "--show-toplevel"]);
    if !root.is_ok_and(|root| Path::new(&root).join("xtask/ratchet.toml").exists()) {
        eprintln!("skipped: no git here, or the sources are part of another repository");
        return Ok(());
    }
    let output = tidy(folder, &[])?;
    assert_eq!(
        output.status.code(),
        Some(0),
        "{}{}",
        stdout(&output),
        stderr(&output)
    );
    Ok(())
}

//! `cargo xtask docs`: writes the generated sections of the pages in `docs/reference`.
//!
//! ```text
//! fencepost help … ─────────────────────── cli.md
//! fencepost start ─ psql ─ pg_settings ─── settings.md
//!                        ├ pg_class ────── system-tables.md
//!                        └ pg_proc ─────── functions.md
//! ```
//! Each section stands between markers; the text around them is written by hand. `--check` writes
//! nothing and names the pages that a run would change. No value in a section depends on the
//! machine or on the run.
//!
//! *Failure.* Without psql the pages cannot be generated: `docs` fails, and `docs --check` is
//! skipped.

mod cli;
mod error;
mod functions;
mod help;
mod markdown;
mod markers;
mod psql;
mod relations;
mod routines;
mod server;
mod settings;

use std::path::{Path, PathBuf};

pub use error::ReferenceError;
use markers::Section;
use psql::Psql;
use server::Server;

use crate::programs;
use crate::tidy::{Verdict, repository};

/// The program that `cargo build -p fencepost-cli` builds, from the root of the repository.
const PROGRAM: &str = "target/debug/fencepost";

/// The command line of docs.
#[derive(clap::Args)]
pub struct Options {
    /// Write nothing, and fail if a page differs from the text that would be written.
    #[arg(long)]
    check: bool,
    /// The program to describe. [default: target/debug/fencepost]
    #[arg(long, value_name = "PATH")]
    program: Option<PathBuf>,
}

/// A page with generated sections.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Page {
    /// The path from the root of the repository.
    path: &'static str,
    sections: Vec<Section>,
}

/// Writes the generated sections, or checks them, and prints the pages that change.
///
/// # Errors
/// The program is missing or fails, the markers of a page are wrong, or a file cannot be accessed.
pub fn run(options: &Options) -> Result<Verdict, ReferenceError> {
    let root = repository::root()?;
    let Some(psql) = programs::postgres_program("psql") else {
        return Ok(report_missing_psql(options));
    };
    let program = program(&root, options)?;
    let pages = generate(&root, &program, psql)?;
    let stale = stale_pages(&root, &pages)?;
    if options.check {
        for (path, _) in &stale {
            println!("{path}: stale; run {}", command(options));
        }
        if !stale.is_empty() {
            return Ok(Verdict::Dirty);
        }
    } else {
        for (path, text) in &stale {
            write(&root.join(path), text)?;
            println!("{path}: written");
        }
    }
    eprintln!("docs: {} pages, {} stale", pages.len(), stale.len());
    Ok(Verdict::Clean)
}

fn report_missing_psql(options: &Options) -> Verdict {
    let reason = "psql is neither on the PATH nor in /usr/lib/postgresql/*/bin";
    if options.check {
        println!("skipped: {reason}");
        return Verdict::Clean;
    }
    eprintln!("xtask: {reason}; HINT: install PostgreSQL's client programs.");
    Verdict::Dirty
}

/// Returns the command that renews the pages.
fn command(options: &Options) -> String {
    let program = options.program.as_ref();
    let program = program.map_or_else(String::new, |path| format!(" --program {}", path.display()));
    format!("cargo xtask docs{program}")
}

/// Returns the absolute path of the program.
fn program(root: &Path, options: &Options) -> Result<PathBuf, ReferenceError> {
    let path = options
        .program
        .clone()
        .unwrap_or_else(|| root.join(PROGRAM));
    // A path without a folder would be searched on the PATH.
    std::path::absolute(&path)
        .ok()
        .filter(|path| path.is_file())
        .ok_or(ReferenceError::ProgramMissing { path })
}

/// Returns all pages; the server of the queries ends with the call.
fn generate(root: &Path, program: &Path, psql: PathBuf) -> Result<Vec<Page>, ReferenceError> {
    let server = Server::start(program)?;
    let psql = Psql::new(psql, server.port());
    let page = |path, sections| Page { path, sections };
    Ok(vec![
        page("docs/reference/cli.md", cli::sections(program)?),
        page("docs/reference/functions.md", functions::sections(&psql)?),
        page("docs/reference/settings.md", settings::sections(&psql)?),
        page(
            "docs/reference/system-tables.md",
            relations::sections(root, &psql)?,
        ),
    ])
}

/// Returns the paths and the new texts of the pages that differ from their files.
fn stale_pages<'a>(
    root: &Path,
    pages: &'a [Page],
) -> Result<Vec<(&'a str, String)>, ReferenceError> {
    let mut stale = Vec::new();
    for page in pages {
        let path = root.join(page.path);
        let old = std::fs::read_to_string(&path);
        let old = old.map_err(|source| ReferenceError::File { path, source })?;
        let new = markers::fill(&old, &page.sections);
        let new = new.map_err(|source| ReferenceError::Markers {
            path: page.path.to_owned(),
            source,
        })?;
        if new != old {
            stale.push((page.path, new));
        }
    }
    Ok(stale)
}

fn write(path: &Path, text: &str) -> Result<(), ReferenceError> {
    std::fs::write(path, text).map_err(|source| ReferenceError::File {
        path: path.to_owned(),
        source,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "# Page\n\n<!-- generated by cargo xtask docs: a -->\n\
        <!-- end of generated text -->\n";

    fn page(text: &str) -> Page {
        let text = text.to_owned();
        Page {
            path: "page.md",
            sections: vec![Section { name: "a", text }],
        }
    }

    #[test]
    fn page_is_stale_until_it_is_written() {
        let root = tempfile::tempdir().expect("a folder");
        let file = root.path().join("page.md");
        std::fs::write(&file, PAGE).expect("written");
        let pages = [page("text")];
        let stale = stale_pages(root.path(), &pages).expect("readable");
        let [(path, text)] = stale.as_slice() else {
            panic!("one page is stale: {stale:?}");
        };
        assert_eq!(*path, "page.md");
        write(&file, text).expect("written");
        assert_eq!(stale_pages(root.path(), &pages).expect("readable"), []);
        let changed = [page("another text")];
        assert_eq!(
            stale_pages(root.path(), &changed).expect("readable").len(),
            1
        );
    }

    #[test]
    fn edit_inside_the_markers_is_stale_and_outside_is_not() {
        let root = tempfile::tempdir().expect("a folder");
        let file = root.path().join("page.md");
        let pages = [page("text")];
        let whole = markers::fill(PAGE, &pages[0].sections).expect("fits");
        let count = |text: &str| {
            std::fs::write(&file, text).expect("written");
            stale_pages(root.path(), &pages).expect("readable").len()
        };
        assert_eq!(count(&whole), 0);
        assert_eq!(count(&whole.replace("# Page", "# Other")), 0);
        assert_eq!(count(&whole.replace("text\n\n", "texts\n\n")), 1);
    }

    #[test]
    fn page_without_markers_is_an_error_with_its_path() {
        let root = tempfile::tempdir().expect("a folder");
        std::fs::write(root.path().join("page.md"), "# Page\n").expect("written");
        let error = stale_pages(root.path(), &[page("text")]).err();
        let text = error.map(|error| error.to_string());
        assert!(text.is_some_and(|text| text.starts_with("page.md: there is no line")));
    }

    #[test]
    fn missing_program_is_reported_with_the_command_that_builds_it() {
        let options = Options {
            check: true,
            program: None,
        };
        let root = tempfile::tempdir().expect("a folder");
        let error = program(root.path(), &options).err();
        let text = error.map(|error| error.to_string()).unwrap_or_default();
        assert!(text.contains("target/debug/fencepost;"));
        assert!(text.contains("cargo build -p fencepost-cli"));
    }

    #[test]
    fn command_names_the_program_that_was_given() {
        let options = |program: Option<&str>| Options {
            check: true,
            program: program.map(PathBuf::from),
        };
        assert_eq!(command(&options(None)), "cargo xtask docs");
        let given = command(&options(Some("a/b")));
        assert_eq!(given, "cargo xtask docs --program a/b");
    }
}

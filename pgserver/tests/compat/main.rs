//! Compatibility tests: statements with the same results as on PostgreSQL, and the same SQLSTATE if
//! they fail.
//!
//! The files beside this one are in the format of sqllogictest, one file for each area of SQL. A
//! file gets an empty database, and its statements go over the wire, in text. It runs once more on
//! a database of three machines. There, if no statement of the file needs session state, each
//! statement goes to another machine than the last. All files pass on PostgreSQL 15 as well.
//! Records for only one of the two servers are marked `onlyif fencepost` or `skipif fencepost`,
//! with the reason.
//!
//! ```text
//! statement ok                 statement count 2            statement error (23505)
//! CREATE TABLE t (i int)       INSERT INTO t VALUES (1), (2)  INSERT INTO t VALUES (1)
//!
//! query IT rowsort             letters of columns: B boolean, I integers, R other numbers, T text,
//! SELECT i, v FROM t           D dates and times, ? all else; without ORDER BY the rows are sorted
//! ----                         here (`rowsort`)
//! 1 a
//! 2 NULL
//! ```
//! `\c name` as a statement connects to another database. NULL is `NULL`, an empty text `(empty)`,
//! a line break in a text `\n`.
//!
//! ```sh
//! cargo test -p fencepost-pgserver --test compat    # Fencepost; COMPAT=joins: matching files
//! # on PostgreSQL, in databases compat_…:
//! COMPAT_URL='host=127.0.0.1 port=5432 user=postgres' cargo test …
//! COMPAT_FILL=1 COMPAT_URL=… cargo test …   # writes PostgreSQL's results to the files
//! COMPAT_DOCUMENT=1 cargo test …            # writes the list of areas to COMPATIBILITY.md
//! ```

mod document;
mod engine;
mod machines;
mod place;
mod postgres;
mod psql;

use std::path::{Path, PathBuf};

use place::ServerKind;
use sqllogictest::{Record, Runner, TestErrorKind, parse_file};

/// The number of failures of a file that are shown.
const SHOWN: usize = 20;

#[test]
fn statements_match_compatibility_files() {
    match std::env::var("COMPAT_URL") {
        Ok(url) if std::env::var("COMPAT_FILL").is_ok() => fill(&ServerKind::Server(url)),
        Ok(url) => run(&ServerKind::Server(url)),
        Err(_) => run(&ServerKind::InProcess),
    }
}

#[test]
fn statements_do_the_same_on_three_machines() {
    run(&ServerKind::Machines);
}

#[test]
fn statements_do_the_same_on_postgresql() {
    match postgres::start() {
        Ok(server) => run(&ServerKind::Server(server.url())),
        Err(why) => println!("skipped: {why}"),
    }
}

#[test]
fn psql_describes_the_same_as_on_postgresql() {
    let server = match postgres::start() {
        Ok(server) => server,
        Err(why) => return println!("skipped: {why}"),
    };
    let database = fencepost::Database::in_memory().expect("a database in memory");
    let options = fencepost_pgserver::ListenOptions::new("127.0.0.1:0");
    let fencepost = fencepost_pgserver::listen(&database, options).expect("a free port");
    let url = format!(
        "host=127.0.0.1 port={} user=postgres dbname=postgres",
        fencepost.local_addr().port()
    );
    let found = psql::differences(&server.psql(), &url, &server.url());
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn document_matches_compatibility_files() {
    let text = document::text(&all_files());
    if std::env::var("COMPAT_DOCUMENT").is_ok() {
        std::fs::write(document::path(), &text).expect("COMPATIBILITY.md");
    }
    let said = std::fs::read_to_string(document::path()).expect("COMPATIBILITY.md");
    assert!(
        said == text,
        "COMPATIBILITY.md is not of these files:\n{text}"
    );
}

fn run(place: &ServerKind) {
    let (mut statements, mut failed) = (0, Vec::new());
    for file in files() {
        let (ran, mistakes) = run_file(place, &file);
        statements += ran;
        let name = name_of(&file);
        println!("{name}: {ran} statements, {} mistakes", mistakes.len());
        failed.extend(mistakes.into_iter().take(SHOWN));
    }
    println!("{statements} statements");
    assert!(failed.is_empty(), "\n{}", failed.join("\n"));
    assert!(statements > 0, "no file");
}

/// Runs a file in a database of its own. Returns the number of its statements, and the failures.
fn run_file(place: &ServerKind, file: &Path) -> (usize, Vec<String>) {
    runtime().block_on(async {
        let home = place.make(file).await;
        let mut runner = Runner::new(|| home.connect(false));
        runner.with_column_validator(sqllogictest::strict_column_validator);
        let records = parse_file(file).expect("a file that can be read");
        let (mut ran, mut mistakes) = (0, Vec::new());
        for record in records {
            if matches!(record, Record::Halt { .. }) {
                break;
            }
            ran += usize::from(matches!(
                record,
                Record::Statement { .. } | Record::Query { .. }
            ));
            if let Err(error) = runner.run_async(record).await {
                let lost = matches!(
                    error.kind(),
                    TestErrorKind::Fail { err, .. } if engine::is_lost(&*err)
                );
                mistakes.push(error.display(false).to_string());
                if lost {
                    break;
                }
            }
        }
        runner.shutdown_async().await;
        home.remove().await;
        (ran, mistakes)
    })
}

/// Writes a server's results into the files.
fn fill(place: &ServerKind) {
    for file in files() {
        let text = std::fs::read_to_string(&file).expect("the file");
        // Without a SQLSTATE any failure would match, so mark it to be filled in.
        let unnamed = text.replace(" error\n", " error unnamed\n");
        std::fs::write(&file, unnamed).expect("the file");
        let filled = runtime().block_on(async {
            let home = place.make(&file).await;
            let mut runner = Runner::new(|| home.connect(true));
            let filled = runner
                .update_test_file(
                    &file,
                    " ",
                    sqllogictest::default_validator,
                    sqllogictest::default_normalizer,
                    sqllogictest::strict_column_validator,
                )
                .await;
            runner.shutdown_async().await;
            home.remove().await;
            filled.map_err(|error| error.to_string())
        });
        filled.expect("a file that can be filled");
        let text = std::fs::read_to_string(&file).expect("the file");
        // The SQLSTATE is written as a pattern that matches it.
        let text = text.replace("error \\(", "error (").replace("\\)\n", ")\n");
        std::fs::write(&file, text).expect("the file");
        println!("{} is filled", name_of(&file));
    }
}

/// Returns the selected files.
fn files() -> Vec<PathBuf> {
    let wanted = std::env::var("COMPAT").unwrap_or_default();
    let mut files = all_files();
    files.retain(|file| name_of(file).contains(&wanted));
    files
}

fn all_files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/compat");
    let entries = std::fs::read_dir(folder).expect("the folder of the files");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let slt = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "slt");
    let mut files: Vec<PathBuf> = paths.filter(slt).collect();
    files.sort();
    files
}

fn name_of(file: &Path) -> String {
    let stem = file.file_stem().unwrap_or_default();
    stem.to_string_lossy().into_owned()
}

fn runtime() -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().build().expect("a runtime")
}

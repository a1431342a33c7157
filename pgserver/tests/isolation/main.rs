//! Isolation tests: steps of several sessions in a given order, here and on PostgreSQL 15. Both
//! must behave the same.
//!
//! The specifications in `specs/` are in the format of PostgreSQL's `isolationtester` (`spec.rs`).
//! Each permutation runs three times: on a database of this process, on three machines of this
//! process (each session on another machine), and on a PostgreSQL 15 of this machine. The tests
//! compare rows, SQLSTATEs, error texts and notices of each step, whether the step waited, and when
//! it was done. Permutations that are known to differ are in `known.txt`, with the reason; one that
//! no longer differs must be removed from that list. A known difference on one machine may also
//! occur on three. A difference on three machines alone has `/3` after the name of its file.
//!
//! ```sh
//! cargo test -p fencepost-pgserver --test isolation -- --nocapture   # all specifications
//! ISOLATION=deadlock cargo test …   # the files whose names contain that
//! ISOLATION_PERMUTATION='a1 b1' …   # the permutations with these steps in a row
//! ISOLATION_SHOW=1 …                # transcripts of both servers where they differ; or `all`
//! ISOLATION_SPECS=dir …             # the specifications of a folder, such as PostgreSQL's own
//! ISOLATION_LENIENT=1 …             # setups run statement by statement; failing ones are ignored
//! ISOLATION_IGNORE=notice,text …    # kinds that do not count: of notice, text and completed
//! ISOLATION_KNOWN=file …            # another list of known differences; nothing fails without one
//! ISOLATION_FILL=1 …                # writes that list again; its reasons stay
//! ISOLATION_HERE=127.0.0.1:5433 …   # a running server in the place of this process
//! ISOLATION_MACHINES=1 …            # one machine alone
//! ISOLATION_WAIT_MS=2000 …          # a step without an answer for so long counts as waiting
//! ```

mod client;
mod compare;
mod known;
#[path = "../compat/machines.rs"]
mod machines;
#[path = "../compat/postgres.rs"]
#[expect(dead_code, reason = "psql is run by the compatibility tests")]
mod postgres;
mod server;
mod spec;
mod stage;

use std::path::{Path, PathBuf};
use std::sync::Mutex;

use compare::Report;
use server::Servers;

/// The number of files that run concurrently: steps mostly wait.
const WORKERS: usize = 3;

#[test]
fn sessions_do_the_same_in_turn_as_on_postgresql() {
    let servers = match Servers::start() {
        Ok(servers) => servers,
        Err(why) => return println!("skipped: {why}"),
    };
    let report = Mutex::new(Report::new(known::read()));
    let files = Mutex::new(files().into_iter());
    let next = || files.lock().expect("no panic").next();
    std::thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                while let Some(file) = next() {
                    run(&servers, &file, &report);
                }
            });
        }
    });
    let report = report.into_inner().expect("no panic");
    report.print();
    if variable("ISOLATION_FILL").is_some() {
        return known::write(&report.known_anew());
    }
    let is_partial = variable("ISOLATION_PERMUTATION").is_some();
    let unexpected = report.unexpected(is_partial);
    let is_free = variable("ISOLATION_SPECS").is_some() && variable("ISOLATION_KNOWN").is_none();
    assert!(
        is_free || unexpected.is_empty(),
        "\n{}",
        unexpected.join("\n")
    );
}

/// Runs the specifications of a file.
fn run(servers: &Servers, file: &Path, report: &Mutex<Report>) {
    let name = name_of(file);
    let text = std::fs::read_to_string(file).expect("a specification");
    match spec::read(&text) {
        Ok(specs) => {
            for (suffix, spec) in specs {
                servers.compare(&format!("{name}{suffix}"), &spec, report);
            }
        }
        Err(why) => report.lock().expect("no panic").unreadable(&name, &why),
    }
}

/// Returns the value of an environment variable, if it is set.
pub fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/isolation")
}

fn name_of(file: &Path) -> String {
    let stem = file.file_stem().expect("a file");
    stem.to_string_lossy().into_owned()
}

/// Returns the selected specifications, sorted by name.
fn files() -> Vec<PathBuf> {
    let folder = variable("ISOLATION_SPECS").map_or_else(|| folder().join("specs"), PathBuf::from);
    let part = variable("ISOLATION").unwrap_or_default();
    let entries = std::fs::read_dir(&folder).expect("a folder of specifications");
    let mut files: Vec<PathBuf> = entries
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|file| file.extension().is_some_and(|end| end == "spec"))
        .filter(|file| part.split(',').any(|part| name_of(file).contains(part)))
        .collect();
    files.sort();
    files
}

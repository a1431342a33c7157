//! Faults that are injected into the protocol are found: by the seed and the checker that the
//! README names for each.
//!
//! A change of the protocol, of plans or of the workload changes the runs of the seeds. Then
//! `cargo test -p fencepost-simulator --test injected_faults -- --ignored --nocapture looked_for`
//! searches for other seeds, and writes the table.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use fencepost_simulator::plan::Kind;
use fencepost_simulator::run::record_plan;
use fencepost_txn::fault::{self, Fault};

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/README.md");

fn readme() -> String {
    std::fs::read_to_string(PATH).expect("a README")
}

/// The checker of isolation levels.
const LEVELS: &str = "isolation levels";

/// Parts of checkers' messages, and the names of the checkers.
const CHECKERS: &[(&str, &str)] = &[
    ("isolation levels: ", LEVELS),
    ("two configurations act", "one configuration acts at a time"),
    ("and has its lease", "leases"),
    ("has it between", "bounds of the time"),
    ("panicked", "panics"),
    ("not strictly serializable", "strict serializability"),
    ("at its timestamp", "snapshots"),
    (
        "which did not commit it",
        "reads of versions that were not committed",
    ),
    ("at the same", "versions"),
    (" must ", "versions"),
    ("contained", "lists"),
    ("all accounts have", "sum of accounts"),
    ("is torn", "torn objects"),
    ("backups of", "backups are as their primaries"),
    ("has locked", "nothing is left locked"),
    ("reserved", "reserved slots"),
    ("nothing leads to", "objects that nothing leads to"),
    (" leads to ", "pointers that lead nowhere"),
    ("not there", "objects that are gone"),
    ("stopped", "ends of transactions"),
    ("stuck", "everything comes to its end"),
];

/// The checker of all other messages.
const OTHERS: &str = "what a transaction sees";

/// Returns the name of the checker with this message.
fn checker(said: &str) -> &'static str {
    let mut checkers = CHECKERS.iter();
    let found = checkers.find(|(words, _)| said.contains(words));
    found.map_or(OTHERS, |(_, checker)| *checker)
}

/// Returns the message of a run that finds a fault, with or without an injected fault.
fn found(fault: Option<Fault>, kind: Kind, seed: u64) -> Option<String> {
    let _fault = fault.map(fault::inject);
    let plan = Rc::new(kind.draw(seed));
    match catch_unwind(AssertUnwindSafe(|| record_plan(plan))) {
        Ok(Ok(_)) => None,
        Ok(Err(halted)) => Some(halted.to_string()),
        Err(_) => Some("panicked".into()),
    }
}

/// A row of the README's table.
struct FaultTableRow {
    fault: Fault,
    kind: Kind,
    seed: u64,
    checker: &'static str,
}

impl fmt::Display for FaultTableRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FaultTableRow {
            fault,
            kind,
            seed,
            checker,
        } = self;
        let (what, place, kind) = (fault.what(), fault.place(), kind.name);
        write!(
            f,
            "| {fault:?} | {what} | `{place}` | {kind}, {seed} | {checker} |"
        )
    }
}

impl FaultTableRow {
    fn begin(fault: Fault) -> String {
        format!("| {fault:?} |")
    }

    /// Returns the README's row of an injected fault, if there is one.
    fn read(fault: Fault) -> Option<FaultTableRow> {
        let begin = FaultTableRow::begin(fault);
        let readme = readme();
        let line = readme.lines().find(|line| line.starts_with(&begin))?;
        let mut cells = line.split('|').map(str::trim).skip(4);
        let run = cells.next().expect("a run");
        let (kind, seed) = run.rsplit_once(", ").expect("a kind and a seed");
        let kind = Kind::named(kind)?;
        let checker = cells.next().expect("a checker");
        let checker = CHECKERS.iter().find(|(_, known)| *known == checker);
        let read = FaultTableRow {
            fault,
            kind,
            seed: seed.parse().expect("a seed"),
            checker: checker.map_or(OTHERS, |(_, checker)| *checker),
        };
        assert_eq!(line, read.to_string());
        Some(read)
    }
}

#[test]
fn each_fault_is_found_by_its_seed_and_clean_runs_pass() {
    let mut wrong = Vec::new();
    for fault in Fault::all() {
        let Some(line) = FaultTableRow::read(*fault) else {
            wrong.push(format!("{fault:?} is found by no seed"));
            continue;
        };
        let FaultTableRow {
            kind,
            seed,
            checker: named,
            ..
        } = line;
        let said = found(Some(*fault), kind, seed);
        if said.as_deref().map(checker) != Some(named) {
            wrong.push(format!("{fault:?}: {said:?}"));
        }
        if let Some(said) = found(None, kind, seed) {
            wrong.push(format!("{}, {seed}: {said}", kind.name));
        }
    }
    assert_eq!(wrong, [""; 0]);
}

/// Runs a seed that finds an injected fault, and finds nothing without it. Returns the row with the
/// checker, and its message.
fn finds(fault: Fault, kind: Kind, seed: u64) -> Option<(FaultTableRow, String)> {
    let said = found(Some(fault), kind, seed)?;
    let of_levels = (Fault::KeepOldSnapshot..=Fault::SkipKeyNotes).contains(&fault);
    if of_levels && checker(&said) != LEVELS {
        return None;
    }
    let line = FaultTableRow {
        fault,
        kind,
        seed,
        checker: checker(&said),
    };
    found(None, kind, seed).is_none().then_some((line, said))
}

/// Seeds of transactions of all levels that find injected faults whose rows in the README name
/// another checker.
#[test]
fn faults_of_isolation_levels_are_found_by_level_checker() {
    let kind = Kind::named("levels").expect("a kind");
    for (fault, seed) in [(Fault::SkipValidation, 15), (Fault::LockAnyVersion, 1)] {
        let said = found(Some(fault), kind, seed);
        let by = said.as_deref().map(checker);
        assert_eq!(by, Some(LEVELS), "{fault:?}: {said:?}");
        assert_eq!(found(None, kind, seed), None, "{fault:?}");
    }
}

/// Searches for seeds, and writes the table anew. For each injected fault it keeps the present seed
/// if that still finds the fault, or else takes the first one that does. `FAULT` and `KIND`
/// restrict the faults and kinds, `SEEDS` is the number of seeds to try.
#[test]
#[ignore = "looks for seeds"]
fn seeds_are_looked_for() {
    let var = |name: &str| std::env::var(name).ok();
    let wanted = |name: &str, of: &str| {
        var(name).is_none_or(|wanted| wanted.split(' ').any(|wanted| wanted == of))
    };
    let seeds = var("SEEDS").map_or(400, |seeds| seeds.parse().expect("a number"));
    for fault in Fault::all().iter().copied() {
        if !wanted("FAULT", &format!("{fault:?}")) {
            continue;
        }
        let before = FaultTableRow::read(fault).and_then(|line| finds(fault, line.kind, line.seed));
        let mut kinds = Kind::ALL
            .into_iter()
            .filter(|kind| wanted("KIND", kind.name));
        let first = || kinds.find_map(|kind| (0..seeds).find_map(|seed| finds(fault, kind, seed)));
        let Some((line, said)) = before.or_else(first) else {
            println!("{fault:?} is not found");
            continue;
        };
        let said: String = said.chars().take(200).collect();
        println!("{line}\n    {said}");
        write(&line);
    }
}

/// Writes a row into the README, in place of the existing one.
fn write(line: &FaultTableRow) {
    let begin = FaultTableRow::begin(line.fault);
    let mut lines: Vec<String> = readme().lines().map(String::from).collect();
    lines.retain(|line| !line.starts_with(&begin));
    let head = lines
        .iter()
        .position(|line| line.starts_with("| injected fault |"));
    let at = head.expect("a table") + 2;
    let before = |other: &String| {
        let name = other
            .strip_prefix("| ")
            .and_then(|rest| rest.split(' ').next());
        let mut all = Fault::all().iter();
        all.any(|known| *known < line.fault && name == Some(&format!("{known:?}")))
    };
    let at = at + lines[at..].iter().take_while(|line| before(line)).count();
    lines.insert(at, line.to_string());
    std::fs::write(PATH, lines.join("\n") + "\n").expect("written");
}

/// Counts how many of a hundred seeds of each kind find each injected fault.
#[test]
#[ignore = "counts"]
fn seeds_that_find_each_are_counted() {
    for fault in Fault::all().iter().copied() {
        let counts = Kind::ALL.map(|kind| {
            let seeds = (0..100).filter(|seed| found(Some(fault), kind, *seed).is_some());
            format!("{}: {}", kind.name, seeds.count())
        });
        println!("{fault:?}: {}", counts.join(", "));
    }
}

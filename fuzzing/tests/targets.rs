//! Runs the fuzz targets on their seeds and on random mutations of them, for some seconds each.
//!
//! The inputs depend only on a fixed seed; on a slow machine there are fewer of them.
//! `FUZZ_SECONDS` sets the time for each target, without a limit on the number of inputs.
//! `FUZZ_SEED` sets another seed.

use std::alloc::System;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Once, PoisonError};
use std::time::{Duration, Instant};

use cap::Cap;
use fencepost_fuzz::random::Random;
use fencepost_fuzz::targets::{self, mutation};

#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

/// The number of seeds that are run unchanged.
const SEEDS_MAX: usize = 100;

/// The default limits of a target: inputs and seconds.
const INPUTS_MAX: u64 = 4_000;
const SECONDS_MAX: u64 = 5;

/// The longest time for an input, in seconds.
const INPUT_SECONDS_MAX: u64 = 120;

/// Memory and panics concern the whole process, so only one target runs at a time.
static RUNNING: Mutex<()> = Mutex::new(());

/// The panics of all threads since the last input.
static PANICS: Mutex<Vec<String>> = Mutex::new(Vec::new());

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// Records the panics of all threads, including those of a server.
fn note_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        std::panic::set_hook(Box::new(|info| {
            let mut panics = PANICS.lock().unwrap_or_else(PoisonError::into_inner);
            panics.push(info.to_string());
            eprintln!("{info}");
        }));
    });
}

/// Ends the process if an input takes too long. `begun` has the number of the current input.
fn watch(name: &'static str, begun: &Arc<AtomicU64>) {
    let begun = Arc::downgrade(begun);
    std::thread::spawn(move || {
        let (mut last, mut since) = (0, Instant::now());
        while let Some(begun) = begun.upgrade() {
            let now = begun.load(Ordering::Relaxed);
            drop(begun);
            if now != last {
                (last, since) = (now, Instant::now());
            }
            if since.elapsed() > Duration::from_secs(INPUT_SECONDS_MAX) {
                eprintln!("{name}: input {now} takes more than {INPUT_SECONDS_MAX} s");
                std::process::abort();
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    });
}

/// Runs a target for some seconds.
fn run(name: &'static str) {
    let _running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
    note_panics();
    let target = targets::named(name).expect("a target");
    let seeds = (target.seeds)();
    assert!(!seeds.is_empty());
    let seed = number("FUZZ_SEED").unwrap_or(1);
    let mut random = Random::new(seed, name.len() as u64);
    let (seconds, inputs) = match number("FUZZ_SECONDS") {
        Some(seconds) => (seconds, u64::MAX),
        None => (SECONDS_MAX, INPUTS_MAX),
    };
    let until = Instant::now() + Duration::from_secs(seconds);
    let begun = Arc::new(AtomicU64::new(0));
    watch(name, &begun);
    while Instant::now() < until && begun.load(Ordering::Relaxed) < inputs {
        let count = begun.fetch_add(1, Ordering::Relaxed) as usize;
        let input = match seeds.get(count).filter(|_| count < SEEDS_MAX) {
            Some(seed) => seed.clone(),
            None => mutation::mutated(&mut random, &seeds),
        };
        let (before, highest) = (ALLOCATOR.allocated(), ALLOCATOR.max_allocated());
        let done = catch_unwind(AssertUnwindSafe(|| (target.run)(&input)));
        let mut panics = PANICS.lock().unwrap_or_else(PoisonError::into_inner);
        let messages = std::mem::take(&mut *panics);
        drop(panics);
        let escaped = input.escape_ascii();
        assert!(
            done.is_ok() && messages.is_empty(),
            "{name}, seed {seed}, input {count}: b\"{escaped}\"\n{}",
            messages.join("\n")
        );
        let most = ALLOCATOR.max_allocated();
        let bound = before + target.memory_bytes + 100 * input.len();
        assert!(
            most <= highest.max(bound),
            "{name}, seed {seed}, input {count}: b\"{escaped}\" takes {} bytes of memory",
            most - before
        );
    }
    let count = begun.load(Ordering::Relaxed);
    println!("{name}: {count} inputs");
    assert!(count > 10, "{name}: only {count} inputs");
}

#[test]
fn client_bytes_cause_no_fault() {
    run("wire");
}

#[test]
fn statement_texts_cause_no_fault() {
    run("sql");
}

#[test]
fn copy_data_cause_no_fault() {
    run("copy");
}

#[test]
fn damaged_directories_cause_no_fault() {
    run("replay");
}

#[test]
fn messages_of_machines_cause_no_fault() {
    run("cluster");
}

/// Inputs with which a target has found a fault.
const FOUND: [(&str, &[u8]); 2] = [
    ("replay", b"\x03\x5d\x01\xc4\xc0"),
    (
        "wire",
        b"\x02Qsez[[\x15_.SEt ?FROM$S.?FROM$S.SEt FRM$SetsE_S.rvet[[\x15_.u|SEt \
          FRM$SetsE_S.rvet[[\x15_.u|\0",
    ),
];

#[test]
fn inputs_that_have_shown_faults_show_none() {
    let _running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
    note_panics();
    for (name, input) in FOUND {
        let target = targets::named(name).expect("a target");
        (target.run)(input);
        let mut panics = PANICS.lock().unwrap_or_else(PoisonError::into_inner);
        let messages = std::mem::take(&mut *panics);
        assert!(messages.is_empty(), "{name}: {}", messages.join("\n"));
    }
}

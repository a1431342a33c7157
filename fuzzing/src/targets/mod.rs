//! Fuzz targets: functions that accept any bytes and panic only if Fencepost has a fault.
//!
//! | target | input |
//! |---|---|
//! | [`wire`] | the bytes of a client of the PostgreSQL protocol |
//! | [`sql`] | the text of statements |
//! | [`copy`] | options and data of a COPY FROM STDIN |
//! | [`replay`] | the files of a data directory, and log records |
//! | [`cluster`] | messages of other machines |
//!
//! `tests/targets.rs` runs each of them for some seconds on its seeds and on mutations of them;
//! `FUZZ_SECONDS` sets a longer time. The folder `fuzz/` is for libFuzzer, which finds more faults
//! because it follows the code coverage:
//!
//! ```text
//! cargo install cargo-fuzz
//! cargo run -p fencepost-fuzz -- seeds fuzzing/fuzz/corpus
//! cd fuzzing
//! cargo fuzz run --sanitizer none wire -- -rss_limit_mb=2048 -timeout=60 -max_total_time=600
//! cargo fuzz cmin --sanitizer none wire
//! cargo fuzz run --sanitizer none wire fuzz/artifacts/wire/crash-…
//! ```
//!
//! The other targets are `sql`, `copy`, `replay` and `cluster`. Without a sanitizer, the stable
//! toolchain is sufficient; with the address sanitizer, the command is `cargo +nightly fuzz run
//! wire`. A first build compiles all crates again, with coverage counters. Therefore continuous
//! integration runs only `tests/targets.rs`.
//!
//! A target reports a fault by a panic. Besides panics of the code under test, it panics after an
//! internal error (XX000), a malformed reply, a wait that does not end, or a result that depends on
//! how the input is split. The caller limits the memory: libFuzzer's `-rss_limit_mb`, or the
//! counting allocator of the test.

pub mod bytes;
pub mod cluster;
pub mod copy;
mod database;
pub mod mutation;
pub mod replay;
pub mod sql;
pub mod wire;

/// A fuzz target.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name in `fuzz/`.
    pub name: &'static str,
    /// Runs one input. Panics if it shows a fault.
    pub run: fn(&[u8]),
    /// Returns valid inputs, produced by the encoders of the program.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// The memory in bytes that one input may use, in addition to 100 times its length.
    pub memory_bytes: usize,
}

/// All targets.
pub const ALL: [Target; 5] = [
    Target {
        name: "wire",
        run: wire::run,
        seeds: wire::seeds,
        memory_bytes: 64 << 20,
    },
    Target {
        name: "sql",
        run: sql::run,
        seeds: sql::seeds,
        memory_bytes: 64 << 20,
    },
    Target {
        name: "copy",
        run: copy::run,
        seeds: copy::seeds,
        memory_bytes: 64 << 20,
    },
    Target {
        name: "replay",
        run: replay::run,
        seeds: replay::seeds,
        memory_bytes: 64 << 20,
    },
    Target {
        name: "cluster",
        run: cluster::run,
        seeds: cluster::seeds,
        memory_bytes: 64 << 20,
    },
];

/// Returns the target `name`.
pub fn named(name: &str) -> Option<&'static Target> {
    ALL.iter().find(|target| target.name == name)
}

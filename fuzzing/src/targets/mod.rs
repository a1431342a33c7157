//! Fuzz targets: functions that take any bytes and panic only where Fencepost has a fault.
//!
//! | target | input |
//! |---|---|
//! | [`wire`] | the bytes of a client of the PostgreSQL protocol |
//! | [`sql`] | the text of statements |
//! | [`copy`] | options and data of a COPY FROM STDIN |
//! | [`replay`] | the files of a data directory, and log records |
//! | [`cluster`] | messages of other machines |
//!
//! `tests/targets.rs` runs each of them for some seconds on its seeds and on mutations of these; `FUZZ_SECONDS` is
//! for longer runs. The folder `fuzz/` is for libFuzzer, which finds more, since it follows the coverage:
//!
//! ```text
//! cargo install cargo-fuzz
//! cargo run -p fencepost-fuzz -- seeds fuzzing/fuzz/corpus
//! cd fuzzing
//! cargo fuzz run --sanitizer none wire -- -rss_limit_mb=2048 -timeout=60 -max_total_time=600
//! cargo fuzz cmin --sanitizer none wire
//! cargo fuzz run --sanitizer none wire fuzz/artifacts/wire/crash-…
//! ```
//! The other targets are `sql`, `copy`, `replay` and `cluster`. Without a sanitizer the stable toolchain does; with
//! the address sanitizer it is `cargo +nightly fuzz run wire`. A first build compiles all crates again, with
//! coverage counters. Therefore continuous integration runs `tests/targets.rs` only.
//!
//! A target reports a fault by a panic. Besides panics of the code under test those are: an internal error
//! (XX000), a malformed reply, a wait that does not end, and an answer that depends on how the input is cut.
//! Memory is bounded by the caller: libFuzzer's `-rss_limit_mb`, and the counting allocator of the test.

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
    /// Runs one input. Panics where that shows a fault.
    pub run: fn(&[u8]),
    /// Returns inputs that are valid, made by the encoders of the program.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Bytes of memory that one input may take, besides 100 times its length.
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

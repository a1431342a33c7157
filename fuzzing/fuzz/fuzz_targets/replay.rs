//! The target for files of a data directory and log records: see `fencepost_fuzz::targets::replay`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| fencepost_fuzz::targets::replay::run(input));

//! The target for texts of statements: see `fencepost_fuzz::targets::sql`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| fencepost_fuzz::targets::sql::run(input));

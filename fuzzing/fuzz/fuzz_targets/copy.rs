//! The target for options and data of COPY FROM STDIN: see `fencepost_fuzz::targets::copy`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| fencepost_fuzz::targets::copy::run(input));

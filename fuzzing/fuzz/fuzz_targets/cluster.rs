//! The target for messages of other machines: see `fencepost_fuzz::targets::cluster`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| fencepost_fuzz::targets::cluster::run(input));

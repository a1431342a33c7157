//! The target for the bytes of a client: see `fencepost_fuzz::targets::wire`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| fencepost_fuzz::targets::wire::run(input));

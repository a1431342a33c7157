//! The `fencepost` program.
fn main() {}

//! x
/// x
pub fn is_reserved(_: &str) -> bool { false }

//! Stack for what recurses over trees: a chain of operators is as deep as it is long, and threads of whoever embeds the
//! database may have little.

/// What is left at least: a subquery that is bound within another one takes some 60 KiB where nothing is optimized.
const LEFT: usize = 256 << 10;
/// What there is more where it is less.
const MORE: usize = 2 << 20;

/// Runs `f` where there is stack enough for it to come here again.
pub(crate) fn enough<T>(f: impl FnOnce() -> T) -> T {
    stacker::maybe_grow(LEFT, MORE, f)
}

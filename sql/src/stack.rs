//! The only limit on recursion: the maximum depth of statements, and the large stack for deep ones.
//!
//! ```text
//!   shallow   at most `SHALLOW` levels   any thread's stack is enough
//!   deep      more                       54001 on a plain stack; then `on_large_stack` runs it
//!                                        again on a large one
//!   too deep  beyond `LEVELS_MAX`        54001, also if a large stack has less than
//!                                        `RESERVE_BYTES` left
//! ```
//! A deep statement is parsed, bound, planned, run and dropped on a large stack. Code that recurses
//! without a check (derived `Clone`, drop glue, sqlparser) therefore has enough stack.

use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::error::{SqlError, SqlState};

/// The minimum stack that `enough` guarantees. Binding a subquery takes some 60 KiB without
/// optimization.
const RED_ZONE_BYTES: usize = 256 << 10;
/// The size of a stack segment that `enough` adds.
const SEGMENT_BYTES: usize = 2 << 20;
/// The size of a large stack. Only its used pages take memory, until the statement has been
/// handled.
const LARGE_STACK_BYTES: usize = 1 << 30;
/// The part of a large stack that is reserved for code without depth checks.
const RESERVE_BYTES: usize = LARGE_STACK_BYTES / 4;
/// The maximum depth of a tree on any stack.
pub const SHALLOW: usize = 250;
/// The maximum depth of a tree on a large stack.
pub(crate) const LEVELS_MAX: usize = 50_000;

thread_local! {
    /// Whether this thread runs with the limits of a large stack.
    static ROOMY: Cell<bool> = const { Cell::new(false) };
}

/// A guard that restores `ROOMY`, even if the code panics.
struct LimitsGuard(bool);

impl Drop for LimitsGuard {
    fn drop(&mut self) {
        ROOMY.set(self.0);
    }
}

/// Returns error 54001.
#[cold]
pub(crate) fn too_deep() -> SqlError {
    SqlError::new(
        SqlState::STATEMENT_TOO_COMPLEX,
        "stack depth limit exceeded",
    )
    .hint("The statement nests or chains too many expressions; split it up.")
}

/// Runs `f` with at least `RED_ZONE_BYTES` of stack.
pub(crate) fn enough<T>(f: impl FnOnce() -> T) -> T {
    stacker::maybe_grow(RED_ZONE_BYTES, SEGMENT_BYTES, f)
}

/// Checks that a tree of `levels` levels is allowed on this stack.
///
/// # Errors
/// 54001; `on_large_stack` then uses a larger stack, if it is not on one already.
pub(crate) fn check(levels: usize) -> Result<(), SqlError> {
    let fits = match is_roomy() {
        true => {
            levels <= LEVELS_MAX && stacker::remaining_stack().is_none_or(|b| b > RESERVE_BYTES)
        }
        false => levels <= SHALLOW,
    };
    match fits {
        true => Ok(()),
        false => Err(too_deep()),
    }
}

/// Returns whether this is a large stack. A tree that is made on one is dropped and run on one.
#[must_use]
pub fn is_roomy() -> bool {
    ROOMY.get()
}

/// Runs `f` on a large stack.
pub fn roomy<T>(f: impl FnOnce() -> T) -> T {
    if is_roomy() {
        return f();
    }
    stacker::grow(LARGE_STACK_BYTES, || {
        let _back = LimitsGuard(ROOMY.replace(true));
        f()
    })
}

/// Runs `f` with the limits of a plain stack, also on a large one. A stored expression that `f`
/// binds can be bound later by any thread.
pub(crate) fn with_plain_limits<T>(f: impl FnOnce() -> T) -> T {
    let _back = LimitsGuard(ROOMY.replace(false));
    f()
}

/// Runs `f`, and again on a large stack if it fails with 54001.
///
/// # Errors
/// Those of `f`.
pub fn on_large_stack<T>(mut f: impl FnMut() -> Result<T, SqlError>) -> Result<T, SqlError> {
    match f() {
        Err(error) if error.sqlstate() == SqlState::STATEMENT_TOO_COMPLEX && !is_roomy() => {
            roomy(f)
        }
        result => result,
    }
}

/// Returns a future that polls and drops `future` on a large stack.
pub fn polled<F: Future>(future: F) -> DeepFuture<F> {
    DeepFuture(Some(Box::pin(future)))
}

/// A future that runs a deep plan.
#[derive(Debug)]
pub struct DeepFuture<F: Future>(Option<Pin<Box<F>>>);

impl<F: Future> Future for DeepFuture<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        match &mut self.0 {
            Some(future) => roomy(|| future.as_mut().poll(cx)),
            None => Poll::Pending,
        }
    }
}

impl<F: Future> Drop for DeepFuture<F> {
    fn drop(&mut self) {
        let future = self.0.take();
        roomy(|| drop(future));
    }
}

/// A flag: whether a tree was made on a large stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StackDepth(bool);

impl StackDepth {
    /// Returns the flag for a tree that is made now.
    #[must_use]
    pub fn now() -> StackDepth {
        StackDepth(is_roomy())
    }

    /// Returns whether the tree was made on a large stack.
    #[must_use]
    pub fn is_deep(self) -> bool {
        self.0
    }
}

/// A tree that is dropped on the kind of stack on which it was made.
#[derive(Debug)]
pub struct DeepTree<T: Default> {
    tree: T,
    deep: StackDepth,
}

impl<T: Default> DeepTree<T> {
    /// Wraps a tree that was just made on the current stack.
    pub fn new(tree: T) -> DeepTree<T> {
        let deep = StackDepth::now();
        DeepTree { tree, deep }
    }

    /// Returns the tree.
    #[must_use]
    pub fn get(&self) -> &T {
        &self.tree
    }

    /// Returns whether the tree was made on a large stack.
    #[must_use]
    pub fn has_depth(&self) -> bool {
        self.deep.is_deep()
    }
}

impl<T: Default> Drop for DeepTree<T> {
    fn drop(&mut self) {
        if self.deep.0 {
            let tree = std::mem::take(&mut self.tree);
            roomy(|| drop(tree));
        }
    }
}

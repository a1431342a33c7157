//! The one limit on recursion: how deep statements may be, and the stack that deep ones are handled
//! on.
//!
//! ```text
//!   shallow   at most `SHALLOW` levels    any thread's stack is enough
//!   deep      more                        54001 on a plain stack; `with_room` runs it once more on a roomy one
//!   too deep  beyond `LEVELS_MAX`         54001, as well as where less than `RESERVE_BYTES` of a roomy stack remain
//! ```
//! Parsing, binding, planning, running and dropping a deep statement all happen on a roomy stack,
//! so that code that recurses without asking (derived `Clone`, drop glue, sqlparser) has enough of
//! it.

use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::error::{SqlError, SqlState};

/// The least that `enough` leaves: binding a subquery takes some 60 KiB where nothing is optimized.
const RED_ZONE_BYTES: usize = 256 << 10;
/// Size of a segment that `enough` adds.
const SEGMENT_BYTES: usize = 2 << 20;
/// Size of a roomy stack; only pages that are used take memory, until the statement has been
/// handled.
const ROOM_BYTES: usize = 1 << 30;
/// The part of a roomy stack that is left to code that does not ask.
const RESERVE_BYTES: usize = ROOM_BYTES / 4;
/// Levels that a tree may have on any stack.
pub const SHALLOW: usize = 250;
/// Levels that a tree may have at all.
pub(crate) const LEVELS_MAX: usize = 50_000;

thread_local! {
    /// This thread runs on a roomy stack.
    static ROOMY: Cell<bool> = const { Cell::new(false) };
}

/// Sets `ROOMY` back, also where the code panics.
struct Back;

impl Drop for Back {
    fn drop(&mut self) {
        ROOMY.set(false);
    }
}

/// Returns 54001.
#[cold]
pub(crate) fn too_deep() -> SqlError {
    SqlError::new(
        SqlState::STATEMENT_TOO_COMPLEX,
        "stack depth limit exceeded",
    )
    .hint("The statement nests or chains too many expressions; split it up.")
}

/// Runs `f` where at least `RED_ZONE_BYTES` of stack are left.
pub(crate) fn enough<T>(f: impl FnOnce() -> T) -> T {
    stacker::maybe_grow(RED_ZONE_BYTES, SEGMENT_BYTES, f)
}

/// Checks that a tree may have this many levels here.
///
/// # Errors
/// 54001; `with_room` answers it by a larger stack, if there is one.
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

/// Is this a roomy stack? A tree that is made on one is dropped and run on one.
#[must_use]
pub fn is_roomy() -> bool {
    ROOMY.get()
}

/// Runs `f` on a roomy stack.
pub fn roomy<T>(f: impl FnOnce() -> T) -> T {
    if is_roomy() {
        return f();
    }
    stacker::grow(ROOM_BYTES, || {
        ROOMY.set(true);
        let _back = Back;
        f()
    })
}

/// Runs `f`, and once more on a roomy stack where it fails with 54001.
///
/// # Errors
/// Those of `f`.
pub fn with_room<T>(mut f: impl FnMut() -> Result<T, SqlError>) -> Result<T, SqlError> {
    match f() {
        Err(error) if error.sqlstate() == SqlState::STATEMENT_TOO_COMPLEX && !is_roomy() => {
            roomy(f)
        }
        result => result,
    }
}

/// Returns a future that polls and drops `future` on a roomy stack.
pub fn polled<F: Future>(future: F) -> Polled<F> {
    Polled(Some(Box::pin(future)))
}

/// A future that runs a deep plan.
#[derive(Debug)]
pub struct Polled<F: Future>(Option<Pin<Box<F>>>);

impl<F: Future> Future for Polled<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        match &mut self.0 {
            Some(future) => roomy(|| future.as_mut().poll(cx)),
            None => Poll::Pending,
        }
    }
}

impl<F: Future> Drop for Polled<F> {
    fn drop(&mut self) {
        let future = self.0.take();
        roomy(|| drop(future));
    }
}

/// Whether a tree was made on a roomy stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deep(bool);

impl Deep {
    /// Returns whether what is made now is deep.
    #[must_use]
    pub fn now() -> Deep {
        Deep(is_roomy())
    }

    /// Is it?
    #[must_use]
    pub fn is_deep(self) -> bool {
        self.0
    }
}

/// A tree that is dropped on a stack like that on which it was made.
#[derive(Debug)]
pub struct Tall<T: Default> {
    tree: T,
    deep: Deep,
}

impl<T: Default> Tall<T> {
    /// Holds a tree that has just been made.
    pub fn new(tree: T) -> Tall<T> {
        let deep = Deep::now();
        Tall { tree, deep }
    }

    /// Returns the tree.
    #[must_use]
    pub fn get(&self) -> &T {
        &self.tree
    }

    /// Returns whether the tree was made on a roomy stack.
    #[must_use]
    pub fn has_depth(&self) -> bool {
        self.deep.is_deep()
    }
}

impl<T: Default> Drop for Tall<T> {
    fn drop(&mut self) {
        if self.deep.0 {
            let tree = std::mem::take(&mut self.tree);
            roomy(|| drop(tree));
        }
    }
}

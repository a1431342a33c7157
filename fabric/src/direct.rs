//! One-sided operations on memory that this process has mapped itself.

use crate::completion::Completion;
use crate::fabric::FabricError;
use crate::memory::Memory;
use crate::sync::{Ordering, fence};

/// The reason for refusing a place beyond the end of its segment.
pub(crate) const BEYOND_THE_END: &str = "beyond the end of the segment";
const OUTSIDE: FabricError = FabricError::Refused(BEYOND_THE_END);

/// The number of times that a read is tried while its first word changes.
const TRIES: u32 = 64;

/// Reads `words` consistent words from `from` on (FAB-7).
pub(crate) fn read(memory: &Memory, from: usize, words: usize) -> Completion<Box<[u64]>> {
    // An invalid length must not cause an allocation.
    if words > memory.len() {
        return Completion::done(Err(OUTSIDE));
    }
    let mut out = vec![0; words].into_boxed_slice();
    for _ in 0..TRIES {
        let first = memory.words().get(from);
        let before = first.map(|word| word.load(Ordering::Acquire));
        if !memory.copy_out(from, &mut out) {
            return Completion::done(Err(OUTSIDE));
        }
        fence(Ordering::Acquire);
        if first.map(|word| word.load(Ordering::Relaxed)) == before {
            return Completion::done(Ok(out));
        }
    }
    Completion::done(Err(FabricError::Unsteady))
}

/// Writes `words` from `from` on.
pub(crate) fn write(memory: &Memory, from: usize, words: &[u64]) -> Completion<()> {
    Completion::done(memory.copy_in(from, words).then_some(()).ok_or(OUTSIDE))
}

/// Compares and swaps the word at `at`.
pub(crate) fn cas(memory: &Memory, at: usize, expected: u64, new: u64) -> Completion<u64> {
    let swap = |word: &crate::sync::AtomicU64| match word.compare_exchange(
        expected,
        new,
        Ordering::SeqCst,
        Ordering::SeqCst,
    ) {
        Ok(was) | Err(was) => was,
    };
    Completion::done(memory.words().get(at).map(swap).ok_or(OUTSIDE))
}

/// Returns the answer of one of these operations, which are done at once.
pub(crate) fn now<T>(mut done: Completion<T>) -> Result<T, FabricError> {
    done.take().unwrap_or(Err(FabricError::Lost))
}

//! One processor for each machine, as on separate hosts.
//!
//! If machines have fewer processors than threads, the operating system decides which threads share
//! a processor. It might put two polling threads on one processor, and two committing threads on
//! the other. This module does not use `processors::pin`, because threads that run `anywhere` would
//! then leave the machine's processor.

use fencepost_fabric::processors::usable;
use rustix::io::Errno;
use rustix::thread::{CpuSet, sched_setaffinity};

use crate::error::BenchError;

/// Keeps this thread, and the threads it will start, on one of the available processors. Machines,
/// numbered from 1, get processors in turn, and share them if there are fewer.
///
/// # Errors
/// [`BenchError::Io`].
pub fn pin(machine: u32) -> Result<(), BenchError> {
    let failed = |error: Errno| BenchError::Io {
        what: "the processors of a machine".to_string(),
        error: error.into(),
    };
    let Some(processor) = processor_of(machine, &usable()) else {
        return Ok(());
    };
    let mut one = CpuSet::new();
    one.set(processor);
    sched_setaffinity(None, &one).map_err(failed)
}

fn processor_of(machine: u32, all: &[usize]) -> Option<usize> {
    let at = (machine as usize).saturating_sub(1);
    at.checked_rem(all.len()).map(|at| all[at])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_share_processors_in_turn() {
        assert_eq!(processor_of(1, &[]), None);
        let given = (1..=3).map(|machine| processor_of(machine, &[2, 5]));
        assert_eq!(given.collect::<Vec<_>>(), [Some(2), Some(5), Some(2)]);
    }

    #[test]
    fn child_process_stays_pinned() {
        let counts = std::thread::spawn(|| {
            pin(1).expect("it may");
            let child = std::thread::spawn(|| usable().len());
            (usable().len(), child.join().expect("no panic"))
        });
        assert_eq!(counts.join().expect("no panic"), (1, 1));
    }
}

//! Turns for serializable blocks that are retried after conflicts.
//!
//! ```text
//! a session's blocks end with conflicts ─► its next one waits for the turn ─► runs ─► ends it
//! ```
//! A client retries a block that failed with 40001. If several clients do so over the same rows,
//! the retries conflict with each other. So the blocks of such sessions run one after the other,
//! while the blocks of all other sessions run beside them.
//!
//! *Bounds.* A block waits at most [`WAIT_MAX`], and then runs without a turn. A waiting block ends
//! a turn that has lasted that long, so an idle client delays others once.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::alarm::Alarm;

/// The longest wait of a block for its turn.
const WAIT_MAX: Duration = Duration::from_millis(100);

/// The number of commits with a turn that a conflict asks of its session. With fewer, most
/// conflicts are those of blocks that run beside a turn.
const COMMITS_PER_CONFLICT: u32 = 5;

/// The largest number of commits with a turn that a session has ahead of it.
const COMMITS_MAX: u32 = 30;

/// The turn of a machine's sessions.
pub(crate) struct RetryTurns {
    /// The only permit is the turn. Sessions get it in the order of their requests.
    free: Arc<Semaphore>,
    taken: Mutex<Option<HeldTurn>>,
    alarm: Arc<Alarm>,
}

/// The turn while a block has it.
struct HeldTurn {
    since: Instant,
    _permit: OwnedSemaphorePermit,
}

impl RetryTurns {
    /// Returns turns that no block has.
    pub fn new(alarm: &Arc<Alarm>) -> RetryTurns {
        RetryTurns {
            free: Arc::new(Semaphore::new(1)),
            taken: Mutex::default(),
            alarm: Arc::clone(alarm),
        }
    }

    /// Waits for the turn. Returns its start, or `None` if the wait exceeds [`WAIT_MAX`] or
    /// `deadline`.
    async fn take(&self, deadline: Option<Instant>) -> Option<Instant> {
        let latest = Instant::now() + WAIT_MAX;
        let mut permit = pin!(Arc::clone(&self.free).acquire_owned());
        let mut late = pin!(self.alarm.sleep(deadline.unwrap_or(latest).min(latest)));
        let permit = poll_fn(|task| match permit.as_mut().poll(task) {
            Poll::Ready(permit) => Poll::Ready(permit.ok()),
            Poll::Pending => late.as_mut().poll(task).map(|()| None),
        })
        .await;
        let mut taken = self.taken.lock();
        match permit {
            Some(permit) => {
                let since = Instant::now();
                *taken = Some(HeldTurn {
                    since,
                    _permit: permit,
                });
                Some(since)
            }
            None => {
                taken.take_if(|taken| taken.since.elapsed() >= WAIT_MAX);
                None
            }
        }
    }

    /// Ends the turn that began at `since`, unless it has ended.
    fn give_back(&self, since: Instant) {
        self.taken.lock().take_if(|taken| taken.since == since);
    }
}

/// The number of commits with a turn that a session has ahead of it, and its turn while it has one.
#[derive(Default)]
pub(crate) struct Contention {
    commits: u32,
    turn: Option<(Arc<RetryTurns>, Instant)>,
}

impl Contention {
    /// Returns whether the next block takes a turn.
    #[inline]
    pub fn is_high(&self) -> bool {
        self.commits > 0
    }

    /// Waits until the next block may begin, or until `deadline`.
    pub async fn take_turn(&mut self, turns: &Arc<RetryTurns>, deadline: Option<Instant>) {
        self.give_back();
        let since = turns.take(deadline).await;
        self.turn = since.map(|since| (Arc::clone(turns), since));
    }

    /// Counts a block that has ended with a conflict.
    pub fn note_conflict(&mut self) {
        self.commits = (self.commits + COMMITS_PER_CONFLICT).min(COMMITS_MAX);
    }

    /// Counts a block that has committed.
    #[inline]
    pub fn note_commit(&mut self) {
        self.commits = self.commits.saturating_sub(1);
    }

    /// Ends the turn, if there is one.
    #[inline]
    pub fn give_back(&mut self) {
        if let Some((turns, since)) = self.turn.take() {
            turns.give_back(since);
        }
    }
}

impl Drop for Contention {
    fn drop(&mut self) {
        self.give_back();
    }
}

#[cfg(test)]
mod tests {
    use pollster::FutureExt;

    use super::*;

    fn contended(turns: &Arc<RetryTurns>) -> Contention {
        let mut contention = Contention::default();
        contention.take_turn(turns, None).block_on();
        contention
    }

    #[test]
    fn sessions_are_contended_after_a_conflict_until_some_commits() {
        let mut contention = Contention::default();
        assert!(!contention.is_high());
        for (conflicts, commits) in [(1, COMMITS_PER_CONFLICT), (100, COMMITS_MAX)] {
            for _ in 0..conflicts {
                contention.note_conflict();
            }
            for _ in 0..commits {
                assert!(contention.is_high());
                contention.note_commit();
            }
            assert!(!contention.is_high());
        }
    }

    #[test]
    fn turn_passes_on_where_a_block_ends_or_its_session_is_dropped() {
        let turns = Arc::new(RetryTurns::new(&Arc::default()));
        let mut first = contended(&turns);
        assert_eq!(turns.free.available_permits(), 0);
        first.give_back();
        let second = contended(&turns);
        assert!(second.turn.is_some());
        // The turn of `first` has ended already.
        drop(first);
        assert_eq!(turns.free.available_permits(), 0);
        drop(second);
        assert_eq!(turns.free.available_permits(), 1);
    }

    #[test]
    fn turn_of_an_idle_session_delays_others_once() {
        let turns = Arc::new(RetryTurns::new(&Arc::default()));
        let idle = contended(&turns);
        let late = contended(&turns);
        assert!(idle.turn.is_some() && late.turn.is_none());
        let next = contended(&turns);
        assert!(next.turn.is_some());
        drop((idle, late));
        assert_eq!(turns.free.available_permits(), 0);
    }
}

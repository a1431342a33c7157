//! The timer of a database: wakes tasks at given times.
//!
//! ```text
//! Alarm::sleep ─► wakers by time ─► a thread that sleeps until the first of them
//! ```
//! Tasks run on executors that this crate does not know, and some executors have no timers. The
//! timer thread starts with the first task that sleeps, and ends with the database.
//!
//! # Failure
//! If the thread cannot be started, sleeping tasks are woken at once and poll again.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use fencepost_fabric::processors::anywhere;
use parking_lot::{Condvar, Mutex};

/// A handle to the timer.
#[derive(Default)]
pub(crate) struct Alarm {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// The wakers of sleeping tasks, by time and number.
    asleep: BTreeMap<(Instant, u64), Waker>,
    last: u64,
    runs: bool,
    closed: bool,
}

impl Alarm {
    /// Returns a future that is ready at `until`.
    pub fn sleep(&self, until: Instant) -> Sleep {
        Sleep {
            shared: Arc::clone(&self.shared),
            until,
            place: None,
        }
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        let asleep = {
            let mut state = self.shared.state.lock();
            state.closed = true;
            std::mem::take(&mut state.asleep)
        };
        self.shared.changed.notify_one();
        asleep.into_values().for_each(Waker::wake);
    }
}

/// A future that waits for a time. Dropping it removes its waker.
pub(crate) struct Sleep {
    shared: Arc<Shared>,
    until: Instant,
    place: Option<u64>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if Instant::now() >= self.until {
            return Poll::Ready(());
        }
        let shared = Arc::clone(&self.shared);
        let mut state = shared.state.lock();
        if state.closed {
            return Poll::Ready(());
        }
        let place = self.place.unwrap_or_else(|| {
            state.last += 1;
            state.last
        });
        self.place = Some(place);
        state.asleep.insert((self.until, place), cx.waker().clone());
        if !state.runs {
            state.runs = shared.begin();
            if !state.runs {
                cx.waker().wake_by_ref();
            }
        }
        let first = state.asleep.keys().next() == Some(&(self.until, place));
        drop(state);
        if first {
            shared.changed.notify_one();
        }
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(place) = self.place {
            self.shared.state.lock().asleep.remove(&(self.until, place));
        }
    }
}

impl Shared {
    fn begin(self: &Arc<Self>) -> bool {
        let shared = Arc::clone(self);
        let thread = std::thread::Builder::new().name("fencepost-alarm".into());
        anywhere(|| thread.spawn(move || shared.run())).is_ok()
    }

    fn run(&self) {
        let mut state = self.state.lock();
        while !state.closed {
            let Some((&first, _)) = state.asleep.first_key_value() else {
                self.changed.wait(&mut state);
                continue;
            };
            if Instant::now() < first.0 {
                self.changed.wait_until(&mut state, first.0);
                continue;
            }
            if let Some(waker) = state.asleep.remove(&first) {
                parking_lot::MutexGuard::unlocked(&mut state, || waker.wake());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use pollster::FutureExt;

    use super::*;

    #[test]
    fn sleeper_wakes_at_its_time_and_not_before() {
        let alarm = Alarm::default();
        let begun = Instant::now();
        for ms in [5, 1, 3] {
            let until = Instant::now() + Duration::from_millis(ms);
            alarm.sleep(until).block_on();
            assert!(Instant::now() >= until);
        }
        alarm.sleep(begun).block_on();
    }

    #[test]
    fn sleep_ends_with_alarm_or_its_future() {
        let alarm = Alarm::default();
        let long = Instant::now() + Duration::from_secs(3600);
        let mut dropped = Box::pin(alarm.sleep(long));
        let mut task = Context::from_waker(Waker::noop());
        assert!(dropped.as_mut().poll(&mut task).is_pending());
        drop(dropped);
        assert!(alarm.shared.state.lock().asleep.is_empty());
        let sleeper = alarm.sleep(long);
        let thread = std::thread::spawn(move || sleeper.block_on());
        while alarm.shared.state.lock().asleep.is_empty() {
            std::thread::yield_now();
        }
        drop(alarm);
        thread.join().expect("it wakes");
    }
}

//! The threads on which work of other machines runs: many tasks each, as a worker of a server has.
//!
//! ```text
//! spawn ─► the room with the fewest tasks ─► its thread polls a task whenever that was woken
//! close ─► each thread ends with its last task
//! ```
//! # Failure
//! A task that panics ends; the others of its thread go on.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{JoinHandle, Thread};

use parking_lot::Mutex;

/// Most threads.
const ROOMS_MAX: usize = 4;

/// What a thread runs.
pub(super) type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The threads.
#[derive(Default)]
pub(super) struct Rooms(Mutex<Vec<Handle>>);

struct Handle {
    room: Arc<Room>,
    thread: JoinHandle<()>,
}

/// What others reach of a thread.
#[derive(Default)]
struct Room {
    inbox: Mutex<Inbox>,
    /// Tasks that have not ended.
    load: AtomicUsize,
}

#[derive(Default)]
struct Inbox {
    arrived: Vec<Task>,
    woken: Vec<Arc<Woken>>,
    closing: bool,
    thread: Option<Thread>,
}

/// Wakes a task.
struct Woken {
    room: Arc<Room>,
    place: usize,
    waits: AtomicBool,
    over: AtomicBool,
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        if !self.waits.swap(true, Ordering::AcqRel) {
            let room = Arc::clone(&self.room);
            room.put(|inbox| inbox.woken.push(self));
        }
    }
}

impl Room {
    fn put(&self, put: impl FnOnce(&mut Inbox)) {
        let mut inbox = self.inbox.lock();
        put(&mut inbox);
        if let Some(thread) = &inbox.thread {
            thread.unpark();
        }
    }
}

impl Rooms {
    /// Starts the threads.
    pub fn start(&self) -> std::io::Result<()> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        for number in 0..cores.min(ROOMS_MAX) {
            let room = Arc::new(Room::default());
            let runs = Arc::clone(&room);
            let thread = std::thread::Builder::new()
                .name(format!("shipped {number}"))
                .spawn(move || run(&runs))?;
            room.put(|inbox| inbox.thread = Some(thread.thread().clone()));
            self.0.lock().push(Handle { room, thread });
        }
        Ok(())
    }

    /// Runs a task to its end; gives it back where there are no threads any more.
    pub fn spawn(&self, task: Task) -> Result<(), Task> {
        let rooms = self.0.lock();
        let load = |handle: &&Handle| handle.room.load.load(Ordering::Relaxed);
        let Some(handle) = rooms.iter().min_by_key(load) else {
            return Err(task);
        };
        let room = Arc::clone(&handle.room);
        drop(rooms);
        room.load.fetch_add(1, Ordering::Relaxed);
        room.put(|inbox| inbox.arrived.push(task));
        Ok(())
    }

    /// Whether the caller runs on one of the threads.
    pub fn is_inside(&self) -> bool {
        let here = std::thread::current().id();
        let rooms = self.0.lock();
        rooms
            .iter()
            .any(|handle| handle.thread.thread().id() == here)
    }

    /// The threads end once their tasks have; whoever `waits` for that is on none of them.
    pub fn close(&self, waits: bool) {
        let rooms = std::mem::take(&mut *self.0.lock());
        for handle in &rooms {
            handle.room.put(|inbox| inbox.closing = true);
        }
        for handle in rooms.into_iter().filter(|_| waits) {
            // Tasks that panic are caught: there is nothing to hear of.
            let _ = handle.thread.join();
        }
    }
}

/// A task and what wakes it.
struct Seated {
    task: Task,
    woken: Arc<Woken>,
    waker: Waker,
}

fn run(room: &Arc<Room>) {
    let mut seats: Vec<Option<Seated>> = Vec::new();
    let mut free: Vec<usize> = Vec::new();
    let (mut arrived, mut ready): (Vec<Task>, Vec<Arc<Woken>>) = (Vec::new(), Vec::new());
    loop {
        let closing = {
            let mut inbox = room.inbox.lock();
            std::mem::swap(&mut arrived, &mut inbox.arrived);
            std::mem::swap(&mut ready, &mut inbox.woken);
            inbox.closing
        };
        for task in arrived.drain(..) {
            let place = free.pop().unwrap_or_else(|| {
                seats.push(None);
                seats.len() - 1
            });
            let woken = Arc::new(Woken {
                room: Arc::clone(room),
                place,
                waits: AtomicBool::new(true),
                over: AtomicBool::new(false),
            });
            ready.push(Arc::clone(&woken));
            seats[place] = Some(Seated {
                task,
                waker: Waker::from(Arc::clone(&woken)),
                woken,
            });
        }
        if ready.is_empty() {
            if closing && free.len() == seats.len() {
                return;
            }
            std::thread::park();
            continue;
        }
        for woken in ready.drain(..) {
            woken.waits.store(false, Ordering::Release);
            if woken.over.load(Ordering::Relaxed) {
                continue;
            }
            let Some(seated) = &mut seats[woken.place] else {
                continue;
            };
            let mut context = Context::from_waker(&seated.waker);
            let task = seated.task.as_mut();
            let polled = catch_unwind(AssertUnwindSafe(|| task.poll(&mut context)));
            if !matches!(polled, Ok(Poll::Pending)) {
                seated.woken.over.store(true, Ordering::Relaxed);
                let ended = seats[woken.place].take();
                free.push(woken.place);
                room.load.fetch_sub(1, Ordering::Relaxed);
                // What it held may end with it, also badly.
                let _ = catch_unwind(AssertUnwindSafe(|| drop(ended)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;
    use std::sync::mpsc::channel;

    #[test]
    fn tasks_run_to_their_ends_whatever_others_do() {
        const TASKS: usize = 50;
        let rooms = Rooms::default();
        rooms.start().expect("threads");
        let (said, heard) = channel();
        for number in 0..TASKS {
            let said = said.clone();
            let task = async move {
                for _ in 0..number {
                    let mut paused = false;
                    poll_fn(|cx| match std::mem::replace(&mut paused, true) {
                        true => Poll::Ready(()),
                        false => {
                            let waker = cx.waker().clone();
                            match number % 2 {
                                0 => drop(std::thread::spawn(move || waker.wake())),
                                _ => waker.wake(),
                            }
                            Poll::Pending
                        }
                    })
                    .await;
                }
                assert!(number != 7, "a task that panics");
                said.send(number).expect("is heard");
            };
            assert!(rooms.spawn(Box::pin(task)).is_ok());
        }
        drop(said);
        rooms.close(true);
        let mut ended: Vec<usize> = heard.iter().collect();
        ended.sort_unstable();
        let expected: Vec<usize> = (0..TASKS).filter(|number| *number != 7).collect();
        assert_eq!(ended, expected);
        assert!(rooms.spawn(Box::pin(async {})).is_err());
        assert!(!rooms.is_inside());
    }
}

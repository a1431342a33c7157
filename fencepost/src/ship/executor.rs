//! The executors for work of other machines. Each runs many tasks on one thread at a time.
//!
//! ```text
//! spawn ─► an executor ─► its thread polls a task each time it is woken
//!
//! inline executor   on the thread that polls the machine's peers: short work
//! other executors   with threads of their own: the rest
//! close ─► each thread ends with its last task; tasks left in the inline executor are dropped
//! ```
//! # Failure
//! A task that panics ends; the other tasks of its executor continue.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{JoinHandle, ThreadId};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// The largest number of threads.
const EXECUTORS_MAX: usize = 4;
/// The interval at which [`Executors::close`] looks whether a thread has ended.
const CLOSE_POLL_INTERVAL: Duration = Duration::from_millis(1);

/// A unit of work.
pub(super) type Task = Pin<Box<dyn Future<Output = ()> + Send>>;
/// Wakes the thread that runs an executor's tasks.
type ThreadWaker = Box<dyn Fn() + Send + Sync>;

/// The inline executor, and the executors with threads.
#[derive(Default)]
pub(super) struct Executors {
    inline_executor: OnceLock<Arc<Executor>>,
    threads: Mutex<Vec<Handle>>,
}

struct Handle {
    executor: Arc<Executor>,
    thread: JoinHandle<()>,
}

/// An executor: a set of tasks that one thread at a time polls.
struct Executor {
    inbox: Mutex<Inbox>,
    slots: Mutex<TaskSlots>,
    caller: OnceLock<ThreadWaker>,
    /// Set when a thread wants to poll the tasks, so that the polling thread polls once more.
    again: AtomicBool,
    /// The number of tasks that have not ended.
    load: AtomicUsize,
}

#[derive(Default)]
struct Inbox {
    arrived: Vec<Task>,
    woken: Vec<Arc<WakerState>>,
    closing: bool,
    /// The thread that polls the tasks now.
    runs: Option<ThreadId>,
}

/// The task slots, and the buffers used while tasks run.
#[derive(Default)]
struct TaskSlots {
    tasks: Vec<Option<SlotTask>>,
    free: Vec<usize>,
    arrived: Vec<Task>,
    ready: Vec<Arc<WakerState>>,
}

/// A task in its slot, with its waker.
struct SlotTask {
    task: Task,
    woken: Arc<WakerState>,
    waker: Waker,
}

/// The waker state of a task.
struct WakerState {
    executor: Arc<Executor>,
    place: usize,
    waits: AtomicBool,
    over: AtomicBool,
}

impl Wake for WakerState {
    fn wake(self: Arc<Self>) {
        if !self.waits.swap(true, Ordering::AcqRel) {
            let executor = Arc::clone(&self.executor);
            executor.put(|inbox| inbox.woken.push(self));
        }
    }
}

/// The result of one round over an executor's tasks.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RoundOutcome {
    /// At least one task was ready.
    Ran,
    /// No task was ready.
    Idle,
    /// The executor is closing and has no task left.
    Over,
}

impl Executor {
    fn new() -> Arc<Executor> {
        Arc::new(Executor {
            inbox: Mutex::default(),
            slots: Mutex::default(),
            caller: OnceLock::new(),
            again: AtomicBool::new(false),
            load: AtomicUsize::new(0),
        })
    }

    fn put(&self, put: impl FnOnce(&mut Inbox)) {
        put(&mut self.inbox.lock());
        if let Some(call) = self.caller.get() {
            call();
        }
    }

    /// Adds a task. Returns the task to the caller if the executor is closing.
    fn enter(&self, task: Task) -> Result<(), Task> {
        let mut refused = None;
        self.put(|inbox| match inbox.closing {
            true => refused = Some(task),
            false => {
                self.load.fetch_add(1, Ordering::Relaxed);
                inbox.arrived.push(task);
            }
        });
        refused.map_or(Ok(()), Err)
    }

    fn is_run_here(&self) -> bool {
        self.inbox.lock().runs == Some(std::thread::current().id())
    }

    /// Polls every ready task once. If another thread is polling, that thread polls once more
    /// afterwards.
    fn look(self: &Arc<Self>) -> RoundOutcome {
        let mut looked = RoundOutcome::Idle;
        self.again.store(true, Ordering::SeqCst);
        // A thread that finds the slots locked has set the flag before. The holder reads it after
        // unlocking.
        while self.again.load(Ordering::SeqCst)
            && let Some(mut slots) = self.slots.try_lock()
        {
            self.again.store(false, Ordering::SeqCst);
            looked = self.look_from(&mut slots);
            drop(slots);
            fence(Ordering::SeqCst);
        }
        looked
    }

    fn look_from(self: &Arc<Self>, slots: &mut TaskSlots) -> RoundOutcome {
        let closing = {
            let mut inbox = self.inbox.lock();
            std::mem::swap(&mut slots.arrived, &mut inbox.arrived);
            std::mem::swap(&mut slots.ready, &mut inbox.woken);
            inbox.runs = Some(std::thread::current().id());
            inbox.closing
        };
        slots.place_arrived(self);
        let look = match slots.ready.is_empty() {
            true if closing && slots.are_empty() => RoundOutcome::Over,
            true => RoundOutcome::Idle,
            false => RoundOutcome::Ran,
        };
        slots.run_ready(self);
        self.inbox.lock().runs = None;
        look
    }

    /// Closes the executor and drops its tasks. If the caller is one of the tasks, the tasks in
    /// slots stay.
    fn clear(&self) {
        let arrived = {
            let mut inbox = self.inbox.lock();
            inbox.closing = true;
            std::mem::take(&mut inbox.arrived)
        };
        let slots = self
            .slots
            .try_lock()
            .map(|mut slots| std::mem::take(&mut *slots));
        // The drop of a task's data may panic.
        let _ = catch_unwind(AssertUnwindSafe(|| drop((slots, arrived))));
    }
}

impl TaskSlots {
    fn are_empty(&self) -> bool {
        self.free.len() == self.tasks.len()
    }

    fn place_arrived(&mut self, executor: &Arc<Executor>) {
        for task in self.arrived.drain(..) {
            let place = self.free.pop().unwrap_or_else(|| {
                self.tasks.push(None);
                self.tasks.len() - 1
            });
            let woken = Arc::new(WakerState {
                executor: Arc::clone(executor),
                place,
                waits: AtomicBool::new(true),
                over: AtomicBool::new(false),
            });
            self.ready.push(Arc::clone(&woken));
            self.tasks[place] = Some(SlotTask {
                task,
                waker: Waker::from(Arc::clone(&woken)),
                woken,
            });
        }
    }

    fn run_ready(&mut self, executor: &Executor) {
        for woken in self.ready.drain(..) {
            woken.waits.store(false, Ordering::Release);
            if woken.over.load(Ordering::Relaxed) {
                continue;
            }
            let Some(slot) = &mut self.tasks[woken.place] else {
                continue;
            };
            let mut context = Context::from_waker(&slot.waker);
            let task = slot.task.as_mut();
            let polled = catch_unwind(AssertUnwindSafe(|| task.poll(&mut context)));
            if !matches!(polled, Ok(Poll::Pending)) {
                slot.woken.over.store(true, Ordering::Relaxed);
                let ended = self.tasks[woken.place].take();
                self.free.push(woken.place);
                executor.load.fetch_sub(1, Ordering::Relaxed);
                // The drop of a task's data may panic.
                let _ = catch_unwind(AssertUnwindSafe(|| drop(ended)));
            }
        }
    }
}

impl Executors {
    /// Starts the threads. The thread that polls the peers runs the tasks of the inline executor;
    /// `call` wakes it.
    pub fn start(&self, call: impl Fn() + Send + Sync + 'static) -> std::io::Result<()> {
        let inline = Executor::new();
        let _ = inline.caller.set(Box::new(call));
        let _ = self.inline_executor.set(inline);
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        for number in 0..cores.min(EXECUTORS_MAX) {
            let executor = Executor::new();
            let runs = Arc::clone(&executor);
            let thread = std::thread::Builder::new()
                .name(format!("shipped {number}"))
                .spawn(move || run(&runs))?;
            let unparks = thread.thread().clone();
            let _ = executor.caller.set(Box::new(move || unparks.unpark()));
            self.threads.lock().push(Handle { executor, thread });
        }
        Ok(())
    }

    /// Runs a short task on the inline executor. Returns the task if no executor runs.
    pub fn run_inline(&self, task: Task) -> Result<(), Task> {
        match self.inline_executor.get() {
            Some(inline) => inline.enter(task),
            None => Err(task),
        }
    }

    /// Polls the ready tasks of the inline executor. Returns whether there were any.
    pub fn attend(&self) -> bool {
        let inline = self.inline_executor.get();
        inline.is_some_and(|inline| inline.look() == RoundOutcome::Ran)
    }

    /// Runs a task to its end on one of the threads. Returns the task if there are no threads.
    pub fn spawn(&self, task: Task) -> Result<(), Task> {
        let threads = self.threads.lock();
        let load = |handle: &&Handle| handle.executor.load.load(Ordering::Relaxed);
        let Some(handle) = threads.iter().min_by_key(load) else {
            return Err(task);
        };
        let executor = Arc::clone(&handle.executor);
        drop(threads);
        executor.enter(task)
    }

    /// Returns whether the caller is one of the tasks.
    pub fn is_inside(&self) -> bool {
        let threads = self.threads.lock();
        let mut executors = threads.iter().map(|handle| &handle.executor);
        executors.any(|executor| executor.is_run_here())
            || self
                .inline_executor
                .get()
                .is_some_and(|inline| inline.is_run_here())
    }

    /// Lets the threads end after their tasks, and waits for that for at most `limit`. A task that
    /// waits for a lost machine may never end; its thread is left behind. With a limit above zero
    /// the caller must be no task.
    pub fn close(&self, limit: Duration) {
        let threads = std::mem::take(&mut *self.threads.lock());
        for handle in &threads {
            handle.executor.put(|inbox| inbox.closing = true);
        }
        let deadline = Instant::now() + limit;
        for handle in threads {
            while !handle.thread.is_finished() && Instant::now() < deadline {
                std::thread::sleep(CLOSE_POLL_INTERVAL);
            }
        }
        if let Some(inline) = self.inline_executor.get() {
            inline.clear();
        }
    }
}

/// Runs the main loop of an executor's thread.
fn run(executor: &Arc<Executor>) {
    loop {
        match executor.look() {
            RoundOutcome::Ran => {}
            RoundOutcome::Idle => std::thread::park(),
            RoundOutcome::Over => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;
    use std::sync::mpsc::{Sender, channel};

    const TASKS: usize = 50;
    /// A limit that a thread with ended tasks does not reach.
    const LIMIT: Duration = Duration::from_secs(60);

    /// Waits `number` times, is woken by itself or by others, and reports its end. One task panics.
    async fn task(number: usize, said: Sender<usize>) {
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
    }

    fn all_but_the_one_that_panics(mut ended: Vec<usize>) {
        ended.sort_unstable();
        let expected: Vec<usize> = (0..TASKS).filter(|number| *number != 7).collect();
        assert_eq!(ended, expected);
    }

    #[test]
    fn tasks_finish_despite_panics_of_others() {
        let executors = Executors::default();
        executors.start(|| {}).expect("threads");
        let (said, heard) = channel();
        for number in 0..TASKS {
            assert!(
                executors
                    .spawn(Box::pin(task(number, said.clone())))
                    .is_ok()
            );
        }
        drop(said);
        executors.close(LIMIT);
        all_but_the_one_that_panics(heard.iter().collect());
        assert!(executors.spawn(Box::pin(async {})).is_err());
        assert!(executors.run_inline(Box::pin(async {})).is_err());
        assert!(!executors.is_inside());
    }

    #[test]
    fn any_called_thread_runs_inline_tasks() {
        let executors = Arc::new(Executors::default());
        let (call, called) = channel();
        let calls = call.clone();
        // The last call may happen after the test has ended.
        executors
            .start(move || {
                let _ = calls.send(true);
            })
            .expect("threads");
        let attends = Arc::clone(&executors);
        let attendants = [0; 2].map(|_| {
            let (attend, attended) = channel();
            let executors = Arc::clone(&attends);
            let thread = std::thread::spawn(move || {
                for () in attended {
                    while executors.attend() {}
                }
            });
            (attend, thread)
        });
        let dispatch = std::thread::spawn(move || {
            for (number, goes_on) in called.iter().enumerate() {
                if !goes_on {
                    break;
                }
                attendants[number % 2].0.send(()).expect("attends");
            }
            for (attend, thread) in attendants {
                drop(attend);
                thread.join().expect("attends to the end");
            }
        });
        let (said, heard) = channel();
        for number in 0..TASKS {
            assert!(
                executors
                    .run_inline(Box::pin(task(number, said.clone())))
                    .is_ok()
            );
        }
        drop(said);
        all_but_the_one_that_panics(heard.iter().collect());
        call.send(false).expect("is heard");
        dispatch.join().expect("no panic");
        executors.close(LIMIT);
    }

    #[test]
    fn closing_leaves_thread_whose_task_never_ends() {
        let executors = Executors::default();
        executors.start(|| {}).expect("threads");
        let (polled, was_polled) = channel();
        let waits = async move {
            polled.send(()).expect("is heard");
            std::future::pending::<()>().await;
        };
        assert!(executors.spawn(Box::pin(waits)).is_ok());
        was_polled.recv().expect("the task runs");
        executors.close(Duration::from_millis(10));
    }

    #[test]
    fn closing_drops_inline_tasks() {
        let executors = Executors::default();
        executors.start(|| {}).expect("threads");
        let (said, heard) = channel::<()>();
        let waits = async move {
            let _said = said;
            std::future::pending::<()>().await;
        };
        assert!(executors.run_inline(Box::pin(waits)).is_ok());
        assert!(executors.attend());
        executors.close(LIMIT);
        assert!(heard.recv().is_err());
    }
}

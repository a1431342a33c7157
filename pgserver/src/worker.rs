//! A worker: one thread, one single-threaded runtime, and its connections.
//!
//! ```text
//!   Serve(stream)… ──> connection tasks          Running
//!   Drain(limit)   ──> idle ones end (57P01)     Draining ── limit ──> Stopping ──> gone
//! ```
//!
//! A connection belongs to one worker at a time, so its state is not shared. Only the server's own
//! tables are shared. An idle connection may move to another worker ([`crate::lanes`]).

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Poll, Waker};
use std::time::Duration;

use fencepost_fabric::sends::Outgoing;
use foldhash::fast::RandomState;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::{LocalSet, spawn_local};

use crate::connection::{self, MigratingClient};
use crate::io::Pool;
use crate::lanes;
use crate::metrics::Counts;
use crate::outbox::Outbox;
use crate::server::Shared;
use crate::socket::AcceptedStream;

/// The time that cancelled statements get to end before they are dropped.
const LAST_MOMENTS: Duration = Duration::from_millis(500);

/// A command to a worker.
pub(crate) enum Command {
    /// Serve a client.
    Serve(AcceptedStream),
    /// Continue with a client of another worker.
    Take(Box<MigratingClient>),
    /// Shut down: end idle sessions now, and others after their statement or this time.
    Drain(Duration),
}

/// The shutdown stage of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    /// The worker serves clients.
    Running,
    /// Sessions end after their current statement.
    Draining,
    /// Statements are cancelled.
    Stopping,
}

/// The state that the connections of one worker share.
pub(crate) struct Worker {
    pub(crate) shared: Arc<Shared>,
    pub(crate) pool: Rc<Pool>,
    pub(crate) outbox: Outbox,
    pub(crate) counts: Arc<Counts>,
    /// The index of the worker.
    number: usize,
    stage: Cell<Stage>,
    tasks: RefCell<HashMap<u64, Waker, RandomState>>,
    last_task: Cell<u64>,
    ended: RefCell<Option<Waker>>,
    load: Arc<AtomicUsize>,
}

/// The entry of a connection among its worker's tasks.
pub(crate) struct TaskEntry {
    pub(crate) worker: Rc<Worker>,
    number: u64,
    known: Cell<bool>,
}

impl Worker {
    #[inline]
    pub(crate) fn stage(&self) -> Stage {
        self.stage.get()
    }

    /// Returns the better worker for a client whose packets arrive at `processor`.
    pub(crate) fn better(&self, processor: usize) -> Option<usize> {
        match self.stage() {
            Stage::Running => lanes::better(&self.shared.lanes, self.number, processor),
            _ => None,
        }
    }

    /// Moves a client to worker `lane`. If that worker has ended, the client is disconnected.
    pub(crate) fn move_to_worker(&self, lane: usize, moved: Box<MigratingClient>) {
        let Some(lane) = self.shared.lanes.get(lane) else {
            return;
        };
        lane.load.fetch_add(1, Ordering::Relaxed);
        if lane.commands.send(Command::Take(moved)).is_err() {
            lane.load.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Posts a reply of the connection `number`, to be sent together with others.
    pub(crate) fn post(&self, number: u64, reply: Outgoing) {
        if self.outbox.post(number, reply) {
            self.flush();
        }
    }

    /// Sends the waiting replies.
    pub(crate) fn flush(&self) {
        self.outbox.flush(|number| {
            if let Some(waker) = self.tasks.borrow().get(&number) {
                waker.wake_by_ref();
            }
        });
    }

    /// Sends replies each time the connections that were ready have run. Never returns.
    async fn flush_after_each_poll(self: Rc<Self>) {
        poll_fn(|cx| {
            self.outbox.set_flusher(cx.waker());
            self.flush();
            Poll::Pending
        })
        .await
    }

    fn place(self: &Rc<Self>) -> TaskEntry {
        let number = self.last_task.get() + 1;
        self.last_task.set(number);
        TaskEntry {
            worker: self.clone(),
            number,
            known: Cell::new(false),
        }
    }

    fn enter(&self, stage: Stage) {
        self.stage.set(stage);
        self.tasks.borrow().values().for_each(Waker::wake_by_ref);
    }

    async fn all_ended(&self) {
        poll_fn(|cx| {
            if self.load.load(Ordering::Relaxed) == 0 {
                return Poll::Ready(());
            }
            *self.ended.borrow_mut() = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

impl TaskEntry {
    /// Returns the number of the connection in its worker.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Registers a waker that is called when the worker's stage changes. The waker of a task stays
    /// the same.
    #[inline]
    pub(crate) fn watch(&self, waker: &Waker) {
        if !self.known.replace(true) {
            self.worker
                .tasks
                .borrow_mut()
                .insert(self.number, waker.clone());
        }
    }
}

impl Drop for TaskEntry {
    fn drop(&mut self) {
        self.worker.tasks.borrow_mut().remove(&self.number);
        self.worker.load.fetch_sub(1, Ordering::Relaxed);
        if let Some(waker) = self.worker.ended.borrow_mut().take() {
            waker.wake();
        }
    }
}

/// Runs a worker until it has drained. `load` is the number of its connections; the sender of a
/// connection increments it.
pub(crate) async fn run(
    shared: Arc<Shared>,
    number: usize,
    load: Arc<AtomicUsize>,
    mut commands: UnboundedReceiver<Command>,
) {
    let pool: Rc<Pool> = Rc::default();
    let worker = Rc::new(Worker {
        counts: Arc::clone(&shared.counts[number]),
        shared,
        outbox: Outbox::new(pool.clone()),
        pool,
        number,
        stage: Cell::new(Stage::Running),
        tasks: RefCell::default(),
        last_task: Cell::new(0),
        ended: RefCell::default(),
        load,
    });
    let tasks = LocalSet::new();
    tasks
        .run_until(async {
            spawn_local(worker.clone().flush_after_each_poll());
            let limit = loop {
                match commands.recv().await {
                    Some(Command::Serve(stream)) => {
                        spawn_local(connection::serve(stream, worker.place()));
                    }
                    Some(Command::Take(moved)) => {
                        spawn_local(connection::resume(moved, worker.place()));
                    }
                    Some(Command::Drain(limit)) => break limit,
                    None => break Duration::ZERO,
                }
            };
            commands.close();
            while let Ok(command) = commands.try_recv() {
                match command {
                    Command::Serve(_) => {
                        worker.load.fetch_sub(1, Ordering::Relaxed);
                    }
                    // The client gets an error, because the worker is draining.
                    Command::Take(moved) => {
                        spawn_local(connection::resume(moved, worker.place()));
                    }
                    Command::Drain(_) => {}
                }
            }
            worker.enter(Stage::Draining);
            if tokio::time::timeout(limit, worker.all_ended())
                .await
                .is_err()
            {
                worker.enter(Stage::Stopping);
                // The tasks that are left are dropped, which aborts their transactions.
                let _ = tokio::time::timeout(LAST_MOMENTS, worker.all_ended()).await;
            }
        })
        .await;
}

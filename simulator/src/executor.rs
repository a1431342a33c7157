//! The executor: runs the tasks of many machines in one thread and virtual time.
//!
//! # Picture
//! ```text
//!  woken ─► some time later, drawn from the seed ─► polled          urgency is drawn, too
//!  the network names a machine ─► some time later ─► drive()        also at each tick of its timer
//!  nothing to do now ─► SimNet::step(): time moves on
//!  of a machine that is paused ─► waits until the machine resumes
//! ```
//! # Invariants
//! * RUN-1: a run depends only on the seed: the executor uses no addresses, hashes or clocks.
//! * RUN-2: a poll costs virtual time, so a task that waits by yielding also waits in time.
//!
//! *Failure.* A run in which no work ends for [`PATIENCE_NS`] is stuck.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Wake, Waker};

use fencepost_fabric::{MachineId, Random};
use parking_lot::Mutex;

use crate::sim::Sim;

/// The virtual time within which some work must end.
pub const PATIENCE_NS: u64 = 5_000_000_000;

/// The speed of processors, in nanoseconds of virtual time.
#[derive(Clone, Copy, Debug)]
pub struct ProcessorSpeed {
    /// The longest delay of a woken task, or of a machine that must look for new data.
    pub latency_ns: u64,
    /// One in this many delays is long, as if a thread is not scheduled; 0 for none.
    pub hiccup_one_in: u64,
    /// The longest of such delays.
    pub hiccup_ns: u64,
    /// One in this many delays of a client is still longer, as if its thread gets no processor and
    /// the machine's own threads do. 0 is for none.
    pub stall_one_in: u64,
    /// The longest of such delays.
    pub stall_ns: u64,
    /// The largest interval at which a machine looks for work.
    pub tick_ns: u64,
}

/// The reason why a run ended before its tasks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RunFailure {
    /// No work has ended for too long.
    #[error("stuck: {0}")]
    Stuck(String),
    /// An invariant is violated.
    #[error("{0}")]
    Broken(String),
}

/// A function that does the pending work of a machine, and returns whether there was any.
pub type Drive = Box<dyn FnMut() -> bool>;

enum Job {
    Poll(usize),
    Drive(usize),
}

struct Task {
    name: String,
    /// The machine of the task, if pauses of it affect the task.
    machine: Option<MachineId>,
    future: Option<Pin<Box<dyn Future<Output = ()>>>>,
    woken: Arc<TaskWaker>,
}

struct DrivenMachine {
    id: MachineId,
    drive: Drive,
    /// The time at which the machine is driven next.
    next: Option<(u64, u64)>,
}

/// The waker of a task, which adds the task to the list of woken tasks.
struct TaskWaker {
    task: usize,
    queued: AtomicBool,
    list: Arc<Mutex<Vec<usize>>>,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        if !self.queued.swap(true, Ordering::Relaxed) {
            self.list.lock().push(self.task);
        }
    }
}

/// The executor of the tasks and machines of a run.
pub struct Executor {
    sim: Sim,
    pace: ProcessorSpeed,
    random: Random,
    jobs: BTreeMap<(u64, u64), Job>,
    /// The jobs of paused machines.
    held: Vec<Job>,
    tasks: Vec<Task>,
    machines: Vec<DrivenMachine>,
    woken: Arc<Mutex<Vec<usize>>>,
    left: usize,
    polls: u64,
}

impl Executor {
    /// Returns an executor without tasks.
    pub fn new(sim: Sim, pace: ProcessorSpeed, random: Random) -> Executor {
        Executor {
            sim,
            pace,
            random,
            jobs: BTreeMap::new(),
            held: Vec::new(),
            tasks: Vec::new(),
            machines: Vec::new(),
            woken: Arc::default(),
            left: 0,
            polls: 0,
        }
    }

    /// Adds a machine, which is driven whenever the network names it, and at ticks.
    pub fn add_machine(&mut self, id: MachineId, drive: Drive) {
        self.machines.push(DrivenMachine {
            id,
            drive,
            next: None,
        });
        self.drive_soon(self.machines.len() - 1);
    }

    /// Adds a task that no pause affects; its name appears in the report of a stuck run.
    pub fn spawn(&mut self, name: String, future: impl Future<Output = ()> + 'static) {
        self.spawn_on(None, name, future);
    }

    /// Adds a task as [`Self::spawn`], on a machine.
    pub fn spawn_on(
        &mut self,
        machine: Option<MachineId>,
        name: String,
        future: impl Future<Output = ()> + 'static,
    ) {
        let woken = Arc::new(TaskWaker {
            task: self.tasks.len(),
            queued: AtomicBool::new(false),
            list: Arc::clone(&self.woken),
        });
        Arc::clone(&woken).wake();
        self.tasks.push(Task {
            name,
            machine,
            future: Some(Box::pin(future)),
            woken,
        });
        self.left += 1;
    }

    /// Returns the number of polls so far.
    pub fn polls(&self) -> u64 {
        self.polls
    }

    /// Runs until all tasks are done.
    ///
    /// # Errors
    /// [`RunFailure`].
    pub fn run(&mut self) -> Result<(), RunFailure> {
        self.run_until(|executor| executor.left == 0)
    }

    /// Runs until `done` returns true.
    ///
    /// # Errors
    /// [`RunFailure`].
    pub fn run_until(&mut self, mut done: impl FnMut(&Executor) -> bool) -> Result<(), RunFailure> {
        self.sim.progress();
        while !done(self) {
            let went_on = self.run_next_event();
            if let Some(what) = self.sim.reported() {
                return Err(RunFailure::Broken(what));
            }
            let waited = self.sim.now_ns() - self.sim.last_progress();
            if !went_on || waited > PATIENCE_NS {
                return Err(RunFailure::Stuck(self.waiting()));
            }
        }
        Ok(())
    }

    /// Returns the names of unfinished tasks.
    fn waiting(&self) -> String {
        let waiting = self.tasks.iter().filter(|task| task.future.is_some());
        let names: Vec<_> = waiting.map(|task| task.name.as_str()).collect();
        match names[..] {
            [] => "nothing comes to rest".into(),
            _ => names.join(", "),
        }
    }

    /// Carries out the next event; returns false if there are no more events.
    fn run_next_event(&mut self) -> bool {
        let woken = std::mem::take(&mut *self.woken.lock());
        let mut due: Vec<Job> = woken.into_iter().map(Job::Poll).collect();
        if self.sim.any_resumed() {
            due.append(&mut self.held);
        }
        for job in due {
            let at = match job {
                Job::Poll(task) if self.stalls(task) => self.within(self.pace.stall_ns),
                _ => self.soon(),
            };
            self.jobs.insert(at, job);
        }
        let now = self.sim.now_ns();
        let first = self.jobs.first_entry();
        match first.filter(|first| first.key().0 <= now) {
            Some(first) => match first.remove() {
                job if self.is_paused(&job) => self.held.push(job),
                Job::Poll(task) => self.poll(task),
                Job::Drive(machine) => self.drive(machine),
            },
            None => {
                let Some(step) = self.sim.net().step() else {
                    return false;
                };
                self.sim.end_naps();
                let named = self.machines.iter();
                let named = named.enumerate().find(|(_, at)| Some(at.id) == step.look);
                if let Some((at, _)) = named {
                    self.drive_soon(at);
                }
            }
        }
        true
    }

    fn is_paused(&self, job: &Job) -> bool {
        let machine = match job {
            Job::Poll(task) => self.tasks[*task].machine,
            Job::Drive(machine) => Some(self.machines[*machine].id),
        };
        machine.is_some_and(|machine| self.sim.is_paused(machine))
    }

    fn poll(&mut self, at: usize) {
        let task = &mut self.tasks[at];
        task.woken.queued.store(false, Ordering::Relaxed);
        let Some(future) = &mut task.future else {
            return;
        };
        self.polls += 1;
        let waker = Waker::from(Arc::clone(&task.woken));
        let polled = future.as_mut().poll(&mut Context::from_waker(&waker));
        if polled.is_ready() {
            task.future = None;
            self.left -= 1;
            self.sim.progress();
        }
    }

    fn drive(&mut self, at: usize) {
        self.machines[at].next = None;
        if (self.machines[at].drive)() {
            self.drive_soon(at);
        } else {
            let tick = 1 + self.random.below(self.pace.tick_ns);
            let time = (self.sim.now_ns() + tick, self.random.next_u64());
            self.drive_at(at, time);
        }
    }

    fn drive_soon(&mut self, at: usize) {
        let soon = self.soon();
        self.drive_at(at, soon);
    }

    /// Schedules the drive of a machine, unless an earlier one is scheduled.
    fn drive_at(&mut self, at: usize, time: (u64, u64)) {
        let next = &mut self.machines[at].next;
        if next.is_some_and(|next| next <= time) {
            return;
        }
        if let Some(later) = next.replace(time) {
            self.jobs.remove(&later);
        }
        self.sim.wake_at(time.0);
        self.jobs.insert(time, Job::Drive(at));
    }

    /// Draws the time at which a job that is ready now gets a processor, and a rank among jobs of
    /// that time.
    fn soon(&mut self) -> (u64, u64) {
        let ProcessorSpeed {
            latency_ns,
            hiccup_one_in,
            hiccup_ns,
            ..
        } = self.pace;
        let most = match self.random.one_in(hiccup_one_in) {
            true => hiccup_ns,
            false => latency_ns,
        };
        self.within(most)
    }

    /// Draws such a time within a given delay.
    fn within(&mut self, most: u64) -> (u64, u64) {
        let time = self.sim.now_ns() + 1 + self.random.below(most);
        self.sim.wake_at(time);
        (time, self.random.next_u64())
    }

    /// Returns whether the thread of a woken client gets no processor for long.
    fn stalls(&mut self, task: usize) -> bool {
        self.tasks[task].machine.is_some() && self.random.one_in(self.pace.stall_one_in)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use fencepost_fabric::{SimKnobs, SimNet};

    use super::*;

    const PACE: ProcessorSpeed = ProcessorSpeed {
        latency_ns: 1000,
        hiccup_one_in: 8,
        hiccup_ns: 100_000,
        stall_one_in: 0,
        stall_ns: 0,
        tick_ns: 1_000_000,
    };

    fn world(seed: u64) -> (Sim, Executor) {
        let sim = Sim::new(SimNet::new(seed, SimKnobs::default()));
        let executor = Executor::new(sim.clone(), PACE, Random::new(seed));
        (sim, executor)
    }

    /// Returns the order in which tasks run that are ready together.
    fn order(seed: u64) -> Vec<(usize, u64)> {
        let (sim, mut executor) = world(seed);
        let seen: Rc<RefCell<Vec<_>>> = Rc::default();
        for task in 0..5 {
            let (sim, seen) = (sim.clone(), Rc::clone(&seen));
            executor.spawn(format!("task {task}"), async move {
                for _ in 0..3 {
                    sim.nap(10_000).await;
                    seen.borrow_mut().push((task, sim.now_ns()));
                }
            });
        }
        executor.run().expect("all end");
        seen.take()
    }

    #[test]
    fn same_seed_gives_same_schedule() {
        for seed in 0..10 {
            let once = order(seed);
            assert_eq!(once, order(seed));
            assert_ne!(once, order(seed + 1));
            assert_eq!(once.len(), 15);
        }
    }

    #[test]
    fn stuck_task_is_named() {
        for ticks in [false, true] {
            let (_, mut executor) = world(1);
            if ticks {
                executor.add_machine(MachineId(1), Box::new(|| false));
            }
            executor.spawn("the one that waits".into(), std::future::pending());
            let stuck = Err(RunFailure::Stuck("the one that waits".into()));
            assert_eq!(executor.run(), stuck);
        }
    }

    #[test]
    fn paused_machine_runs_no_task() {
        use fencepost_fabric::Nic;
        let (sim, mut executor) = world(3);
        let id = MachineId(1);
        let drives = Rc::new(RefCell::new(Vec::new()));
        let (driven, clock) = (Rc::clone(&drives), sim.clone());
        executor.add_machine(
            id,
            Box::new(move || {
                driven.borrow_mut().push(clock.now_ns());
                false
            }),
        );
        let (polls, clock) = (Rc::clone(&drives), sim.clone());
        executor.spawn_on(Some(id), "a client".into(), async move {
            for _ in 0..100 {
                clock.nap(1_000_000).await;
                polls.borrow_mut().push(clock.now_ns());
            }
        });
        let clock = sim.clone();
        executor.spawn("a pause".into(), async move {
            clock.nap(20_000_000).await;
            clock.pause(id, Nic::Goes);
            clock.nap(50_000_000).await;
            clock.resume(id);
        });
        executor.run().expect("all end");
        let drives = drives.take();
        let during = |at: &&u64| (20_200_000..70_000_000).contains(*at);
        assert_eq!(drives.iter().find(during), None);
        assert!(drives.iter().filter(|at| **at > 70_000_000).count() > 100);
    }

    #[test]
    fn machines_are_driven_in_time_and_again_while_there_is_something_to_do() {
        let (sim, mut executor) = world(2);
        let drives = Rc::new(RefCell::new(Vec::new()));
        let (seen, clock) = (Rc::clone(&drives), sim.clone());
        executor.add_machine(
            MachineId(1),
            Box::new(move || {
                seen.borrow_mut().push(clock.now_ns());
                seen.borrow().len() % 4 != 0
            }),
        );
        executor.spawn("a nap".into(), async move { sim.nap(20_000_000).await });
        executor.run().expect("ends");
        let drives = drives.take();
        assert!(drives.len() >= 80, "{}", drives.len());
        let rests = drives.chunks(4).map(|four| four[four.len() - 1] - four[0]);
        assert!(rests.into_iter().all(|rest| rest <= 3 * PACE.hiccup_ns));
    }
}

//! The processes of the machines, as the measuring process sees them.
//!
//! # Failure
//! No process outlives this one. A process that is silent for too long, or ends without having been
//! killed, is an error.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use super::protocol::{MachineMessage, Order};
use crate::error::BenchError;

/// The longest time that a machine may take for a step.
const TIME_LIMIT: Duration = Duration::from_secs(120);

/// A machine's process.
struct Process {
    number: u32,
    child: Child,
    /// The standard input of the process; `None` once it is killed.
    tell: Option<ChildStdin>,
}

/// The number of a machine, and its line; `None` when its output has ended.
type ProcessLine = (u32, Option<String>);

/// The processes of all machines.
pub(super) struct Processes {
    all: Vec<Process>,
    heard: Receiver<ProcessLine>,
}

impl Processes {
    /// Starts a process for each command; machines are numbered from 1.
    pub fn start(commands: Vec<Command>) -> Result<Processes, BenchError> {
        let (sender, heard) = channel();
        let mut processes = Processes {
            all: Vec::new(),
            heard,
        };
        for (number, command) in (1..).zip(commands) {
            let process = start(command, number, sender.clone())?;
            processes.all.push(process);
        }
        Ok(processes)
    }

    /// Returns the numbers of the machines that have not been killed.
    pub fn living(&self) -> Vec<u32> {
        let living = self.all.iter().filter(|process| process.tell.is_some());
        living.map(|process| process.number).collect()
    }

    /// Sends a message to all living machines.
    pub fn tell(&mut self, order: &Order) -> Result<(), BenchError> {
        for process in &mut self.all {
            let Some(tell) = &mut process.tell else {
                continue;
            };
            let said = writeln!(tell, "{order}").and_then(|()| tell.flush());
            said.map_err(of_machine(process.number))?;
        }
        Ok(())
    }

    /// Waits until each living machine has sent a message that `take` accepts. Returns the results
    /// in the order of the machines.
    pub fn await_all<T>(
        &self,
        mut take: impl FnMut(u32, MachineMessage) -> Option<T>,
    ) -> Result<Vec<T>, BenchError> {
        let living = self.living();
        let mut taken: Vec<Option<T>> = living.iter().map(|_| None).collect();
        let began = Instant::now();
        while taken.iter().any(Option::is_none) {
            let left = TIME_LIMIT.saturating_sub(began.elapsed());
            let (number, line) = self.heard.recv_timeout(left).map_err(|_| {
                let silent = living.iter().zip(&taken);
                let mut silent = silent.filter(|(_, taken)| taken.is_none());
                let number = silent.next().map_or(0, |(number, _)| *number);
                BenchError::Load(format!("m{number} says nothing any more"))
            })?;
            let Some(at) = living.iter().position(|living| *living == number) else {
                // The machine was killed.
                continue;
            };
            let wrong = |what: &str| Err(BenchError::Load(format!("m{number} {what}")));
            let Some(line) = line else {
                return wrong("has ended");
            };
            match MachineMessage::parse(&line) {
                Some(MachineMessage::Failed(why)) => return wrong(&format!("failed: {why}")),
                Some(said) => taken[at] = take(number, said).or(taken[at].take()),
                None => return wrong(&format!("says {line:?}")),
            }
        }
        Ok(taken.into_iter().flatten().collect())
    }

    /// Kills a machine with `kill -9`.
    pub fn kill(&mut self, number: u32) -> Result<(), BenchError> {
        let all = self.all.iter_mut();
        for process in all.filter(|process| process.number == number) {
            process.child.kill().map_err(of_machine(number))?;
            process.tell = None;
        }
        Ok(())
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        // All processes are killed before waiting for any, so that none waits for the end of
        // another.
        for process in &mut self.all {
            let _ = process.child.kill();
        }
        for process in &mut self.all {
            let _ = process.child.wait();
        }
    }
}

fn of_machine(number: u32) -> impl Fn(std::io::Error) -> BenchError {
    move |error| BenchError::Io {
        what: format!("m{number}"),
        error,
    }
}

fn start(
    mut command: Command,
    number: u32,
    sender: Sender<ProcessLine>,
) -> Result<Process, BenchError> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().map_err(of_machine(number))?;
    let (tell, out) = (child.stdin.take(), child.stdout.take());
    let process = Process {
        number,
        child,
        tell,
    };
    let read = move || {
        let lines = out.into_iter().flat_map(|out| BufReader::new(out).lines());
        // The receiver was dropped; ignore the send error.
        for line in lines.map_while(Result::ok) {
            let _ = sender.send((number, Some(line)));
        }
        let _ = sender.send((number, None));
    };
    match thread::Builder::new().spawn(read) {
        Ok(_) => Ok(process),
        Err(error) => {
            let mut process = process;
            let _ = process.child.kill();
            let _ = process.child.wait();
            Err(of_machine(number)(error))
        }
    }
}

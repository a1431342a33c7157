//! Child processes, which end when a signal ends xtask.
//!
//! Every child that runs is in one table. At SIGINT, SIGTERM or SIGHUP a thread stops all of them,
//! lets the task print a last report, and ends the process with the exit code of a shell.

use std::collections::BTreeMap;
use std::io;
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitStatus};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, kill_process_group, test_kill_process_group};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// The signal that stops a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopSignal {
    /// SIGTERM to the process, which stops its own children.
    Terminate,
    /// SIGKILL to the process group that the child leads.
    KillGroup,
}

/// The longest wait for the end of processes that were killed.
const END_MAX: Duration = Duration::from_secs(10);

static RUNNING: Mutex<BTreeMap<i32, StopSignal>> = Mutex::new(BTreeMap::new());

fn running() -> MutexGuard<'static, BTreeMap<i32, StopSignal>> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A child process; dropping it does not stop it.
pub struct Running {
    child: Child,
    pid: i32,
    signal: StopSignal,
}

impl Running {
    /// Starts a command. For [`StopSignal::KillGroup`] it must lead a process group.
    pub fn spawn(command: &mut Command, signal: StopSignal) -> io::Result<Running> {
        let child = command.spawn()?;
        let pid = child.id() as i32;
        running().insert(pid, signal);
        Ok(Running { child, pid, signal })
    }

    /// Returns the standard output of the child, once, if it is a pipe.
    pub fn take_stdout(&mut self) -> Option<ChildStdout> {
        self.child.stdout.take()
    }

    /// Returns the standard error of the child, once, if it is a pipe.
    pub fn take_stderr(&mut self) -> Option<ChildStderr> {
        self.child.stderr.take()
    }

    /// Waits for the end of the child.
    pub fn wait(&mut self) -> io::Result<ExitStatus> {
        let status = self.child.wait()?;
        running().remove(&self.pid);
        Ok(status)
    }

    /// Returns the status of the child if it has ended.
    pub fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        let status = self.child.try_wait()?;
        if status.is_some() {
            running().remove(&self.pid);
        }
        Ok(status)
    }

    /// Sends the stop signal; processes of a group that outlive the child get it, too.
    pub fn stop(&self) {
        stop(self.pid, self.signal);
    }

    /// Waits until no process of the child's group is left, for ten seconds at most.
    pub fn await_group(&self) {
        let deadline = Instant::now() + END_MAX;
        let Some(group) = Pid::from_raw(self.pid) else {
            return;
        };
        while test_kill_process_group(group).is_ok() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

fn stop(pid: i32, signal: StopSignal) {
    let Some(pid) = Pid::from_raw(pid) else {
        return;
    };
    // A process that has ended needs no signal.
    let _ = match signal {
        StopSignal::Terminate => kill_process(pid, Signal::TERM),
        StopSignal::KillGroup => kill_process_group(pid, Signal::KILL),
    };
}

/// Lets signals stop all children, call `report`, and end this process.
pub fn stop_on_signals(report: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let mut signals = Signals::new([SIGHUP, SIGINT, SIGTERM])?;
    std::thread::spawn(move || {
        if let Some(signal) = signals.forever().next() {
            for (&pid, &signal) in running().iter() {
                stop(pid, signal);
            }
            report();
            std::process::exit(128 + signal);
        }
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::{CommandExt, ExitStatusExt};

    use super::*;

    #[test]
    fn stop_terminates_the_process() {
        let mut command = Command::new("sleep");
        let mut child = Running::spawn(command.arg("300"), StopSignal::Terminate).unwrap();
        assert!(running().contains_key(&child.pid));
        child.stop();
        assert_eq!(child.wait().unwrap().signal(), Some(SIGTERM));
        assert!(!running().contains_key(&child.pid));
    }

    #[test]
    fn stop_kills_the_group_after_its_leader_ended() {
        let mut command = Command::new("bash");
        command.args(["-c", "sleep 300 &"]).process_group(0);
        let mut child = Running::spawn(&mut command, StopSignal::KillGroup).unwrap();
        assert!(child.wait().unwrap().success());
        let group = Pid::from_raw(child.pid).unwrap();
        assert!(test_kill_process_group(group).is_ok());
        child.stop();
        child.await_group();
        assert!(test_kill_process_group(group).is_err());
    }
}

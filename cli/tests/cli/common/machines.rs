//! The machines of a cluster, each a `fencepost start` process that the test starts.

use std::fs::OpenOptions;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use fencepost_benchmarks::sql::{PgSession, SqlSession};

use super::dev_cluster::signal;
use super::namespaces::Namespaces;
use super::{free_port, program};

/// Long enough for a host that is busy with other tests.
const TIME_LIMIT: Duration = Duration::from_secs(90);
const SECRET: &str = "correct horse battery staple";

/// The machines; dropping it kills them.
pub struct Machines {
    machines: Vec<MachineProcess>,
    directory: tempfile::TempDir,
}

struct MachineProcess {
    child: Child,
    command: Command,
    host: String,
    port: u16,
}

fn words(text: &[&str]) -> Vec<String> {
    text.iter().map(|word| word.to_string()).collect()
}

impl Machines {
    /// Starts `count` machines with the fabric "shm" or "tcp" between them.
    pub fn start(fabric: &str, count: usize, further: &[&str]) -> Machines {
        let directory = tempfile::tempdir().expect("a directory");
        let together = match fabric {
            "shm" => {
                let path = directory.path().to_str().expect("a path");
                let count = count.to_string();
                words(&["--cluster", path, "--machines", &count])
            }
            _ => {
                let address = |at| format!("127.0.2.{at}");
                let address = |at| format!("{}:{}", address(at), free_port(&address(at)));
                let addresses: Vec<String> = (1..=count).map(address).collect();
                joined(directory.path(), &addresses, further)
            }
        };
        let command = |number: usize| {
            let port = free_port("127.0.0.1");
            let mut command = of_one(Vec::new(), &together, number, further);
            if further.contains(&"ssd") {
                let data = directory.path().join(format!("data{number}"));
                command.arg("--data-dir").arg(data);
            }
            (command, "127.0.0.1".to_string(), port)
        };
        let commands: Vec<_> = (1..=count).map(command).collect();
        Machines::of(directory, commands.into_iter())
    }

    /// Starts a machine in each of the namespaces.
    pub fn start_in(namespaces: &Namespaces, further: &[&str]) -> Machines {
        let directory = tempfile::tempdir().expect("a directory");
        let count = namespaces.count();
        let address = |at| format!("{}:7000", namespaces.address(at));
        let addresses: Vec<String> = (0..count).map(address).collect();
        let together = joined(directory.path(), &addresses, further);
        let command = |at: usize| {
            let mut command = of_one(namespaces.prefix(at), &together, at + 1, further);
            command.args(["--auth", "trust"]);
            (command, namespaces.address_for_clients(at), 5433)
        };
        Machines::of(directory, (0..count).map(command))
    }

    fn of(
        directory: tempfile::TempDir,
        commands: impl Iterator<Item = (Command, String, u16)>,
    ) -> Machines {
        let start = |(at, (mut command, host, port)): (usize, (Command, String, u16))| {
            command.args(["--listen", &format!("{host}:{port}")]);
            let child = spawn(&mut command, &said_by(&directory, at));
            MachineProcess {
                child,
                command,
                host,
                port,
            }
        };
        let machines: Vec<MachineProcess> = commands.enumerate().map(start).collect();
        let mut machines = Machines {
            machines,
            directory,
        };
        for at in 0..machines.machines.len() {
            assert!(machines.is_ready(at), "{}", machines.said(at));
        }
        machines
    }

    /// Returns the URLs for clients.
    pub fn urls(&self) -> Vec<String> {
        self.machines.iter().map(MachineProcess::url).collect()
    }

    /// Opens a session on a machine, from 0, with a timeout for statements.
    pub fn session(&self, machine: usize) -> PgSession {
        let session = PgSession::connect(&self.machines[machine].url());
        let mut session = session.expect("a session");
        let limit = "SET statement_timeout = '60s'";
        session.script(limit).expect("is set");
        session
    }

    /// Sends a signal, such as "-STOP".
    pub fn signal(&self, machine: usize, name: &str) {
        signal(name, &self.machines[machine].child.id().to_string());
    }

    /// Kills machines with `kill -9`, almost simultaneously.
    pub fn kill(&mut self, machines: &[usize]) {
        let pids = machines
            .iter()
            .map(|at| self.machines[*at].child.id().to_string());
        let killed = Command::new("kill").arg("-KILL").args(pids).status();
        assert!(killed.expect("kill runs").success());
        for at in machines {
            self.machines[*at].child.wait().expect("it was running");
        }
    }

    /// Starts ended machines again, with their previous arguments.
    pub fn start_again(&mut self, machines: &[usize]) {
        let start = |machines: &mut Machines, at: usize| {
            let said = said_by(&machines.directory, at);
            let machine = &mut machines.machines[at];
            machine.child = spawn(&mut machine.command, &said);
        };
        for at in machines {
            start(self, *at);
        }
        for at in machines {
            // On a busy host other machines may not hear of it in time; it must be started again
            // then.
            let began = Instant::now();
            while !self.is_ready(*at) {
                let said = self.said(*at);
                let late = said.contains("not heard of in time") && began.elapsed() < TIME_LIMIT;
                assert!(late, "{said}\n{}", self.all_said());
                start(self, *at);
            }
        }
    }

    /// Waits until a machine is ready, or has ended.
    fn is_ready(&mut self, machine: usize) -> bool {
        let child = &mut self.machines[machine].child;
        let mut line = String::new();
        let out = child.stdout.take().expect("a pipe");
        BufReader::new(out).read_line(&mut line).expect("a line");
        let ready = line.contains(" ready on ");
        assert!(ready || line.is_empty(), "{line}");
        if !ready {
            child.wait().expect("it has ended");
        }
        ready
    }

    /// Waits for a machine to end by itself; returns its exit code.
    pub fn code(&mut self, machine: usize) -> Option<i32> {
        let deadline = Instant::now() + TIME_LIMIT;
        loop {
            let child = &mut self.machines[machine].child;
            match child.try_wait().expect("a child") {
                Some(status) => break status.code(),
                None => assert!(
                    Instant::now() < deadline,
                    "it goes on: {}",
                    self.said(machine)
                ),
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Returns whether a machine's process runs.
    pub fn runs(&mut self, machine: usize) -> bool {
        let status = self.machines[machine].child.try_wait();
        status.expect("a child").is_none()
    }

    /// Returns the stderr output of all machines, for failed assertions.
    fn all_said(&self) -> String {
        let one = |at| format!("machine {}: {}\n", at + 1, self.said(at));
        (0..self.machines.len()).map(one).collect()
    }

    /// Returns the stderr output of a machine.
    pub fn said(&self, machine: usize) -> String {
        let said = said_by(&self.directory, machine);
        std::fs::read_to_string(said).expect("a file")
    }
}

impl MachineProcess {
    fn url(&self) -> String {
        let (host, port) = (&self.host, self.port);
        format!("host={host} port={port} user=postgres dbname=postgres")
    }
}

fn said_by(directory: &tempfile::TempDir, machine: usize) -> PathBuf {
    directory.path().join(format!("said-{}", machine + 1))
}

/// Returns the common arguments of all machines of a network.
fn joined(directory: &Path, addresses: &[String], further: &[&str]) -> Vec<String> {
    let secret = directory.join("secret");
    std::fs::write(&secret, SECRET).expect("written");
    let [path, secret] = [directory, &secret].map(|path| path.to_str().expect("a path"));
    let addresses = addresses.join(",");
    let mut options = words(&["--join", &addresses, "--cluster-secret", secret]);
    if further.contains(&"nvram") {
        options.extend(words(&["--memory-dir", path]));
    } else if !further.contains(&"--configuration-store") {
        options.extend(words(&["--configuration-dir", path]));
    }
    options
}

/// Returns the command of one machine, with the words of `before` before the program.
fn of_one(before: Vec<String>, together: &[String], number: usize, further: &[&str]) -> Command {
    let own = program(&[]);
    let mut command = match before.split_first() {
        Some((first, rest)) => {
            let mut command = Command::new(first);
            command.args(rest).arg(own.get_program());
            command
        }
        None => own,
    };
    command
        .args(["start", "--memory-limit", "64M", "--workers", "1"])
        .arg("--ends-with-parent")
        .args(together)
        .args(["--machine", &number.to_string()])
        .args(further);
    command
}

fn spawn(command: &mut Command, said: &Path) -> Child {
    let said = OpenOptions::new().create(true).append(true).open(said);
    let child = command
        .stdout(Stdio::piped())
        .stderr(said.expect("a file"))
        .spawn();
    child.expect("the program starts")
}

impl Drop for Machines {
    fn drop(&mut self) {
        for machine in &mut self.machines {
            // The machine may have ended already.
            let _ = machine.child.kill();
            let _ = machine.child.wait();
        }
    }
}

//! `fencepost dev-cluster`: a database of several machines on this host, one process each.
//!
//! ```text
//!   make shared memory ─► start processes ─► all ready ─► signal ─► all end ─► remove memory
//!                                                    └── one ends: all end, or the others go on
//!                                                         └── with `--restart` it joins again
//! ```
//! The other machines go on if failed machines are replaced (`--lease-ms`) and the data have
//! replicas. The machines' processes end with this one, however it ends.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use fencepost_fabric::entropy_seed;
use rustix::process::{Pid, Signal, kill_process};
use tokio::runtime::Builder;

use crate::access::Access;
use crate::configuration::variables;
use crate::failure::Failure;
use crate::log::LogFormat;
use crate::shared_directory::SharedDirectory;
use crate::signals::Signals;
use crate::size;
use crate::start::Tier;

/// The preferred location of shared memory.
const TMPFS: &str = "/dev/shm";
/// The time limit for the machines to start, and to end.
const TIME_LIMIT: Duration = Duration::from_secs(90);
/// The time limit for the machines to end if they save their memory.
const SAVE_PATIENCE: Duration = Duration::from_secs(3600);
const ALL_ENDED: &str = "all machines have ended";
/// The interval between two looks at the processes.
const LOOK: Duration = Duration::from_millis(50);

/// Run a database of several machines on this host; Ctrl-C stops all.
#[derive(Debug, Args)]
pub struct DevCluster {
    /// Number of machines.
    #[arg(
        long,
        value_name = "N",
        default_value_t = 3,
        value_parser = clap::value_parser!(u32).range(1..=64)
    )]
    machines: u32,
    /// Number of machines that hold a copy of each region. [default: 3, or all there are]
    #[arg(long, value_name = "N")]
    replicas: Option<u32>,
    /// Replace machines that have sent no message for this many milliseconds.
    /// [default: all machines end with one]
    #[arg(long, value_name = "N")]
    lease_ms: Option<u64>,
    /// With --fabric tcp: where the machines store the configuration: an unused path of a ZooKeeper
    /// ensemble, zookeeper://HOST:PORT,…/PATH, or raft: on the machines themselves.
    /// [default: the directory]
    #[arg(long, value_name = "URL", requires = "lease_ms")]
    configuration_store: Option<String>,
    /// Start a machine again after it has ended; it joins the others.
    #[arg(long, requires = "lease_ms", conflicts_with = "data_dir")]
    restart: bool,
    /// Address of the first machine; the others listen on the following ports.
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:5433")]
    listen: String,
    /// Fabric between the machines.
    #[arg(long, value_name = "KIND", default_value = "shm")]
    fabric: FabricArg,
    /// Directory that the machines share. [default: one on /dev/shm]
    #[arg(long, value_name = "DIR")]
    directory: Option<PathBuf>,
    /// Durability across the end of all machines: with memory the data are lost; with nvram and
    /// --directory the same command continues with the machines' memory. [default: memory]
    #[arg(long, value_name = "TIER")]
    durability: Option<Tier>,
    /// Directory of a disk in which each machine has its own directory, m1, m2, …. Committed data
    /// are there, and the same command continues with them, however the machines have ended. The
    /// durability is ssd then.
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// With --durability nvram: directory of a disk to which memory is saved when all machines have
    /// ended. It is loaded from there if --directory has lost it, as a tmpfs does when the host
    /// boots.
    #[arg(long, value_name = "DIR", requires = "durability")]
    save_dir: Option<PathBuf>,
    /// Memory of each machine's own data. [default: a share of half of the free shared memory]
    #[arg(long, value_name = "SIZE", value_parser = size::bytes)]
    memory_limit: Option<u64>,
    /// Directory for the logs of the machines, m1.log, m2.log, … [default: all log to stderr]
    #[arg(long, value_name = "DIR")]
    log_dir: Option<PathBuf>,
    /// Format of the logs' lines.
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    log_format: LogFormat,
    #[command(flatten)]
    access: Access,
    /// Worker threads of each machine; 0 for one per core.
    #[arg(long, value_name = "N", default_value_t = 1)]
    workers: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum FabricArg {
    /// Shared memory of this host.
    Shm,
    /// TCP connections, as between hosts.
    Tcp,
}

const SHARED: &str = "directory of the shared memory";

/// The directory that the machines share.
enum Shared {
    /// A directory that is removed at the end.
    Temporary(SharedDirectory),
    /// A directory that stays.
    Permanent(PathBuf),
}

impl Shared {
    fn path(&self) -> &Path {
        match self {
            Shared::Temporary(directory) => directory.path(),
            Shared::Permanent(directory) => directory,
        }
    }
}

/// The process of a machine.
struct MachineProcess {
    number: u32,
    child: Child,
}

/// A line of a machine's output; `None` at the end of the output.
type OutputLine = (u32, Option<String>);

impl DevCluster {
    pub fn run(self) -> crate::CommandResult {
        let replicas = self.replicas.unwrap_or(self.machines.min(3));
        let nvram = self.is_durable()?;
        let (host, port) = self.address()?;
        let shared = self.directory()?;
        let limit = match self.memory_limit {
            Some(limit) => limit,
            None => free_bytes(shared.path())? / 2 / u64::from(self.machines * replicas.max(1)),
        };
        let runtime = Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build()
            .map_err(Failure::io("runtime"))?;
        let mut signals = {
            let _entered = runtime.enter();
            Signals::new().map_err(Failure::io("signals"))?
        };
        let together = self.together(shared.path())?;
        let (say, said) = channel();
        let mut machines = Machines(Vec::new());
        let command = |number: u32| {
            let program = std::env::current_exe().map_err(Failure::io("program"))?;
            let mut command = Command::new(program);
            command
                .args(["start", "--ends-with-parent"])
                .args(&together)
                .args(["--machine", &number.to_string()])
                .args(["--replicas", &replicas.to_string()])
                .args(["--listen", &format!("{host}:{}", port + number as u16 - 1)])
                .args(["--memory-limit", &limit.to_string()])
                .args(["--workers", &self.workers.to_string()])
                .args(self.access.arguments());
            self.log_of(number, &mut command);
            if nvram {
                command.args(["--durability", "nvram"]);
            }
            if let Some(directory) = &self.data_dir {
                let own = directory.join(format!("m{number}"));
                command.arg("--data-dir").arg(own);
                if self.lease_ms.is_some() {
                    command.arg("--take-back");
                }
            }
            if let Some(directory) = &self.save_dir {
                command.arg("--save-dir").arg(directory);
            }
            if let Some(ms) = self.lease_ms {
                command.args(["--lease-ms", &ms.to_string()]);
            }
            Ok::<Command, Failure>(command)
        };
        for number in 1..=self.machines {
            machines
                .0
                .push(start(command(number)?, number, say.clone())?);
        }
        // The sender is kept for machines that are started again.
        let say = self.restart.then_some(say);
        let began = Instant::now();
        let mut ready = 0;
        let mut left = self.machines;
        let go_on = self.lease_ms.is_some() && replicas > 1;
        let why = loop {
            match said.recv_timeout(LOOK) {
                Ok((number, Some(line))) => {
                    // Standard output may be closed.
                    let _ = writeln!(std::io::stdout(), "m{number}: {line}");
                    ready += 1;
                    if ready == self.machines {
                        println!(
                            "{} machines ready: psql -h {host} -p {port} -U postgres",
                            self.machines
                        );
                    }
                }
                Ok((number, None)) if go_on && ready >= self.machines && left > 1 => {
                    // Standard output may be closed.
                    let _ = writeln!(
                        std::io::stdout(),
                        "m{number} has ended; the others go on without it"
                    );
                    machines.bury(number);
                    match &say {
                        Some(_) if !machines.any_runs() => break Err(ALL_ENDED.into()),
                        Some(say) => {
                            // The pause avoids a busy loop with a machine that cannot be started.
                            thread::sleep(LOOK);
                            machines
                                .0
                                .push(start(command(number)?, number, say.clone())?);
                        }
                        None => left -= 1,
                    }
                }
                Ok((number, None)) => break Err(format!("m{number} has ended")),
                Err(RecvTimeoutError::Disconnected) => break Err(ALL_ENDED.into()),
                Err(RecvTimeoutError::Timeout)
                    if ready < self.machines && began.elapsed() > TIME_LIMIT =>
                {
                    break Err("not all machines came up".into());
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
            if let Some(name) = runtime.block_on(signals.arrived()) {
                break Ok(name);
            }
        };
        if let Ok(name) = why {
            eprintln!("fencepost: {name}: ending all machines");
        }
        let patience = match self.save_dir {
            None => TIME_LIMIT,
            Some(_) => SAVE_PATIENCE,
        };
        let ended = machines.end(patience);
        match why {
            Err(why) => Err(Failure::Broken(why)),
            Ok(_) => ended,
        }
    }

    /// Passes the options of logs to a machine, and removes option variables of this environment.
    fn log_of(&self, number: u32, command: &mut Command) {
        for variable in variables() {
            command.env_remove(variable);
        }
        command.args(["--log-format", self.log_format.name()]);
        if let Some(directory) = &self.log_dir {
            // If the directory cannot be created, the machine reports the error.
            let _ = std::fs::create_dir_all(directory);
            let file = directory.join(format!("m{number}.log"));
            command.arg("--log-file").arg(file);
        }
    }

    /// Returns whether the memory of the machines outlives them.
    fn is_durable(&self) -> Result<bool, Failure> {
        let wrong = |why: &str| Err(Failure::Broken(why.into()));
        match (self.durability, &self.data_dir) {
            (None | Some(Tier::Ssd), Some(_)) => return Ok(false),
            (Some(_), Some(_)) => return wrong("--data-dir is of the ssd tier"),
            (Some(Tier::Ssd), None) => return wrong("--durability ssd needs --data-dir"),
            (_, None) => {}
        }
        match self.durability {
            None | Some(Tier::Memory | Tier::Ssd) => Ok(false),
            Some(Tier::Nvram) if self.directory.is_none() => {
                wrong("--durability nvram needs --directory")
            }
            Some(Tier::Nvram) if self.configuration_store.is_some() => {
                wrong("with --durability nvram the directory has who the machines are")
            }
            Some(Tier::Nvram) => Ok(true),
        }
    }

    /// Returns the arguments with which each machine finds the others.
    fn together(&self, shared: &Path) -> Result<Vec<OsString>, Failure> {
        Ok(match self.fabric {
            FabricArg::Shm if self.configuration_store.is_some() => {
                return Err(Failure::Broken(
                    "--configuration-store is of machines that talk (--fabric tcp)".into(),
                ));
            }
            FabricArg::Shm => {
                let machines = self.machines.to_string();
                vec![
                    "--cluster".into(),
                    shared.into(),
                    "--machines".into(),
                    machines.into(),
                ]
            }
            FabricArg::Tcp => {
                let (secret, listed) = (shared.join("secret"), shared.join("addresses"));
                // A cluster with retained memory keeps its addresses.
                let before = std::fs::read_to_string(&listed).ok();
                let before = before.filter(|_| secret.exists());
                let addresses = match before {
                    Some(before) => before.split(',').map(str::to_owned).collect(),
                    None => {
                        let addresses = free_addresses(self.machines)?;
                        make_secret(&secret)?;
                        if self.is_durable()? {
                            std::fs::write(&listed, addresses.join(","))
                                .map_err(Failure::io("addresses of the machines"))?;
                        }
                        addresses
                    }
                };
                let (place, of) = match &self.configuration_store {
                    Some(url) => ("--configuration-store", url.into()),
                    None if self.is_durable()? => ("--memory-dir", shared.into()),
                    None => ("--configuration-dir", shared.into()),
                };
                vec![
                    "--join".into(),
                    addresses.join(",").into(),
                    "--cluster-secret".into(),
                    secret.into(),
                    place.into(),
                    of,
                ]
            }
        })
    }

    fn address(&self) -> Result<(String, u16), Failure> {
        let wrong = || Failure::Broken(format!("{}: not HOST:PORT", self.listen));
        let (host, port) = self.listen.rsplit_once(':').ok_or_else(wrong)?;
        let port: u16 = port.parse().map_err(|_| wrong())?;
        if port == 0 || u32::from(port) + self.machines > u32::from(u16::MAX) {
            return Err(Failure::Broken(format!(
                "{}: each machine needs a port, counted from this one",
                self.listen
            )));
        }
        Ok((host.to_owned(), port))
    }

    fn directory(&self) -> Result<Shared, Failure> {
        if let (true, Some(directory)) = (self.is_durable()?, &self.directory) {
            std::fs::create_dir_all(directory).map_err(Failure::io(SHARED))?;
            return Ok(Shared::Permanent(directory.clone()));
        }
        let parent = match &self.directory {
            Some(directory) => directory.clone(),
            None if Path::new(TMPFS).is_dir() => PathBuf::from(TMPFS),
            None => std::env::temp_dir(),
        };
        let made = SharedDirectory::create(&parent);
        made.map(Shared::Temporary).map_err(Failure::io(SHARED))
    }
}

/// Creates the file with the secret of the cluster.
fn make_secret(secret: &Path) -> Result<(), Failure> {
    let random = format!("{:016x}{:016x}", entropy_seed(), entropy_seed());
    let mut options = OpenOptions::new();
    // A secret without addresses is the rest of a start that did not complete.
    let file = options
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(secret);
    file.and_then(|mut file| file.write_all(random.as_bytes()))
        .map_err(Failure::io("the cluster's secret"))
}

/// Returns free addresses, on hosts from which no connection starts, so that they stay free.
fn free_addresses(count: u32) -> Result<Vec<String>, Failure> {
    let free = |machine| TcpListener::bind(format!("127.0.1.{machine}:0"));
    let listeners: Result<Vec<_>, _> = (1..=count).map(free).collect();
    let listeners = listeners.map_err(Failure::io("addresses of the machines"))?;
    let address = |listener: &TcpListener| listener.local_addr().map(|at| at.to_string());
    let addresses: Result<_, _> = listeners.iter().map(address).collect();
    addresses.map_err(Failure::io("addresses of the machines"))
}

/// Returns the free bytes of a directory's file system.
fn free_bytes(directory: &Path) -> Result<u64, Failure> {
    let stat = rustix::fs::statvfs(directory)
        .map_err(|error| Failure::io("shared memory")(error.into()))?;
    Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
}

fn start(
    mut command: Command,
    number: u32,
    say: Sender<OutputLine>,
) -> Result<MachineProcess, Failure> {
    // Ctrl-C in the terminal signals only this process, which ends the machines.
    command
        .process_group(0)
        .stdout(Stdio::piped())
        .stdin(Stdio::null());
    let mut child = command.spawn().map_err(Failure::io(format!("m{number}")))?;
    if let Some(out) = child.stdout.take() {
        let read = move || {
            // Sending fails if the receiver was dropped; ignore that.
            for line in BufReader::new(out).lines().map_while(Result::ok) {
                let _ = say.send((number, Some(line)));
            }
            let _ = say.send((number, None));
        };
        thread::Builder::new()
            .spawn(read)
            .map_err(Failure::io(format!("m{number}")))?;
    }
    Ok(MachineProcess { number, child })
}

/// The processes of the machines; all of them end when this is dropped.
struct Machines(Vec<MachineProcess>);

impl Machines {
    /// Removes the process of an ended machine.
    fn bury(&mut self, number: u32) {
        let buried = self.0.extract_if(.., |machine| machine.number == number);
        for mut machine in buried {
            // The process has ended, so this does not block.
            let _ = machine.child.wait();
        }
    }

    /// Returns whether any machine's process still runs.
    fn any_runs(&mut self) -> bool {
        let mut all = self.0.iter_mut();
        all.any(|machine| matches!(machine.child.try_wait(), Ok(None)))
    }

    /// Asks all processes to end, and waits until they have.
    fn end(&mut self, patience: Duration) -> crate::CommandResult {
        for machine in &self.0 {
            if let Some(pid) = i32::try_from(machine.child.id())
                .ok()
                .and_then(Pid::from_raw)
            {
                // An ended process needs no signal.
                let _ = kill_process(pid, Signal::TERM);
            }
        }
        let deadline = Instant::now() + patience;
        let ended = self.0.iter_mut().map(|machine| machine.await_end(deadline));
        // The collection waits for all processes, also after an error.
        let ended: Vec<crate::CommandResult> = ended.collect();
        ended.into_iter().collect()
    }
}

impl MachineProcess {
    /// Waits for the end of the process; an error status or the deadline is an error.
    fn await_end(&mut self, deadline: Instant) -> crate::CommandResult {
        let name = format!("m{}", self.number);
        loop {
            match self.child.try_wait().map_err(Failure::io(&name))? {
                Some(status) if status.success() => return Ok(()),
                Some(status) => {
                    return Err(Failure::Broken(format!("{name} ended with {status}")));
                }
                None if Instant::now() > deadline => {
                    self.child.kill().map_err(Failure::io(&name))?;
                }
                None => thread::sleep(LOOK),
            }
        }
    }
}

impl Drop for Machines {
    fn drop(&mut self) {
        for machine in &mut self.0 {
            // No process may stay after a failure.
            let _ = machine.child.kill();
            let _ = machine.child.wait();
        }
    }
}

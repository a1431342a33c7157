//! `fencepost bench failover`: machines on this host, each in its own process, of which some are
//! killed repeatedly.
//!
//! ```text
//!   bench failover ──► this program again, once for each machine: `failover-machine`
//! ```

use std::path::PathBuf;
use std::process::Command;
use std::str::FromStr;
use std::time::Duration;

use clap::{Args, ValueEnum};
use fencepost_benchmarks::failover::{FailoverOptions, Load, MachineOptions, run, run_machine};
use fencepost_benchmarks::{BenchError, bank};

use crate::failure::Failure;

/// The default number of subscribers of `tatp`; each run loads them anew.
const SUBSCRIBERS: u32 = 20_000;

/// The options of `bench failover` alone.
#[derive(Debug, Args)]
pub struct FailoverArgs {
    /// failover: the machine to kill (kill -9), by its number, or `cm`, the configuration manager;
    /// several, separated by commas, are killed at once. [default: the last one]
    #[arg(long, value_name = "N|cm", value_delimiter = ',')]
    kill: Vec<Victim>,
    /// failover: number of runs, each with new machines.
    #[arg(long, value_name = "K", default_value_t = 1)]
    runs: usize,
    /// failover: lease duration in milliseconds; a machine without a message for this time is
    /// suspected.
    #[arg(long, value_name = "N", default_value_t = 100)]
    lease_ms: u64,
    /// failover: workload of the clients.
    #[arg(long, value_name = "NAME", default_value = "tatp")]
    workload: Work,
    /// failover: pin the threads of each machine to one processor, one machine after the other.
    #[arg(long)]
    pin: bool,
    /// failover: write timeline.svg, whole.svg, longest.svg and distribution.svg into this
    /// directory.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// The workload of the clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Work {
    /// The mobile operator's database.
    Tatp,
    /// Transfers between accounts; the total must hold.
    Bank,
}

impl Work {
    fn load(self) -> Load {
        match self {
            Work::Tatp => Load::Tatp,
            Work::Bank => Load::Bank,
        }
    }
}

/// The machine to kill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Victim {
    /// The configuration manager: the first machine of a new cluster.
    Manager,
    Number(u32),
}

impl FromStr for Victim {
    type Err = String;

    fn from_str(text: &str) -> Result<Victim, String> {
        match (text, text.parse()) {
            ("cm", _) => Ok(Victim::Manager),
            (_, Ok(number)) => Ok(Victim::Number(number)),
            _ => Err("the number of a machine, or cm".to_string()),
        }
    }
}

/// The options of `bench` that also apply here.
pub struct CommonOptions {
    pub machines: Option<usize>,
    pub replicas: Option<usize>,
    /// The total over all machines.
    pub threads: usize,
    pub in_flight: usize,
    pub before: Option<Duration>,
    pub after: Option<Duration>,
    pub rows: Option<u64>,
    pub seed: u64,
    pub region_bytes: Option<usize>,
    pub memory_limit: Option<u64>,
    pub json: Option<PathBuf>,
}

impl FailoverArgs {
    pub fn run(self, common: CommonOptions) -> crate::CommandResult {
        let machines = common.machines.unwrap_or(3);
        let small = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        let numbers = self.kill.iter().map(|victim| match victim {
            Victim::Manager => 1,
            Victim::Number(number) => *number,
        });
        let mut kill: Vec<u32> = numbers.collect();
        if kill.is_empty() {
            kill.push(small(machines));
        }
        let rows = match self.workload {
            Work::Tatp => SUBSCRIBERS,
            Work::Bank => bank::ACCOUNTS,
        };
        let rows = common.rows.unwrap_or(u64::from(rows));
        let options = FailoverOptions {
            machines: small(machines),
            replicas: small(common.replicas.unwrap_or(machines.min(3))),
            kill,
            lease: Duration::from_millis(self.lease_ms),
            before: common.before.unwrap_or(Duration::from_secs(2)),
            after: common.after.unwrap_or(Duration::from_secs(3)),
            runs: self.runs,
            threads: common.threads.div_ceil(machines.max(1)),
            in_flight: common.in_flight,
            load: self.workload.load(),
            rows: u32::try_from(rows).unwrap_or(u32::MAX),
            seed: common.seed,
            region_bytes: common.region_bytes,
            memory_limit: common.memory_limit,
            pin: self.pin,
            progress: true,
        };
        let program = std::env::current_exe().map_err(Failure::io("program"))?;
        let report = run(&options, &|machine: &MachineOptions| {
            let mut command = Command::new(&program);
            command.args(FailoverMachine::arguments(machine));
            Ok::<Command, BenchError>(command)
        })?;
        eprintln!("{report}");
        if let Some(path) = common.json {
            let text = format!("{:#}\n", report.to_json());
            std::fs::write(&path, text).map_err(Failure::io(path.display().to_string()))?;
        }
        if let Some(directory) = self.out {
            let failed = || Failure::io(directory.display().to_string());
            std::fs::create_dir_all(&directory).map_err(failed())?;
            for (name, picture) in report.pictures() {
                let path = directory.join(format!("{name}.svg"));
                std::fs::write(path, picture).map_err(failed())?;
            }
        }
        match report.check() {
            None => Ok(()),
            Some(broken) => Err(Failure::Broken(format!("the data are not whole: {broken}"))),
        }
    }
}

/// One of the machines of `bench failover`, which starts it and communicates with it.
#[derive(Debug, Args)]
pub struct FailoverMachine {
    #[arg(long)]
    directory: PathBuf,
    #[arg(long)]
    machine: u32,
    #[arg(long)]
    machines: u32,
    #[arg(long)]
    replicas: u32,
    #[arg(long)]
    lease_ms: u64,
    #[arg(long)]
    workload: Work,
    #[arg(long)]
    rows: u32,
    #[arg(long)]
    threads: usize,
    #[arg(long)]
    in_flight: usize,
    #[arg(long)]
    seed: u64,
    #[arg(long)]
    buckets: usize,
    #[arg(long)]
    region_bytes: Option<usize>,
    #[arg(long)]
    memory_limit: Option<u64>,
    #[arg(long)]
    pin: bool,
}

impl FailoverMachine {
    /// Returns the arguments with which the program runs as this machine.
    fn arguments(options: &MachineOptions) -> Vec<std::ffi::OsString> {
        let MachineOptions {
            directory,
            machine,
            machines,
            replicas,
            lease,
            load,
            rows,
            threads,
            in_flight,
            seed,
            buckets,
            region_bytes,
            memory_limit,
            pin,
        } = options;
        let mut arguments = vec!["failover-machine".into(), "--directory".into()];
        arguments.push(directory.into());
        let numbers = [
            ("--machine", u64::from(*machine)),
            ("--machines", u64::from(*machines)),
            ("--replicas", u64::from(*replicas)),
            ("--lease-ms", lease.as_millis() as u64),
            ("--rows", u64::from(*rows)),
            ("--threads", *threads as u64),
            ("--in-flight", *in_flight as u64),
            ("--seed", *seed),
            ("--buckets", *buckets as u64),
        ];
        let region = region_bytes.map(|bytes| ("--region-bytes", bytes as u64));
        let limit = memory_limit.map(|bytes| ("--memory-limit", bytes));
        for (name, number) in numbers.into_iter().chain(region).chain(limit) {
            arguments.extend([name.into(), number.to_string().into()]);
        }
        arguments.extend(["--workload".into(), load.name().into()]);
        if *pin {
            arguments.push("--pin".into());
        }
        arguments
    }

    pub fn run(self) -> crate::CommandResult {
        run_machine(&self.options())?;
        Ok(())
    }

    fn options(self) -> MachineOptions {
        MachineOptions {
            directory: self.directory,
            machine: self.machine,
            machines: self.machines,
            replicas: self.replicas,
            lease: Duration::from_millis(self.lease_ms),
            load: self.workload.load(),
            rows: self.rows,
            threads: self.threads,
            in_flight: self.in_flight,
            seed: self.seed,
            buckets: self.buckets,
            region_bytes: self.region_bytes,
            memory_limit: self.memory_limit,
            pin: self.pin,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::{Arguments, Command as Chosen};

    #[test]
    fn machine_process_gets_requested_options() {
        let wanted = MachineOptions {
            directory: "/dev/shm/some where".into(),
            machine: 2,
            machines: 5,
            replicas: 3,
            lease: Duration::from_millis(50),
            load: Load::Bank,
            rows: 77,
            threads: 4,
            in_flight: 8,
            seed: u64::MAX,
            buckets: 5000,
            region_bytes: Some(16 << 20),
            memory_limit: None,
            pin: true,
        };
        let arguments = FailoverMachine::arguments(&wanted);
        let program = ["fencepost".into()].into_iter().chain(arguments);
        let parsed = Arguments::try_parse_from(program).expect("arguments");
        let Chosen::FailoverMachine(machine) = parsed.command else {
            panic!("another command");
        };
        assert_eq!(format!("{:?}", machine.options()), format!("{wanted:?}"));
    }

    #[test]
    fn victims_are_named_by_number_or_role() {
        assert_eq!("cm".parse(), Ok(Victim::Manager));
        assert_eq!("3".parse(), Ok(Victim::Number(3)));
        for wrong in ["", "m3", "-1", "3 "] {
            assert!(wrong.parse::<Victim>().is_err(), "{wrong}");
        }
    }
}

//! The servers whose behavior is compared.

use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use fencepost::Database;
use fencepost_pgserver::{ListenOptions, Server, listen};
use tempfile::TempDir;

use crate::compare::{Report, difference};
use crate::machines;
use crate::postgres::{self, Postgres};
use crate::spec::{Move, Spec};
use crate::stage::{Blocked, Record, Stage};
use crate::variable;

/// The time, in milliseconds, after which a step without a reply counts as waiting. A variable can
/// change it.
const WAIT_MS: u64 = 2000;

/// The PostgreSQL server, and the number of databases created on it.
pub struct Servers {
    postgres: Postgres,
    made: AtomicU32,
}

/// A server that runs the permutations of one specification, one after the other.
enum Side<'a> {
    /// This process serves a database in memory. It is created again if a permutation has not
    /// ended.
    InProcess(Option<Box<(Server, Stage)>>),
    /// This process serves all machines of a database.
    Machines(Option<Box<MachineSet>>),
    /// A running server, in place of this process.
    Running(SocketAddr, Option<Stage>),
    /// A database of PostgreSQL.
    Postgres(&'a Servers, Option<(String, Stage)>),
}

/// The machines of a database, and the sessions on them.
struct MachineSet {
    stage: Stage,
    _servers: Vec<Server>,
    _memory: TempDir,
}

impl MachineSet {
    fn open(spec: &Spec, blocked: Blocked) -> Result<MachineSet, String> {
        let memory = machines::memory();
        let opened = machines::open(memory.path());
        let serve = |machine| listen(machine, ListenOptions::new("127.0.0.1:0"));
        let servers = opened.iter().map(serve).collect::<Result<Vec<_>, _>>();
        let servers = servers.map_err(|error| error.to_string())?;
        let ways: Vec<_> = servers.iter().map(Server::local_addr).collect();
        Ok(MachineSet {
            stage: Stage::open(&ways, "postgres", spec, blocked)?,
            _servers: servers,
            _memory: memory,
        })
    }
}

impl Servers {
    /// Starts a PostgreSQL 15, or returns the reason why it cannot start.
    pub fn start() -> Result<Servers, String> {
        Ok(Servers {
            postgres: postgres::start()?,
            made: AtomicU32::new(0),
        })
    }

    /// Runs the permutations of a specification on all servers and reports the differences. A
    /// permutation with a new difference runs once more, because steps may be slow.
    pub fn compare(&self, name: &str, spec: &Spec, report: &Mutex<Report>) {
        let local = match variable("ISOLATION_HERE") {
            None => Side::InProcess(None),
            Some(addr) => Side::Running(addr.parse().expect("an address"), None),
        };
        let mut ours = vec![(name.to_owned(), local)];
        if ["ISOLATION_HERE", "ISOLATION_SPECS", "ISOLATION_MACHINES"]
            .iter()
            .all(|name| variable(name).is_none())
        {
            ours.push((format!("{name}/3"), Side::Machines(None)));
        }
        let mut postgres = Side::Postgres(self, None);
        let report = || report.lock().expect("no panic");
        let part = variable("ISOLATION_PERMUTATION").unwrap_or_default();
        for moves in &spec.permutations {
            let title = spec.title(moves);
            if !title.contains(&part) {
                continue;
            }
            let mut records = at_once(&mut ours, &mut postgres, spec, moves);
            if is_new(&records, &ours, &title, &report()) {
                ours.iter_mut().for_each(|(_, side)| side.close());
                postgres.close();
                records = at_once(&mut ours, &mut postgres, spec, moves);
            }
            let (records, theirs) = records;
            for ((name, _), record) in ours.iter().zip(&records) {
                report().add(name, &title, record, &theirs);
            }
        }
        ours.iter_mut().for_each(|(_, side)| side.close());
        postgres.close();
    }

    fn address(&self) -> SocketAddr {
        let url = self.postgres.url();
        let port = url.split_once("port=").expect("a port").1;
        let port = port.split(' ').next().expect("a port");
        SocketAddr::from(([127, 0, 0, 1], port.parse().expect("a port")))
    }

    /// Runs a statement in the database postgres.
    fn administrate(&self, sql: &str) {
        let stage = Stage::open(
            &[self.address()],
            "postgres",
            &Spec::default(),
            Blocked::ByFunction,
        );
        let mut stage = stage.expect("a connection to PostgreSQL");
        stage.administrate(sql);
    }
}

/// Runs a permutation on all servers at once.
fn at_once(
    ours: &mut [(String, Side<'_>)],
    there: &mut Side<'_>,
    spec: &Spec,
    moves: &[Move],
) -> (Vec<Record>, Record) {
    std::thread::scope(|scope| {
        let running: Vec<_> = ours
            .iter_mut()
            .map(|(_, side)| scope.spawn(|| side.run(spec, moves)))
            .collect();
        let theirs = there.run(spec, moves);
        let records = running.into_iter().map(|one| one.join().expect("no panic"));
        (records.collect(), theirs)
    })
}

/// Returns whether one of our records has a difference that is not known.
fn is_new(
    (records, theirs): &(Vec<Record>, Record),
    ours: &[(String, Side<'_>)],
    title: &str,
    report: &Report,
) -> bool {
    let mut both = ours.iter().zip(records);
    both.any(|((name, _), record)| {
        difference(record, theirs).is_some() && !record.is_canceled && !report.knows(name, title)
    })
}

impl Side<'_> {
    fn run(&mut self, spec: &Spec, moves: &[Move]) -> Record {
        let record = match self.stage(spec) {
            Ok(stage) => stage.run(spec, moves),
            Err(why) => Record::failed(&why),
        };
        if record.is_stuck || record.is_dirty {
            self.close();
        }
        record
    }

    /// Returns the stage of the server, and creates it if there is none.
    fn stage(&mut self, spec: &Spec) -> Result<&mut Stage, String> {
        let wait =
            variable("ISOLATION_WAIT_MS").map_or(WAIT_MS, |ms| ms.parse().expect("a number"));
        let by_time = Blocked::ByTime(Duration::from_millis(wait));
        match self {
            Side::InProcess(open) => {
                if open.is_none() {
                    let database = Database::in_memory().map_err(|error| error.to_string())?;
                    let server = listen(&database, ListenOptions::new("127.0.0.1:0"));
                    let server = server.map_err(|error| error.to_string())?;
                    let stage = Stage::open(&[server.local_addr()], "postgres", spec, by_time)?;
                    *open = Some(Box::new((server, stage)));
                }
                open.as_mut().map(|open| &mut open.1)
            }
            Side::Machines(open) => {
                if open.is_none() {
                    *open = Some(Box::new(MachineSet::open(spec, by_time)?));
                }
                open.as_mut().map(|open| &mut open.stage)
            }
            Side::Running(addr, open) => {
                if open.is_none() {
                    *open = Some(Stage::open(&[*addr], "postgres", spec, by_time)?);
                }
                open.as_mut()
            }
            Side::Postgres(servers, open) => {
                if open.is_none() {
                    let number = servers.made.fetch_add(1, Ordering::Relaxed);
                    let name = format!("isolation_{number}");
                    servers.administrate(&format!("CREATE DATABASE {name}"));
                    let addr = servers.address();
                    let stage = Stage::open(&[addr], &name, spec, Blocked::ByFunction)?;
                    *open = Some((name, stage));
                }
                open.as_mut().map(|(_, stage)| stage)
            }
        }
        .ok_or_else(|| "no stage".to_owned())
    }

    fn close(&mut self) {
        match self {
            Side::InProcess(open) => *open = None,
            Side::Machines(open) => *open = None,
            Side::Running(_, open) => *open = None,
            Side::Postgres(servers, open) => {
                if let Some((name, stage)) = open.take() {
                    drop(stage);
                    servers.administrate(&format!("DROP DATABASE {name} WITH (FORCE)"));
                }
            }
        }
    }
}

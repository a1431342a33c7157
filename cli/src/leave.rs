//! `fencepost drain` and `fencepost remove`: a machine leaves in good order.
//!
//! ```text
//!   drain K    others get what it has ──► it has nothing         it serves clients all the while
//!   remove K   its sessions end ──► it is no member ──► its process ends, with 0
//! ```
//! Both ask until it has come about, and may be run again: a machine that is on its way stays so.

use std::time::{Duration, Instant};

use clap::Args;
use fencepost::Database;
use fencepost_benchmarks::BenchError;
use fencepost_benchmarks::sql::{Cell, PgSession, Prepared, SqlSession};

use crate::failure::Failure;

/// Between two looks how far it is.
const LOOK: Duration = Duration::from_millis(50);
/// How often it is asked for.
const AGAIN: Duration = Duration::from_millis(500);
/// How long a machine may be asked to leave that does not begin to.
const PATIENCE: Duration = Duration::from_secs(60);

/// Give what a machine has to the others, so that it can be removed.
#[derive(Debug, Args)]
pub struct Drain {
    /// Number of the machine.
    machine: u32,
    /// Any machine of the database: postgresql://user@host:port/database, or host=… port=….
    #[arg(long, default_value = "postgresql://postgres@127.0.0.1:5433/postgres")]
    url: String,
}

/// Have a machine that was drained leave the others, and its process end.
#[derive(Debug, Args)]
pub struct Remove {
    /// Number of the machine.
    machine: u32,
    /// Another machine of the database: postgresql://user@host:port/database, or host=… port=….
    #[arg(long, default_value = "postgresql://postgres@127.0.0.1:5433/postgres")]
    url: String,
}

impl Drain {
    pub fn run(self) -> crate::Done {
        let machine = self.machine;
        let mut session = PgSession::connect(&self.url)?;
        let mut asking = Asking::of(format!("ALTER SYSTEM DRAIN MACHINE {machine}"));
        let looking = looking_at(&mut session, machine)?;
        let mut before = None;
        loop {
            // Whoever is no member is refused here.
            asking.ask(&mut session)?;
            let standing = standing(&mut session, looking)?;
            match &standing {
                Some(Standing { state, .. }) if state == "drained" => {
                    println!("machine {machine} is drained");
                    return Ok(());
                }
                Some(Standing { state, replicas }) if state == "draining" => {
                    asking.is_heard();
                    if before.as_ref() != Some(replicas) {
                        println!("machine {machine} has {replicas} replicas of regions");
                        before = Some(replicas.clone());
                    }
                }
                _ => {}
            }
            std::thread::sleep(LOOK);
        }
    }
}

impl Remove {
    pub fn run(self) -> crate::Done {
        let machine = self.machine;
        let mut session = PgSession::connect(&self.url)?;
        let this = number(&mut session)?;
        if this == machine.to_string() {
            let why = format!("machine {machine} has to be removed through another one");
            return Err(Failure::Broken(why));
        }
        let mut asking = Asking::of(format!("ALTER SYSTEM REMOVE MACHINE {machine}"));
        let looking = looking_at(&mut session, machine)?;
        let mut was_there = false;
        loop {
            match standing(&mut session, looking)? {
                None if was_there => {
                    println!("machine {machine} is removed");
                    return Ok(());
                }
                // It is refused, as it is not there.
                None => asking.ask(&mut session)?,
                Some(_) => {
                    was_there = true;
                    let asked = asking.ask(&mut session);
                    // It may have gone just now.
                    if asked.is_err() && standing(&mut session, looking)?.is_some() {
                        return asked;
                    }
                }
            }
            std::thread::sleep(LOOK);
        }
    }
}

/// Comes when this machine is to leave the others, to whom it has given all that it had.
pub async fn is_to_part(database: &Database) {
    while !database.machine().is_to_part() {
        tokio::time::sleep(LOOK).await;
    }
}

/// Leaves the others, once nobody is served here.
pub async fn part(database: &Database) -> crate::Done {
    let machine = database.machine();
    let number = machine.number();
    let began = Instant::now();
    while !machine.is_evicted() {
        if began.elapsed() > PATIENCE {
            let why = format!("machine {number} is to leave, and the others do not let it go");
            return Err(Failure::Broken(why));
        }
        database.part();
        tokio::time::sleep(LOOK).await;
    }
    if !machine.has_left() {
        let why = format!("machine {number} was to leave, and was taken to have failed before");
        return Err(Failure::Broken(why));
    }
    println!("fencepost: machine {number} has left the others");
    Ok(())
}

/// A statement that is said again and again.
struct Asking {
    statement: String,
    began: Instant,
    asked: Option<Instant>,
}

impl Asking {
    fn of(statement: String) -> Asking {
        Asking {
            statement,
            began: Instant::now(),
            asked: None,
        }
    }

    /// It has been heard: it may take as long as it takes.
    fn is_heard(&mut self) {
        self.began = Instant::now();
    }

    fn ask(&mut self, session: &mut PgSession) -> Result<(), Failure> {
        if self.asked.is_some_and(|asked| asked.elapsed() < AGAIN) {
            return Ok(());
        }
        if self.began.elapsed() > PATIENCE {
            let why = format!("{}: nothing has come of it", self.statement);
            return Err(Failure::Broken(why));
        }
        self.asked = Some(Instant::now());
        Ok(session.script(&self.statement).map_err(BenchError::from)?)
    }
}

/// How far a machine is.
struct Standing {
    state: String,
    replicas: String,
}

/// The question how far a machine is.
fn looking_at(session: &mut PgSession, machine: u32) -> Result<Prepared, BenchError> {
    Ok(session.prepare(&format!(
        "SELECT state, coalesce(replicas::text, 'some') FROM pg_fencepost_machines WHERE machine = {machine}"
    ))?)
}

/// `None` of a machine that is no member.
fn standing(session: &mut PgSession, looking: Prepared) -> Result<Option<Standing>, BenchError> {
    let rows = session.query(looking, &[])?;
    Ok(rows.first().and_then(|row| match &row[..] {
        [Cell::Text(state), Cell::Text(replicas)] => Some(Standing {
            state: state.clone(),
            replicas: replicas.clone(),
        }),
        _ => None,
    }))
}

/// The number of the machine that answers.
fn number(session: &mut PgSession) -> Result<String, BenchError> {
    let this = "SELECT machine::text FROM pg_fencepost_machines WHERE is_this";
    let statement = session.prepare(this)?;
    let rows = session.query(statement, &[])?;
    Ok(match rows.first().and_then(|row| row.first()) {
        Some(Cell::Text(number)) => number.clone(),
        _ => String::new(),
    })
}

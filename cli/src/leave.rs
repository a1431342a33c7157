//! `fencepost drain` and `fencepost remove`: a machine leaves in good order.
//!
//! ```text
//!   drain K    its regions move to others ──► it has none        it serves clients all the while
//!   remove K   its sessions end ──► it is not a member ──► its process ends, with 0
//! ```
//! Both commands repeat their request until it is done. They may be run again: a leaving machine
//! stays in that state.

use std::time::{Duration, Instant};

use clap::Args;
use fencepost::Database;

use crate::admin_connection::AdminConnection;
use crate::failure::Failure;

/// The interval between two looks at the machine's state.
const LOOK: Duration = Duration::from_millis(50);
/// The interval at which the request is repeated.
const AGAIN: Duration = Duration::from_millis(500);
/// The time after which a machine that does not begin to leave is an error.
const TIME_LIMIT: Duration = Duration::from_secs(60);

/// Move a machine's regions to the other machines, so that it can be removed.
#[derive(Debug, Args)]
pub struct Drain {
    /// Number of the machine to drain.
    machine: u32,
    /// Any machine of the database: postgresql://user@host:port/database, or host=… port=….
    #[arg(long, default_value = "postgresql://postgres@127.0.0.1:5433/postgres")]
    url: String,
}

/// Remove a drained machine from the cluster, and end its process.
#[derive(Debug, Args)]
pub struct Remove {
    /// Number of the machine to remove.
    machine: u32,
    /// Another machine of the database: postgresql://user@host:port/database, or host=… port=….
    #[arg(long, default_value = "postgresql://postgres@127.0.0.1:5433/postgres")]
    url: String,
}

impl Drain {
    pub fn run(self) -> crate::CommandResult {
        let machine = self.machine;
        let link = AdminConnection::connect(&self.url)?;
        let mut asking = RepeatedStatement::of(format!("ALTER SYSTEM DRAIN MACHINE {machine}"));
        let mut before = None;
        loop {
            // The request for a machine that is not a member is refused here.
            asking.ask(&link)?;
            let standing = standing(&link, machine)?;
            match &standing {
                Some(MachineState { state, .. }) if state == "drained" => {
                    println!("machine {machine} is drained");
                    return Ok(());
                }
                Some(MachineState { state, replicas }) if state == "draining" => {
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
    pub fn run(self) -> crate::CommandResult {
        let machine = self.machine;
        let link = AdminConnection::connect(&self.url)?;
        let this = "SELECT machine FROM pg_fencepost_machines WHERE is_this";
        if link.text(this)? == machine.to_string() {
            let why = format!("machine {machine} has to be removed through another one");
            return Err(Failure::Broken(why));
        }
        let mut asking = RepeatedStatement::of(format!("ALTER SYSTEM REMOVE MACHINE {machine}"));
        let mut was_there = false;
        loop {
            match standing(&link, machine)? {
                None if was_there => {
                    println!("machine {machine} is removed");
                    return Ok(());
                }
                // The request is refused, because the machine is not a member.
                None => asking.ask(&link)?,
                Some(_) => {
                    was_there = true;
                    let asked = asking.ask(&link);
                    // The machine may have left just now.
                    if asked.is_err() && standing(&link, machine)?.is_some() {
                        return asked;
                    }
                }
            }
            std::thread::sleep(LOOK);
        }
    }
}

/// Waits until this machine has no replicas left and is to leave the cluster.
pub async fn is_to_part(database: &Database) {
    while !database.machine().is_to_part() {
        tokio::time::sleep(LOOK).await;
    }
}

/// Leaves the cluster, after all sessions here have ended.
pub async fn part(database: &Database) -> crate::CommandResult {
    let machine = database.machine();
    let number = machine.number();
    let began = Instant::now();
    while !machine.is_evicted() {
        if began.elapsed() > TIME_LIMIT {
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

/// A statement that is repeated.
struct RepeatedStatement {
    statement: String,
    began: Instant,
    asked: Option<Instant>,
}

impl RepeatedStatement {
    fn of(statement: String) -> RepeatedStatement {
        RepeatedStatement {
            statement,
            began: Instant::now(),
            asked: None,
        }
    }

    /// Records that the request has an effect: from now on it may take any time.
    fn is_heard(&mut self) {
        self.began = Instant::now();
    }

    fn ask(&mut self, link: &AdminConnection) -> Result<(), Failure> {
        if self.asked.is_some_and(|asked| asked.elapsed() < AGAIN) {
            return Ok(());
        }
        if self.began.elapsed() > TIME_LIMIT {
            let why = format!("{}: nothing has come of it", self.statement);
            return Err(Failure::Broken(why));
        }
        self.asked = Some(Instant::now());
        link.texts(&self.statement).map(drop)
    }
}

/// The state of a machine.
struct MachineState {
    state: String,
    replicas: String,
}

/// Reads the state of a machine; `None` if it is not a member.
fn standing(link: &AdminConnection, machine: u32) -> Result<Option<MachineState>, Failure> {
    let rows = link.texts(&format!(
        "SELECT state, coalesce(replicas::text, 'some') FROM pg_fencepost_machines \
         WHERE machine = {machine}"
    ))?;
    Ok(rows.into_iter().next().and_then(|row| {
        let [state, replicas] = <[String; 2]>::try_from(row).ok()?;
        Some(MachineState { state, replicas })
    }))
}

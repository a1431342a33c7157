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

use crate::failure::Failure;
use crate::link::Link;

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
        let link = Link::connect(&self.url)?;
        let mut asking = Asking::of(format!("ALTER SYSTEM DRAIN MACHINE {machine}"));
        let mut before = None;
        loop {
            // Whoever is no member is refused here.
            asking.ask(&link)?;
            let standing = standing(&link, machine)?;
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
        let link = Link::connect(&self.url)?;
        let this = "SELECT machine FROM pg_fencepost_machines WHERE is_this";
        if link.text(this)? == machine.to_string() {
            let why = format!("machine {machine} has to be removed through another one");
            return Err(Failure::Broken(why));
        }
        let mut asking = Asking::of(format!("ALTER SYSTEM REMOVE MACHINE {machine}"));
        let mut was_there = false;
        loop {
            match standing(&link, machine)? {
                None if was_there => {
                    println!("machine {machine} is removed");
                    return Ok(());
                }
                // It is refused, as it is not there.
                None => asking.ask(&link)?,
                Some(_) => {
                    was_there = true;
                    let asked = asking.ask(&link);
                    // It may have gone just now.
                    if asked.is_err() && standing(&link, machine)?.is_some() {
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

    fn ask(&mut self, link: &Link) -> Result<(), Failure> {
        if self.asked.is_some_and(|asked| asked.elapsed() < AGAIN) {
            return Ok(());
        }
        if self.began.elapsed() > PATIENCE {
            let why = format!("{}: nothing has come of it", self.statement);
            return Err(Failure::Broken(why));
        }
        self.asked = Some(Instant::now());
        link.texts(&self.statement).map(drop)
    }
}

/// How far a machine is.
struct Standing {
    state: String,
    replicas: String,
}

/// `None` of a machine that is no member.
fn standing(link: &Link, machine: u32) -> Result<Option<Standing>, Failure> {
    let rows = link.texts(&format!(
        "SELECT state, coalesce(replicas::text, 'some') FROM pg_fencepost_machines WHERE machine = {machine}"
    ))?;
    Ok(rows.into_iter().next().and_then(|row| {
        let [state, replicas] = <[String; 2]>::try_from(row).ok()?;
        Some(Standing { state, replicas })
    }))
}

//! Repeated kill -9 under `bank` load in the ssd tier: every acknowledged transfer is there, no
//! refused one is, none took effect partly, and `fencepost check` finds no error.
//!
//! Each transfer inserts a row with its own id. So after a restart the table tells which transfers
//! took effect, and the clients' journal tells which must have and which may have.
//! `FENCEPOST_CRASH_ROUNDS=50 cargo test -p fencepost-cli --test cli crash_bank` runs that many
//! rounds.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::{ClientStopGuard, Server, assert_clean, crash_rounds, insist};
use fencepost_benchmarks::BenchError;
use fencepost_benchmarks::sql::{Arg, Cell, PgSession, SqlFailure, SqlSession, StatementHandle};
use fencepost_fabric::random::Random;

const ACCOUNTS: i32 = 50;
const OPENING: i64 = 1000;
/// The number of clients.
pub const CLIENTS: u64 = 6;

/// The outcomes of transfers that the clients know.
#[derive(Default)]
pub struct Journal {
    /// The transfers whose COMMIT was acknowledged.
    acknowledged: HashSet<i64>,
    /// The transfers whose COMMIT was sent and not answered.
    unknown: HashSet<i64>,
    /// The transfers whose COMMIT, or an earlier statement, failed, with the reason.
    refused: HashMap<i64, String>,
}

impl Journal {
    /// Adds the journal of another client.
    pub fn add(&mut self, own: Journal) {
        self.acknowledged.extend(own.acknowledged);
        self.unknown.extend(own.unknown);
        self.refused.extend(own.refused);
    }

    /// Returns the number of transfers that took effect, once the journal has been verified.
    pub fn len(&self) -> usize {
        self.acknowledged.len()
    }

    /// Returns whether any transfer was acknowledged.
    pub fn has_any(&self) -> bool {
        !self.acknowledged.is_empty()
    }
}

/// A client of the bank.
pub struct Client {
    session: PgSession,
    take: StatementHandle,
    give: StatementHandle,
    note: StatementHandle,
}

impl Client {
    pub fn connect(url: &str) -> Client {
        Client::try_connect(url).expect("a session")
    }

    /// Connects as [`Self::connect`], to a server that may be down.
    pub fn try_connect(url: &str) -> Result<Client, BenchError> {
        let mut session = PgSession::connect(url)?;
        session.script("SET statement_timeout = '60s'")?;
        let take = "UPDATE account SET balance = balance - $1 WHERE id = $2";
        let give = "UPDATE account SET balance = balance + $1 WHERE id = $2";
        let note = "INSERT INTO transfer VALUES ($1, $2, $3, $4)";
        Ok(Client {
            take: session.prepare(take)?,
            give: session.prepare(give)?,
            note: session.prepare(note)?,
            session,
        })
    }

    /// Runs the statements of a transfer, up to its COMMIT.
    fn move_money(&mut self, id: i64, random: &mut Random) -> Result<(), SqlFailure> {
        let from = random.below(ACCOUNTS as u64) as i32;
        let to = (from + 1 + random.below(ACCOUNTS as u64 - 1) as i32) % ACCOUNTS;
        let amount = random.below(100) as i64;
        self.session.script("BEGIN")?;
        self.session
            .execute(self.take, &[Arg::Int8(amount), Arg::Int4(from)])?;
        self.session
            .execute(self.give, &[Arg::Int8(amount), Arg::Int4(to)])?;
        let row = [
            Arg::Int8(id),
            Arg::Int4(from),
            Arg::Int4(to),
            Arg::Int8(amount),
        ];
        self.session.execute(self.note, &row).map(drop)
    }

    /// Runs transfers until the server is gone.
    pub fn run(self, first_id: i64, random: Random, stop: &AtomicBool) -> Journal {
        self.run_and_tell(first_id, random, stop, &|| {})
    }

    /// Runs transfers as [`Self::run`]; calls `tell` for each acknowledged one.
    pub fn run_and_tell(
        mut self,
        first_id: i64,
        mut random: Random,
        stop: &AtomicBool,
        tell: &dyn Fn(),
    ) -> Journal {
        let mut journal = Journal::default();
        for id in first_id.. {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            match self.move_money(id, &mut random) {
                Ok(()) => match self.session.script("COMMIT") {
                    Ok(()) => {
                        journal.acknowledged.insert(id);
                        tell();
                    }
                    Err(failure) if failure.conflict().is_some() => {
                        journal.refused.insert(id, format!("COMMIT: {failure}"));
                    }
                    Err(failure) => {
                        assert!(failure.is_connection_lost(), "COMMIT: {failure}");
                        journal.unknown.insert(id);
                        break;
                    }
                },
                Err(failure) if failure.conflict().is_some() => {
                    journal.refused.insert(id, failure.to_string());
                    if self.session.script("ROLLBACK").is_err() {
                        break;
                    }
                }
                Err(failure) => {
                    assert!(failure.is_connection_lost(), "transfer {id}: {failure}");
                    break;
                }
            }
        }
        journal
    }
}

pub fn create(url: &str) {
    let mut session = PgSession::connect(url).expect("a session");
    session
        .script(
            "CREATE TABLE account (id integer PRIMARY KEY, balance bigint NOT NULL);
             CREATE TABLE transfer (id bigint PRIMARY KEY, payer integer NOT NULL,
                 payee integer NOT NULL, amount bigint NOT NULL);
             CREATE INDEX transfer_payer ON transfer (payer, payee)",
        )
        .expect("tables");
    let rows: String = (0..ACCOUNTS)
        .map(|id| format!("{id}\t{OPENING}\n"))
        .collect();
    session
        .copy_in("COPY account FROM STDIN", rows.as_bytes())
        .expect("accounts");
}

fn table(session: &mut PgSession, sql: &str) -> Vec<Vec<i64>> {
    // A busy or new machine may not know all tables in time.
    let statement = insist("a statement", || session.prepare(sql));
    let rows = insist("rows", || session.query(statement, &[]));
    let ints = |row: &Vec<Cell>| {
        row.iter()
            .map(|cell| cell.int().expect("a number"))
            .collect()
    };
    rows.iter().map(ints).collect()
}

/// Compares the database with the journal, and resolves the unknown outcomes.
pub fn verify(url: &str, journal: &mut Journal) {
    let mut session = PgSession::connect(url).expect("a session");
    session
        .script("SET statement_timeout = '60s'")
        .expect("is set");
    let accounts = table(&mut session, "SELECT id, balance FROM account");
    let transfers = table(
        &mut session,
        "SELECT id, payer, payee, amount FROM transfer",
    );
    let mut balances: HashMap<i64, i64> =
        (0..i64::from(ACCOUNTS)).map(|id| (id, OPENING)).collect();
    let mut found = HashSet::new();
    for row in &transfers {
        let [id, from, to, amount] = row[..] else {
            panic!("four columns: {row:?}")
        };
        assert!(found.insert(id), "transfer {id} is there twice");
        let may = journal.acknowledged.contains(&id) || journal.unknown.contains(&id);
        let why = journal.refused.get(&id);
        assert!(may, "transfer {id} was not committed: {why:?}");
        *balances.get_mut(&from).expect("an account") -= amount;
        *balances.get_mut(&to).expect("an account") += amount;
    }
    let lost: Vec<_> = journal.acknowledged.difference(&found).collect();
    assert!(
        lost.is_empty(),
        "{} acknowledged transfers are lost: {lost:?}",
        lost.len()
    );
    assert_eq!(accounts.len(), ACCOUNTS as usize);
    let wrong = |row: &&Vec<i64>| balances.get(&row[0]) != Some(&row[1]);
    let wrong: Vec<_> = accounts.iter().filter(wrong).collect();
    if !wrong.is_empty() {
        let expected = wrong.iter().map(|row| (row[0], balances.get(&row[0])));
        let expected: Vec<_> = expected.collect();
        let total: i64 = accounts.iter().map(|row| row[1]).sum();
        let again = table(&mut session, "SELECT id, balance FROM account");
        let again: Vec<_> = wrong.iter().filter(|row| again.contains(row)).collect();
        panic!(
            "accounts and their transfers disagree: {wrong:?} should be {expected:?}, \
             all have {total}; read again, these are still so: {again:?}"
        );
    }
    journal.unknown.clear();
    journal.acknowledged = found;
}

/// Runs load for `time`, then kills the server with kill -9.
fn load_and_kill(server: Server, round: u32, time: Duration, journal: &mut Journal) {
    let stop = AtomicBool::new(false);
    let url = server.url();
    let clients: Vec<Client> = (0..CLIENTS).map(|_| Client::connect(&url)).collect();
    thread::scope(|scope| {
        let mut running = Vec::new();
        for (index, client) in clients.into_iter().enumerate() {
            let seed = u64::from(round) * CLIENTS + index as u64;
            let first_id = (seed as i64) << 32;
            let stop = &stop;
            running.push(scope.spawn(move || client.run(first_id, Random::new(seed), stop)));
        }
        let ends = ClientStopGuard(&stop);
        thread::sleep(time);
        server.kill();
        drop(ends);
        for client in running {
            journal.add(client.join().expect("a client ends"));
        }
    });
}

fn round(dir: &Path, round: u32, random: &mut Random, journal: &mut Journal) {
    let server = Server::start(Some(dir));
    verify(&server.url(), journal);
    load_and_kill(
        server,
        round,
        Duration::from_millis(30 + random.below(700)),
        journal,
    );
    // In every second round the server recovers first, otherwise the check does.
    if round % 2 == 1 {
        let server = Server::start(Some(dir));
        verify(&server.url(), journal);
        server.kill();
    }
    assert_clean(dir);
}

#[test]
fn kill_9_under_bank_load_loses_nothing_acknowledged() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut journal = Journal::default();
    let server = Server::start(Some(dir.path()));
    create(&server.url());
    server.kill();
    let mut random = Random::new(2);
    let began = Instant::now();
    for number in 0..crash_rounds() {
        round(dir.path(), number, &mut random, &mut journal);
    }
    let server = Server::start(Some(dir.path()));
    verify(&server.url(), &mut journal);
    assert!(journal.has_any(), "some transfers were acknowledged");
    assert!(server.terminate(), "it ends well");
    assert_clean(dir.path());
    println!("{} transfers in {:?}", journal.len(), began.elapsed());
}

//! A client that runs random transactions over one session and records its observations.
//!
//! The transactions append to lists, read them, and make transfers between accounts. A conflict is
//! a valid outcome, and the client continues with another transaction. A client that survives the
//! loss of its server continues at another one. The final lists tell the outcome of transactions
//! that the client did not learn.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};

use fencepost_benchmarks::BenchError;
use fencepost_benchmarks::sql::{Arg, Cell, PgSession, SqlFailure, SqlSession, StatementHandle};
use fencepost_fabric::random::Random;
use fencepost_simulator::appends::ListTransaction;
use fencepost_simulator::history::{NEVER, Object, SOMETIME};
use fencepost_simulator::lists::Contents;

use crate::common::insist;

pub const LISTS: u64 = 6;
const ACCOUNTS: u64 = 8;
const OPENING: i64 = 50;

/// Creates the tables anew.
pub fn load(url: &str) {
    let mut session = PgSession::connect(url).expect("a session");
    let last = ACCOUNTS - 1;
    let script = format!(
        "DROP TABLE IF EXISTS list, account; \
         CREATE TABLE list (k int PRIMARY KEY, v text NOT NULL); \
         INSERT INTO list SELECT g, '' FROM generate_series(0, {LISTS} - 1) g; \
         CREATE TABLE account (id int PRIMARY KEY, balance bigint NOT NULL); \
         INSERT INTO account SELECT g, {OPENING} FROM generate_series(0, {last}) g"
    );
    session.script(&script).expect("the tables");
}

pub fn list(k: u64) -> Object {
    Object("list", k)
}

/// The shared state of all clients of a history: the logical clock, and the numbers of
/// transactions.
#[derive(Default)]
pub struct SharedState {
    moment: AtomicU64,
    number: AtomicU64,
}

impl SharedState {
    fn now(&self) -> u64 {
        self.moment.fetch_add(1, Ordering::SeqCst)
    }
}

/// The record of a client.
#[derive(Default)]
pub struct Notes {
    /// The transactions over lists.
    pub visits: Vec<ListTransaction>,
    /// The transactions whose outcome the client did not learn.
    pub in_doubt: Vec<ListTransaction>,
    /// The number of committed transactions; the others conflicted.
    pub committed: usize,
    /// The number of times that its server was lost.
    pub lost: usize,
    /// The number of committed transfers.
    pub transfers: usize,
    /// The number of totals of all accounts that were read.
    pub totals: usize,
}

/// Returns all transactions over lists. The last ones have read all lists, so a transaction with an
/// unknown outcome has committed if its number is there.
pub fn settled(notes: Vec<Notes>) -> Vec<ListTransaction> {
    let visits = || notes.iter().flat_map(|notes| &notes.visits);
    let numbers = visits().flat_map(|visit| visit.found.iter().flat_map(|list| &list.numbers));
    let numbers: HashSet<u64> = numbers.copied().collect();
    let settle = |mut visit: ListTransaction| {
        if !numbers.contains(&visit.id) {
            visit.appended.clear();
            visit.began = SOMETIME;
        }
        visit
    };
    let all = notes.into_iter().flat_map(|notes| {
        let in_doubt = notes.in_doubt.into_iter().map(settle);
        notes.visits.into_iter().chain(in_doubt.collect::<Vec<_>>())
    });
    all.collect()
}

/// The outcome of a transaction.
enum Outcome {
    Committed,
    Aborted,
    /// The transaction has not committed, and its server is lost.
    ServerLost,
    InDoubt,
}

#[derive(Clone, Copy)]
enum Step {
    Read(u64),
    Append(u64),
}

/// A session with its prepared statements.
struct HistorySession {
    session: PgSession,
    read: StatementHandle,
    read_two: StatementHandle,
    append: StatementHandle,
    balance: StatementHandle,
    add: StatementHandle,
    total: StatementHandle,
}

impl HistorySession {
    fn at(url: &str) -> Result<HistorySession, BenchError> {
        let mut session = PgSession::connect(url)?;
        // No statement may wait for ever.
        session.script(
            "SET statement_timeout = '60s'; SET default_transaction_isolation = serializable",
        )?;
        Ok(HistorySession {
            read: session.prepare("SELECT k, v FROM list WHERE k = $1")?,
            read_two: session.prepare("SELECT k, v FROM list WHERE k = $1 OR k = $2")?,
            append: session.prepare("UPDATE list SET v = v || $1 WHERE k = $2")?,
            balance: session.prepare("SELECT balance FROM account WHERE id = $1")?,
            add: session.prepare("UPDATE account SET balance = balance + $1 WHERE id = $2")?,
            total: session.prepare("SELECT sum(balance)::bigint, min(balance) FROM account")?,
            session,
        })
    }
}

pub struct Client<'a> {
    desk: HistorySession,
    common: &'a SharedState,
    random: Random,
    /// The other servers to which it can switch.
    others: &'a [String],
    /// The number of visits that ended while its server was certainly a member.
    member_until: usize,
    pub notes: Notes,
}

impl<'a> Client<'a> {
    pub fn connect(url: &str, common: &'a SharedState, seed: u64) -> Client<'a> {
        Client {
            // A busy host may not know all tables in time.
            desk: insist("a session", || HistorySession::at(url)),
            common,
            random: Random::new(seed),
            others: &[],
            member_until: 0,
            notes: Notes::default(),
        }
    }

    /// Makes the client switch to one of these servers when its own is gone.
    pub fn survives(mut self, others: &'a [String]) -> Client<'a> {
        self.others = others;
        self
    }

    /// Runs one transaction.
    pub fn go(&mut self) {
        let (a, b) = self.two_of(LISTS);
        match self.random.below(12) {
            0..3 => {
                let steps = self.any_steps();
                self.visit(&steps);
            }
            // Two of these show write skew if only writes are validated.
            3..6 => self.visit(&[Step::Read(a), Step::Read(b), Step::Append(a)]),
            // With these and the next kind, two readers may see the writers in different orders: a
            // long fork.
            6..8 => self.visit(&[Step::Append(a)]),
            8 => self.visit(&[Step::Read(a), Step::Read(b)]),
            9 => self.visit_at_once(a, b),
            10 => self.transfer(),
            _ => self.read_total(),
        }
    }

    /// Reads all lists and the total.
    pub fn look(&mut self) {
        let steps: Vec<Step> = (0..LISTS).map(Step::Read).collect();
        let committed = self.notes.committed;
        insist("a look at all lists", || {
            self.visit(&steps);
            (self.notes.committed > committed).then_some(()).ok_or(())
        });
        self.read_total();
    }

    fn two_of(&mut self, n: u64) -> (u64, u64) {
        let a = self.random.below(n);
        (a, (a + 1 + self.random.below(n - 1)) % n)
    }

    /// Draws one to four steps; each list is appended to at most once.
    fn any_steps(&mut self) -> Vec<Step> {
        let mut steps = Vec::new();
        let mut appended = Vec::new();
        for _ in 0..=self.random.below(4) {
            let k = self.random.below(LISTS);
            if self.random.below(2) == 0 || appended.contains(&k) {
                steps.push(Step::Read(k));
            } else {
                appended.push(k);
                steps.push(Step::Append(k));
            }
        }
        steps
    }

    /// Runs steps in a transaction block; a single step sometimes without one.
    fn visit(&mut self, steps: &[Step]) {
        let bare = steps.len() == 1 && self.random.below(2) == 0;
        let mut visit = self.begin();
        let (read, append) = (self.desk.read, self.desk.append);
        let session: &mut dyn SqlSession = &mut self.desk.session;
        let mut run = |session: &mut (dyn SqlSession + '_)| {
            for step in steps {
                match *step {
                    Step::Read(k) => {
                        let rows = session.query(read, &[Arg::Int4(k as i32)])?;
                        visit.found.extend(found(&rows, visit.id));
                    }
                    Step::Append(k) => {
                        let number = format!(",{}", visit.id);
                        let args = [Arg::Text(&number), Arg::Int4(k as i32)];
                        assert_eq!(session.execute(append, &args)?, 1, "list {k} is there");
                    }
                }
            }
            Ok(Some(()))
        };
        let done = match bare {
            true => run(session).map_err(SqlFailure::of_commit),
            false => session.in_block(run),
        };
        let wrote = steps.iter().filter_map(|step| match step {
            Step::Append(k) => Some(list(*k)),
            Step::Read(_) => None,
        });
        // If the answer to a statement is lost, the client does not know that it has appended.
        let appended = wrote.collect();
        self.end(visit, appended, done.map(drop));
    }

    /// Reads two lists in one statement, which is a transaction.
    fn visit_at_once(&mut self, a: u64, b: u64) {
        let mut visit = self.begin();
        let args = [a, b].map(|k| Arg::Int4(k as i32));
        let rows = self.desk.session.query(self.desk.read_two, &args);
        let done = rows.map(|rows| visit.found.extend(found(&rows, visit.id)));
        self.end(visit, Vec::new(), done);
    }

    fn begin(&mut self) -> ListTransaction {
        ListTransaction {
            id: self.common.number.fetch_add(1, Ordering::SeqCst) + 1,
            began: self.common.now(),
            ended: 0,
            found: Vec::new(),
            appended: Vec::new(),
        }
    }

    /// Records a transaction. Reads before a conflict count, too: they must have seen one state. If
    /// the server is gone, the reads may be outdated, because only the commit checks the membership
    /// of the server.
    fn end(
        &mut self,
        mut visit: ListTransaction,
        appended: Vec<Object>,
        done: Result<(), SqlFailure>,
    ) {
        match self.ended(done) {
            Outcome::Committed => {
                visit.ended = self.common.now();
                visit.appended = appended;
                self.notes.committed += 1;
                self.member_until = self.notes.visits.len() + 1;
            }
            Outcome::Aborted => visit.ended = self.common.now(),
            Outcome::ServerLost => {
                visit.began = SOMETIME;
                visit.ended = NEVER;
            }
            Outcome::InDoubt => {
                visit.ended = NEVER;
                visit.appended = appended;
                return self.notes.in_doubt.push(visit);
            }
        }
        self.notes.visits.push(visit);
    }

    /// Marks the recent transactions as possibly outdated: the server may have been evicted since
    /// its last commit. None of them had an effect.
    fn forgive(&mut self) {
        for visit in &mut self.notes.visits[self.member_until..] {
            visit.began = SOMETIME;
        }
        self.member_until = self.notes.visits.len();
    }

    /// Returns the outcome of a transaction; switches to another server if this one is gone.
    fn ended(&mut self, done: Result<(), SqlFailure>) -> Outcome {
        match done {
            Ok(()) => Outcome::Committed,
            Err(failure) if failure.conflict().is_some() => Outcome::Aborted,
            Err(failure) if failure.is_connection_lost() && !self.others.is_empty() => {
                self.notes.lost += 1;
                self.forgive();
                self.desk = insist("another server", || {
                    let other = self.random.below(self.others.len() as u64);
                    HistorySession::at(&self.others[other as usize])
                });
                match failure.is_in_doubt() {
                    true => Outcome::InDoubt,
                    false => Outcome::ServerLost,
                }
            }
            Err(failure) => panic!("{failure}"),
        }
    }

    fn transfer(&mut self) {
        let (from, to) = self.two_of(ACCOUNTS);
        let amount = 1 + self.random.below(20) as i64;
        let (from, to) = (Arg::Int4(from as i32), Arg::Int4(to as i32));
        let (balance, add) = (self.desk.balance, self.desk.add);
        let session: &mut dyn SqlSession = &mut self.desk.session;
        let done = session.in_block(|session| {
            let has = session.row(balance, &[from])?[0].int().expect("a number");
            if has < amount {
                return Ok(None);
            }
            session.execute(add, &[Arg::Int8(-amount), from])?;
            session.execute(add, &[Arg::Int8(amount), to])?;
            Ok(Some(()))
        });
        if let Outcome::Committed = self.ended(done.map(drop)) {
            self.notes.transfers += 1;
        }
    }

    /// Reads the total by one statement or account by account. The total is constant and no balance
    /// is negative, even in a transaction that conflicts later.
    fn read_total(&mut self) {
        let (total, balance) = (self.desk.total, self.desk.balance);
        let at_once = self.random.below(2) == 0;
        let session: &mut dyn SqlSession = &mut self.desk.session;
        let seen = session.in_block(|session| {
            if at_once {
                let row = session.row(total, &[])?;
                return Ok(Some((row[0].int(), row[1].int())));
            }
            let mut each = Vec::new();
            for id in 0..ACCOUNTS {
                let row = session.row(balance, &[Arg::Int4(id as i32)])?;
                each.push(row[0].int().expect("a number"));
            }
            Ok(Some((Some(each.iter().sum()), each.into_iter().min())))
        });
        match seen {
            Ok(seen) => {
                let (sum, least) = seen.expect("it says what it saw");
                assert_eq!(sum, Some(OPENING * ACCOUNTS as i64), "the total");
                assert!(least >= Some(0), "a debt: {least:?}");
                self.notes.totals += 1;
            }
            Err(failure) => drop(self.ended(Err(failure))),
        }
    }
}

/// Returns the contents of lists in rows, without the transaction's own number at the end.
fn found(rows: &[Vec<Cell>], own: u64) -> impl Iterator<Item = Contents> {
    rows.iter().map(move |row| {
        let k = row[0].int().expect("a key");
        let numbers = row[1].text().expect("a text").split(',').skip(1);
        let mut numbers: Vec<u64> = numbers.map(|n| n.parse().expect("a number")).collect();
        numbers.pop_if(|last| *last == own);
        Contents {
            list: list(k as u64),
            numbers,
        }
    })
}

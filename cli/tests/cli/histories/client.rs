//! A client that runs transactions at random over one session and writes down what it saw.
//!
//! Lists are appended to and read, and money goes from account to account. What conflicts is an outcome, and
//! the client goes on with another transaction. One that survives does so, too, where its server is gone: over
//! another one. Whether a transaction has committed whose end nobody told is then said by the lists at the end.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};

use fencepost_benchmarks::BenchError;
use fencepost_benchmarks::sql::{Arg, Cell, PgSession, Prepared, SqlFailure, SqlSession};
use fencepost_fabric::random::Random;
use fencepost_simulator::appends::Visit;
use fencepost_simulator::history::{NEVER, Object, SOMETIME};
use fencepost_simulator::lists::Contents;

use crate::common::insist;

pub const LISTS: u64 = 6;
const ACCOUNTS: u64 = 8;
const OPENING: i64 = 50;

/// Makes the tables anew.
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

/// What all clients of a history have in common: moments, and numbers of transactions.
#[derive(Default)]
pub struct Common {
    moment: AtomicU64,
    number: AtomicU64,
}

impl Common {
    fn now(&self) -> u64 {
        self.moment.fetch_add(1, Ordering::SeqCst)
    }
}

/// What a client wrote down.
#[derive(Default)]
pub struct Notes {
    /// Transactions over lists.
    pub visits: Vec<Visit>,
    /// Those of whose end nobody was told.
    pub in_doubt: Vec<Visit>,
    /// Those that committed; the others conflicted.
    pub committed: usize,
    /// How often its server was gone.
    pub lost: usize,
    /// Transfers that committed.
    pub transfers: usize,
    /// Totals of all accounts that were read.
    pub totals: usize,
}

/// All transactions over lists, where the last of them have read all lists: so what was in doubt has committed if its
/// number is there.
pub fn settled(notes: Vec<Notes>) -> Vec<Visit> {
    let visits = || notes.iter().flat_map(|notes| &notes.visits);
    let numbers = visits().flat_map(|visit| visit.found.iter().flat_map(|list| &list.numbers));
    let numbers: HashSet<u64> = numbers.copied().collect();
    let settle = |mut visit: Visit| {
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

/// How a transaction ended.
enum End {
    Committed,
    Aborted,
    /// It has not committed, and its server is gone.
    Gone,
    InDoubt,
}

#[derive(Clone, Copy)]
enum Step {
    Read(u64),
    Append(u64),
}

/// A session with what it has prepared.
struct Desk {
    session: PgSession,
    read: Prepared,
    read_two: Prepared,
    append: Prepared,
    balance: Prepared,
    add: Prepared,
    total: Prepared,
}

impl Desk {
    fn at(url: &str) -> Result<Desk, BenchError> {
        let mut session = PgSession::connect(url)?;
        // Nobody waits for ever.
        session.script(
            "SET statement_timeout = '60s'; SET default_transaction_isolation = serializable",
        )?;
        Ok(Desk {
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
    desk: Desk,
    common: &'a Common,
    random: Random,
    /// Where else it goes when its server is gone.
    others: &'a [String],
    /// How many of the visits were ended when its server was a member for sure.
    member_until: usize,
    pub notes: Notes,
}

impl<'a> Client<'a> {
    pub fn connect(url: &str, common: &'a Common, seed: u64) -> Client<'a> {
        Client {
            // A busy host may not know in time what tables there are.
            desk: insist("a session", || Desk::at(url)),
            common,
            random: Random::new(seed),
            others: &[],
            member_until: 0,
            notes: Notes::default(),
        }
    }

    /// The same that goes to any of these when its server is gone.
    pub fn survives(mut self, others: &'a [String]) -> Client<'a> {
        self.others = others;
        self
    }

    /// One transaction.
    pub fn go(&mut self) {
        let (a, b) = self.two_of(LISTS);
        match self.random.below(12) {
            0..3 => {
                let steps = self.any_steps();
                self.visit(&steps);
            }
            // Two of these skew where only what is written counts.
            3..6 => self.visit(&[Step::Read(a), Step::Read(b), Step::Append(a)]),
            // Of these and those, two readers may see the writers in different orders: a long fork.
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

    /// One to four steps; each list is appended to at most once.
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

    /// Runs steps in a block; one alone at times without.
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
        // Of a statement whose answer is lost the client does not know that it has appended.
        let appended = wrote.collect();
        self.end(visit, appended, done.map(drop));
    }

    /// Two lists in one statement, which is a transaction.
    fn visit_at_once(&mut self, a: u64, b: u64) {
        let mut visit = self.begin();
        let args = [a, b].map(|k| Arg::Int4(k as i32));
        let rows = self.desk.session.query(self.desk.read_two, &args);
        let done = rows.map(|rows| visit.found.extend(found(&rows, visit.id)));
        self.end(visit, Vec::new(), done);
    }

    fn begin(&mut self) -> Visit {
        Visit {
            id: self.common.number.fetch_add(1, Ordering::SeqCst) + 1,
            began: self.common.now(),
            ended: 0,
            found: Vec::new(),
            appended: Vec::new(),
        }
    }

    /// What was read before a conflict counts, too: it must have been one state. One whose server is gone may have
    /// been told of a state that was the last one once, as nothing but the end of a transaction says that it was not.
    fn end(&mut self, mut visit: Visit, appended: Vec<Object>, done: Result<(), SqlFailure>) {
        match self.ended(done) {
            End::Committed => {
                visit.ended = self.common.now();
                visit.appended = appended;
                self.notes.committed += 1;
                self.member_until = self.notes.visits.len() + 1;
            }
            End::Aborted => visit.ended = self.common.now(),
            End::Gone => {
                visit.began = SOMETIME;
                visit.ended = NEVER;
            }
            End::InDoubt => {
                visit.ended = NEVER;
                visit.appended = appended;
                return self.notes.in_doubt.push(visit);
            }
        }
        self.notes.visits.push(visit);
    }

    /// The server was no member any more, for all that is known, since it last committed something: what it told since
    /// then, none of which had an effect, may have been long gone.
    fn forgive(&mut self) {
        for visit in &mut self.notes.visits[self.member_until..] {
            visit.began = SOMETIME;
        }
        self.member_until = self.notes.visits.len();
    }

    /// How a transaction ended; where its server is gone the next one is at another.
    fn ended(&mut self, done: Result<(), SqlFailure>) -> End {
        match done {
            Ok(()) => End::Committed,
            Err(failure) if failure.conflict().is_some() => End::Aborted,
            Err(failure) if failure.is_connection_lost() && !self.others.is_empty() => {
                self.notes.lost += 1;
                self.forgive();
                self.desk = insist("another server", || {
                    let other = self.random.below(self.others.len() as u64);
                    Desk::at(&self.others[other as usize])
                });
                match failure.is_in_doubt() {
                    true => End::InDoubt,
                    false => End::Gone,
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
        if let End::Committed = self.ended(done.map(drop)) {
            self.notes.transfers += 1;
        }
    }

    /// The total by one statement or account by account; nobody may see money made or lost, nor a debt,
    /// even in a transaction that conflicts later.
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

/// What rows of lists contain, but for a transaction's own number at the end.
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

//! `bank` over SQL: two updates in a transaction block.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use fencepost_fabric::random::Random;

use super::{OPENING_BALANCE, Sum, TOO_LITTLE, Transfer, WATCH_PAUSE};
use crate::error::BenchError;
use crate::harness::{Attempt, Client, Workload};
use crate::sql::{Arg, Cell, SqlFailure, SqlSession, SqlSource, StatementHandle};

const TABLE: &str =
    "CREATE TABLE bank_account (id integer NOT NULL PRIMARY KEY, balance bigint NOT NULL)";
const SUM: &str = "SELECT count(*), CAST(sum(balance) AS bigint), min(balance) FROM bank_account";

/// `bank` on an SQL database. The load drops and creates its table.
pub struct BankSql {
    source: SqlSource,
    accounts: u32,
}

impl BankSql {
    /// Creates the workload with this number of accounts, at least two.
    pub fn new(source: SqlSource, accounts: u32) -> BankSql {
        BankSql {
            source,
            accounts: accounts.max(2),
        }
    }
}

impl BankSql {
    /// Opens a session for the sum query.
    fn watcher(&self) -> Result<(Box<dyn SqlSession>, StatementHandle), BenchError> {
        let mut session = self.source.session()?;
        let sum = session.prepare(SUM)?;
        Ok((session, sum))
    }
}

/// The session of one client.
pub struct BankClient {
    session: Box<dyn SqlSession>,
    accounts: u32,
    pay: StatementHandle,
    receive: StatementHandle,
}

impl Workload for BankSql {
    type Client<'a> = BankClient;

    fn name(&self) -> &'static str {
        "bank"
    }

    fn prepare(&self, _say: &dyn Fn(&str)) -> Result<(), BenchError> {
        let mut session = self.source.session()?;
        session.script("DROP TABLE IF EXISTS bank_account")?;
        session.script(TABLE)?;
        let text: String = (1..=self.accounts)
            .map(|id| format!("{id}\t{OPENING_BALANCE}\n"))
            .collect();
        session.copy_in("COPY bank_account FROM STDIN", text.as_bytes())?;
        Ok(())
    }

    fn client(&self, thread: usize) -> Result<BankClient, BenchError> {
        let mut session = self.source.session_of(thread)?;
        let pay = "UPDATE bank_account SET balance = balance - $1 WHERE id = $2 AND balance >= $1";
        let receive = "UPDATE bank_account SET balance = balance + $1 WHERE id = $2";
        Ok(BankClient {
            pay: session.prepare(pay)?,
            receive: session.prepare(receive)?,
            session,
            accounts: self.accounts,
        })
    }

    fn watch(&self, stop: &AtomicBool) -> Result<Option<String>, BenchError> {
        let (mut session, mut sum) = self.watcher()?;
        while !stop.load(Ordering::Relaxed) {
            match sum_of(session.as_mut(), sum) {
                Ok(sum) => {
                    if let Some(broken) = sum.broken(self.accounts) {
                        return Ok(Some(broken));
                    }
                }
                Err(failure) if failure.conflict().is_some() => {}
                Err(failure) if failure.is_connection_lost() && self.source.may_go() => {
                    if let Ok(another) = self.watcher() {
                        (session, sum) = another;
                    }
                }
                Err(failure) => return Err(failure.into()),
            }
            thread::sleep(WATCH_PAUSE);
        }
        Ok(None)
    }

    fn verify(&self) -> Result<Option<String>, BenchError> {
        self.source.verify(|session| {
            let sum = session.prepare(SUM)?;
            Ok(sum_of(session, sum)?.broken(self.accounts))
        })
    }
}

fn sum_of(session: &mut dyn SqlSession, sum: StatementHandle) -> Result<Sum, SqlFailure> {
    let rows = session.query(sum, &[])?;
    let cell = |at: usize| rows.first().and_then(|row| row.get(at)).and_then(Cell::int);
    Ok(Sum {
        accounts: cell(0).unwrap_or(0) as u64,
        total: cell(1).unwrap_or(0),
        least: cell(2).unwrap_or(0),
    })
}

impl Client for BankClient {
    type Request = Transfer;

    fn generate(&mut self, random: &mut Random) -> Transfer {
        Transfer::draw(self.accounts, random)
    }

    async fn execute(&mut self, transfer: &Transfer) -> Result<Attempt, BenchError> {
        let (pay, receive) = (self.pay, self.receive);
        self.session.attempt(|session| {
            let amount = Arg::Int8(transfer.amount);
            if session.execute(pay, &[amount, Arg::Int4(transfer.from as i32)])? == 0 {
                return Ok(Attempt::Failed(TOO_LITTLE));
            }
            session.execute(receive, &[amount, Arg::Int4(transfer.to as i32)])?;
            Ok(Attempt::Committed)
        })
    }
}

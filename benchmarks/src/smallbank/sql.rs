//! `smallbank` over SQL: two tables. A transaction of one statement runs without a transaction
//! block. Accounts to be written are locked when they are read, as in FaSST.

use fencepost_fabric::random::Random;

use super::{
    COMMITTED, DEPOSIT, Effect, KINDS, Kind, Mix, NO_ACCOUNT, OPENING_BALANCE, PAYMENT, Request,
    SAVED, Sum, TOO_LITTLE, broken, check_takes,
};
use crate::error::BenchError;
use crate::harness::{Attempt, Client, Workload};
use crate::sql::{
    Arg, Cell, Isolation, SqlFailure, SqlSession, SqlSource, StatementHandle, copy_numbered, put,
};
use crate::tally::{ClientSums, Tally};

const TABLES: [&str; 2] = ["smallbank_savings", "smallbank_checking"];

/// `smallbank` on an SQL database. The load drops and creates its tables.
pub struct SmallBankSql {
    source: SqlSource,
    isolation: Isolation,
    mix: Mix,
    /// The sum of committed deposits, less committed withdrawals.
    brought: Tally<1>,
}

/// The statements on one table.
#[derive(Clone, Copy)]
struct Statements {
    read: StatementHandle,
    read_to_write: StatementHandle,
    add: StatementHandle,
    write: StatementHandle,
}

impl Statements {
    fn prepare(session: &mut dyn SqlSession, table: &str) -> Result<Statements, SqlFailure> {
        let read = format!("SELECT balance FROM {table} WHERE customer = $1");
        Ok(Statements {
            read: session.prepare(&read)?,
            read_to_write: session.prepare(&format!("{read} FOR UPDATE"))?,
            add: session.prepare(&format!(
                "UPDATE {table} SET balance = balance + $1 WHERE customer = $2"
            ))?,
            write: session.prepare(&format!(
                "UPDATE {table} SET balance = $1 WHERE customer = $2"
            ))?,
        })
    }

    fn read(
        &self,
        session: &mut dyn SqlSession,
        of: Arg<'_>,
        to_write: bool,
    ) -> Result<Option<i64>, SqlFailure> {
        let statement = if to_write {
            self.read_to_write
        } else {
            self.read
        };
        let rows = session.query(statement, &[of])?;
        Ok(rows.first().and_then(|row| row.first()?.int()))
    }
}

/// The session of one client.
pub struct SmallBankClient<'a> {
    session: Box<dyn SqlSession>,
    savings: Statements,
    checking: Statements,
    mix: Mix,
    brought: ClientSums<'a, 1>,
}

impl SmallBankSql {
    /// Creates the workload with this number of customers, at least two.
    pub fn new(source: SqlSource, isolation: Isolation, customers: u32) -> SmallBankSql {
        SmallBankSql {
            source,
            isolation,
            mix: Mix::new(customers),
            brought: Tally::new(),
        }
    }
}

impl Workload for SmallBankSql {
    type Client<'a> = SmallBankClient<'a>;
    const KINDS: &'static [&'static str] = KINDS;

    fn name(&self) -> &'static str {
        "smallbank"
    }

    fn prepare(&self, say: &dyn Fn(&str)) -> Result<(), BenchError> {
        let mut session = self.source.session()?;
        for table in TABLES {
            session.script(&format!("DROP TABLE IF EXISTS {table}"))?;
            session.script(&format!(
                "CREATE TABLE {table} (customer bigint NOT NULL PRIMARY KEY, \
                 balance bigint NOT NULL)"
            ))?;
            let last = self.mix.customers;
            copy_numbered(session.as_mut(), table, last, say, |text, customer| {
                put(text, format_args!("{customer}\t{OPENING_BALANCE}\n"));
            })?;
        }
        session.script("VACUUM ANALYZE")?;
        Ok(())
    }

    fn client(&self, thread: usize) -> Result<SmallBankClient<'_>, BenchError> {
        let mut session = self.source.session_at(self.isolation, thread)?;
        let [savings, checking] = TABLES;
        Ok(SmallBankClient {
            savings: Statements::prepare(session.as_mut(), savings)?,
            checking: Statements::prepare(session.as_mut(), checking)?,
            session,
            mix: self.mix,
            brought: self.brought.share(),
        })
    }

    fn verify(&self) -> Result<Option<String>, BenchError> {
        self.source.verify(|session| self.verify_through(session))
    }
}

impl SmallBankSql {
    fn verify_through(&self, session: &mut dyn SqlSession) -> Result<Option<String>, BenchError> {
        let mut sum = |table: &str| -> Result<Sum, BenchError> {
            let text =
                format!("SELECT count(*), CAST(sum(balance) AS bigint), min(balance) FROM {table}");
            let statement = session.prepare(&text)?;
            let rows = session.query(statement, &[])?;
            let cell = |at: usize| rows.first().and_then(|row| row.get(at)).and_then(Cell::int);
            Ok(Sum {
                accounts: cell(0).unwrap_or(0) as u64,
                total: cell(1).unwrap_or(0),
                least: cell(2).unwrap_or(0),
            })
        };
        let (savings, checking) = (sum(TABLES[0])?, sum(TABLES[1])?);
        let [brought] = self.brought.sums();
        Ok(broken(self.mix.customers, savings, checking, brought))
    }
}

impl Client for SmallBankClient<'_> {
    type Request = Request;

    fn generate(&mut self, random: &mut Random) -> Request {
        self.mix.draw(random)
    }

    fn kind(request: &Request) -> usize {
        request.kind as usize
    }

    async fn execute(&mut self, request: &Request) -> Result<Attempt, BenchError> {
        let first = Arg::Int8(request.first as i64);
        let alone = match request.kind {
            Kind::DepositChecking => Some((self.checking, DEPOSIT)),
            Kind::TransactSavings => Some((self.savings, SAVED)),
            _ => None,
        };
        let mut brought = 0;
        let ended = match alone {
            Some((table, amount)) => {
                brought = amount;
                match self.session.execute(table.add, &[Arg::Int8(amount), first]) {
                    Ok(1) => Attempt::Committed,
                    Ok(_) => Attempt::Failed(NO_ACCOUNT),
                    Err(failure) => failure.into_attempt()?,
                }
            }
            None => {
                let tables = (&self.savings, &self.checking);
                self.session.attempt(|session| {
                    let (said, by) = in_block(session, tables, request)?;
                    brought = by;
                    Ok(said)
                })?
            }
        };
        if ended == Attempt::Committed {
            self.brought.add([brought]);
        }
        Ok(ended)
    }
}

/// Runs the transactions of more than one statement.
fn in_block(
    session: &mut dyn SqlSession,
    (savings, checking): (&Statements, &Statements),
    request: &Request,
) -> Result<Effect, SqlFailure> {
    let (first, second) = (
        Arg::Int8(request.first as i64),
        Arg::Int8(request.second as i64),
    );
    let no_account = Ok((Attempt::Failed(NO_ACCOUNT), 0));
    let Some(checked) = checking.read(session, first, request.kind != Kind::Balance)? else {
        return no_account;
    };
    if request.kind == Kind::SendPayment {
        if checked < PAYMENT {
            return Ok((Attempt::Failed(TOO_LITTLE), 0));
        }
        session.execute(checking.add, &[Arg::Int8(-PAYMENT), first])?;
        session.execute(checking.add, &[Arg::Int8(PAYMENT), second])?;
        return Ok(COMMITTED);
    }
    let Some(saved) = savings.read(session, first, request.kind == Kind::Amalgamate)? else {
        return no_account;
    };
    let both = saved + checked;
    match request.kind {
        Kind::WriteCheck => {
            let takes = check_takes(both);
            session.execute(checking.add, &[Arg::Int8(-takes), first])?;
            Ok((Attempt::Committed, -takes))
        }
        Kind::Amalgamate => {
            session.execute(savings.write, &[Arg::Int8(0), first])?;
            session.execute(checking.write, &[Arg::Int8(0), first])?;
            session.execute(checking.add, &[Arg::Int8(both), second])?;
            Ok(COMMITTED)
        }
        _ => Ok(COMMITTED),
    }
}

//! `smallbank` on two hash tables with 8-byte keys and values of one word. Both accounts of a
//! customer are on one machine.

use fencepost_fabric::random::Random;
use fencepost_hashtable::{HashTable, IndexError};
use fencepost_txn::{Coordinator, Mode, Transaction};

use super::{
    COMMITTED, DEPOSIT, Effect, KINDS, Kind, Mix, NO_ACCOUNT, OPENING_BALANCE, PAYMENT, Request,
    SAVED, Sum, TOO_LITTLE, broken, check_takes,
};
use crate::error::BenchError;
use crate::harness::{Attempt, Client, Counters, Workload};
use crate::native::{Machines, Partitions, end, load, look_at_each};
use crate::tally::{ClientSums, Tally};

/// The number of customers in one transaction of the load.
const PIECE: u64 = 1000;

struct Tables {
    savings: Partitions<HashTable>,
    checking: Partitions<HashTable>,
}

/// `smallbank` on the transaction API.
pub struct SmallBankNative {
    machines: Machines,
    tables: Tables,
    mix: Mix,
    /// The sum of committed deposits, less committed withdrawals.
    brought: Tally<1>,
}

/// A client of one thread.
pub struct SmallBankNativeClient<'a> {
    coordinator: Coordinator,
    tables: &'a Tables,
    mix: Mix,
    brought: ClientSums<'a, 1>,
}

impl SmallBankNative {
    /// Creates the workload with this number of customers, at least two.
    ///
    /// # Errors
    /// Failure to create the tables.
    pub fn new(machines: Machines, customers: u32) -> Result<SmallBankNative, BenchError> {
        let mix = Mix::new(customers);
        let table = || machines.create_table(8, 1, mix.customers);
        let tables = Tables {
            savings: table()?,
            checking: table()?,
        };
        Ok(SmallBankNative {
            tables,
            mix,
            brought: Tally::new(),
            machines,
        })
    }

    fn sum(&self, table: &Partitions<HashTable>) -> Result<Sum, BenchError> {
        let mut sum = Sum {
            accounts: 0,
            total: 0,
            least: i64::MAX,
        };
        let look = async |customer: u64| {
            let (key, mut value) = (customer.to_le_bytes(), [0]);
            // Every machine takes part in the check, mostly with remote keys.
            let machine = self.machines.of(customer as usize);
            let table = table.of(customer);
            let there = table.get_lockfree(machine, &key, &mut value).await?;
            Ok(Ok(there.then_some(value[0] as i64)))
        };
        look_at_each(self.mix.customers, look, |balance| {
            let Some(balance) = balance else { return };
            sum.accounts += 1;
            sum.total += balance;
            sum.least = sum.least.min(balance);
        })?;
        Ok(sum)
    }
}

async fn read(
    table: &Partitions<HashTable>,
    tx: &mut Transaction,
    customer: u64,
) -> Result<Option<i64>, IndexError> {
    let mut value = [0];
    let found = table
        .of(customer)
        .get_into(tx, &customer.to_le_bytes(), &mut value)
        .await?;
    Ok(found.then_some(value[0] as i64))
}

async fn write(
    table: &Partitions<HashTable>,
    tx: &mut Transaction,
    customer: u64,
    balance: i64,
) -> Result<(), IndexError> {
    let key = customer.to_le_bytes();
    let value = [balance as u64];
    table.of(customer).replace(tx, &key, &value).await?;
    Ok(())
}

impl Tables {
    async fn run(&self, tx: &mut Transaction, request: &Request) -> Result<Effect, IndexError> {
        let Request {
            kind,
            first,
            second,
        } = *request;
        let Tables { savings, checking } = self;
        let no_account = Ok((Attempt::Failed(NO_ACCOUNT), 0));
        match kind {
            Kind::Balance | Kind::WriteCheck | Kind::Amalgamate => {
                let (Some(saved), Some(checked)) = (
                    read(savings, tx, first).await?,
                    read(checking, tx, first).await?,
                ) else {
                    return no_account;
                };
                let both = saved + checked;
                match kind {
                    Kind::Balance => return Ok(COMMITTED),
                    Kind::WriteCheck => {
                        let takes = check_takes(both);
                        write(checking, tx, first, checked - takes).await?;
                        return Ok((Attempt::Committed, -takes));
                    }
                    _ => {}
                }
                let Some(other) = read(checking, tx, second).await? else {
                    return no_account;
                };
                write(savings, tx, first, 0).await?;
                write(checking, tx, first, 0).await?;
                write(checking, tx, second, other + both).await?;
                Ok(COMMITTED)
            }
            Kind::DepositChecking | Kind::TransactSavings => {
                let (table, amount) = if kind == Kind::DepositChecking {
                    (checking, DEPOSIT)
                } else {
                    (savings, SAVED)
                };
                let Some(balance) = read(table, tx, first).await? else {
                    return no_account;
                };
                write(table, tx, first, balance + amount).await?;
                Ok((Attempt::Committed, amount))
            }
            Kind::SendPayment => {
                let Some(from) = read(checking, tx, first).await? else {
                    return no_account;
                };
                if from < PAYMENT {
                    return Ok((Attempt::Failed(TOO_LITTLE), 0));
                }
                let Some(to) = read(checking, tx, second).await? else {
                    return no_account;
                };
                write(checking, tx, first, from - PAYMENT).await?;
                write(checking, tx, second, to + PAYMENT).await?;
                Ok(COMMITTED)
            }
        }
    }
}

impl Workload for SmallBankNative {
    type Client<'a> = SmallBankNativeClient<'a>;
    const SAMPLED: u64 = 8;
    const KINDS: &'static [&'static str] = KINDS;

    fn name(&self) -> &'static str {
        "smallbank"
    }

    fn prepare(&self, say: &dyn Fn(&str)) -> Result<(), BenchError> {
        let (Tables { savings, checking }, last) = (&self.tables, self.mix.customers);
        self.machines
            .load((last, "customers"), PIECE, say, async |tx, customer| {
                let (key, value) = (customer.to_le_bytes(), [OPENING_BALANCE as u64]);
                load(tx, savings.of(customer), &key, &value).await?;
                load(tx, checking.of(customer), &key, &value).await
            })
    }

    fn client(&self, thread: usize) -> Result<SmallBankNativeClient<'_>, BenchError> {
        Ok(SmallBankNativeClient {
            coordinator: self.machines.of(thread).coordinator(),
            tables: &self.tables,
            mix: self.mix,
            brought: self.brought.share(),
        })
    }

    fn verify(&self) -> Result<Option<String>, BenchError> {
        if let Some(broken) = self.machines.wait_until_idle() {
            return Ok(Some(broken));
        }
        let (savings, checking) = (
            self.sum(&self.tables.savings)?,
            self.sum(&self.tables.checking)?,
        );
        let [brought] = self.brought.sums();
        Ok(broken(self.mix.customers, savings, checking, brought))
    }

    fn counters(&self) -> Counters {
        self.machines.counters()
    }
}

impl Client for SmallBankNativeClient<'_> {
    type Request = Request;

    #[inline]
    fn generate(&mut self, random: &mut Random) -> Request {
        self.mix.draw(random)
    }

    fn kind(request: &Request) -> usize {
        request.kind as usize
    }

    #[inline]
    async fn execute(&mut self, request: &Request) -> Result<Attempt, BenchError> {
        let mode = match request.kind {
            Kind::Balance => Mode::ReadOnly,
            _ => Mode::ReadWrite,
        };
        let mut tx = self.coordinator.begin(mode);
        let mut brought = 0;
        let done = self.tables.run(&mut tx, request).await.map(|(said, by)| {
            brought = by;
            said
        });
        let ended = end(tx, done).await?;
        if ended == Attempt::Committed {
            self.brought.add([brought]);
        }
        Ok(ended)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::native::{insist, machine_for_tests, run_future};

    #[test]
    fn money_from_nowhere_is_found() {
        let bank = SmallBankNative::new(machine_for_tests(), 50).expect("tables");
        bank.prepare(&|_| ()).expect("it loads");
        let mut client = bank.client(0).expect("a client");
        let mut random = Random::new(7);
        for _ in 0..500 {
            let request = client.generate(&mut random);
            let ended = run_future(client.execute(&request)).expect("it runs");
            assert!(!matches!(ended, Attempt::Aborted(_)), "{ended:?}");
        }
        drop(client);
        assert_eq!(bank.verify().expect("it looks"), None);
        let checking = &bank.tables.checking;
        let mut coordinator = bank.machines.of(0).coordinator();
        let written = insist(&mut coordinator, async |tx| {
            let balance = read(checking, tx, 9).await?.expect("an account");
            write(checking, tx, 9, balance + 1).await
        });
        run_future(written).expect("it writes");
        assert!(bank.verify().expect("it looks").is_some());
    }
}

//! `smallbank` on two hash tables, 8-byte keys and values of one word.

use std::sync::Arc;

use fencepost_fabric::random::Random;
use fencepost_hashtable::{HashTable, IndexError};
use fencepost_txn::{Coordinator, Machine, Mode, Transaction};

use super::{
    COMMITTED, DEPOSIT, Effect, KINDS, Kind, Mix, NO_ACCOUNT, OPENING_BALANCE, PAYMENT, Request,
    SAVED, Sum, TOO_LITTLE, broken, check_takes,
};
use crate::error::BenchError;
use crate::harness::{Attempt, Client, Counters, Workload};
use crate::native::{self, create_table, end, load, load_in_pieces, settle};
use crate::tally::{Share, Tally};

/// Customers of one transaction of the load.
const PIECE: u64 = 1000;

#[derive(Clone, Copy)]
struct Tables {
    savings: HashTable,
    checking: HashTable,
}

/// `smallbank` on the transaction API.
pub struct SmallBankNative {
    machine: Arc<Machine>,
    tables: Tables,
    mix: Mix,
    /// What committed transactions brought in, less what they took out.
    brought: Tally<1>,
}

/// One thread.
pub struct SmallBankNativeClient<'a> {
    coordinator: Coordinator,
    tables: Tables,
    mix: Mix,
    brought: Share<'a, 1>,
}

impl SmallBankNative {
    /// With so many customers, at least two.
    ///
    /// # Errors
    /// Tables that cannot be made.
    pub fn new(machine: &Arc<Machine>, customers: u32) -> Result<SmallBankNative, BenchError> {
        let mix = Mix::new(customers);
        let table = || create_table(machine, 8, 1, mix.customers);
        let tables = Tables {
            savings: table()?,
            checking: table()?,
        };
        Ok(SmallBankNative {
            machine: Arc::clone(machine),
            tables,
            mix,
            brought: Tally::new(),
        })
    }

    fn sum(&self, table: &HashTable) -> Sum {
        let mut sum = Sum {
            accounts: 0,
            total: 0,
            least: i64::MAX,
        };
        for customer in 1..=self.mix.customers {
            let mut value = [0];
            if table.get_lockfree(&self.machine, &customer.to_le_bytes(), &mut value) {
                let balance = value[0] as i64;
                sum.accounts += 1;
                sum.total += balance;
                sum.least = sum.least.min(balance);
            }
        }
        sum
    }
}

async fn read(
    table: &HashTable,
    tx: &mut Transaction,
    customer: u64,
) -> Result<Option<i64>, IndexError> {
    let mut value = [0];
    let found = table
        .get_into(tx, &customer.to_le_bytes(), &mut value)
        .await?;
    Ok(found.then_some(value[0] as i64))
}

async fn write(
    table: &HashTable,
    tx: &mut Transaction,
    customer: u64,
    balance: i64,
) -> Result<(), IndexError> {
    let key = customer.to_le_bytes();
    table.replace(tx, &key, &[balance as u64]).await?;
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
        let (machine, last) = (&self.machine, self.mix.customers);
        load_in_pieces(
            machine,
            (last, "customers"),
            PIECE,
            say,
            async |tx, customers| {
                for customer in customers {
                    let (key, value) = (customer.to_le_bytes(), [OPENING_BALANCE as u64]);
                    load(tx, &self.tables.savings, &key, &value).await?;
                    load(tx, &self.tables.checking, &key, &value).await?;
                }
                Ok(())
            },
        )
    }

    fn client(&self, _thread: usize) -> Result<SmallBankNativeClient<'_>, BenchError> {
        Ok(SmallBankNativeClient {
            coordinator: self.machine.coordinator(),
            tables: self.tables,
            mix: self.mix,
            brought: self.brought.share(),
        })
    }

    fn verify(&self) -> Result<Option<String>, BenchError> {
        let (savings, checking) = (
            self.sum(&self.tables.savings),
            self.sum(&self.tables.checking),
        );
        let [brought] = self.brought.sums();
        Ok(broken(self.mix.customers, savings, checking, brought))
    }

    fn counters(&self) -> Counters {
        native::counters(&self.machine)
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
    fn execute(&mut self, request: &Request) -> Result<Attempt, BenchError> {
        let mode = match request.kind {
            Kind::Balance => Mode::ReadOnly,
            _ => Mode::ReadWrite,
        };
        let mut tx = self.coordinator.begin(mode);
        let mut brought = 0;
        let done = settle(self.tables.run(&mut tx, request)).map(|(said, by)| {
            brought = by;
            said
        });
        let ended = end(tx, done)?;
        if ended == Attempt::Committed {
            self.brought.add([brought]);
        }
        Ok(ended)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::native::{insist, machine_for_tests};

    #[test]
    fn money_from_nowhere_is_found() {
        let machine = machine_for_tests();
        let bank = SmallBankNative::new(&machine, 50).expect("tables");
        bank.prepare(&|_| ()).expect("it loads");
        let mut client = bank.client(0).expect("a client");
        let mut random = Random::new(7);
        for _ in 0..500 {
            let request = client.generate(&mut random);
            let ended = client.execute(&request).expect("it runs");
            assert!(!matches!(ended, Attempt::Aborted(_)), "{ended:?}");
        }
        drop(client);
        assert_eq!(bank.verify().expect("it looks"), None);
        let checking = bank.tables.checking;
        insist(&mut machine.coordinator(), async |tx| {
            let balance = read(&checking, tx, 9).await?.expect("an account");
            write(&checking, tx, 9, balance + 1).await
        })
        .expect("it writes");
        assert!(bank.verify().expect("it looks").is_some());
    }
}

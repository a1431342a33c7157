//! `bank` on a hash table: each transfer reads and writes two values of one word.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use fencepost_fabric::random::Random;
use fencepost_hashtable::{HashTable, IndexError};
use fencepost_txn::{Coordinator, Mode, Transaction};

use super::{OPENING_BALANCE, Sum, TOO_LITTLE, Transfer, WATCH_PAUSE};
use crate::error::BenchError;
use crate::failover::Survivor;
use crate::harness::{Attempt, Client, Counters, Workload};
use crate::native::{Machines, Partitions, end, load, run_future};

/// The number of accounts in one transaction of the load.
const PIECE: u64 = 1000;

/// `bank` on the transaction API.
pub struct BankNative {
    machines: Machines,
    table: Partitions<HashTable>,
    accounts: u32,
}

impl BankNative {
    /// Creates the workload with this number of accounts, at least two.
    ///
    /// # Errors
    /// Failure to create the table.
    pub fn new(machines: Machines, accounts: u32) -> Result<BankNative, BenchError> {
        let accounts = accounts.max(2);
        let table = machines.create_table(8, 1, accounts.into())?;
        Ok(BankNative {
            machines,
            table,
            accounts,
        })
    }

    /// Sums all accounts in one snapshot.
    fn sum(&self, coordinator: &mut Coordinator) -> Result<Option<Sum>, BenchError> {
        let mut tx = coordinator.begin(Mode::ReadOnly);
        let mut sum = Sum {
            accounts: 0,
            total: 0,
            least: i64::MAX,
        };
        let read = async {
            for account in 1..=self.accounts {
                if let Some(balance) = balance(&self.table, &mut tx, account).await? {
                    sum.accounts += 1;
                    sum.total += balance;
                    sum.least = sum.least.min(balance);
                }
            }
            Ok(Attempt::Committed)
        };
        let read = run_future(read);
        Ok(matches!(run_future(end(tx, read))?, Attempt::Committed).then_some(sum))
    }
}

/// A client of one thread.
pub struct BankNativeClient<'a> {
    coordinator: Coordinator,
    table: &'a Partitions<HashTable>,
    accounts: u32,
}

fn key(account: u32) -> [u8; 8] {
    u64::from(account).to_le_bytes()
}

async fn balance(
    table: &Partitions<HashTable>,
    tx: &mut Transaction,
    account: u32,
) -> Result<Option<i64>, IndexError> {
    let mut value = [0];
    let table = table.of(account.into());
    let found = table.get_into(tx, &key(account), &mut value).await?;
    Ok(found.then_some(value[0] as i64))
}

async fn write(
    table: &Partitions<HashTable>,
    tx: &mut Transaction,
    account: u32,
    balance: i64,
) -> Result<(), IndexError> {
    let table = table.of(account.into());
    table.replace(tx, &key(account), &[balance as u64]).await?;
    Ok(())
}

impl Workload for BankNative {
    type Client<'a> = BankNativeClient<'a>;

    fn name(&self) -> &'static str {
        "bank"
    }

    fn prepare(&self, say: &dyn Fn(&str)) -> Result<(), BenchError> {
        let last = u64::from(self.accounts);
        self.machines
            .load((last, "accounts"), PIECE, say, async |tx, account| {
                let (key, value) = (account.to_le_bytes(), [OPENING_BALANCE as u64]);
                load(tx, self.table.of(account), &key, &value).await
            })
    }

    fn client(&self, thread: usize) -> Result<BankNativeClient<'_>, BenchError> {
        let coordinator = self.machines.of(thread).coordinator();
        Ok(BankNativeClient {
            coordinator,
            table: &self.table,
            accounts: self.accounts,
        })
    }

    fn watch(&self, stop: &AtomicBool) -> Result<Option<String>, BenchError> {
        let mut coordinator = self.machines.of(0).coordinator();
        while !stop.load(Ordering::Relaxed) {
            if let Some(sum) = self.sum(&mut coordinator)?
                && let Some(broken) = sum.broken(self.accounts)
            {
                return Ok(Some(broken));
            }
            thread::sleep(WATCH_PAUSE);
        }
        Ok(None)
    }

    fn verify(&self) -> Result<Option<String>, BenchError> {
        if let Some(broken) = self.machines.wait_until_idle() {
            return Ok(Some(broken));
        }
        let sum = self.sum(&mut self.machines.of(0).coordinator())?;
        Ok(match sum {
            Some(sum) => sum.broken(self.accounts),
            None => Some("a reader was aborted with no writer about".to_string()),
        })
    }

    fn counters(&self) -> Counters {
        self.machines.counters()
    }
}

impl Survivor for BankNative {
    /// Verifies that no transfer created or lost money, including transfers of machines that
    /// failed.
    fn verify_after_failure(&self) -> Result<Option<String>, BenchError> {
        self.verify()
    }
}

impl Client for BankNativeClient<'_> {
    type Request = Transfer;

    fn generate(&mut self, random: &mut Random) -> Transfer {
        Transfer::draw(self.accounts, random)
    }

    async fn execute(&mut self, transfer: &Transfer) -> Result<Attempt, BenchError> {
        let mut tx = self.coordinator.begin(Mode::ReadWrite);
        let done = move_money(self.table, &mut tx, transfer).await;
        end(tx, done).await
    }
}

async fn move_money(
    table: &Partitions<HashTable>,
    tx: &mut Transaction,
    transfer: &Transfer,
) -> Result<Attempt, IndexError> {
    let from = balance(table, tx, transfer.from).await?.unwrap_or(0);
    if from < transfer.amount {
        return Ok(Attempt::Failed(TOO_LITTLE));
    }
    let to = balance(table, tx, transfer.to).await?.unwrap_or(0);
    let paid = from - transfer.amount;
    write(table, tx, transfer.from, paid).await?;
    write(table, tx, transfer.to, to + transfer.amount).await?;
    Ok(Attempt::Committed)
}

//! `smallbank`: six short transactions over the savings and the checking account of each customer.
//!
//! Shares, sizes and skew are FaSST's (OSDI'16 §6.3): 100,000 customers and 4,000 hot customers for
//! each thread. Nine in ten transactions concern hot customers. The two customers of a transaction
//! differ, and both are hot or both are drawn from all. Keys and balances have 8 bytes. Unlike in
//! FaSST, balances are whole cents that change by each deposit (FaSST's floats are too large for
//! that). A transaction that conflicts is run again with the same customers.
//!
//! After a run every account must exist, and no savings may be below zero (checks may overdraw a
//! checking account). The sum of all balances must be that of the load plus committed deposits,
//! less committed checks.

mod native;
mod sql;

use fencepost_fabric::random::Random;

use crate::harness::Attempt;

pub use native::SmallBankNative;
pub use sql::SmallBankSql;

/// The default number of customers for each thread.
pub const CUSTOMERS_A_THREAD: u32 = 100_000;
/// One customer in this many is hot.
const HOT_ONE_IN: u64 = 25;
/// The percentage of transactions on hot customers.
const HOT_PERCENT: u64 = 90;

/// The initial balance of each account, in cents, like all amounts below.
const OPENING_BALANCE: i64 = 1_000_000;
const DEPOSIT: i64 = 130;
const SAVED: i64 = 2020;
const PAYMENT: i64 = 500;
const CHECK: i64 = 500;
/// The additional cost of a check that is not covered.
const PENALTY: i64 = 100;

/// The failure reason: the paying account has too little.
const TOO_LITTLE: &str = "insufficient_funds";
/// The failure reason: an account is missing. The check after the run reports it too.
const NO_ACCOUNT: &str = "no_account";

/// The names of the transactions, in the order of [`Kind`].
const KINDS: &[&str] = &[
    "amalgamate",
    "balance",
    "deposit_checking",
    "send_payment",
    "transact_savings",
    "write_check",
];

/// One of the six transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Moves the whole balance of the first customer to the second's checking account.
    Amalgamate,
    /// Reads the balances of the first customer.
    Balance,
    /// Deposits into the first customer's checking account.
    DepositChecking,
    /// Moves money between the two checking accounts.
    SendPayment,
    /// Deposits into the first customer's savings.
    TransactSavings,
    /// Withdraws a check from the first customer's checking account.
    WriteCheck,
}

impl Kind {
    fn draw(random: &mut Random) -> Kind {
        match random.below(100) {
            0..15 => Kind::Amalgamate,
            15..30 => Kind::Balance,
            30..45 => Kind::DepositChecking,
            45..70 => Kind::SendPayment,
            70..85 => Kind::TransactSavings,
            _ => Kind::WriteCheck,
        }
    }
}

/// A transaction with its customers, numbered from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The transaction.
    pub kind: Kind,
    /// The first customer.
    pub first: u64,
    /// Another customer, for transactions with two.
    pub second: u64,
}

/// The distribution of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mix {
    customers: u64,
    hot: u64,
}

impl Mix {
    /// Creates the distribution for this number of customers, at least two.
    pub fn new(customers: u32) -> Mix {
        let customers = u64::from(customers).max(2);
        let hot = (customers / HOT_ONE_IN).max(2);
        Mix { customers, hot }
    }

    /// Draws the next request.
    #[inline]
    pub fn draw(&self, random: &mut Random) -> Request {
        let kind = Kind::draw(random);
        let among = if random.below(100) < HOT_PERCENT {
            self.hot
        } else {
            self.customers
        };
        let first = random.below(among);
        let second = (first + 1 + random.below(among - 1)) % among;
        Request {
            kind,
            first: first + 1,
            second: second + 1,
        }
    }
}

/// Returns the amount that a check withdraws if the customer has `both` in total.
const fn check_takes(both: i64) -> i64 {
    if both < CHECK { CHECK + PENALTY } else { CHECK }
}

/// The outcome of a transaction, and its change of the sum of all balances if it commits.
type Effect = (Attempt, i64);

const COMMITTED: Effect = (Attempt::Committed, 0);

/// The sum over all accounts of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sum {
    accounts: u64,
    total: i64,
    least: i64,
}

/// Returns the violated condition of the accounts of `customers`, if there is one. `brought` is the
/// sum of committed deposits, less committed withdrawals.
fn broken(customers: u64, savings: Sum, checking: Sum, brought: i64) -> Option<String> {
    for (name, sum) in [("savings", savings), ("checking", checking)] {
        if sum.accounts != customers {
            let found = sum.accounts;
            return Some(format!("{found} {name} accounts instead of {customers}"));
        }
    }
    if savings.least < 0 {
        return Some(format!("savings of {} cents", savings.least));
    }
    let wanted = 2 * customers as i64 * OPENING_BALANCE + brought;
    let total = savings.total + checking.total;
    (total != wanted).then(|| format!("a total of {total} cents instead of {wanted}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_customers_differ_and_are_both_hot_nine_times_in_ten() {
        let mut random = Random::new(3);
        let mix = Mix::new(100_000);
        let mut hot = 0;
        for _ in 0..10_000 {
            let request = mix.draw(&mut random);
            assert_ne!(request.first, request.second);
            assert!((1..=100_000).contains(&request.first.min(request.second)));
            hot += u32::from(request.first.max(request.second) <= 4000);
        }
        // One in 625 of the other transactions also has two hot customers.
        assert!((8900..9100).contains(&hot), "{hot}");
        let least = Mix::new(0).draw(&mut random);
        assert_eq!(least.first + least.second, 3);
    }

    #[test]
    fn mix_matches_benchmark() {
        let mut random = Random::new(4);
        let mut counts = [0u32; 6];
        for _ in 0..20_000 {
            counts[Kind::draw(&mut random) as usize] += 1;
        }
        for (count, percent) in counts.into_iter().zip([15, 15, 15, 25, 15, 15]) {
            assert!(count.abs_diff(percent * 200) < 250, "{counts:?}");
        }
        assert_eq!(KINDS[Kind::WriteCheck as usize], "write_check");
    }

    #[test]
    fn wrong_total_is_reported() {
        let sum = Sum {
            accounts: 3,
            total: 3 * OPENING_BALANCE,
            least: 0,
        };
        let more = Sum {
            total: sum.total + 1,
            ..sum
        };
        assert_eq!(broken(3, sum, sum, 0), None);
        assert_eq!(broken(3, sum, more, 1), None);
        assert!(broken(3, sum, more, 0).is_some());
        assert!(broken(4, sum, sum, 0).is_some());
        assert!(broken(3, Sum { least: -1, ..sum }, sum, 0).is_some());
        assert_eq!(broken(3, sum, Sum { least: -1, ..sum }, 0), None);
    }
}

//! `bank`: transfers between accounts; the total must not change.
//!
//! A transfer moves money from one account to another, both drawn uniformly, and does nothing if
//! the first has too little. While transfers run, a reader repeatedly sums all accounts in one
//! snapshot, and once more after the run. The total must be that of the load, no account may be
//! missing, and none may be below zero.

mod native;
mod sql;

use fencepost_fabric::random::Random;

pub use native::BankNative;
pub use sql::BankSql;

/// The default number of accounts.
pub const ACCOUNTS: u32 = 1000;
/// The initial balance of each account.
const OPENING_BALANCE: i64 = 1000;
/// The largest amount of a transfer.
const MOST: u64 = 100;
/// The failure reason: the paying account has too little.
const TOO_LITTLE: &str = "insufficient_funds";
/// The pause of the watching reader between two sums.
const WATCH_PAUSE: std::time::Duration = std::time::Duration::from_millis(20);

/// One transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// The paying account, from 1.
    pub from: u32,
    /// The receiving account, a different one.
    pub to: u32,
    /// The amount of money.
    pub amount: i64,
}

impl Transfer {
    /// Draws a transfer among accounts `1..=accounts`, of which there must be at least two.
    pub fn draw(accounts: u32, random: &mut Random) -> Transfer {
        let from = random.below(u64::from(accounts)) as u32;
        let step = random.below(u64::from(accounts) - 1) as u32 + 1;
        let to = ((u64::from(from) + u64::from(step)) % u64::from(accounts)) as u32;
        Transfer {
            from: from + 1,
            to: to + 1,
            amount: random.below(MOST) as i64 + 1,
        }
    }
}

/// The sum over all accounts in one snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sum {
    accounts: u64,
    total: i64,
    least: i64,
}

impl Sum {
    /// Returns the violated condition, if there is one.
    fn broken(&self, accounts: u32) -> Option<String> {
        let total = i64::from(accounts) * OPENING_BALANCE;
        if self.accounts != u64::from(accounts) {
            return Some(format!("{} accounts instead of {accounts}", self.accounts));
        }
        if self.total != total {
            return Some(format!("a total of {} instead of {total}", self.total));
        }
        (self.least < 0).then(|| format!("an account has {}", self.least))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transfers_are_between_two_different_accounts_that_exist() {
        let mut random = Random::new(5);
        for accounts in [2, 3, 50] {
            for _ in 0..500 {
                let transfer = Transfer::draw(accounts, &mut random);
                assert_ne!(transfer.from, transfer.to);
                assert!((1..=accounts).contains(&transfer.from));
                assert!((1..=accounts).contains(&transfer.to));
                assert!((1..=100).contains(&transfer.amount));
            }
        }
    }

    #[test]
    fn wrong_sum_is_reported() {
        let whole = Sum {
            accounts: 3,
            total: 3000,
            least: 0,
        };
        assert_eq!(whole.broken(3), None);
        for sum in [
            Sum {
                accounts: 2,
                ..whole
            },
            Sum {
                total: 2999,
                ..whole
            },
            Sum { least: -1, ..whole },
        ] {
            assert!(sum.broken(3).is_some(), "{sum:?}");
        }
    }
}

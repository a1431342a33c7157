//! `bank`: transfers between accounts; the total must hold.
//!
//! A transfer moves money from one account to another, both drawn evenly, and does nothing where the
//! first has too little. While transfers run a reader sums all accounts in one snapshot, again and
//! again, and once more after the run: the total is that of the load, no account is missing and none
//! is below zero.

mod native;
mod sql;

use fencepost_fabric::random::Random;

pub use native::BankNative;
pub use sql::BankSql;

/// Accounts unless told otherwise.
pub const ACCOUNTS: u32 = 1000;
/// What each account begins with.
const OPENING_BALANCE: i64 = 1000;
/// The most that one transfer moves.
const MOST: u64 = 100;
/// The first account has too little.
const TOO_LITTLE: &str = "insufficient_funds";
/// Pause between two sums of the watching reader.
const WATCH_PAUSE: std::time::Duration = std::time::Duration::from_millis(20);

/// One transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// Account that pays, from 1.
    pub from: u32,
    /// Another, that is paid.
    pub to: u32,
    /// Money.
    pub amount: i64,
}

impl Transfer {
    /// Draws one among accounts `1..=accounts`, of which there are at least two.
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

/// What a reader saw of all accounts at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sum {
    accounts: u64,
    total: i64,
    least: i64,
}

impl Sum {
    /// What is wrong with it, if anything.
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
    fn a_sum_tells_what_is_broken() {
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

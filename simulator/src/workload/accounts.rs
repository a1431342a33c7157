//! Steps over accounts: transfers, which keep the total constant.

use super::step::{Halt, Step};
use crate::history::{Object, ReadVersion};
use crate::world::DEPOSIT;

/// Returns an account as an object of the history.
pub const fn account(at: usize) -> Object {
    Object("account", at as u64)
}

impl Step<'_> {
    /// Moves money from one account to another.
    pub async fn transfer(&mut self) -> Result<(), Halt> {
        let count = self.world.accounts.len();
        let from = self.one_of(count);
        let to = (from + 1 + self.one_of(count - 1)) % count;
        let amount = self.below(50);
        for (at, change) in [(from, amount.wrapping_neg()), (to, amount)] {
            let balance = self.balance(at).await?;
            self.pause().await;
            let words = [balance.wrapping_add(change), self.id()];
            self.tx.write(self.world.accounts[at], &words).await?;
            self.wrote(account(at), true, None)?;
        }
        Ok(())
    }

    /// Adds all balances up. The total is constant in every transaction, even in one that is
    /// aborted later.
    pub async fn audit(&mut self) -> Result<(), Halt> {
        let mut sum = 0u64;
        for at in 0..self.world.accounts.len() {
            sum = sum.wrapping_add(self.balance(at).await?);
        }
        let right = DEPOSIT * self.world.accounts.len() as u64;
        if sum != right {
            return Err(format!("all accounts have {sum} and not {right}").into());
        }
        Ok(())
    }

    async fn balance(&mut self, at: usize) -> Result<u64, Halt> {
        let words = self.words(account(at), self.world.accounts[at]).await?;
        self.saw(account(at), ReadVersion::By(words[1]))?;
        Ok(words[0])
    }
}

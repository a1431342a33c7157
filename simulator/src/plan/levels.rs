//! Plans in which transactions of different isolation levels run side by side over the same rows.

use fencepost_fabric::Random;

use super::Plan;

/// A constant that separates these draws from the other draws of a seed.
const LEVELS_SEED: u64 = 0x15_01_A7_10;

/// The rows that transactions of different levels share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LevelPlan {
    /// The number of keys of the ledger.
    pub keys: u64,
    /// The percentage of transactions that are over the ledger.
    pub share_percent: u64,
}

impl Plan {
    /// Draws a plan in which nothing fails, and transactions of all levels share rows.
    pub fn draw_with_levels(seed: u64) -> Plan {
        Plan::draw(seed).with_levels()
    }

    /// Draws a plan of transactions of all levels in which machines crash, messages are late or
    /// lost, or machines are cut off, join or leave.
    pub fn draw_with_levels_and_faults(seed: u64) -> Plan {
        const DRAWS: [fn(u64) -> Plan; 12] = [
            Plan::draw_with_crash,
            Plan::draw_with_crash_in_commit,
            Plan::draw_with_bad_network,
            Plan::draw_with_slow_ways,
            Plan::draw_with_two_crashes,
            Plan::draw_with_partition,
            Plan::draw_with_join,
            Plan::draw_with_leaving,
            Plan::draw_with_crash_on_slow_ways,
            Plan::draw_with_client_that_leaves,
            Plan::draw_with_pause,
            Plan::draw_with_torn_reads,
        ];
        DRAWS[(seed % DRAWS.len() as u64) as usize](seed).with_levels()
    }

    /// Returns the plan with transactions of all levels.
    fn with_levels(mut self) -> Plan {
        let mut random = Random::new(self.seed ^ LEVELS_SEED);
        let mut of = |choices: &[u64]| choices[random.below(choices.len() as u64) as usize];
        self.levels = Some(LevelPlan {
            keys: of(&[2, 5, 12]),
            share_percent: of(&[80, 100]),
        });
        self
    }
}

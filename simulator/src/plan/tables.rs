//! Plans in which clients create, change and drop tables.

use fencepost_fabric::Random;

use super::Plan;

/// One in this many plans of any kind has tables.
const TABLES_ONE_IN: u64 = 4;
/// A constant that separates these draws from the other draws of a seed, so that plans without
/// tables do not depend on them. With this value the plans of all seeds that `README.md` and
/// `tests/clusters/regressions.rs` name have no tables.
const TABLES_SEED: u64 = 0x7A_B1_F0_0D;

/// The tables of a run, and what clients do with them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TablePlan {
    /// The number of names of tables.
    pub names: u64,
    /// The number of keys of a table's rows.
    pub keys: u64,
    /// The percentage of steps that are over tables.
    pub share_percent: u64,
    /// The percentage of steps over tables that are DDL.
    pub ddl_percent: u64,
}

impl TablePlan {
    /// Draws the tables of a plan of any kind, mostly none.
    pub(super) fn draw(seed: u64) -> Option<TablePlan> {
        let mut random = Random::new(seed ^ TABLES_SEED);
        let mut of = |choices: &[u64]| choices[random.below(choices.len() as u64) as usize];
        let tables = TablePlan {
            names: of(&[1, 2]),
            keys: of(&[8, 40]),
            share_percent: of(&[20, 50]),
            ddl_percent: of(&[5, 20]),
        };
        random.one_in(TABLES_ONE_IN).then_some(tables)
    }
}

impl Plan {
    /// Draws a plan in which nothing fails, and clients mostly create, change, use and drop tables.
    pub fn draw_with_schema(seed: u64) -> Plan {
        Plan::draw(seed).with_tables()
    }

    /// Draws a plan with tables in which a machine crashes: at any time, at a step of a commit, or
    /// another one later.
    pub fn draw_with_schema_and_crash(seed: u64) -> Plan {
        let plan = match seed % 4 {
            0 | 1 => Plan::draw_with_crash(seed),
            2 => Plan::draw_with_crash_in_commit(seed),
            _ => Plan::draw_with_two_crashes(seed),
        };
        plan.with_tables()
    }

    /// Returns the plan with many steps over tables.
    fn with_tables(mut self) -> Plan {
        let mut random = Random::new(self.seed ^ TABLES_SEED.rotate_left(32));
        let mut of = |choices: &[u64]| choices[random.below(choices.len() as u64) as usize];
        let tables = TablePlan {
            names: of(&[1, 2, 4]),
            keys: of(&[8, 40, 160]),
            share_percent: of(&[60, 90]),
            ddl_percent: of(&[5, 15, 30]),
        };
        if tables.keys > 100 {
            // The load of a whole table is one transaction.
            self.log_words = self.log_words.max(1 << 14);
        }
        self.tables = Some(tables);
        self
    }
}

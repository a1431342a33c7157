//! The parts that the tests of the hash table share: a database in memory and a small seeded
//! generator.

use std::sync::Arc;

use fencepost_hashtable::{HashBatch, HashOptions, HashTable, Report};
use fencepost_txn::{Coordinator, Machine, MachineOptions, Mode, Outcome, Stop, Transaction};

/// A fresh database in memory.
pub fn machine() -> Arc<Machine> {
    Machine::open(MachineOptions::default()).expect("a database in memory opens")
}

/// Commits; true if it took effect.
pub fn commit(tx: Transaction) -> bool {
    match pollster::block_on(tx.commit()) {
        Ok(Outcome::Committed(_)) => true,
        Ok(Outcome::Aborted(_)) | Err(Stop::Retry(_)) => false,
        Err(stop) => panic!("commit stopped: {stop}"),
    }
}

/// A table, committed.
pub fn table(session: &mut Coordinator, options: &HashOptions) -> HashTable {
    let mut tx = session.begin(Mode::ReadWrite);
    let table =
        pollster::block_on(HashTable::create_with(&mut tx, options)).expect("there is memory");
    assert!(commit(tx));
    table
}

/// Everything in the table, sorted.
pub async fn everything(
    table: HashTable,
    tx: &mut Transaction,
) -> Result<Vec<(Vec<u8>, u64)>, Stop> {
    let (mut all, mut out) = (Vec::new(), HashBatch::new());
    let mut cursor = table.scan();
    while cursor.next_batch(tx, &mut out, 50).await? {
        all.extend(out.iter().map(|(key, value)| (key.to_vec(), value[0])));
    }
    all.sort_unstable();
    Ok(all)
}

/// Verifies the whole table and hands back what was counted.
pub fn check(session: &mut Coordinator, table: HashTable) -> Report {
    let mut tx = session.begin(Mode::ReadOnly);
    let report = pollster::block_on(table.check(&mut tx)).expect("the table can be read");
    assert!(
        report.problems.is_empty(),
        "{:#?}",
        &report.problems[..report.problems.len().min(5)]
    );
    report
}

/// Numbers from a seed (splitmix).
pub struct Numbers(pub u64);

impl Numbers {
    /// The next number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % bound
    }
}

//! A read of a bucket that the transaction has already changed joins its read set, too.

use fencepost_hashtable::{HashOptions, HashTable};
use fencepost_txn::{Machine, MachineOptions, Mode, Outcome, Transaction};
use pollster::block_on;

fn key(number: u64) -> [u8; 8] {
    number.to_le_bytes()
}

fn read(table: &HashTable, tx: &mut Transaction, number: u64) -> u64 {
    let mut value = [0];
    let found = block_on(table.get_into(tx, &key(number), &mut value));
    assert!(found.expect("reads"), "the key is there");
    value[0]
}

#[test]
fn neighbour_key_in_own_bucket_is_not_overwritten() {
    let machine = Machine::open(MachineOptions::default()).expect("opens");
    let (mut one, mut two) = (machine.coordinator(), machine.coordinator());
    let mut tx = one.begin(Mode::ReadWrite);
    let options = HashOptions {
        key_bytes: 8,
        value_words: 1,
        guard_hits: true,
        shard_buckets: 1,
        ..HashOptions::default()
    };
    let table = pollster::block_on(HashTable::create_with(&mut tx, &options)).expect("a table");
    for number in 0..3 {
        block_on(table.insert(&mut tx, &key(number), &[100])).expect("inserts");
    }
    assert!(matches!(block_on(tx.commit()), Ok(Outcome::Committed(_))));
    for own_first in [false, true] {
        let mut slow = one.begin(Mode::ReadWrite);
        if own_first {
            block_on(table.replace(&mut slow, &key(0), &[7])).expect("replaces");
        }
        let seen = read(&table, &mut slow, 1);
        let mut quick = two.begin(Mode::ReadWrite);
        let value = read(&table, &mut quick, 1) + 1;
        block_on(table.replace(&mut quick, &key(1), &[value])).expect("replaces");
        assert!(matches!(
            block_on(quick.commit()),
            Ok(Outcome::Committed(_))
        ));
        let replaced = block_on(table.replace(&mut slow, &key(1), &[seen + 1]));
        let outcome = replaced.is_ok().then(|| block_on(slow.commit()));
        assert!(
            !matches!(outcome, Some(Ok(Outcome::Committed(_)))),
            "lost update, own_first {own_first}"
        );
    }
}

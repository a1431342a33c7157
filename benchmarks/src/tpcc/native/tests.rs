//! What is planted in the tables is found under the name of the condition that it breaks.

use fencepost_hashtable::IndexError;
use fencepost_txn::Transaction;

use super::tables::column;
use super::*;
use crate::native::{insist, machine_for_tests};
use crate::tpcc::pack;
use crate::tpcc::schema::NULL;

/// A small database after some requests, whole.
fn used() -> TpccNative {
    let machines = machine_for_tests();
    let machine = machines.of(0);
    let tpcc = TpccNative::new(machine, Scale::small(2), 1, 3).expect("tables");
    tpcc.prepare(&|_| ()).expect("it loads");
    assert_eq!(tpcc.verify().expect("it looks"), None, "after the load");
    let mut client = tpcc.client(0).expect("a client");
    let mut random = Random::new(12);
    for _ in 0..600 {
        let request = client.generate(&mut random);
        let ended = client.execute(&request).expect("it runs");
        assert!(!matches!(ended, Attempt::Aborted(_)), "alone: {ended:?}");
    }
    drop(client);
    assert_eq!(tpcc.verify().expect("it looks"), None, "after the run");
    tpcc
}

/// Makes a change that lasts; what the check says of it.
fn plant(
    tpcc: &TpccNative,
    change: impl AsyncFn(&mut Transaction, Tables) -> Result<(), IndexError>,
) -> String {
    let tables = tpcc.tables;
    insist(&mut tpcc.machine.coordinator(), async |tx| {
        change(tx, tables).await
    })
    .expect("it commits");
    tpcc.verify().expect("it looks").unwrap_or_default()
}

#[test]
fn money_from_nowhere_is_found() {
    let tpcc = used();
    let found = plant(&tpcc, async |tx, tables| {
        let row = tables.customer.must_find(tx, pack(2, 3, 7)).await?;
        tx.update(row, |row| row[column::C_BALANCE] += 1).await?;
        Ok(())
    });
    assert!(
        found.contains("3.3.2.10") && found.contains("3.3.2.12"),
        "{found}"
    );
    assert!(
        found.contains("warehouse 2, district 3, number 7"),
        "{found}"
    );
    let found = plant(&tpcc, async |tx, tables| {
        let row = tables.warehouse.must_find(tx, 1).await?;
        tx.update(row, |row| row[column::W_YTD] += 1).await?;
        Ok(())
    });
    assert!(
        found.contains("3.3.2.1 ") && found.contains("3.3.2.8"),
        "{found}"
    );
}

#[test]
fn a_lost_new_order_is_found() {
    let tpcc = used();
    let found = plant(&tpcc, async |tx, tables| {
        // The last order is not delivered yet.
        let place = tables.district.must_find(tx, pack(1, 1, 0)).await?;
        let next = tx.update(place, |row| row[column::D_NEXT_O_ID]).await?;
        let key = pack(1, 1, next as i64 - 1);
        tables.new_order.remove(tx, &key.to_be_bytes()).await
    });
    for name in ["3.3.2.2", "3.3.2.5", "3.3.2.11"] {
        assert!(found.contains(name), "{name}: {found}");
    }
}

#[test]
fn a_half_delivered_order_is_found() {
    let tpcc = used();
    let found = plant(&tpcc, async |tx, tables| {
        let place = tables.orders.must_find(tx, pack(1, 1, 1)).await?;
        tx.update(place, |row| row[column::O_CARRIER_ID] = NULL as u64)
            .await?;
        Ok(())
    });
    assert!(
        found.contains("3.3.2.5") && found.contains("3.3.2.7"),
        "{found}"
    );
}

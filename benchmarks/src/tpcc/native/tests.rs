//! Tests that damage to the tables is reported under the name of the condition that it violates.

use fencepost_hashtable::IndexError;
use fencepost_txn::Transaction;

use super::tables::column;
use super::*;
use crate::native::rows::copy;
use crate::native::{FabricKind, insist, machine_for_tests, machines_for_tests, run_future};
use crate::tpcc::mix::RemoteShares;
use crate::tpcc::schema::NULL;
use crate::tpcc::{Scale, pack};

/// Returns a small database after some requests, with correct data.
fn used(machines: Machines) -> TpccNative {
    let options = TpccOptions {
        scale: Scale::small(4),
        remote: RemoteShares::SPECIFIED,
        threads: 1,
        seed: 3,
    };
    let tpcc = TpccNative::new(machines, options).expect("tables");
    tpcc.prepare(&|_| ()).expect("it loads");
    assert_eq!(tpcc.verify().expect("it looks"), None, "after the load");
    let mut client = tpcc.client(0).expect("a client");
    let mut random = Random::new(12);
    for _ in 0..600 {
        let request = client.generate(&mut random);
        let ended = run_future(client.execute(&request)).expect("it runs");
        assert!(!matches!(ended, Attempt::Aborted(_)), "alone: {ended:?}");
    }
    drop(client);
    assert_eq!(tpcc.verify().expect("it looks"), None, "after the run");
    tpcc
}

/// Makes a permanent change. Returns the report of the check.
fn plant(
    tpcc: &TpccNative,
    change: impl AsyncFn(&mut Transaction, &Tables) -> Result<(), IndexError>,
) -> String {
    let mut coordinator = tpcc.machines.of(0).coordinator();
    let changed = insist(&mut coordinator, async |tx| change(tx, &tpcc.tables).await);
    run_future(changed).expect("it commits");
    tpcc.verify().expect("it looks").unwrap_or_default()
}

#[test]
fn money_from_nowhere_is_found() {
    let tpcc = used(machine_for_tests());
    let found = plant(&tpcc, async |tx, tables| {
        let row = tables.of(2).customer.must_find(tx, pack(2, 3, 7)).await?;
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
        let row = tables.of(1).warehouse.must_find(tx, 1).await?;
        tx.update(row, |row| row[column::W_YTD] += 1).await?;
        Ok(())
    });
    assert!(
        found.contains("3.3.2.1 ") && found.contains("3.3.2.8"),
        "{found}"
    );
}

#[test]
fn lost_new_order_is_found() {
    let tpcc = used(machine_for_tests());
    let found = plant(&tpcc, async |tx, tables| {
        // The last order is not delivered yet.
        let place = tables.of(1).district.must_find(tx, pack(1, 1, 0)).await?;
        let next = tx.update(place, |row| row[column::D_NEXT_O_ID]).await?;
        let key = pack(1, 1, next as i64 - 1);
        tables.of(1).new_order.remove(tx, &key.to_be_bytes()).await
    });
    for name in ["3.3.2.2", "3.3.2.5", "3.3.2.11"] {
        assert!(found.contains(name), "{name}: {found}");
    }
}

#[test]
fn half_delivered_order_is_found() {
    let tpcc = used(machine_for_tests());
    let found = plant(&tpcc, async |tx, tables| {
        let place = tables.of(1).orders.must_find(tx, pack(1, 1, 1)).await?;
        tx.update(place, |row| row[column::O_CARRIER_ID] = NULL as u64)
            .await?;
        Ok(())
    });
    assert!(
        found.contains("3.3.2.5") && found.contains("3.3.2.7"),
        "{found}"
    );
}

#[test]
fn over_machines_corruption_is_found_on_each() {
    let tpcc = used(machines_for_tests(FabricKind::Local));
    for warehouse in 1..=4 {
        let more = |cents: i64| {
            plant(&tpcc, async |tx, tables| {
                let rows = tables.of(warehouse).district;
                let row = rows.must_find(tx, pack(warehouse, 3, 0)).await?;
                let add = |row: &mut [u64]| {
                    row[column::D_YTD] = (row[column::D_YTD] as i64 + cents) as u64;
                };
                tx.update(row, add).await?;
                Ok(())
            })
        };
        let (found, place) = (more(1), format!("warehouse {warehouse}, district 3"));
        assert!(
            found.contains("3.3.2.9") && found.contains(&place),
            "{found}"
        );
        assert_eq!(more(-1), "");
    }
}

#[test]
fn order_away_from_its_warehouse_is_found() {
    let tpcc = used(machines_for_tests(FabricKind::Local));
    let found = plant(&tpcc, async |tx, tables| {
        let (key, mut row) = (pack(2, 1, 5), Vec::new());
        let place = tables.of(2).orders.must_find(tx, key).await?;
        copy(tx, place, &mut row).await?;
        tables.of(3).orders.insert(tx, key, &row).await.map(drop)
    });
    assert!(found.contains("an order of warehouse 2"), "{found}");
}

#[test]
fn warehouse_rows_are_in_memory_of_its_machine() {
    let tpcc = used(machines_for_tests(FabricKind::Shm));
    for warehouse in 1..=4 {
        let part = tpcc.tables.of(warehouse);
        let machine = tpcc.machines.of(tpcc.tables.home(warehouse));
        run_future(insist(&mut machine.coordinator(), async |tx| {
            let district = pack(warehouse, 10, 0);
            let first = (warehouse as u64 - 1) * 300 + 1;
            let mut places = vec![
                part.warehouse.must_find(tx, warehouse as u64).await?,
                part.district.must_find(tx, district).await?,
                part.history.must_find(tx, first).await?,
                part.item.must_find(tx, 200).await?,
                part.stock.must_find(tx, pack(warehouse, 0, 200)).await?,
            ];
            for number in 1..=30 {
                let key = pack(warehouse, 10, number);
                places.push(part.customer.must_find(tx, key).await?);
                places.push(part.orders.must_find(tx, key).await?);
            }
            let (low, high) = (district.to_be_bytes(), (district + 60).to_be_bytes());
            let mut lines = Vec::new();
            part.order_line.range(tx, (&low, &high), &mut lines).await?;
            assert!(lines.len() > 100);
            places.extend(lines);
            assert!(places.iter().all(|place| machine.regions().is_own(*place)));
            Ok(())
        }))
        .expect("all are there");
    }
}

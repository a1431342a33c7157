//! The rows of the system's tables.

use fencepost_sql::catalog::Catalog;
use fencepost_sql::stop::Halt;
use fencepost_sql::system::SystemTable;
use fencepost_sql::value::Value;
use fencepost_storage::Addr;
use fencepost_txn::Transaction;
use fencepost_txn::network::Members;

/// All rows of a table, as this machine knows them now; what the catalog says, as the transaction sees it.
pub async fn rows(table: SystemTable, tx: &mut Transaction) -> Result<Vec<Vec<Value>>, Halt> {
    let members = tx.machine().members();
    Ok(match table {
        SystemTable::Machines => machines(&members),
        SystemTable::Regions => regions(&members),
        SystemTable::Configurations => vec![vec![
            Value::Int8(members.configuration as i64),
            list(members.machines.iter().map(|machine| machine.id)),
            Value::Int4(members.manager as i32),
            Value::Int4(members.replicas as i32),
        ]],
        SystemTable::Partitions => partitions(tx).await?,
    })
}

async fn partitions(tx: &mut Transaction) -> Result<Vec<Vec<Value>>, Halt> {
    let root = tx.machine().root();
    let snapshot = Catalog::open(tx, root).await?.snapshot(tx).await?;
    let mut rows = Vec::new();
    for table in snapshot.tables() {
        if table.partitioning.is_none() {
            continue;
        }
        for (partition, root) in table.primary().roots.all().iter().enumerate() {
            let root = Addr::from_raw(*root);
            rows.push(vec![
                Value::text(&table.name),
                Value::Int4(partition as i32),
                Value::Int4(tx.machine().primary_of(root).0 as i32),
                Value::Int8(i64::from(root.region().0)),
                Value::Int8(root.raw() as i64),
            ]);
        }
    }
    Ok(rows)
}

fn machines(members: &Members) -> Vec<Vec<Value>> {
    let row = |machine: &fencepost_txn::network::MemberState| {
        vec![
            Value::Int4(machine.id as i32),
            Value::Bool(machine.id == members.me),
            Value::Bool(machine.id == members.manager),
            Value::Bool(machine.reachable),
            Value::Int4(machine.regions.len() as i32),
            microseconds(machine.clock_uncertainty_ns),
        ]
    };
    members.machines.iter().map(row).collect()
}

fn regions(members: &Members) -> Vec<Vec<Value>> {
    let mut rows = Vec::new();
    for machine in &members.machines {
        for region in &machine.regions {
            rows.push(vec![
                Value::Int8(i64::from(region.id)),
                Value::Int4(machine.id as i32),
                list(region.backups.iter().copied()),
            ]);
        }
    }
    rows.sort_by_key(|row| match row[0] {
        Value::Int8(id) => id,
        _ => 0,
    });
    rows
}

/// Rounded up, so that only what is exact is 0.
fn microseconds(ns: Option<u64>) -> Value {
    ns.map_or(Value::Null, |ns| Value::Int8(ns.div_ceil(1000) as i64))
}

/// Numbers as a text, with commas.
fn list(numbers: impl Iterator<Item = u32>) -> Value {
    let numbers: Vec<String> = numbers.map(|number| number.to_string()).collect();
    Value::Text(numbers.join(",").into())
}

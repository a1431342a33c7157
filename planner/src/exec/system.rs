//! The rows of the system's tables.

use fencepost_sql::system::SystemTable;
use fencepost_sql::value::Value;
use fencepost_txn::Machine;
use fencepost_txn::network::Members;

/// All rows of a table, as this machine knows them now.
pub fn rows(table: SystemTable, machine: &Machine) -> Vec<Vec<Value>> {
    let members = machine.members();
    match table {
        SystemTable::Machines => machines(&members),
        SystemTable::Regions => regions(&members),
        SystemTable::Configurations => vec![vec![
            Value::Int8(members.configuration as i64),
            list(members.machines.iter().map(|machine| machine.id)),
            Value::Int4(members.manager as i32),
            Value::Int4(members.replicas as i32),
        ]],
    }
}

fn machines(members: &Members) -> Vec<Vec<Value>> {
    let row = |machine: &fencepost_txn::network::MemberState| {
        vec![
            Value::Int4(machine.id as i32),
            Value::Bool(machine.id == members.me),
            Value::Bool(machine.id == members.manager),
            Value::Bool(machine.reachable),
            Value::Int4(machine.regions.len() as i32),
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

/// Numbers as a text, with commas.
fn list(numbers: impl Iterator<Item = u32>) -> Value {
    let numbers: Vec<String> = numbers.map(|number| number.to_string()).collect();
    Value::Text(numbers.join(",").into())
}

//! The rows of the system tables.

use std::sync::Arc;

use fencepost_sql::catalog::{
    Catalog, CatalogView, Ddl, ObjectKind, Snapshot, no_privilege, statements,
};
use fencepost_sql::pg_catalog::{self, RowInputs, class};
use fencepost_sql::stop::StatementStop;
use fencepost_sql::system::SystemTable;
use fencepost_sql::value::Value;
use fencepost_storage::{Account, Addr};
use fencepost_txn::MachineId;
use fencepost_txn::network::{Mapping, MemberState, Members, Step, Timeline};

use super::{Cx, live, locks, sequence, statistics};

/// Returns all rows of a table. Cluster tables show what this machine and the configuration manager
/// know now. Catalog tables show what the transaction sees.
pub async fn rows(table: SystemTable, cx: &mut Cx<'_>) -> Result<Vec<Vec<Value>>, StatementStop> {
    if let SystemTable::Catalog(relation) = table {
        if let Some(rows) = live::rows(relation, cx.eval).await? {
            return Ok(rows);
        }
        let snapshot = catalog(cx).await?;
        let secret = relation.oid == class::ROLE || relation.name == "pg_shadow";
        if secret && !is_superuser(&snapshot, cx)? {
            return Err(no_privilege(ObjectKind::Table, relation.name).into());
        }
        if let Some(rows) = statistics::rows(relation, &snapshot, cx.eval, cx.tx.machine()).await? {
            return Ok(rows);
        }
        if relation.schema == "pg_catalog" && relation.name == "pg_locks" {
            return locks::rows(relation, &snapshot, cx).await;
        }
        let around = RowInputs {
            snapshot: &snapshot,
            cx: cx.eval,
            database: &cx.eval.database,
            cursors: &cx.eval.cursors,
            prepared: &cx.eval.prepared,
        };
        let mut rows = pg_catalog::rows(relation, &around);
        if relation.schema == "pg_catalog" && relation.name == "pg_sequences" {
            sequence::add_last_values(&mut rows, &snapshot, cx).await?;
        }
        return Ok(rows);
    }
    let tx = &mut *cx.tx;
    let members = tx.machine().members();
    Ok(match table {
        // The machines are shown even if the configuration manager cannot be asked.
        SystemTable::Machines => {
            let regions = tx.machine().all_regions().await.ok();
            machines(&members, regions, tx.machine().account())
        }
        SystemTable::Regions => regions(&tx.machine().all_regions().await?),
        SystemTable::Configurations => vec![vec![
            Value::Int8(members.configuration as i64),
            list(members.machines.iter().map(|machine| machine.id)),
            Value::Int4(members.manager as i32),
            Value::Int4(members.replicas as i32),
            list(members.machines.iter().map(|machine| &machine.domain)),
        ]],
        SystemTable::Reconfigurations => reconfigurations(&tx.machine().timelines()),
        SystemTable::Partitions => partitions(cx).await?,
        SystemTable::Ddl => ddl(cx).await?,
        SystemTable::Catalog(_) => Vec::new(),
    })
}

fn reconfigurations(timelines: &[Timeline]) -> Vec<Vec<Value>> {
    let mut rows = Vec::new();
    for timeline in timelines {
        // A reconfiguration in progress has no number yet.
        let id = timeline.configuration;
        let id = id.map_or(Value::Null, |id| Value::Int8(id as i64));
        let times = Step::ALL.map(|step| (step, timeline.at_ns(step)));
        let first = times.iter().filter_map(|(_, at)| *at).min().unwrap_or(0);
        for (step, at) in times {
            if let Some(at) = at {
                let after_us = (at - first) / 1000;
                rows.push(vec![
                    id.clone(),
                    Value::text(step.name()),
                    Value::Int8(after_us as i64),
                ]);
            }
        }
    }
    rows
}

/// Returns the catalog, as the transaction sees it.
pub(super) async fn catalog(cx: &mut Cx<'_>) -> Result<Arc<Snapshot>, StatementStop> {
    match &cx.eval.database_catalog {
        Some(catalog) => catalog.snapshot(cx.tx).await,
        None => {
            let root = cx.tx.machine().root();
            Catalog::open(cx.tx, root).await?.snapshot(cx.tx).await
        }
    }
}

/// Returns whether the current role is a superuser.
fn is_superuser(snapshot: &Snapshot, cx: &Cx<'_>) -> Result<bool, StatementStop> {
    let role = snapshot.role(&cx.eval.current_user())?;
    Ok(role.is_some_and(|role| role.superuser))
}

async fn ddl(cx: &mut Cx<'_>) -> Result<Vec<Vec<Value>>, StatementStop> {
    let snapshot = catalog(cx).await?;
    let all = statements(&snapshot, is_superuser(&snapshot, cx)?);
    let row = |(at, ddl): (usize, Ddl)| {
        vec![
            Value::Int4(at as i32),
            Value::text(ddl.kind.name()),
            Value::Text(ddl.schema.into()),
            Value::Text(ddl.name.into()),
            Value::Text(ddl.statement.into()),
        ]
    };
    Ok(all.into_iter().enumerate().map(row).collect())
}

async fn partitions(cx: &mut Cx<'_>) -> Result<Vec<Vec<Value>>, StatementStop> {
    let snapshot = catalog(cx).await?;
    let tx = &mut *cx.tx;
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
                tx.machine().primary_of(root).map_or(Value::Null, number),
                Value::Int8(i64::from(root.region().0)),
                Value::Int8(root.raw() as i64),
            ]);
        }
    }
    Ok(rows)
}

/// Returns the rows of the machines. A machine knows the memory use of itself only.
fn machines(
    members: &Members,
    regions: Option<Vec<Mapping>>,
    account: &Account,
) -> Vec<Vec<Value>> {
    let primaries = |of: u32| {
        let all = regions.iter().flatten();
        let own = all.filter(|region| region.replicas.primary().0 == of);
        regions.as_ref().map(|_| Value::Int4(own.count() as i32))
    };
    let replicas = |of: u32| {
        let all = regions.iter().flatten();
        let held = all.filter(|region| region.replicas.has(MachineId(of)));
        regions.as_ref().map(|_| held.count())
    };
    let state = |machine: &MemberState| match (machine.leaving, replicas(machine.id)) {
        (false, _) => "member",
        (true, Some(0)) => "drained",
        (true, _) => "draining",
    };
    let of_this =
        |machine: u32, bytes: u64| match machine == members.me && bytes < Account::NO_LIMIT {
            true => Value::Int8(bytes as i64),
            false => Value::Null,
        };
    let row = |machine: &MemberState| {
        vec![
            Value::Int4(machine.id as i32),
            Value::Bool(machine.id == members.me),
            Value::Bool(machine.id == members.manager),
            Value::Bool(machine.reachable),
            Value::text(state(machine)),
            primaries(machine.id).unwrap_or(Value::Null),
            replicas(machine.id).map_or(Value::Null, |many| Value::Int4(many as i32)),
            microseconds(machine.clock_uncertainty_ns),
            of_this(machine.id, account.used()),
            of_this(machine.id, account.limit()),
        ]
    };
    members.machines.iter().map(row).collect()
}

fn regions(all: &[Mapping]) -> Vec<Vec<Value>> {
    let row = |region: &Mapping| {
        vec![
            Value::Int8(i64::from(region.region.0)),
            number(region.replicas.primary()),
            list(region.replicas.backups().iter().map(|backup| backup.0)),
        ]
    };
    all.iter().map(row).collect()
}

fn number(machine: MachineId) -> Value {
    Value::Int4(machine.0 as i32)
}

/// Converts to microseconds, rounded up, so that only an exact value is 0.
fn microseconds(ns: Option<u64>) -> Value {
    ns.map_or(Value::Null, |ns| Value::Int8(ns.div_ceil(1000) as i64))
}

/// Joins values with commas.
fn list(all: impl Iterator<Item = impl ToString>) -> Value {
    let all: Vec<String> = all.map(|one| one.to_string()).collect();
    Value::Text(all.join(",").into())
}

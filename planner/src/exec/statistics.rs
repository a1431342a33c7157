//! The rows of PostgreSQL's statistics views, summed over all machines of a cluster. Columns that
//! Fencepost does not count are 0. The times of events that have not happened are NULL.

use fencepost_sql::catalog::{DatabaseDef, IndexDef, IndexKind, Snapshot, TableDef};
use fencepost_sql::context::EvalContext;
use fencepost_sql::counts::{Count, Event, Totals};
use fencepost_sql::pg_catalog::{Relation, Rows};
use fencepost_sql::statements::number_of;
use fencepost_sql::stop::StatementStop;
use fencepost_sql::value::Value;
use fencepost_txn::Machine;

use crate::trees::trees;

/// The kind of tables that a view covers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TableFilter {
    All,
    System,
    Users,
}

/// Returns the rows of a relation if it is a statistics view.
pub async fn rows(
    relation: &'static Relation,
    snapshot: &Snapshot,
    eval: &EvalContext,
    machine: &Machine,
) -> Result<Option<Vec<Vec<Value>>>, StatementStop> {
    let Some(name) = relation.name.strip_prefix("pg_stat") else {
        return Ok(None);
    };
    let mut rows = Rows::of(relation);
    let (whose, name) = whose(name);
    match name.as_str() {
        "_database" => databases(&mut rows, snapshot, eval).await?,
        "_database_conflicts" => snapshot.databases().iter().for_each(|of| {
            rows.add([
                ("datid", Value::Oid(of.id)),
                ("datname", Value::text(&of.name)),
            ]);
        }),
        "_bgwriter" | "_archiver" | "_wal" => rows.add([]),
        "_conflicts" => conflicts(&mut rows, snapshot, eval).await?,
        "_tables" => {
            let totals = totals(eval).await?;
            for table in of(snapshot, whose) {
                let live = live(&table, machine).await?;
                add_table(&mut rows, &table, &totals, live);
            }
            each_system(whose, |system| rows.add(named_system(system)));
        }
        "_indexes" => {
            let totals = totals(eval).await?;
            for table in of(snapshot, whose) {
                for index in visible_indexes(&table) {
                    let counts = [
                        ("idx_scan", totals.of(index.id, Count::Scans)),
                        ("idx_tup_read", totals.of(index.id, Count::Returned)),
                        ("idx_tup_fetch", totals.of(index.id, Count::Fetched)),
                    ];
                    let counts = counts.map(|(name, count)| (name, Value::Int8(count)));
                    rows.add(of_index(&table, index).into_iter().chain(counts));
                }
            }
        }
        "io_tables" => {
            of(snapshot, whose)
                .iter()
                .for_each(|table| rows.add(of_table(table)));
            each_system(whose, |system| rows.add(named_system(system)));
        }
        "io_indexes" => {
            for table in of(snapshot, whose) {
                visible_indexes(&table).for_each(|index| rows.add(of_index(&table, index)));
            }
        }
        "io_sequences" => {
            for sequence in snapshot.sequences() {
                if whose != TableFilter::System {
                    rows.add([
                        ("relid", Value::Oid(sequence.id)),
                        ("schemaname", Value::text(&sequence.schema)),
                        ("relname", Value::text(&sequence.name)),
                    ]);
                }
            }
        }
        _ => return Ok(None),
    }
    Ok(Some(rows.made))
}

/// Splits a view's name into the kind of tables that it covers, and the rest of the name.
fn whose(name: &str) -> (TableFilter, String) {
    for (word, whose) in [
        ("_all_", TableFilter::All),
        ("_sys_", TableFilter::System),
        ("_user_", TableFilter::Users),
    ] {
        if let Some((before, of)) = name.split_once(word) {
            return (whose, format!("{before}_{of}"));
        }
    }
    (TableFilter::All, name.to_owned())
}

async fn totals(eval: &EvalContext) -> Result<Totals, StatementStop> {
    totals_of(eval.database_oid(), eval).await
}

async fn totals_of(database: u32, eval: &EvalContext) -> Result<Totals, StatementStop> {
    Ok(match &eval.counters {
        Some(counters) => counters.totals(database).await?,
        None => Totals::default(),
    })
}

/// Returns the user tables, if the view covers them.
fn of(snapshot: &Snapshot, whose: TableFilter) -> Vec<std::sync::Arc<TableDef>> {
    match whose {
        TableFilter::System => Vec::new(),
        TableFilter::All | TableFilter::Users => snapshot.tables(),
    }
}

/// Calls `add` for each system table, if the view covers them. Fencepost does not count their use.
fn each_system(whose: TableFilter, mut add: impl FnMut(&'static Relation)) {
    if whose != TableFilter::Users {
        let all = Relation::all().iter().filter(|system| system.kind == "r");
        all.for_each(&mut add);
    }
}

fn named_system(system: &'static Relation) -> [(&'static str, Value); 3] {
    [
        ("relid", Value::Oid(system.oid)),
        ("schemaname", Value::text(system.schema)),
        ("relname", Value::text(system.name)),
    ]
}

fn of_table(table: &TableDef) -> [(&'static str, Value); 3] {
    [
        ("relid", Value::Oid(table.id)),
        ("schemaname", Value::text(&table.schema)),
        ("relname", Value::text(&table.name)),
    ]
}

fn of_index(table: &TableDef, index: &IndexDef) -> Vec<(&'static str, Value)> {
    let mut columns = of_table(table).to_vec();
    columns.push(("indexrelid", Value::Oid(index.id)));
    columns.push(("indexrelname", Value::text(&index.name)));
    columns
}

/// Returns the indexes that are visible to clients.
fn visible_indexes(table: &TableDef) -> impl Iterator<Item = &IndexDef> {
    table.indexes.iter().filter(|index| !index.is_hidden())
}

/// Estimates the number of rows of a table; `None` if that is expensive.
async fn live(table: &TableDef, machine: &Machine) -> Result<Option<i64>, StatementStop> {
    let first = table.primary();
    if first.kind != IndexKind::BTree {
        return Ok(None);
    }
    let mut rows = 0.0;
    for tree in trees(first) {
        match tree.about(machine).await {
            Ok(about) => rows += about,
            Err(_) => return Ok(None),
        }
    }
    Ok(Some(rows as i64))
}

fn add_table(rows: &mut Rows, table: &TableDef, totals: &Totals, live: Option<i64>) {
    let own = |what| totals.of(table.id, what);
    let indexed = |what: Count| match visible_indexes(table).next() {
        None => Value::Null,
        Some(_) => Value::Int8(
            visible_indexes(table)
                .map(|index| totals.of(index.id, what))
                .sum(),
        ),
    };
    let (put, changed, taken) = (
        own(Count::Inserted),
        own(Count::Updated),
        own(Count::Deleted),
    );
    let live = live.unwrap_or_else(|| (put - taken).max(0));
    rows.add(of_table(table).into_iter().chain([
        ("seq_scan", Value::Int8(own(Count::Scans))),
        ("seq_tup_read", Value::Int8(own(Count::Returned))),
        ("idx_scan", indexed(Count::Scans)),
        ("idx_tup_fetch", indexed(Count::Fetched)),
        ("n_tup_ins", Value::Int8(put)),
        ("n_tup_upd", Value::Int8(changed)),
        ("n_tup_del", Value::Int8(taken)),
        ("n_live_tup", Value::Int8(live)),
        ("n_mod_since_analyze", Value::Int8(put + changed + taken)),
        ("n_ins_since_vacuum", Value::Int8(put)),
    ]));
}

/// Adds `pg_stat_database`: a row without a database, and a row for each database.
async fn databases(
    rows: &mut Rows,
    snapshot: &Snapshot,
    eval: &EvalContext,
) -> Result<(), StatementStop> {
    let sessions = match &eval.sessions {
        Some(sessions) => sessions.all().await?,
        None => Vec::new(),
    };
    rows.add([("datid", Value::Oid(0)), ("numbackends", Value::Int4(0))]);
    for of in snapshot.databases() {
        let totals = totals_of(of.id, eval).await?;
        let sessions = sessions
            .iter()
            .filter(|session| session.database == of.name);
        let opened: Vec<i64> = sessions.map(|session| session.opened).collect();
        database(rows, of, &totals, (&opened, eval.clock_now()));
    }
    Ok(())
}

/// Adds the row of one database. `opened` has the times at which its sessions were opened.
fn database(rows: &mut Rows, of: &DatabaseDef, totals: &Totals, (opened, now): (&[i64], i64)) {
    let open_us: i64 = opened.iter().map(|opened| now - opened).sum();
    let ms = |us: i64| Value::Float8(us as f64 / 1000.0);
    let count = |what| Value::Int8(totals.all(what));
    let event = |what| Value::Int8(totals.event(what));
    rows.add([
        ("datid", Value::Oid(of.id)),
        ("datname", Value::text(&of.name)),
        ("numbackends", Value::Int4(opened.len() as i32)),
        ("xact_commit", event(Event::Commits)),
        ("xact_rollback", event(Event::Rollbacks)),
        ("tup_returned", count(Count::Returned)),
        ("tup_fetched", count(Count::Fetched)),
        ("tup_inserted", count(Count::Inserted)),
        ("tup_updated", count(Count::Updated)),
        ("tup_deleted", count(Count::Deleted)),
        ("deadlocks", event(Event::Deadlocks)),
        ("checksum_failures", Value::Null),
        ("blk_read_time", Value::Float8(0.0)),
        ("blk_write_time", Value::Float8(0.0)),
        (
            "session_time",
            ms(totals.event(Event::SessionUs) + open_us.max(0)),
        ),
        ("active_time", ms(totals.event(Event::ActiveNs) / 1000)),
        ("idle_in_transaction_time", Value::Float8(0.0)),
        ("sessions", event(Event::Sessions)),
        ("sessions_killed", event(Event::Killed)),
        (
            "stats_reset",
            totals.reset.map_or(Value::Null, Value::TimestampTz),
        ),
    ]);
}

/// Adds `pg_stat_conflicts`: the statements that had to be retried, the table, the conflicting
/// statements, the number of retries, and the number of errors that clients received.
async fn conflicts(
    rows: &mut Rows,
    snapshot: &Snapshot,
    eval: &EvalContext,
) -> Result<(), StatementStop> {
    let Some(counters) = &eval.counters else {
        return Ok(());
    };
    let some = |text: &String| match text.is_empty() {
        true => Value::Null,
        false => Value::text(text),
    };
    for (key, count) in counters.conflicts(eval.database_oid()).await? {
        let tables = snapshot.tables();
        let table = tables.iter().find(|table| table.id == key.table);
        let named = match table {
            Some(table) => of_table(table),
            None => ["relid", "schemaname", "relname"].map(|name| (name, Value::Null)),
        };
        rows.add(named.into_iter().chain([
            ("kind", Value::text(&key.kind)),
            ("queryid", Value::Int8(number_of(&key.statement))),
            ("query", some(&key.statement)),
            ("winner", some(&key.winner)),
            ("conflicts", Value::Int8(count.met as i64)),
            ("reported", Value::Int8(count.reported as i64)),
            ("last_conflict", Value::TimestampTz(count.last)),
        ]));
    }
    Ok(())
}

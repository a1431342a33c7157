//! Verifying a whole database: every tree, every row, every object.
//!
//! ```text
//!   catalog trees ──► definitions ──► for each table: guard, rows, every index
//!        │                                 │
//!        └────────── every object met is claimed by its owner ──► objects without an owner
//! ```
//! The check verifies that the trees and hash tables are sound by their own checks. Every row can
//! be read, has no NULL in a NOT NULL column, and is found in every index under its own key
//! (ROW-1). No index has more entries than there are rows. Every allocated object belongs to
//! exactly one owner, is not locked, and its line versions agree.
//!
//! The check reads one snapshot. It is meant for a database without other users: objects that are
//! created or freed meanwhile are reported as problems.

use std::collections::HashMap;
use std::ops::Bound;
use std::sync::Arc;

use fencepost_btree::{BTree, Cursor, Direction, ScanBatch};
use fencepost_hashtable::HashTable;
use fencepost_planner::{TablePlan, chunks_of, pending_objects, read_row};
use fencepost_sql::catalog::{Catalog, GuardScope, IndexDef, IndexKind, TableDef};
use fencepost_sql::context::EvalContext;
use fencepost_sql::error::SqlError;
use fencepost_sql::functions::eval_predicate;
use fencepost_sql::settings::Settings;
use fencepost_sql::stop::StatementStop;
use fencepost_sql::value::Value;
use fencepost_storage::{Addr, FatPtr};
use fencepost_txn::{Mode, Stop, Transaction};
use pollster::FutureExt;

use crate::database::Database;

/// The largest number of problems in a report.
const PROBLEMS_MAX: usize = 1000;
/// The number of index entries that are read in one batch.
const BATCH: usize = 1024;

/// The result of [`check()`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckReport {
    /// Number of tables.
    pub tables: u64,
    /// Number of indexes, hidden ones included.
    pub indexes: u64,
    /// Number of rows of all tables.
    pub rows: u64,
    /// Number of allocated objects.
    pub objects: u64,
    /// The problems, one line each and at most 1,000; empty if the database is sound.
    pub problems: Vec<String>,
}

/// Verifies all databases of a machine that is alone: every tree, row, index entry and object.
/// Blocks until all data is read. End all other sessions before: their changes would be reported
/// as problems.
///
/// ```
/// # let db = fencepost::Database::in_memory()?;
/// db.blocking().batch("CREATE TABLE t (a int PRIMARY KEY); INSERT INTO t VALUES (1)")?;
/// let checked = fencepost::check(&db);
/// assert_eq!((checked.rows, checked.problems), (1, Vec::<String>::new()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn check(database: &Database) -> CheckReport {
    let _paused = database.shared().reclaimer.pause();
    let tx = database.machine().coordinator().begin(Mode::ReadOnly);
    let mut check = Check {
        database,
        tx,
        owners: HashMap::new(),
        names: Vec::new(),
        found: CheckReport::default(),
    };
    if let Err(halt) = check.everything().block_on() {
        let error: SqlError = halt.into_error();
        check.problem(format!("the check could not go on: {error}"));
    }
    check.found
}

struct Check<'a> {
    database: &'a Database,
    tx: Transaction,
    /// The owner of every object, as an index into `names`.
    owners: HashMap<Addr, usize>,
    names: Vec<String>,
    found: CheckReport,
}

/// An owner of objects, as an index into `names`.
type Owner = usize;

impl Check<'_> {
    async fn everything(&mut self) -> Result<(), StatementStop> {
        let root = self.database.machine().root();
        let owner = self.owner("the root object".to_string());
        self.claim(owner, root);
        self.catalog().await?;
        let first = self.database.catalog();
        let all = first.snapshot(&mut self.tx).await?;
        for database in all.databases() {
            self.definitions(&first.of(database)).await?;
        }
        if all.database_by_id(first.database()).is_none() {
            // The first database has been dropped, but the definitions that all databases share are
            // still here.
            self.definitions(first).await?;
        }
        self.objects();
        Ok(())
    }

    /// Checks the definitions of one database.
    async fn definitions(&mut self, catalog: &Catalog) -> Result<(), StatementStop> {
        let tree = catalog.definitions_tree();
        self.catalog_tree("the catalog of tables", tree).await?;
        let snapshot = catalog.snapshot(&mut self.tx).await?;
        for table in snapshot.tables() {
            self.table(&table).await?;
        }
        for sequence in snapshot.sequences() {
            let owner = self.owner(format!("sequence {}", sequence.name));
            self.claim(owner, Addr::from_raw(sequence.cell));
        }
        for routine in snapshot.all_routines() {
            let owner = self.owner(format!("function {}", routine.name));
            let guards = routine.guards.all();
            guards.for_each(|guard| self.claim(owner, guard));
        }
        for view in snapshot.views().filter(|view| !view.guards.are_none()) {
            let owner = self.owner(format!("view {}", view.name));
            let guards = view.guards.all();
            guards.for_each(|guard| self.claim(owner, guard));
            if !fencepost_sql::catalog::guard_view(&mut self.tx, view, GuardScope::Commit).await? {
                self.problem(format!(
                    "view {}: its guard is not that of its definition",
                    view.name
                ));
            }
        }
        for ty in snapshot.types().all() {
            let owner = self.owner(format!("type {}", ty.name));
            ty.guards.all().for_each(|guard| self.claim(owner, guard));
            if !fencepost_sql::catalog::guard_type(&mut self.tx, &ty, GuardScope::Commit).await? {
                self.problem(format!(
                    "type {}: its guard is not that of its definition",
                    ty.name
                ));
            }
        }
        Ok(())
    }

    fn problem(&mut self, what: String) {
        if self.found.problems.len() < PROBLEMS_MAX {
            self.found.problems.push(what);
        }
    }

    fn owner(&mut self, name: String) -> Owner {
        self.names.push(name);
        self.names.len() - 1
    }

    fn claim(&mut self, owner: Owner, addr: Addr) {
        if let Some(other) = self.owners.insert(addr, owner) {
            let (name, other) = (&self.names[owner], &self.names[other]);
            let what = format!("object {addr:?} belongs to {name} and to {other}");
            self.problem(what);
        }
    }

    /// Checks the catalog's own objects, trees and rows.
    async fn catalog(&mut self) -> Result<(), StatementStop> {
        let owner = self.owner("the catalog".to_string());
        self.claim(owner, self.database.catalog().heart());
        let roles = self.database.catalog().roles_tree();
        self.catalog_tree("the catalog of roles", roles).await?;
        let owner = self.owner("the outcomes of transactions".to_string());
        let outcomes = self.database.catalog().outcomes().tree();
        self.tree(owner, outcomes).await?;
        let statistics = self.database.catalog().statistics().tree();
        self.catalog_tree("the statistics of tables", statistics)
            .await?;
        let owner = self.owner("the list of dropped tables".to_string());
        let list = self.database.catalog().reclaim_list();
        self.tree(owner, list.tree()).await?;
        let owner = self.owner("a dropped table".to_string());
        for object in pending_objects(&mut self.tx, list).await? {
            self.claim(owner, object);
        }
        Ok(())
    }

    /// Checks a tree of definitions and claims its rows.
    async fn catalog_tree(&mut self, what: &str, tree: BTree) -> Result<(), StatementStop> {
        let owner = self.owner(what.to_owned());
        self.tree(owner, tree).await?;
        let mut batch = ScanBatch::new();
        let mut cursor = whole(&tree);
        while cursor.next_batch(&mut self.tx, &mut batch, BATCH).await? {
            for at in 0..batch.len() {
                self.claim(owner, FatPtr::from_words(batch.value(at)).addr);
            }
        }
        Ok(())
    }

    /// Runs a tree's own check. Returns the number of its entries.
    async fn tree(&mut self, owner: Owner, tree: BTree) -> Result<u64, Stop> {
        let report = tree.check(&mut self.tx).await?;
        for problem in report.problems {
            let what = format!(
                "{}: node {:?} {}",
                self.names[owner], problem.node, problem.what
            );
            self.problem(what);
        }
        for addr in report.addresses {
            self.claim(owner, addr);
        }
        Ok(report.entries)
    }

    /// Runs a hash table's own check. Returns the number of its entries.
    async fn hash_table(&mut self, owner: Owner, table: HashTable) -> Result<u64, Stop> {
        let report = table.check(&mut self.tx).await?;
        for problem in report.problems {
            let what = format!(
                "{}: bucket {:?} {}",
                self.names[owner], problem.node, problem.what
            );
            self.problem(what);
        }
        for addr in report.addresses {
            self.claim(owner, addr);
        }
        Ok(report.entries)
    }

    async fn index(&mut self, owner: Owner, index: &IndexDef) -> Result<u64, Stop> {
        let mut entries = 0;
        for root in index.roots.all() {
            let root = Addr::from_raw(*root);
            entries += match index.kind {
                IndexKind::BTree => self.tree(owner, BTree::open(root)).await?,
                IndexKind::Hash => self.hash_table(owner, HashTable::open(root)).await?,
            };
        }
        Ok(entries)
    }

    async fn table(&mut self, def: &Arc<TableDef>) -> Result<(), StatementStop> {
        self.found.tables += 1;
        let plan = TablePlan::new(def);
        let owner = self.owner(format!("table {}", def.name));
        def.guards.all().for_each(|guard| self.claim(owner, guard));
        if !fencepost_sql::catalog::all_guard(&mut self.tx, def).await? {
            self.problem(format!(
                "table {}: a guard is not that of its definition",
                def.name
            ));
        }
        if def.is_parent() {
            // A parent has no rows of its own; its partitions have them.
            return Ok(());
        }
        let mut entries = Vec::with_capacity(def.indexes.len());
        for index in &def.indexes {
            self.found.indexes += 1;
            let owner = self.owner(format!("index {} of table {}", name(index), def.name));
            entries.push(self.index(owner, index).await?);
        }
        let rows = self.rows(owner, &plan).await?;
        self.found.rows += rows;
        for (index, entries) in def.indexes.iter().zip(entries) {
            if entries != rows && !index.is_partial() {
                let (table, index) = (&def.name, name(index));
                self.problem(format!(
                    "table {table}: {rows} rows, and {entries} entries in index {index}"
                ));
            }
        }
        Ok(())
    }

    /// Checks every row that the first index reaches (CAT-1) against every index.
    async fn rows(&mut self, owner: Owner, plan: &TablePlan) -> Result<u64, StatementStop> {
        let mut batch = ScanBatch::new();
        let (mut words, mut key) = (Vec::new(), Vec::new());
        let mut row = vec![Value::Null; plan.layout.width()];
        let mut rows = 0;
        for root in plan.def.primary().roots.all() {
            let mut cursor = whole(&BTree::open(Addr::from_raw(*root)));
            while cursor.next_batch(&mut self.tx, &mut batch, BATCH).await? {
                for at in 0..batch.len() {
                    rows += 1;
                    let place = FatPtr::from_words(batch.value(at));
                    self.claim(owner, place.addr);
                    self.chunks(owner, place.addr).await?;
                    match self.read(place, plan, &mut words, &mut row).await? {
                        Ok(()) => self.entries_of(plan, place, &row, &mut key).await?,
                        Err(what) => {
                            self.problem(format!(
                                "table {}: row {:?} {what}",
                                plan.def.name, place.addr
                            ));
                        }
                    }
                }
            }
        }
        Ok(rows)
    }

    /// Claims the chunks of a long row. Damage in them is reported when the row is read.
    async fn chunks(&mut self, owner: Owner, row: Addr) -> Result<(), StatementStop> {
        match chunks_of(&mut self.tx, row).await {
            Ok(chunks) => chunks.iter().for_each(|c| self.claim(owner, c.addr)),
            Err(Stop::Damaged) => {}
            Err(stop) => return Err(stop.into()),
        }
        Ok(())
    }

    /// Reads a row. The inner error describes the damage.
    async fn read(
        &mut self,
        place: FatPtr,
        plan: &TablePlan,
        words: &mut Vec<u64>,
        row: &mut [Value],
    ) -> Result<Result<(), String>, StatementStop> {
        match read_row(&mut self.tx, place.addr, words).await {
            Ok(true) => {}
            Ok(false) => return Ok(Err("is gone".to_string())),
            Err(Stop::Damaged) => return Ok(Err("is not whole in memory".to_string())),
            Err(stop) => return Err(stop.into()),
        }
        if let Err(error) = plan.layout.decode(words, row) {
            return Ok(Err(format!("cannot be decoded: {error}")));
        }
        let null = plan
            .def
            .columns
            .iter()
            .zip(row.iter())
            .find(|(def, value)| def.not_null && value.is_null());
        Ok(null.map_or(Ok(()), |(def, _)| {
            Err(format!("has NULL in column {}", def.name))
        }))
    }

    /// Checks that every index leads from the row's key, in the row's partition, to the row.
    async fn entries_of(
        &mut self,
        plan: &TablePlan,
        place: FatPtr,
        row: &[Value],
        key: &mut Vec<u8>,
    ) -> Result<(), StatementStop> {
        for (codec, index) in plan.keys.iter().zip(&plan.def.indexes) {
            let cx = EvalContext::new(Arc::new(Settings::new()), 0, 0);
            if let Some(predicate) = &index.more.predicate
                && !eval_predicate(&predicate.condition, row, &[], &cx)?
            {
                continue;
            }
            let keys = codec.key_row(row, &cx)?;
            codec.encode_entry(&keys, place.addr.raw(), key);
            let partition = plan.def.partition_of(row, key);
            let root = Addr::from_raw(index.roots.of(partition));
            let found = match index.kind {
                IndexKind::BTree => BTree::open(root).get(&mut self.tx, key).await?,
                IndexKind::Hash => HashTable::open(root).get(&mut self.tx, key).await?,
            };
            if found != Some(place.to_words()) {
                let (table, at) = (&plan.def.name, place.addr);
                let what = if found.is_some() {
                    "leads elsewhere from"
                } else {
                    "has no entry of"
                };
                self.problem(format!(
                    "table {table}: index {} {what} row {at:?}",
                    name(index)
                ));
            }
        }
        Ok(())
    }

    /// Checks that every allocated object is unlocked, intact, and claimed by an owner.
    fn objects(&mut self) {
        let machine = Arc::clone(self.database.machine());
        for (block, class) in machine.regions().blocks() {
            for addr in (0..class.slots()).map(|slot| block.slot(class, slot)) {
                let Some(object) = machine.regions().object(addr) else {
                    continue;
                };
                let header = object.header();
                if header.is_locked() {
                    self.problem(format!("object {addr:?} is locked"));
                }
                if !header.is_allocated() {
                    continue;
                }
                self.found.objects += 1;
                if !object.lines_agree(header) {
                    self.problem(format!("object {addr:?} has lines of different versions"));
                }
                if self.owners.remove(&addr).is_none() {
                    self.problem(format!(
                        "object {addr:?} of {} words has no owner",
                        object.len()
                    ));
                }
            }
        }
        let missing: Vec<(Addr, Owner)> = self.owners.drain().take(PROBLEMS_MAX).collect();
        for (addr, owner) in missing {
            let what = format!("{}: object {addr:?} is not allocated", self.names[owner]);
            self.problem(what);
        }
    }
}

fn name(index: &IndexDef) -> &str {
    if index.is_hidden() {
        "(hidden)"
    } else {
        &index.name
    }
}

fn whole(tree: &BTree) -> Cursor {
    tree.scan(Bound::Unbounded, Bound::Unbounded, Direction::Forward)
}

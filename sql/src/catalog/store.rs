//! The storage of the catalog: trees of ordinary rows, reached from the machine's root object.
//!
//! ```text
//! root object   [MAGIC, heart, tables tree, roles tree, outcomes tree, statistics tree,
//!               reclaim tree]
//! heart         [catalog version, next oid]      written by every DDL transaction
//! tables tree   oid -> row (oid, name, definition)    also of sequences, views, types, schemas,
//!                                                     routines and extensions
//!               class and oid -> row                  owner, privileges and comments of an object,
//!                                                     after all other rows: see `about.rs`
//! roles tree    oid -> row (oid, name, definition)    also of databases: see `database.rs`
//! trees         one for each database, like the tables tree, which is that of the first database;
//!               the first one also has the privileges and comments of databases and roles
//! outcomes      the outcomes of transactions: see `outcomes.rs`
//! statistics    the statistics of tables: see `statistics.rs`
//! reclaim       dropped trees whose memory is not free yet: see `reclaim.rs`
//! guards        of each table: see `guard.rs`
//! ```
//!
//! Invariants
//! - CAT-3: every DDL transaction writes the heart. So two of them never both commit from one
//!   version, and names stay unique.
//! - CAT-4: a version is never assigned twice while the process runs, not even after an abort. So
//!   equal versions mean equal definitions.
//! - CAT-6: a definition belongs to one database. A snapshot contains the definitions of one
//!   database, and all roles and databases. Objects of different databases may have the same oid;
//!   objects of one database never do.
//! - CAT-5: a transaction that used a table has a guard of that table, at the planned version, in
//!   its read set. Below serializable that is so only if it has changed rows of the table. DDL on
//!   the table writes all its guards.

mod databases;
mod definitions;

use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fencepost_btree::{BTree, Direction, ScanBatch, TreeSize};
use fencepost_storage::{Addr, FatPtr};
use fencepost_txn::{Machine, ObjectLocation, Stop, Strength, Transaction, View, Work};
use foldhash::HashMap;
use parking_lot::{Mutex, RwLock};

use self::definitions::beside;
use super::def::{ColumnDef, RoleDef, TableDef};
use super::encode::{
    decode_about, decode_database, decode_default_acl, decode_extension, decode_role,
    decode_schema, decode_sequence, decode_table, decode_types, decode_view, is_about, is_database,
    is_default_acl, is_extension, is_sequence, is_type, is_view,
};
use super::encode_routine::{decode_routine, is_routine};
use super::guard::GuardScope;
use super::outcomes::Outcomes;
use super::reclaim::ReclaimList;
use super::rules::ColumnMore;
use super::snapshot::Snapshot;
use super::statistics::StoredStatistics;
use crate::error::SqlError;
use crate::pg_catalog::{DATABASE_OID, class};
use crate::row::RowLayout;
use crate::sequences::Ranges;
use crate::stop::StatementStop;
use crate::types::Type;
use crate::value::Value;

const MAGIC: u64 = u64::from_le_bytes(*b"FPCATAL4");
/// The number of words of the root object.
const ROOT_WORDS: usize = 7;
const HEART_VERSION: usize = 0;
const HEART_NEXT_OID: usize = 1;
pub(crate) const FIRST_USER_OID: u64 = 16384;
/// The oid of the superuser of a new database.
pub const SUPERUSER_OID: u32 = 10;
const LOAD_BATCH: usize = 256;
/// The system catalogs of objects that all databases share; their privileges and comments are
/// stored with the first database.
const COMMON_CLASSES: [u32; 2] = [class::DATABASE, class::ROLE];
/// The number of machines that a catalog version distinguishes.
const MACHINES_MAX: u64 = 1024;

/// The catalog of one database: its storage, and the newest known snapshot.
pub struct Catalog {
    whole: Arc<SharedCatalog>,
    database: u32,
    /// The tree with the definitions of the database.
    definitions: BTree,
    newest: RwLock<Arc<Snapshot>>,
}

/// The part that the catalogs of all databases share.
struct SharedCatalog {
    heart: Addr,
    /// The tree with the definitions of the first database.
    first: BTree,
    roles: BTree,
    outcomes: Outcomes,
    statistics: StoredStatistics,
    reclaim: ReclaimList,
    layout: RowLayout,
    last_version: AtomicU64,
    /// The newest known version.
    newest_version: AtomicU64,
    /// The sequence values that this machine has taken, by database.
    ranges: Mutex<HashMap<u32, Arc<Ranges>>>,
}

impl std::fmt::Debug for Catalog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Catalog of {} at {:?}", self.database, self.whole.heart)
    }
}

impl Catalog {
    /// Returns the memory that the definitions use.
    ///
    /// # Errors
    /// The errors of [`BTree::taken`].
    pub async fn taken(&self, machine: &Machine) -> Result<TreeSize, Stop> {
        self.definitions.taken(machine).await
    }

    /// Creates an empty catalog under the root object, with the superuser `postgres` and the first
    /// databases. Returns the catalog of the database `postgres`. `verifier` is the verifier of the
    /// superuser's password; `None` for no password.
    ///
    /// # Errors
    /// An error if there is a catalog already: existing data is never replaced.
    pub fn create(
        tx: &mut Transaction,
        root: Addr,
        verifier: Option<String>,
    ) -> Work<'_, Result<Catalog, StatementStop>> {
        Box::pin(async move {
            if Catalog::is_made(tx, root).await? {
                return Err(SqlError::internal("there is a catalog already").into());
            }
            let heart = tx.alloc(2, ObjectLocation::Own).await?.addr;
            tx.write(heart, &[1, FIRST_USER_OID]).await?;
            let first = BTree::create(tx).await?;
            let roles = BTree::create(tx).await?;
            let outcomes = Outcomes::of(BTree::create(tx).await?);
            let statistics = StoredStatistics::of(BTree::create(tx).await?);
            let reclaim = ReclaimList::of(BTree::create(tx).await?);
            let trees = [
                first,
                roles,
                outcomes.tree(),
                statistics.tree(),
                reclaim.tree(),
            ];
            let mut words = vec![MAGIC, heart.raw()];
            words.extend(trees.map(|tree| tree.root().raw()));
            tx.write(root, &words).await?;
            let catalog = Catalog::of_words(&words);
            let superuser = RoleDef {
                superuser: true,
                login: true,
                create_role: true,
                create_db: true,
                replication: true,
                bypass_rls: true,
                verifier,
                ..RoleDef::new(SUPERUSER_OID, "postgres")
            };
            catalog.insert_role(tx, &superuser).await?;
            catalog.insert_first_databases(tx, &[]).await?;
            Ok(catalog)
        })
    }

    /// Returns whether the root object contains a catalog or any other data.
    pub async fn is_made(tx: &mut Transaction, root: Addr) -> Result<bool, StatementStop> {
        let mut words = Vec::new();
        let found = tx.read(root, &mut words).await?;
        Ok(found && words.iter().any(|word| *word != 0))
    }

    /// Opens the catalog that the root object refers to, for the first database.
    pub fn open(tx: &mut Transaction, root: Addr) -> Work<'_, Result<Catalog, StatementStop>> {
        Box::pin(async move {
            let mut words = Vec::new();
            let found = tx.read(root, &mut words).await?;
            if !found || words.len() < ROOT_WORDS || words[0] != MAGIC {
                return Err(SqlError::internal("the root object holds no catalog").into());
            }
            Ok(Catalog::of_words(&words))
        })
    }

    /// Returns the catalog for the [`ROOT_WORDS`] words of a root object.
    fn of_words(words: &[u64]) -> Catalog {
        let tree = |at: usize| BTree::open(Addr::from_raw(words[at]));
        let first = tree(2);
        Catalog {
            whole: Arc::new(SharedCatalog {
                heart: Addr::from_raw(words[1]),
                first,
                roles: tree(3),
                outcomes: Outcomes::of(tree(4)),
                statistics: StoredStatistics::of(tree(5)),
                reclaim: ReclaimList::of(tree(6)),
                layout: RowLayout::new(&catalog_columns()),
                last_version: AtomicU64::new(0),
                newest_version: AtomicU64::new(0),
                ranges: Mutex::default(),
            }),
            database: DATABASE_OID,
            definitions: first,
            newest: RwLock::default(),
        }
    }

    /// Returns the catalog as `tx` sees it: the shared snapshot if it has that version, else a
    /// loaded one.
    pub async fn snapshot(&self, tx: &mut Transaction) -> Result<Arc<Snapshot>, StatementStop> {
        let version = |view: &View<'_>| view.word(HEART_VERSION);
        let seen = GuardScope::Statement
            .view(tx, self.whole.heart, version)
            .await?;
        let Some((version, _)) = seen else {
            return Err(SqlError::internal("the catalog is gone").into());
        };
        {
            let newest = self.newest.read();
            if newest.version() == version {
                return Ok(Arc::clone(&newest));
            }
        }
        let snapshot = Arc::new(self.load(&mut tx.seen_at(None), version).await?);
        if !tx.has_writes() {
            self.publish(&snapshot);
        }
        Ok(snapshot)
    }

    /// Adds the catalog's version to the read set. Returns false if it is not `version`.
    pub async fn is_still(
        &self,
        tx: &mut Transaction,
        version: u64,
        hold: GuardScope,
    ) -> Result<bool, StatementStop> {
        let now = |view: &View<'_>| view.word(HEART_VERSION);
        let seen = hold.view(tx, self.whole.heart, now).await?;
        let Some((_, seen)) = seen.filter(|(now, _)| *now == version) else {
            return Ok(false);
        };
        hold.guard(tx, seen);
        Ok(true)
    }

    /// Makes `snapshot`, which a committed transaction has seen, the shared one unless that is
    /// newer.
    pub fn publish(&self, snapshot: &Arc<Snapshot>) {
        let version = snapshot.version();
        self.whole
            .newest_version
            .fetch_max(version, Ordering::Relaxed);
        let mut newest = self.newest.write();
        if newest.version() < snapshot.version() {
            *newest = Arc::clone(snapshot);
        }
    }

    /// Returns the address of the heart, which every DDL transaction writes (CAT-3).
    pub fn heart(&self) -> Addr {
        self.whole.heart
    }

    /// Returns the tree of this database's definitions.
    pub fn definitions_tree(&self) -> BTree {
        self.definitions
    }

    /// Returns the tree of roles and databases.
    pub fn roles_tree(&self) -> BTree {
        self.whole.roles
    }

    /// Returns the outcomes of the transactions that were asked for their numbers.
    pub fn outcomes(&self) -> Outcomes {
        self.whole.outcomes
    }

    /// Returns the stored statistics of the tables of all databases.
    pub fn statistics(&self) -> StoredStatistics {
        self.whole.statistics
    }

    /// Returns the list of dropped trees of all databases.
    pub fn reclaim_list(&self) -> ReclaimList {
        self.whole.reclaim
    }

    /// Returns the newest snapshot that a session of the database has loaded.
    pub fn newest(&self) -> Arc<Snapshot> {
        Arc::clone(&self.newest.read())
    }

    /// Returns the newest snapshot, unless a session of another database has loaded a newer
    /// version.
    pub fn newest_of_all(&self) -> Option<Arc<Snapshot>> {
        let newest = self.newest();
        let version = self.whole.newest_version.load(Ordering::Relaxed);
        (newest.version() >= version && version > 0).then_some(newest)
    }

    fn load<'a>(
        &'a self,
        tx: &'a mut Transaction,
        version: u64,
    ) -> Work<'a, Result<Snapshot, StatementStop>> {
        Box::pin(async move {
            let (mut tables, mut sequences) = (Vec::new(), Vec::new());
            let (mut views, mut schemas) = (Vec::new(), Vec::new());
            let (mut routines, mut extensions) = (Vec::new(), Vec::new());
            let (mut abouts, mut defaults) = (Vec::new(), Vec::new());
            let everything = (Bound::Unbounded, Bound::Unbounded);
            let mut all = self.read(tx, &self.definitions, everything).await?;
            if self.database != DATABASE_OID {
                for class in COMMON_CLASSES {
                    let (from, to) = (beside(class, 0), beside(class, u32::MAX));
                    let (from, to) = (from.to_be_bytes(), to.to_be_bytes());
                    let range = (Bound::Included(&from[..]), Bound::Included(&to[..]));
                    all.extend(self.read(tx, &self.whole.first, range).await?);
                }
            }
            // Types of columns, and schemas to which expressions refer, are decoded first.
            let (types, others): (Vec<_>, Vec<_>) = all.into_iter().partition(|b| is_type(b));
            let types = decode_types(&types)?;
            for bytes in &others {
                schemas.extend(decode_schema(bytes)?);
            }
            let around = Snapshot::default().with_types(types.clone());
            let around = around.with_schemas(schemas.clone());
            for bytes in others {
                if decode_schema(&bytes)?.is_some() {
                    continue;
                }
                if is_sequence(&bytes) {
                    sequences.push(decode_sequence(&bytes)?);
                } else if is_view(&bytes) {
                    views.push(decode_view(&bytes, &around)?);
                } else if is_routine(&bytes) {
                    routines.push(bytes);
                } else if is_extension(&bytes) {
                    extensions.push(decode_extension(&bytes)?);
                } else if is_about(&bytes) {
                    abouts.push(decode_about(&bytes)?);
                } else if is_default_acl(&bytes) {
                    defaults.push(decode_default_acl(&bytes)?);
                } else {
                    tables.push(decode_table(&bytes, &around)?);
                }
            }
            let (mut roles, mut databases) = (Vec::new(), Vec::new());
            for bytes in self.read(tx, &self.whole.roles, everything).await? {
                match is_database(&bytes) {
                    true => databases.push(decode_database(&bytes)?),
                    false => roles.push(decode_role(&bytes)?),
                }
            }
            if self.database != DATABASE_OID && databases.iter().all(|of| of.id != self.database) {
                return Err(databases::undefined_database().into());
            }
            // Planning asks for the machine that stores each root.
            let indexes = tables.iter().flat_map(|table: &TableDef| &table.indexes);
            let roots = indexes.flat_map(|index| index.roots.all());
            let roots: Vec<Addr> = roots.map(|root| Addr::from_raw(*root)).collect();
            tx.machine().meet(&roots).await?;
            let snapshot = Snapshot::new(version, tables, roles).with_sequences(sequences);
            let snapshot = snapshot.with_databases(self.database, databases);
            let snapshot = snapshot.with_types(types);
            let snapshot = snapshot.with_views(views).with_schemas(schemas);
            // Their signatures may contain row types of tables and views.
            let routines = routines.iter();
            let routines = routines.map(|bytes| decode_routine(bytes, &snapshot));
            let routines = routines.collect::<Result<_, _>>()?;
            Ok(snapshot
                .with_routines(routines)
                .with_extensions(extensions)
                .with_security(abouts, defaults))
        })
    }

    /// Returns the definitions in a key range of a tree.
    async fn read(
        &self,
        tx: &mut Transaction,
        tree: &BTree,
        (from, to): (Bound<&[u8]>, Bound<&[u8]>),
    ) -> Result<Vec<Vec<u8>>, StatementStop> {
        let mut found = Vec::new();
        let mut words = Vec::new();
        let mut batch = ScanBatch::new();
        let mut cursor = tree.scan(from, to, Direction::Forward);
        loop {
            batch.clear();
            let more = cursor.next_batch(tx, &mut batch, LOAD_BATCH).await?;
            for i in 0..batch.len() {
                let row = FatPtr::from_words(batch.value(i));
                if !tx.read(row.addr, &mut words).await? {
                    return Err(SqlError::internal("a catalog row is gone").into());
                }
                if let Value::Bytea(bytes) = self.whole.layout.reader(&words)?.get(2)? {
                    found.push(bytes);
                }
            }
            if !more {
                return Ok(found);
            }
        }
    }

    /// Reads the heart, for a transaction that waits for it. The transaction then continues in a
    /// state of the catalog on which the next change can be based.
    ///
    /// # Errors
    /// The errors of [`Transaction::read`], if an object that the transaction has read was changed.
    pub async fn catch_up(&self, tx: &mut Transaction) -> Result<(), StatementStop> {
        match tx.read(self.whole.heart, &mut Vec::new()).await? {
            true => Ok(()),
            false => Err(SqlError::internal("the catalog is gone").into()),
        }
    }

    /// Acquires the right to change the catalog, after waiting for it, and returns the new catalog
    /// version (CAT-3). The change was planned on version `planned`; it is stale if that is no
    /// longer the newest.
    pub fn begin_change<'a>(
        &'a self,
        tx: &'a mut Transaction,
        planned: u64,
    ) -> Work<'a, Result<u64, StatementStop>> {
        Box::pin(async move {
            tx.intend(self.whole.heart, Strength::Update).await?;
            let mut words = Vec::new();
            if !tx.read(self.whole.heart, &mut words).await? || words.len() < 2 {
                return Err(SqlError::internal("the catalog is gone").into());
            }
            if words[HEART_VERSION] != planned {
                return Err(StatementStop::Stale);
            }
            let version = self.fresh_version(planned, tx.machine().number());
            words[HEART_VERSION] = version;
            tx.write(self.whole.heart, &words).await?;
            Ok(version)
        })
    }

    /// Returns a version above `stored` that no transaction of any machine has had (CAT-4). Each
    /// machine counts in steps of `MACHINES_MAX` from its own number.
    fn fresh_version(&self, stored: u64, machine: u32) -> u64 {
        let counted = stored / MACHINES_MAX;
        self.whole
            .last_version
            .fetch_max(counted, Ordering::Relaxed);
        let next = self.whole.last_version.fetch_add(1, Ordering::Relaxed) + 1;
        next * MACHINES_MAX + u64::from(machine) % MACHINES_MAX
    }

    /// Returns the next free oid, which is assigned permanently when the transaction commits.
    pub fn next_oid<'a>(&'a self, tx: &'a mut Transaction) -> Work<'a, Result<u32, StatementStop>> {
        Box::pin(async move {
            let oid = tx
                .update(self.whole.heart, |words| {
                    let oid = words[HEART_NEXT_OID];
                    words[HEART_NEXT_OID] = oid + 1;
                    oid
                })
                .await?;
            u32::try_from(oid).map_err(|_| SqlError::internal("out of oids").into())
        })
    }
}

fn catalog_columns() -> [ColumnDef; 3] {
    [
        ("oid", Type::INT8),
        ("name", Type::TEXT),
        ("definition", Type::BYTEA),
    ]
    .map(|(name, ty)| ColumnDef {
        name: name.into(),
        ty,
        not_null: true,
        default: None,
        attnum: 0,
        more: ColumnMore::default(),
    })
}

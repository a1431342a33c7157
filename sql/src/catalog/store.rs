//! Where the catalog lives: trees of ordinary rows, reached from the machine's root object.
//!
//! ```text
//! root object   [MAGIC, heart, tables tree, roles tree, outcomes tree]
//! heart         [catalog version, next oid]      written by every DDL transaction
//! tables tree   oid -> row (oid, name, definition)      sequences, views, types, schemas, routines and extensions are there, too
//!               class and oid -> row                    what is said about an object, behind all others: see `about.rs`
//! roles tree    oid -> row (oid, name, definition)      databases are there, too: see `database.rs`
//! trees         of each database like the tables tree, which is the first database's; that has what is said of
//!               databases and roles, too
//! outcomes      how transactions ended: see `outcomes.rs`
//! guards        of each table: see `guard.rs`
//! ```
//!
//! Invariants
//! - CAT-3: every DDL transaction writes the heart, so two of them never both commit from one
//!   version, and names stay unique.
//! - CAT-4: a version is never given twice while the process lives, not even by a transaction that
//!   aborts, so equal versions mean equal definitions.
//! - CAT-6: a definition is of one database and a snapshot has those of one database, besides all roles and databases;
//!   oids may be the same in two databases, but no two objects of one database ever have the same.
//! - CAT-5: a transaction that used a table has a guard of that table, at the planned version, in its
//!   read set, below serializable if it has changed rows of the table; DDL on the table writes all its guards.

mod databases;
mod definitions;

use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fencepost_btree::{BTree, Direction, ScanBatch, Taken};
use fencepost_storage::{Addr, FatPtr};
use fencepost_txn::{Machine, Near, Stop, Strength, Transaction, View, Work};
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
use super::guard::Hold;
use super::outcomes::Outcomes;
use super::rules::ColumnMore;
use super::snapshot::Snapshot;
use crate::error::SqlError;
use crate::pg_catalog::{DATABASE_OID, class};
use crate::row::RowLayout;
use crate::sequences::Ranges;
use crate::stop::Halt;
use crate::types::Type;
use crate::value::Value;

const MAGIC: u64 = u64::from_le_bytes(*b"FPCATAL2");
const HEART_VERSION: usize = 0;
const HEART_NEXT_OID: usize = 1;
pub(crate) const FIRST_USER_OID: u64 = 16384;
/// The oid of the superuser that a fresh database has.
pub const SUPERUSER_OID: u32 = 10;
const LOAD_BATCH: usize = 256;
/// The classes of what is no database's own: what is said about them is kept with the first database.
const COMMON_CLASSES: [u32; 2] = [class::DATABASE, class::ROLE];
/// Machines whose numbers a catalog version tells apart.
const MACHINES_MAX: u64 = 1024;

/// The catalog as one database sees it: where it is stored, and the newest snapshot known.
pub struct Catalog {
    whole: Arc<Whole>,
    database: u32,
    /// What the database has.
    definitions: BTree,
    newest: RwLock<Arc<Snapshot>>,
}

/// What the catalogs of all databases have in common.
struct Whole {
    heart: Addr,
    /// The definitions of the first database.
    first: BTree,
    roles: BTree,
    outcomes: Outcomes,
    layout: RowLayout,
    last_version: AtomicU64,
    /// The newest version that is known to be.
    newest_version: AtomicU64,
    /// Values of sequences that this machine has taken, by database.
    ranges: Mutex<HashMap<u32, Arc<Ranges>>>,
}

impl std::fmt::Debug for Catalog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Catalog of {} at {:?}", self.database, self.whole.heart)
    }
}

impl Catalog {
    /// What the definitions take.
    ///
    /// # Errors
    /// As [`BTree::taken`].
    pub async fn taken(&self, machine: &Machine) -> Result<Taken, Stop> {
        self.definitions.taken(machine).await
    }

    /// Lays out an empty catalog with the superuser `postgres` and the first databases under the root object; the one
    /// of `postgres`. `verifier` is of the superuser's password, if it is to have one.
    ///
    /// # Errors
    /// Where there is one: whatever is known of a machine's data, what is there is not replaced.
    pub fn create(
        tx: &mut Transaction,
        root: Addr,
        verifier: Option<String>,
    ) -> Work<'_, Result<Catalog, Halt>> {
        Box::pin(async move {
            if Catalog::is_made(tx, root).await? {
                return Err(SqlError::internal("there is a catalog already").into());
            }
            let heart = tx.alloc(2, Near::Own).await?.addr;
            tx.write(heart, &[1, FIRST_USER_OID]).await?;
            let first = BTree::create(tx).await?;
            let roles = BTree::create(tx).await?;
            let outcomes = Outcomes::of(BTree::create(tx).await?);
            let places = [heart, first.root(), roles.root(), outcomes.root()];
            let mut words = vec![MAGIC];
            words.extend(places.map(Addr::raw));
            tx.write(root, &words).await?;
            let catalog = Catalog::at(heart, first, roles, outcomes);
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

    /// Whether there is one, or anything else, under the root object.
    pub async fn is_made(tx: &mut Transaction, root: Addr) -> Result<bool, Halt> {
        let mut words = Vec::new();
        let found = tx.read(root, &mut words).await?;
        Ok(found && words.iter().any(|word| *word != 0))
    }

    /// The catalog that the root object points to, as the first database sees it.
    pub fn open(tx: &mut Transaction, root: Addr) -> Work<'_, Result<Catalog, Halt>> {
        Box::pin(async move {
            let mut words = Vec::new();
            let found = tx.read(root, &mut words).await?;
            if !found || words.len() < 5 || words[0] != MAGIC {
                return Err(SqlError::internal("the root object holds no catalog").into());
            }
            let heart = Addr::from_raw(words[1]);
            let first = BTree::open(Addr::from_raw(words[2]));
            let roles = BTree::open(Addr::from_raw(words[3]));
            let outcomes = Outcomes::of(BTree::open(Addr::from_raw(words[4])));
            Ok(Catalog::at(heart, first, roles, outcomes))
        })
    }

    fn at(heart: Addr, first: BTree, roles: BTree, outcomes: Outcomes) -> Catalog {
        Catalog {
            whole: Arc::new(Whole {
                heart,
                first,
                roles,
                outcomes,
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

    /// The catalog as `tx` sees it: the shared snapshot when that is the one, else a loaded one.
    pub async fn snapshot(&self, tx: &mut Transaction) -> Result<Arc<Snapshot>, Halt> {
        let version = |view: &View<'_>| view.word(HEART_VERSION);
        let seen = Hold::Statement.view(tx, self.whole.heart, version).await?;
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

    /// Puts the catalog's version into the read set. Returns false where it is another one.
    pub async fn is_still(
        &self,
        tx: &mut Transaction,
        version: u64,
        hold: Hold,
    ) -> Result<bool, Halt> {
        let now = |view: &View<'_>| view.word(HEART_VERSION);
        let seen = hold.view(tx, self.whole.heart, now).await?;
        let Some((_, seen)) = seen.filter(|(now, _)| *now == version) else {
            return Ok(false);
        };
        hold.guard(tx, seen);
        Ok(true)
    }

    /// Makes `snapshot`, which a committed transaction saw, the shared one unless a newer is.
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

    /// The object that every DDL transaction writes (CAT-3).
    pub fn heart(&self) -> Addr {
        self.whole.heart
    }

    /// The tree of what this database has.
    pub fn definitions_tree(&self) -> BTree {
        self.definitions
    }

    /// The tree of roles and databases.
    pub fn roles_tree(&self) -> BTree {
        self.whole.roles
    }

    /// How transactions ended that were asked for their numbers.
    pub fn outcomes(&self) -> Outcomes {
        self.whole.outcomes
    }

    /// The newest snapshot that any session of the database has loaded.
    pub fn newest(&self) -> Arc<Snapshot> {
        Arc::clone(&self.newest.read())
    }

    /// The same, unless a session of another database has loaded a newer version.
    pub fn newest_of_all(&self) -> Option<Arc<Snapshot>> {
        let newest = self.newest();
        let version = self.whole.newest_version.load(Ordering::Relaxed);
        (newest.version() >= version && version > 0).then_some(newest)
    }

    fn load<'a>(
        &'a self,
        tx: &'a mut Transaction,
        version: u64,
    ) -> Work<'a, Result<Snapshot, Halt>> {
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
            // The types of columns, and the schemas that expressions name, have to be known before
            // them.
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
                return Err(databases::gone().into());
            }
            // Whoever plans with it asks whose its roots are.
            let indexes = tables.iter().flat_map(|table: &TableDef| &table.indexes);
            let roots = indexes.flat_map(|index| index.roots.all());
            let roots: Vec<Addr> = roots.map(|root| Addr::from_raw(*root)).collect();
            tx.machine().meet(&roots).await?;
            let snapshot = Snapshot::new(version, tables, roles).with_sequences(sequences);
            let snapshot = snapshot.with_databases(self.database, databases);
            let snapshot = snapshot.with_types(types);
            let snapshot = snapshot.with_views(views).with_schemas(schemas);
            // Their signatures may have the types of the rows of tables and views.
            let routines = routines.iter();
            let routines = routines.map(|bytes| decode_routine(bytes, &snapshot));
            let routines = routines.collect::<Result<_, _>>()?;
            Ok(snapshot
                .with_routines(routines)
                .with_extensions(extensions)
                .with_security(abouts, defaults))
        })
    }

    /// The definitions under a range of keys of a tree.
    async fn read(
        &self,
        tx: &mut Transaction,
        tree: &BTree,
        (from, to): (Bound<&[u8]>, Bound<&[u8]>),
    ) -> Result<Vec<Vec<u8>>, Halt> {
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

    /// For who stands in line for the heart: its transaction goes on at a moment at which the catalog is what the next
    /// change is made on.
    ///
    /// # Errors
    /// As [`Transaction::read`] where something that the transaction has read is not as it was.
    pub async fn catch_up(&self, tx: &mut Transaction) -> Result<(), Halt> {
        match tx.read(self.whole.heart, &mut Vec::new()).await? {
            true => Ok(()),
            false => Err(SqlError::internal("the catalog is gone").into()),
        }
    }

    /// Queues for the right to change the catalog and gives the new catalog version (CAT-3). The
    /// change was planned on version `planned`; if that is not the newest any more it is stale.
    pub fn begin_change<'a>(
        &'a self,
        tx: &'a mut Transaction,
        planned: u64,
    ) -> Work<'a, Result<u64, Halt>> {
        Box::pin(async move {
            tx.intend(self.whole.heart, Strength::Update).await?;
            let mut words = Vec::new();
            if !tx.read(self.whole.heart, &mut words).await? || words.len() < 2 {
                return Err(SqlError::internal("the catalog is gone").into());
            }
            if words[HEART_VERSION] != planned {
                return Err(Halt::Stale);
            }
            let version = self.fresh_version(planned, tx.machine().number());
            words[HEART_VERSION] = version;
            tx.write(self.whole.heart, &words).await?;
            Ok(version)
        })
    }

    /// A version above `stored` that no transaction of any machine has had (CAT-4): machines count in
    /// steps, each from its own number.
    fn fresh_version(&self, stored: u64, machine: u32) -> u64 {
        let counted = stored / MACHINES_MAX;
        self.whole
            .last_version
            .fetch_max(counted, Ordering::Relaxed);
        let next = self.whole.last_version.fetch_add(1, Ordering::Relaxed) + 1;
        next * MACHINES_MAX + u64::from(machine) % MACHINES_MAX
    }

    /// The next free oid, given for good when the transaction commits.
    pub fn next_oid<'a>(&'a self, tx: &'a mut Transaction) -> Work<'a, Result<u32, Halt>> {
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

//! The databases of a catalog; each has a tree of definitions.

use std::ops::Bound;
use std::sync::Arc;

use fencepost_btree::{BTree, Cursor, Direction, ScanBatch};
use fencepost_storage::Addr;
use fencepost_txn::Transaction;
use parking_lot::RwLock;

use super::super::about::{Object, ObjectAttributes, ObjectKind};
use super::super::acl::{Acl, Privileges, default_acl};
use super::super::database::DatabaseDef;
use super::super::encode::encode_database;
use super::definitions::WriteFuture;
use super::{COMMON_CLASSES, Catalog, LOAD_BATCH, SUPERUSER_OID};
use crate::error::{SqlError, SqlState};
use crate::pg_catalog::DATABASE_OID;
use crate::sequences::Ranges;
use crate::stop::StatementStop;

impl Catalog {
    /// Returns the catalog of another database, without loading it.
    pub fn of(&self, database: &DatabaseDef) -> Catalog {
        Catalog {
            whole: Arc::clone(&self.whole),
            database: database.id,
            definitions: BTree::open(Addr::from_raw(database.definitions)),
            newest: RwLock::default(),
        }
    }

    /// Returns the oid of the database.
    pub fn database(&self) -> u32 {
        self.database
    }

    /// Returns the sequence values of the database that this machine has taken.
    pub fn ranges(&self) -> Arc<Ranges> {
        let mut all = self.whole.ranges.lock();
        Arc::clone(all.entry(self.database).or_default())
    }

    /// Creates the first databases in a catalog from a version with a single database; false if
    /// they exist.
    pub async fn add_first_databases(&self, tx: &mut Transaction) -> Result<bool, StatementStop> {
        let snapshot = self.snapshot(tx).await?;
        if !snapshot.databases().is_empty() {
            return Ok(false);
        }
        self.begin_change(tx, snapshot.version()).await?;
        let said = snapshot.security().abouts();
        self.insert_first_databases(tx, &said).await?;
        Ok(true)
    }

    /// Inserts the first databases; `said` are the existing owners, privileges and comments.
    pub(super) async fn insert_first_databases(
        &self,
        tx: &mut Transaction,
        said: &[Arc<ObjectAttributes>],
    ) -> Result<(), StatementStop> {
        for (mut database, comment) in DatabaseDef::first() {
            database.definitions = match database.id {
                DATABASE_OID => self.whole.first.root().raw(),
                _ => BTree::create(tx).await?.root().raw(),
            };
            self.insert_database(tx, &database).await?;
            let object = Object::new(ObjectKind::Database, database.id);
            if said
                .iter()
                .all(|about| (about.class, about.id) != object.key())
            {
                let about = ObjectAttributes {
                    acl: database.is_template.then(connect_only),
                    comments: vec![(0, comment.to_owned())],
                    ..ObjectAttributes::of(object)
                };
                self.replace_about(tx, None, &about).await?;
            }
        }
        Ok(())
    }

    /// Creates a tree for the definitions of a new database, and returns its raw address.
    pub async fn create_definitions(&self, tx: &mut Transaction) -> Result<u64, StatementStop> {
        Ok(BTree::create(tx).await?.root().raw())
    }

    /// Inserts a database, whose tree exists already.
    pub fn insert_database<'a>(
        &'a self,
        tx: &'a mut Transaction,
        database: &'a DatabaseDef,
    ) -> WriteFuture<'a> {
        let row = (database.name.as_str(), encode_database(database));
        self.put_common(tx, database.id, false, Some(row))
    }

    /// Replaces the database with the same oid by `database`.
    pub fn replace_database<'a>(
        &'a self,
        tx: &'a mut Transaction,
        database: &'a DatabaseDef,
    ) -> WriteFuture<'a> {
        let row = (database.name.as_str(), encode_database(database));
        self.put_common(tx, database.id, true, Some(row))
    }

    /// Removes this database with its remaining definitions. The tree of the first database stays,
    /// because it also contains common entries.
    pub async fn remove_database(&self, tx: &mut Transaction) -> Result<(), StatementStop> {
        self.put_common(tx, self.database, true, None).await?;
        let is_first = self.definitions.root() == self.whole.first.root();
        let mut keys = Vec::new();
        let mut batch = ScanBatch::new();
        let mut cursor = whole(&self.definitions);
        loop {
            batch.clear();
            let more = cursor.next_batch(tx, &mut batch, LOAD_BATCH).await?;
            for i in 0..batch.len() {
                if let Ok(key) = batch.key(i).try_into() {
                    keys.push(u64::from_be_bytes(key));
                }
            }
            if !more {
                break;
            }
        }
        let common = |key: &u64| COMMON_CLASSES.contains(&((key >> 32) as u32));
        for key in keys.into_iter().filter(|key| !is_first || !common(key)) {
            self.put(tx, self.definitions, key, true, None).await?;
        }
        if !is_first {
            self.definitions.drop_tree(tx).await?;
        }
        Ok(())
    }
}

fn whole(tree: &BTree) -> Cursor {
    tree.scan(Bound::Unbounded, Bound::Unbounded, Direction::Forward)
}

/// Returns the error 57P01 for a session whose database was dropped.
pub(super) fn undefined_database() -> SqlError {
    SqlError::new(SqlState::new(b"57P01"), "the database has been dropped")
}

/// Returns the privileges on a template database: CONNECT for PUBLIC, and all for its owner.
fn connect_only() -> Acl {
    let owners = ObjectKind::Database.privileges();
    default_acl(SUPERUSER_OID, (Privileges::CONNECT, owners))
}

//! Insertion, replacement and removal of definitions: each is a row under its oid.
//!
//! An object with guards is changed together with them, so that transactions with a plan for the
//! old version detect the change (CAT-5).

use fencepost_btree::{BTree, Insert};
use fencepost_storage::FatPtr;
use fencepost_txn::{ObjectLocation, Transaction, Work};

use super::super::about::{DefaultAcl, ObjectAttributes};
use super::super::def::{RoleDef, TableDef};
use super::super::encode::{
    encode_about, encode_default_acl, encode_extension, encode_role, encode_schema,
    encode_sequence, encode_table, encode_type, encode_view,
};
use super::super::encode_routine::encode_routine;
use super::super::extension::ExtensionDef;
use super::super::guard::Guards;
use super::super::routine::RoutineDef;
use super::super::security::Security;
use super::super::sequence::SequenceDef;
use super::super::user_type::TypeDef;
use super::super::view::ViewDef;
use super::{COMMON_CLASSES, Catalog};
use crate::error::SqlError;
use crate::pg_catalog::class;
use crate::stop::StatementStop;
use crate::value::Value;

/// Work that is complete when the change is written to the transaction.
pub(super) type WriteFuture<'a> = Work<'a, Result<(), StatementStop>>;

/// A name and a definition.
type Row<'a> = (&'a str, Vec<u8>);

impl Catalog {
    /// Inserts `table`, whose guards exist already.
    pub fn insert_table<'a>(
        &'a self,
        tx: &'a mut Transaction,
        table: &'a TableDef,
    ) -> WriteFuture<'a> {
        self.insert(tx, table.id, &table.name, encode_table(table))
    }

    /// Replaces the definition with the same oid by `table`; its version must be new.
    pub fn replace_table<'a>(
        &'a self,
        tx: &'a mut Transaction,
        table: &'a TableDef,
    ) -> WriteFuture<'a> {
        let guards = (&table.guards, table.version);
        self.replace_guarded(tx, guards, table.id, &table.name, encode_table(table))
    }

    /// Replaces the definition as [`Catalog::replace_table`] does, but keeps its version: existing
    /// plans stay valid.
    pub fn redefine_table<'a>(
        &'a self,
        tx: &'a mut Transaction,
        table: &'a TableDef,
    ) -> WriteFuture<'a> {
        let row = Some((table.name.as_str(), encode_table(table)));
        self.put(tx, self.definitions, u64::from(table.id), true, row)
    }

    /// Removes `table`, its guards and its statistics. The caller drops its trees.
    pub fn remove_table<'a>(
        &'a self,
        tx: &'a mut Transaction,
        table: &'a TableDef,
    ) -> WriteFuture<'a> {
        Box::pin(async move {
            let statistics = self.statistics();
            statistics.remove(tx, self.database(), table.id).await?;
            self.remove_guarded(tx, &table.guards, table.id).await
        })
    }

    /// Inserts `sequence`, whose cell exists already.
    pub fn insert_sequence<'a>(
        &'a self,
        tx: &'a mut Transaction,
        sequence: &'a SequenceDef,
    ) -> WriteFuture<'a> {
        self.insert(tx, sequence.id, &sequence.name, encode_sequence(sequence))
    }

    /// Removes the definition of `sequence`; the caller frees its cell.
    pub fn remove_sequence<'a>(
        &'a self,
        tx: &'a mut Transaction,
        sequence: &SequenceDef,
    ) -> WriteFuture<'a> {
        self.remove(tx, sequence.id)
    }

    /// Inserts a schema.
    pub fn insert_schema<'a>(
        &'a self,
        tx: &'a mut Transaction,
        id: u32,
        name: &'a str,
    ) -> WriteFuture<'a> {
        self.insert(tx, id, name, encode_schema(id, name))
    }

    /// Removes the schema with the oid `id`.
    pub fn remove_schema<'a>(&'a self, tx: &'a mut Transaction, id: u32) -> WriteFuture<'a> {
        self.remove(tx, id)
    }

    /// Inserts `view`, whose guards exist already.
    pub fn insert_view<'a>(
        &'a self,
        tx: &'a mut Transaction,
        view: &'a ViewDef,
    ) -> WriteFuture<'a> {
        self.insert(tx, view.id, &view.name, encode_view(view))
    }

    /// Replaces the definition with the same oid by `view`; its version must be new.
    pub fn replace_view<'a>(
        &'a self,
        tx: &'a mut Transaction,
        view: &'a ViewDef,
    ) -> WriteFuture<'a> {
        let guards = (&view.guards, view.version);
        self.replace_guarded(tx, guards, view.id, &view.name, encode_view(view))
    }

    /// Removes `view` and its guards.
    pub fn remove_view<'a>(
        &'a self,
        tx: &'a mut Transaction,
        view: &'a ViewDef,
    ) -> WriteFuture<'a> {
        match view.guards.are_none() {
            true => self.remove(tx, view.id),
            false => self.remove_guarded(tx, &view.guards, view.id),
        }
    }

    /// Inserts `routine`, whose guards exist already.
    pub fn insert_routine<'a>(
        &'a self,
        tx: &'a mut Transaction,
        routine: &'a RoutineDef,
    ) -> WriteFuture<'a> {
        self.insert(tx, routine.id, &routine.name, encode_routine(routine))
    }

    /// Replaces the definition with the same oid by `routine`; its version must be new.
    pub fn replace_routine<'a>(
        &'a self,
        tx: &'a mut Transaction,
        routine: &'a RoutineDef,
    ) -> WriteFuture<'a> {
        let guards = (&routine.guards, routine.version);
        let bytes = encode_routine(routine);
        self.replace_guarded(tx, guards, routine.id, &routine.name, bytes)
    }

    /// Removes `routine` and its guards.
    pub fn remove_routine<'a>(
        &'a self,
        tx: &'a mut Transaction,
        routine: &'a RoutineDef,
    ) -> WriteFuture<'a> {
        self.remove_guarded(tx, &routine.guards, routine.id)
    }

    /// Inserts an extension; its objects are inserted separately.
    pub fn insert_extension<'a>(
        &'a self,
        tx: &'a mut Transaction,
        extension: &'a ExtensionDef,
    ) -> WriteFuture<'a> {
        let bytes = encode_extension(extension);
        self.insert(tx, extension.id, &extension.name, bytes)
    }

    /// Removes the extension with the oid `id`; the caller removes its objects.
    pub fn remove_extension<'a>(&'a self, tx: &'a mut Transaction, id: u32) -> WriteFuture<'a> {
        self.remove(tx, id)
    }

    /// Inserts a type, whose guards exist already.
    pub fn insert_type<'a>(&'a self, tx: &'a mut Transaction, ty: &'a TypeDef) -> WriteFuture<'a> {
        self.insert(tx, ty.id, &ty.name, encode_type(ty))
    }

    /// Replaces the definition with the same oid by `ty`; its version must be new.
    pub fn replace_type<'a>(&'a self, tx: &'a mut Transaction, ty: &'a TypeDef) -> WriteFuture<'a> {
        self.replace_guarded(
            tx,
            (&ty.guards, ty.version),
            ty.id,
            &ty.name,
            encode_type(ty),
        )
    }

    /// Removes `ty` and its guards.
    pub fn remove_type<'a>(&'a self, tx: &'a mut Transaction, ty: &'a TypeDef) -> WriteFuture<'a> {
        self.remove_guarded(tx, &ty.guards, ty.id)
    }

    /// Inserts a role.
    pub fn insert_role<'a>(
        &'a self,
        tx: &'a mut Transaction,
        role: &'a RoleDef,
    ) -> WriteFuture<'a> {
        let row = (role.name.as_str(), encode_role(role));
        self.put_common(tx, role.id, false, Some(row))
    }

    /// Replaces the role with the same oid by `role`. A predefined role has a row only after its
    /// first change.
    pub fn replace_role<'a>(
        &'a self,
        tx: &'a mut Transaction,
        role: &'a RoleDef,
    ) -> WriteFuture<'a> {
        Box::pin(async move {
            let row = (role.name.as_str(), encode_role(role));
            let key = u64::from(role.id).to_be_bytes();
            let is_there = !Security::is_predefined(role.id)
                || self.whole.roles.get(tx, &key).await?.is_some();
            self.put_common(tx, role.id, is_there, Some(row)).await
        })
    }

    /// Removes a role.
    pub fn remove_role<'a>(&'a self, tx: &'a mut Transaction, role: &RoleDef) -> WriteFuture<'a> {
        self.put_common(tx, role.id, true, None)
    }

    /// Replaces the owner, privileges and comments of an object; `before` is the old entry.
    pub fn replace_about<'a>(
        &'a self,
        tx: &'a mut Transaction,
        before: Option<&ObjectAttributes>,
        about: &ObjectAttributes,
    ) -> WriteFuture<'a> {
        let key = beside(about.class, about.id);
        let tree = match COMMON_CLASSES.contains(&about.class) {
            true => self.whole.first,
            false => self.definitions,
        };
        let row = (!about.is_empty()).then(|| ("", encode_about(about)));
        self.put(tx, tree, key, before.is_some(), row)
    }

    /// Replaces an entry of ALTER DEFAULT PRIVILEGES; an entry equal to the default list is
    /// removed.
    pub fn replace_default_acl<'a>(
        &'a self,
        tx: &'a mut Transaction,
        (was_there, of): (bool, &DefaultAcl),
        is_default: bool,
    ) -> WriteFuture<'a> {
        let key = beside(class::DEFAULT_ACL, of.id);
        let row = (!is_default).then(|| ("", encode_default_acl(of)));
        self.put(tx, self.definitions, key, was_there, row)
    }

    fn insert<'a>(
        &'a self,
        tx: &'a mut Transaction,
        id: u32,
        name: &'a str,
        definition: Vec<u8>,
    ) -> WriteFuture<'a> {
        let row = Some((name, definition));
        self.put(tx, self.definitions, u64::from(id), false, row)
    }

    fn remove<'a>(&'a self, tx: &'a mut Transaction, id: u32) -> WriteFuture<'a> {
        self.put(tx, self.definitions, u64::from(id), true, None)
    }

    /// Writes the row as [`Self::put`] does, for a role or a database.
    pub(super) fn put_common<'a>(
        &'a self,
        tx: &'a mut Transaction,
        id: u32,
        is_there: bool,
        row: Option<Row<'a>>,
    ) -> WriteFuture<'a> {
        self.put(tx, self.whole.roles, u64::from(id), is_there, row)
    }

    fn replace_guarded<'a>(
        &'a self,
        tx: &'a mut Transaction,
        (guards, version): (&'a Guards, u64),
        id: u32,
        name: &'a str,
        definition: Vec<u8>,
    ) -> WriteFuture<'a> {
        Box::pin(async move {
            guards.write(tx, id, version).await?;
            let row = Some((name, definition));
            self.put(tx, self.definitions, u64::from(id), true, row)
                .await
        })
    }

    fn remove_guarded<'a>(
        &'a self,
        tx: &'a mut Transaction,
        guards: &'a Guards,
        id: u32,
    ) -> WriteFuture<'a> {
        Box::pin(async move {
            guards.free(tx).await?;
            self.remove(tx, id).await
        })
    }

    /// Sets the row of `key`, or removes it for `None`; `is_there` tells whether a row exists.
    pub(super) fn put<'a>(
        &'a self,
        tx: &'a mut Transaction,
        tree: BTree,
        key: u64,
        is_there: bool,
        row: Option<Row<'a>>,
    ) -> WriteFuture<'a> {
        Box::pin(async move {
            let key_bytes = key.to_be_bytes();
            if is_there {
                let Some(words) = tree.get(tx, &key_bytes).await? else {
                    return Err(SqlError::internal("a definition is gone").into());
                };
                tree.remove(tx, &key_bytes).await?;
                tx.free(FatPtr::from_words(words).addr).await?;
            }
            let Some((name, definition)) = row else {
                return Ok(());
            };
            let row = [
                Value::Int8(key as i64),
                Value::text(name),
                Value::Bytea(definition),
            ];
            let mut words = Vec::new();
            self.whole.layout.encode(&row, &mut words)?;
            let place = tx.alloc(words.len(), ObjectLocation::Own).await?;
            tx.write(place.addr, &words).await?;
            match tree.insert(tx, &key_bytes, place.to_words()).await? {
                Insert::Done => Ok(()),
                Insert::Exists(_) => Err(SqlError::internal("an oid was given twice").into()),
            }
        })
    }
}

/// Returns the key of the entry beside the definition of an object.
pub(super) fn beside(class: u32, id: u32) -> u64 {
    u64::from(class) << 32 | u64::from(id)
}

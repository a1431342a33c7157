//! What the catalog says about a table: its columns, its indexes, its identity.
//!
//! A definition is immutable once published; DDL makes a new one with a higher `version` and every
//! transaction checks the version of the tables it planned with (see `catalog::guard`).
//!
//! Invariants
//! - CAT-1: `indexes[0]` is a B-tree that reaches every row of the table. It is the primary key, or,
//!   for a table without one or with one kept as a hash table, a *hidden* index with no key columns,
//!   whose keys are just the row addresses. So is that of a partitioned table whose primary key does
//!   not start with the partition column: it is to have a root for each partition (PART-1). A partitioned table's is
//!   always hidden, and has the first indexes of its leaves for roots.
//! - CAT-2: `columns[i].attnum == i + 1`.

use std::sync::Arc;

use super::collation::Collation;
use super::database::DatabaseDef;
use super::extension::ExtensionDef;
use super::family::Family;
use super::guard::Guards;
use super::partition::{Partitioning, Roots};
use super::routine::RoutineDef;
use super::rules::{ColumnMore, TableRules};
use super::security::Security;
use super::sequence::SequenceDef;
use super::user_type::TypeDef;
use super::view::{Materialized, ViewDef};
use crate::bound::{Expr, NamedObject};
use crate::error::SqlError;
use crate::types::{Type, TypeKind};
use crate::value::Value;

/// The schema that user tables live in.
pub const PUBLIC_SCHEMA: &str = "public";

/// A key column of an index from here on is an expression of the index: the one so many places on.
pub const EXPRESSION: usize = 1 << 16;

/// The schema of the built-in names.
pub const CATALOG_SCHEMA: &str = "pg_catalog";

/// One table.
#[derive(Clone, Debug, PartialEq)]
pub struct TableDef {
    /// The table's oid.
    pub id: u32,
    /// The schema the table is in.
    pub schema: String,
    /// The table's name, folded as PostgreSQL folds it.
    pub name: String,
    /// The columns in declaration order.
    pub columns: Vec<ColumnDef>,
    /// The indexes; the first reaches every row (CAT-1).
    pub indexes: Vec<IndexDef>,
    /// How it is cut into partitions, if it is.
    pub partitioning: Option<Partitioning>,
    /// What it is among partitioned tables and partitions, if it is.
    pub family: Option<Box<Family>>,
    /// Its query, if it is a materialized view.
    pub materialized: Option<Box<Materialized>>,
    /// CHECK and FOREIGN KEY constraints.
    pub rules: TableRules,
    /// Raised by each DDL statement that changes the table.
    pub version: u64,
    /// The objects that hold `version`; each transaction that uses the table guards one of them.
    pub guards: Guards,
}

/// One column of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct ColumnDef {
    /// The column's name.
    pub name: String,
    /// Its type with typmod.
    pub ty: Type,
    /// Declared NOT NULL, or part of the primary key.
    pub not_null: bool,
    /// The DEFAULT expression as SQL text, bound again at each INSERT that needs it.
    pub default: Option<String>,
    /// Its number, from 1.
    pub attnum: i16,
    /// What else it is.
    pub more: ColumnMore,
}

impl ColumnDef {
    /// The type that it was declared to be: its domain, if it is of one.
    pub fn declared(&self) -> Type {
        match self.more.domain {
            Some(of) => Type::of(TypeKind::Domain(of)),
            None => self.ty,
        }
    }
}

/// The access method of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexKind {
    /// Ordered, with fence keys.
    BTree,
    /// Unordered, for equality only.
    Hash,
}

/// One index of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct IndexDef {
    /// The index's oid.
    pub id: u32,
    /// Its name; empty for a hidden index.
    pub name: String,
    /// Its access method.
    pub kind: IndexKind,
    /// At most one row per key without NULLs.
    pub unique: bool,
    /// It is the table's PRIMARY KEY.
    pub primary: bool,
    /// It came with a PRIMARY KEY or UNIQUE constraint, whose name it bears.
    pub constraint: bool,
    /// The key columns; none for a hidden index.
    pub columns: Vec<IndexColumn>,
    /// What else it is.
    pub more: IndexMore,
    /// Where it begins.
    pub roots: Roots,
}

/// What an index is besides its key.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct IndexMore {
    /// INCLUDE: columns that no key is made of, by position in `TableDef::columns`.
    pub include: Vec<usize>,
    /// WHERE: only such rows have entries.
    pub predicate: Option<Predicate>,
    /// What key columns are that are none of the table's.
    pub expressions: Vec<IndexExpression>,
    /// It is of a DEFERRABLE constraint, and whether that is INITIALLY DEFERRED: its entries have no unique keys, and that no two
    /// rows have one is looked at after they are written.
    pub deferrable: Option<bool>,
    /// NULLS NOT DISTINCT: no two rows have a NULL in the same place of an otherwise equal key.
    pub nulls_equal: bool,
    /// What was said of the order of its key columns, if of any.
    pub looks: Vec<KeyLook>,
    /// Storage parameters and their values.
    pub options: Vec<(String, String)>,
}

/// What was said of the order of a key column, which is that of its type whatever it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyLook {
    /// COLLATE
    pub collation: Option<Collation>,
    /// The operator class, if it is none that would be taken anyway.
    pub class: Option<String>,
}

impl IndexMore {
    /// What was said of the order of a key column.
    pub fn look(&self, at: usize) -> Option<&KeyLook> {
        self.looks.get(at)
    }

    /// What is said of a key in which NULLs are equal, with a blank before it.
    pub fn of_nulls(&self) -> &'static str {
        match self.nulls_equal {
            true => " NULLS NOT DISTINCT",
            false => "",
        }
    }

    /// What is said of a constraint that may be checked later, with a blank before it.
    pub fn deferrability(&self) -> &'static str {
        match self.deferrable {
            None => "",
            Some(false) => " DEFERRABLE",
            Some(true) => " DEFERRABLE INITIALLY DEFERRED",
        }
    }
}

/// An expression that an index has for a key column.
#[derive(Clone, Debug, PartialEq)]
pub struct IndexExpression {
    /// What the column of the index is called.
    pub name: String,
    /// As SQL text.
    pub text: String,
    /// Bound, over the table's row.
    pub value: Expr,
}

/// The condition of a partial index.
#[derive(Clone, Debug, PartialEq)]
pub struct Predicate {
    /// As SQL text.
    pub text: String,
    /// Bound, over the table's row.
    pub condition: Expr,
}

/// One key column of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexColumn {
    /// Position in `TableDef::columns`, from 0, or an expression's from [`EXPRESSION`].
    pub column: usize,
    /// Descending.
    pub desc: bool,
    /// NULLs sort before the other values in index order.
    pub nulls_first: bool,
}

/// A role that may log in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoleDef {
    /// The role's oid.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// It passes every check.
    pub superuser: bool,
    /// It may open sessions.
    pub login: bool,
    /// The SCRAM-SHA-256 verifier in PostgreSQL's text form, if it has a password.
    pub verifier: Option<String>,
    /// It has the privileges of the roles that it is a member of without SET ROLE.
    pub inherit: bool,
    /// It may make roles and members of roles.
    pub create_role: bool,
    /// CREATEDB
    pub create_db: bool,
    /// REPLICATION; there is none.
    pub replication: bool,
    /// BYPASSRLS; there is no row-level security.
    pub bypass_rls: bool,
    /// Sessions that it may have at a time on a machine; -1 is any number.
    pub connections: i32,
    /// Until when its password is good, in microseconds from 2000-01-01 UTC.
    pub valid_until: Option<i64>,
    /// The roles that it is a member of.
    pub member_of: Vec<Membership>,
    /// What its sessions begin with, in whatever database and in some.
    pub settings: Vec<RoleSettings>,
}

/// That a role is a member of another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Membership {
    /// The oid of that other one.
    pub role: u32,
    /// It may make others members, too.
    pub admin: bool,
    /// The oid of the role that made it one.
    pub grantor: u32,
}

/// What sessions of a role begin with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoleSettings {
    /// The oid of the database that they are in; 0 is any.
    pub database: u32,
    /// Names and values.
    pub settings: Vec<(String, String)>,
}

/// In the place of a database, with the first superuser: what the sessions of all roles begin with.
pub const SETTINGS_OF_ALL: u32 = u32::MAX;

impl RoleDef {
    /// What its sessions in a database begin with, the more particular last.
    pub fn settings_in(&self, database: u32) -> impl Iterator<Item = &(String, String)> {
        let of = |database: u32| {
            self.settings
                .iter()
                .filter(move |of| of.database == database)
        };
        of(0).chain(of(database)).flat_map(|of| &of.settings)
    }

    /// A role as CREATE ROLE makes it where nothing else is said.
    pub fn new(id: u32, name: impl Into<String>) -> RoleDef {
        RoleDef {
            id,
            name: name.into(),
            superuser: false,
            login: false,
            verifier: None,
            inherit: true,
            create_role: false,
            create_db: false,
            replication: false,
            bypass_rls: false,
            connections: -1,
            valid_until: None,
            member_of: Vec::new(),
            settings: Vec::new(),
        }
    }

    /// Is it a member of `role`, by itself?
    pub fn membership(&self, role: u32) -> Option<&Membership> {
        self.member_of.iter().find(|of| of.role == role)
    }
}

impl TableDef {
    /// Position of the column called `name`.
    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|c| c.name == name)
    }

    /// The index that reaches every row (CAT-1).
    pub fn primary(&self) -> &IndexDef {
        &self.indexes[0]
    }

    /// The primary key, if the table has one.
    pub fn primary_key(&self) -> Option<&IndexDef> {
        self.indexes.iter().find(|index| index.primary)
    }

    /// The index called `name`.
    pub fn index(&self, name: &str) -> Option<&IndexDef> {
        self.indexes
            .iter()
            .find(|index| !index.is_hidden() && index.name == name)
    }

    /// Has it a constraint called `name`, be it an index or a rule?
    pub fn has_constraint(&self, name: &str) -> bool {
        let mut keys = self.indexes.iter().filter(|index| index.constraint);
        keys.any(|index| index.name == name)
            || self.rules.checks.iter().any(|check| check.name == name)
            || self.rules.foreign_keys.iter().any(|key| key.name == name)
    }

    /// The partition of `row`, one value a column; 0 where there are none. `scratch` comes back as it
    /// was.
    #[inline]
    pub fn partition_of(&self, row: &[Value], scratch: &mut Vec<u8>) -> u32 {
        match &self.partitioning {
            None => 0,
            Some(by) => by.of_value(&row[by.column], scratch),
        }
    }

    /// Does an index over `columns` have a root for each partition?
    pub fn is_partitioned_by(&self, columns: &[IndexColumn]) -> bool {
        let by = self.partitioning;
        self.is_parent()
            || by.is_some_and(|by| {
                let first = columns.first();
                first.is_none_or(|first| first.column == by.column)
            })
    }

    /// Is `column` the partition column?
    pub fn is_partition_column(&self, column: usize) -> bool {
        self.partitioning.is_some_and(|by| by.column == column)
            || self.routing_columns().contains(&column)
    }
}

impl IndexDef {
    /// Are no two rows to have one key, be it at once or in the end?
    pub fn is_unique(&self) -> bool {
        self.unique || self.more.deferrable.is_some()
    }

    /// Is this the row-address index of a table without primary key?
    pub fn is_hidden(&self) -> bool {
        self.columns.is_empty()
    }

    /// Has it entries of some rows only?
    pub fn is_partial(&self) -> bool {
        self.more.predicate.is_some()
    }

    /// Can it be what a partition has of `parents`, an index of the partitioned table?
    pub fn can_be_part_of(&self, parents: &IndexDef) -> bool {
        let text = |index: &IndexDef| index.more.predicate.as_ref().map(|p| p.text.clone());
        let same = self.kind == parents.kind
            && self.is_unique() == parents.is_unique()
            && self.more.deferrable == parents.more.deferrable
            && self.more.nulls_equal == parents.more.nulls_equal
            && self.primary == parents.primary
            && self.columns == parents.columns
            && self.more.looks == parents.more.looks
            && self.more.include == parents.more.include;
        same && text(self) == text(parents) && (self.constraint || !parents.constraint)
    }

    /// Is it about `column`, be it by its key, by INCLUDE or by its condition?
    pub fn concerns(&self, column: usize) -> bool {
        let mut reads = false;
        if let Some(predicate) = &self.more.predicate {
            predicate
                .condition
                .for_each_column(&mut |c| reads |= c == column);
        }
        reads || self.depends_on(column) || self.more.include.contains(&column)
    }

    /// May its key be another where `column` is?
    pub fn depends_on(&self, column: usize) -> bool {
        let mut reads = false;
        for expression in &self.more.expressions {
            expression
                .value
                .for_each_column(&mut |c| reads |= c == column);
        }
        reads || self.covers(column)
    }

    /// The expression that a key column is, if it is one.
    pub fn expression(&self, column: usize) -> Option<&IndexExpression> {
        let at = column.checked_sub(EXPRESSION)?;
        self.more.expressions.get(at)
    }

    /// The type of a key column; `table` is the index's.
    pub fn type_of(&self, table: &TableDef, column: usize) -> Type {
        match self.expression(column) {
            Some(expression) => expression.value.ty,
            None => table.columns[column].ty,
        }
    }

    /// The name of a key column; `table` is the index's.
    pub fn name_of<'a>(&'a self, table: &'a TableDef, column: usize) -> &'a str {
        match self.expression(column) {
            Some(expression) => &expression.name,
            None => &table.columns[column].name,
        }
    }

    /// Is `column` one of the key columns?
    pub fn covers(&self, column: usize) -> bool {
        self.columns.iter().any(|c| c.column == column)
    }
}

/// What the binder sees of the catalog: names resolved at one moment.
pub trait CatalogView {
    /// The table `name`, in `schema` or along the search path.
    fn table(&self, schema: Option<&str>, name: &str) -> Result<Option<Arc<TableDef>>, SqlError>;

    /// Is there a schema called `name` that relations can be in?
    fn schema_exists(&self, name: &str) -> bool {
        name == PUBLIC_SCHEMA
    }

    /// The table with the oid `id`.
    fn table_by_id(&self, _id: u32) -> Result<Option<Arc<TableDef>>, SqlError> {
        Ok(None)
    }

    /// The table that owns the index `name`.
    fn table_of_index(
        &self,
        schema: Option<&str>,
        name: &str,
    ) -> Result<Option<Arc<TableDef>>, SqlError>;

    /// The sequence `name`.
    fn sequence(
        &self,
        _schema: Option<&str>,
        _name: &str,
    ) -> Result<Option<Arc<SequenceDef>>, SqlError> {
        Ok(None)
    }

    /// The sequence with the oid `id`.
    fn sequence_by_id(&self, _id: u32) -> Result<Option<Arc<SequenceDef>>, SqlError> {
        Ok(None)
    }

    /// The view `name`.
    fn view(&self, _schema: Option<&str>, _name: &str) -> Result<Option<Arc<ViewDef>>, SqlError> {
        Ok(None)
    }

    /// The views that read the table with the oid `id`.
    fn views_of(&self, _id: u32) -> Vec<Arc<ViewDef>> {
        Vec::new()
    }

    /// The routines `name` in `schema`, or along the search path: those of earlier schemas first.
    fn routines(&self, _schema: Option<&str>, _name: &str) -> Vec<Arc<RoutineDef>> {
        Vec::new()
    }

    /// The routine with the oid `id`.
    fn routine_by_id(&self, _id: u32) -> Option<Arc<RoutineDef>> {
        None
    }

    /// The type `name` that a user made.
    fn user_type(&self, _schema: Option<&str>, _name: &str) -> Option<Arc<TypeDef>> {
        None
    }

    /// The type that a user made with the oid `id`, or whose arrays have it.
    fn user_type_by_id(&self, _id: u32) -> Option<Arc<TypeDef>> {
        None
    }

    /// The role `name`.
    fn role(&self, name: &str) -> Result<Option<Arc<RoleDef>>, SqlError>;

    /// The database `name`.
    fn database_named(&self, _name: &str) -> Option<Arc<DatabaseDef>> {
        None
    }

    /// The extension `name`.
    fn extension_named(&self, _name: &str) -> Option<Arc<ExtensionDef>> {
        None
    }

    /// The oid of a schema but those of the system.
    fn schema_oid(&self, name: &str) -> Option<u32> {
        (name == PUBLIC_SCHEMA).then_some(crate::pg_catalog::PUBLIC_NAMESPACE)
    }

    /// Tables, views, sequences and routines of a schema, as statements name them.
    fn objects_in(&self, _schema: &str) -> Vec<NamedObject> {
        Vec::new()
    }

    /// Who may do what; without it everybody may do everything.
    fn security(&self) -> Option<&Security> {
        None
    }
}

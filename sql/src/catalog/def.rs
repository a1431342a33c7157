//! The catalog's definition of a table: its columns, its indexes, its identity.
//!
//! A published definition is immutable. DDL creates a new one with a higher `version`, and each
//! transaction checks the version of the tables that its plans use (see `catalog::guard`).
//!
//! Invariants
//! - CAT-1: `indexes[0]` is a B-tree that reaches every row of the table. It is the primary key, or
//!   a *hidden* index without key columns whose keys are the row addresses. The index is hidden if
//!   the table has no primary key or stores it as a hash table. It is also hidden if the rows are
//!   distributed (PART-1) and the primary key does not start with the partition column. Then
//!   `indexes[0]` must have a root for each partition. For a partitioned table (`hierarchy`) it is
//!   always hidden, and its roots are the first indexes of the leaf partitions.
//! - CAT-2: `columns[i].attnum == i + 1`.

use std::sync::Arc;

use super::collation::Collation;
use super::database::DatabaseDef;
use super::extension::ExtensionDef;
use super::guard::Guards;
use super::partition::{Partitioning, Roots};
use super::partition_hierarchy::HierarchyPosition;
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

/// The default schema of user tables.
pub const PUBLIC_SCHEMA: &str = "public";

/// Key columns from this number on are expressions of the index: `EXPRESSION + i` is the i-th one.
pub const EXPRESSION: usize = 1 << 16;

/// The schema of the built-in objects.
pub const CATALOG_SCHEMA: &str = "pg_catalog";

/// The definition of a table.
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
    /// The distribution of the rows over partitions; `None` if they are not distributed.
    pub partitioning: Option<Partitioning>,
    /// The place in a partition hierarchy; `None` outside of one.
    pub hierarchy: Option<Box<HierarchyPosition>>,
    /// The query of a materialized view; `None` for a table.
    pub materialized: Option<Box<Materialized>>,
    /// CHECK and FOREIGN KEY constraints.
    pub rules: TableRules,
    /// The version, which each DDL statement that changes the table raises.
    pub version: u64,
    /// The objects that hold `version`; each transaction that uses the table guards one of them.
    pub guards: Guards,
}

/// One column of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct ColumnDef {
    /// The column's name.
    pub name: String,
    /// The type with its type modifier. For a domain it is the root base type.
    pub ty: Type,
    /// Whether the column is NOT NULL, by declaration or as a part of the primary key.
    pub not_null: bool,
    /// The DEFAULT expression as SQL text, which each INSERT that needs it binds again.
    pub default: Option<String>,
    /// The attribute number, from 1.
    pub attnum: i16,
    /// The further properties of the column.
    pub more: ColumnMore,
}

impl ColumnDef {
    /// Returns the declared type: the domain, if the column has one.
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
    /// The name; empty for a hidden index.
    pub name: String,
    /// The access method.
    pub kind: IndexKind,
    /// Whether a key without NULLs occurs in at most one row.
    pub unique: bool,
    /// Whether it is the PRIMARY KEY of the table.
    pub primary: bool,
    /// Whether it belongs to a PRIMARY KEY or UNIQUE constraint, which has the same name.
    pub constraint: bool,
    /// The key columns; none for a hidden index.
    pub columns: Vec<IndexColumn>,
    /// The further properties of the index.
    pub more: IndexMore,
    /// The addresses of its roots.
    pub roots: Roots,
}

/// The properties of an index besides its key.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct IndexMore {
    /// INCLUDE: the columns that are not part of the key, by position in `TableDef::columns`.
    pub include: Vec<usize>,
    /// WHERE: only rows that satisfy it have entries.
    pub predicate: Option<Predicate>,
    /// The expressions that are key columns.
    pub expressions: Vec<IndexExpression>,
    /// `None` unless the constraint is DEFERRABLE, else whether it is INITIALLY DEFERRED. The index
    /// then accepts duplicate keys, and uniqueness is checked after the rows are written.
    pub deferrable: Option<bool>,
    /// NULLS NOT DISTINCT: NULLs count as equal, so two rows cannot have equal keys with NULLs.
    pub nulls_equal: bool,
    /// The collations and operator classes of the key columns; empty if none is given.
    pub looks: Vec<KeyOptions>,
    /// The storage parameters and their values.
    pub options: Vec<(String, String)>,
}

/// The collation and operator class of a key column. They do not change its order, which is that of
/// its type.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyOptions {
    /// COLLATE
    pub collation: Option<Collation>,
    /// The operator class, unless it is the default class.
    pub class: Option<String>,
}

impl IndexMore {
    /// Returns the collation and operator class of a key column.
    pub fn look(&self, at: usize) -> Option<&KeyOptions> {
        self.looks.get(at)
    }

    /// Returns ` NULLS NOT DISTINCT` for a key in which NULLs count as equal, else an empty text.
    pub fn of_nulls(&self) -> &'static str {
        match self.nulls_equal {
            true => " NULLS NOT DISTINCT",
            false => "",
        }
    }

    /// Returns the text for a deferrable constraint, with a leading blank; empty if it is not
    /// deferrable.
    pub fn deferrability(&self) -> &'static str {
        match self.deferrable {
            None => "",
            Some(false) => " DEFERRABLE",
            Some(true) => " DEFERRABLE INITIALLY DEFERRED",
        }
    }
}

/// An expression that is a key column of an index.
#[derive(Clone, Debug, PartialEq)]
pub struct IndexExpression {
    /// The name of the index column.
    pub name: String,
    /// The expression as SQL text.
    pub text: String,
    /// The bound expression, over the table's row.
    pub value: Expr,
}

/// The condition of a partial index.
#[derive(Clone, Debug, PartialEq)]
pub struct Predicate {
    /// The condition as SQL text.
    pub text: String,
    /// The bound condition, over the table's row.
    pub condition: Expr,
}

/// One key column of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexColumn {
    /// The position in `TableDef::columns`, from 0, or the number of an expression from
    /// [`EXPRESSION`].
    pub column: usize,
    /// Whether the order is descending.
    pub desc: bool,
    /// Whether NULLs come before other values in index order.
    pub nulls_first: bool,
}

/// A role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoleDef {
    /// The role's oid.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// Whether the role passes every privilege check.
    pub superuser: bool,
    /// Whether the role may open sessions.
    pub login: bool,
    /// The SCRAM-SHA-256 verifier in PostgreSQL's text form, if it has a password.
    pub verifier: Option<String>,
    /// INHERIT: whether the role has the privileges of the roles of which it is a member, without
    /// SET ROLE.
    pub inherit: bool,
    /// CREATEROLE: whether the role may create roles and grant memberships.
    pub create_role: bool,
    /// CREATEDB
    pub create_db: bool,
    /// REPLICATION; it has no effect.
    pub replication: bool,
    /// BYPASSRLS; it has no effect, because there is no row-level security.
    pub bypass_rls: bool,
    /// The largest number of concurrent sessions on a machine; -1 is unlimited.
    pub connections: i32,
    /// The expiry time of the password, in microseconds from 2000-01-01 UTC.
    pub valid_until: Option<i64>,
    /// The roles of which it is a member.
    pub member_of: Vec<Membership>,
    /// The settings with which its sessions start, for all databases or for one.
    pub settings: Vec<RoleSettings>,
}

/// A membership in a role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Membership {
    /// The oid of the role of which the owner of this entry is a member.
    pub role: u32,
    /// Whether the member may grant the membership to others.
    pub admin: bool,
    /// The oid of the role that granted the membership.
    pub grantor: u32,
}

/// The settings with which sessions of a role start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoleSettings {
    /// The oid of the database of the sessions; 0 is any.
    pub database: u32,
    /// The names and values.
    pub settings: Vec<(String, String)>,
}

/// A pseudo-oid in the place of a database, used with the first superuser: the settings apply to
/// all roles.
pub const SETTINGS_OF_ALL: u32 = u32::MAX;

impl RoleDef {
    /// Returns the settings for its sessions in a database; those for that database come last.
    pub fn settings_in(&self, database: u32) -> impl Iterator<Item = &(String, String)> {
        let of = |database: u32| {
            self.settings
                .iter()
                .filter(move |of| of.database == database)
        };
        of(0).chain(of(database)).flat_map(|of| &of.settings)
    }

    /// Returns a role with the defaults of CREATE ROLE.
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

    /// Returns the direct membership in `role`; `None` if there is none.
    pub fn membership(&self, role: u32) -> Option<&Membership> {
        self.member_of.iter().find(|of| of.role == role)
    }
}

impl TableDef {
    /// Returns the position of the column `name`.
    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|c| c.name == name)
    }

    /// Returns the index that reaches every row (CAT-1).
    pub fn primary(&self) -> &IndexDef {
        &self.indexes[0]
    }

    /// Returns the primary key, if the table has one.
    pub fn primary_key(&self) -> Option<&IndexDef> {
        self.indexes.iter().find(|index| index.primary)
    }

    /// Returns the index `name`.
    pub fn index(&self, name: &str) -> Option<&IndexDef> {
        self.indexes
            .iter()
            .find(|index| !index.is_hidden() && index.name == name)
    }

    /// Returns whether the table has a constraint `name`: a key, a CHECK or a foreign key.
    pub fn has_constraint(&self, name: &str) -> bool {
        let mut keys = self.indexes.iter().filter(|index| index.constraint);
        keys.any(|index| index.name == name)
            || self.rules.checks.iter().any(|check| check.name == name)
            || self.rules.foreign_keys.iter().any(|key| key.name == name)
    }

    /// Returns the partition of `row`, which has one value for each column; 0 if the rows are not
    /// distributed. `scratch` is left unchanged.
    #[inline]
    pub fn partition_of(&self, row: &[Value], scratch: &mut Vec<u8>) -> u32 {
        match &self.partitioning {
            None => 0,
            Some(by) => by.of_value(&row[by.column], scratch),
        }
    }

    /// Returns whether an index over `columns` has a root for each partition.
    pub fn is_partitioned_by(&self, columns: &[IndexColumn]) -> bool {
        let by = self.partitioning;
        self.is_parent()
            || by.is_some_and(|by| {
                let first = columns.first();
                first.is_none_or(|first| first.column == by.column)
            })
    }

    /// Returns whether `column` is the partition column, or one of them.
    pub fn is_partition_column(&self, column: usize) -> bool {
        self.partitioning.is_some_and(|by| by.column == column)
            || self.routing_columns().contains(&column)
    }
}

impl IndexDef {
    /// Returns whether keys are unique, either immediately or when a deferred constraint is
    /// checked.
    pub fn is_unique(&self) -> bool {
        self.unique || self.more.deferrable.is_some()
    }

    /// Returns whether the index is the hidden index over row addresses.
    pub fn is_hidden(&self) -> bool {
        self.columns.is_empty()
    }

    /// Returns whether only some rows have entries.
    pub fn is_partial(&self) -> bool {
        self.more.predicate.is_some()
    }

    /// Returns whether the index of a partition can be attached to `parents`, an index of the
    /// partitioned table.
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

    /// Returns whether the index depends on `column` by its key, INCLUDE or condition.
    pub fn concerns(&self, column: usize) -> bool {
        let mut reads = false;
        if let Some(predicate) = &self.more.predicate {
            predicate
                .condition
                .for_each_column(&mut |c| reads |= c == column);
        }
        reads || self.depends_on(column) || self.more.include.contains(&column)
    }

    /// Returns whether the key of the index depends on `column`.
    pub fn depends_on(&self, column: usize) -> bool {
        let mut reads = false;
        for expression in &self.more.expressions {
            expression
                .value
                .for_each_column(&mut |c| reads |= c == column);
        }
        reads || self.covers(column)
    }

    /// Returns the expression that a key column is; `None` for table columns.
    pub fn expression(&self, column: usize) -> Option<&IndexExpression> {
        let at = column.checked_sub(EXPRESSION)?;
        self.more.expressions.get(at)
    }

    /// Returns the type of a key column; `table` is the table of the index.
    pub fn type_of(&self, table: &TableDef, column: usize) -> Type {
        match self.expression(column) {
            Some(expression) => expression.value.ty,
            None => table.columns[column].ty,
        }
    }

    /// Returns the name of a key column; `table` is the table of the index.
    pub fn name_of<'a>(&'a self, table: &'a TableDef, column: usize) -> &'a str {
        match self.expression(column) {
            Some(expression) => &expression.name,
            None => &table.columns[column].name,
        }
    }

    /// Returns whether `column` is one of the key columns.
    pub fn covers(&self, column: usize) -> bool {
        self.columns.iter().any(|c| c.column == column)
    }
}

/// The binder's view of the catalog: all names are resolved in one version.
pub trait CatalogView {
    /// Returns the table `name`, in `schema` or along the search path.
    fn table(&self, schema: Option<&str>, name: &str) -> Result<Option<Arc<TableDef>>, SqlError>;

    /// Returns whether a schema `name` exists that can contain relations.
    fn schema_exists(&self, name: &str) -> bool {
        name == PUBLIC_SCHEMA
    }

    /// Returns the table with the oid `id`.
    fn table_by_id(&self, _id: u32) -> Result<Option<Arc<TableDef>>, SqlError> {
        Ok(None)
    }

    /// Returns the table that owns the index `name`.
    fn table_of_index(
        &self,
        schema: Option<&str>,
        name: &str,
    ) -> Result<Option<Arc<TableDef>>, SqlError>;

    /// Returns the sequence `name`.
    fn sequence(
        &self,
        _schema: Option<&str>,
        _name: &str,
    ) -> Result<Option<Arc<SequenceDef>>, SqlError> {
        Ok(None)
    }

    /// Returns the sequence with the oid `id`.
    fn sequence_by_id(&self, _id: u32) -> Result<Option<Arc<SequenceDef>>, SqlError> {
        Ok(None)
    }

    /// Returns the view `name`.
    fn view(&self, _schema: Option<&str>, _name: &str) -> Result<Option<Arc<ViewDef>>, SqlError> {
        Ok(None)
    }

    /// Returns the views that read the table with the oid `id`.
    fn views_of(&self, _id: u32) -> Vec<Arc<ViewDef>> {
        Vec::new()
    }

    /// Returns the routines `name` in `schema`, or along the search path: those of earlier schemas
    /// first.
    fn routines(&self, _schema: Option<&str>, _name: &str) -> Vec<Arc<RoutineDef>> {
        Vec::new()
    }

    /// Returns the routine with the oid `id`.
    fn routine_by_id(&self, _id: u32) -> Option<Arc<RoutineDef>> {
        None
    }

    /// Returns the user-defined type `name`.
    fn user_type(&self, _schema: Option<&str>, _name: &str) -> Option<Arc<TypeDef>> {
        None
    }

    /// Returns the user-defined type with the oid `id`, or with the array type `id`.
    fn user_type_by_id(&self, _id: u32) -> Option<Arc<TypeDef>> {
        None
    }

    /// Returns the role `name`.
    fn role(&self, name: &str) -> Result<Option<Arc<RoleDef>>, SqlError>;

    /// Returns the database `name`.
    fn database_named(&self, _name: &str) -> Option<Arc<DatabaseDef>> {
        None
    }

    /// Returns the extension `name`.
    fn extension_named(&self, _name: &str) -> Option<Arc<ExtensionDef>> {
        None
    }

    /// Returns the oid of a schema; `None` for system schemas.
    fn schema_oid(&self, name: &str) -> Option<u32> {
        (name == PUBLIC_SCHEMA).then_some(crate::pg_catalog::PUBLIC_NAMESPACE)
    }

    /// Returns the tables, views, sequences and routines of a schema, as statements name them.
    fn objects_in(&self, _schema: &str) -> Vec<NamedObject> {
        Vec::new()
    }

    /// Returns the roles and privileges; without them every access is allowed.
    fn security(&self) -> Option<&Security> {
        None
    }
}

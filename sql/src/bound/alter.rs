//! The actions of ALTER TABLE.

use std::sync::Arc;

use super::ddl::{KeyConstraint, NewCheck, NewForeignKey, NewPartition};
use super::expr::Expr;
use super::rules::RowRules;
use super::sequence::NewSequence;
use super::trigger::TriggerChange;
use crate::catalog::{Collation, ColumnDef, Identity, TableDef};
use crate::error::SqlState;
use crate::parser::StorageOptions;
use crate::types::{Domain, Type};

/// What is said of how rows are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kept {
    /// SET (…)
    Set(StorageOptions),
    /// RESET (…)
    Reset(Vec<String>),
    /// SET LOGGED (false), SET UNLOGGED
    Unlogged(bool),
}

/// One action of an ALTER TABLE. Columns are positions in the table as the actions before it leave it.
#[derive(Clone, Debug, PartialEq)]
pub enum AlterAction {
    /// ADD [CONSTRAINT name] PRIMARY KEY (…)
    AddPrimaryKey(KeyConstraint),
    /// ADD [CONSTRAINT name] UNIQUE (…)
    AddUnique(KeyConstraint),
    /// ADD [CONSTRAINT name] CHECK (…), and whether the rows that are there are looked at.
    AddCheck(NewCheck, bool),
    /// ADD [CONSTRAINT name] FOREIGN KEY (…), and whether the rows that are there are looked at.
    AddForeignKey(NewForeignKey, bool),
    /// ADD COLUMN.
    AddColumn(Box<AddColumn>),
    /// DROP COLUMN.
    DropColumn {
        /// Which.
        column: usize,
        /// What depends on it goes, too.
        cascade: bool,
    },
    /// RENAME COLUMN.
    RenameColumn {
        /// Which.
        column: usize,
        /// Its new name.
        to: String,
    },
    /// RENAME TO.
    RenameTable(String),
    /// ALTER INDEX … RENAME TO.
    RenameIndex {
        /// Its name.
        from: String,
        /// Its new name.
        to: String,
    },
    /// RENAME CONSTRAINT.
    RenameConstraint {
        /// Its name.
        from: String,
        /// Its new name.
        to: String,
    },
    /// VALIDATE CONSTRAINT of a CHECK.
    ValidateCheck {
        /// Its name.
        name: String,
        /// What has to hold.
        condition: Expr,
    },
    /// VALIDATE CONSTRAINT of a FOREIGN KEY.
    ValidateForeignKey {
        /// Its name.
        name: String,
    },
    /// DROP CONSTRAINT.
    DropConstraint {
        /// Its name.
        name: String,
        /// It may be missing.
        if_exists: bool,
        /// What depends on it goes, too.
        cascade: bool,
    },
    /// ALTER COLUMN … SET DEFAULT, DROP DEFAULT.
    SetDefault {
        /// Which.
        column: usize,
        /// The expression as SQL text.
        default: Option<String>,
    },
    /// ALTER COLUMN … SET NOT NULL, DROP NOT NULL.
    SetNotNull {
        /// Which.
        column: usize,
        /// SET.
        not_null: bool,
    },
    /// ALTER COLUMN … TYPE.
    SetType(Box<SetType>),
    /// ALTER COLUMN … ADD GENERATED … AS IDENTITY.
    AddIdentity(Identity, NewSequence),
    /// ALTER COLUMN … SET GENERATED, or DROP IDENTITY (`None`).
    SetIdentity {
        /// Which.
        column: usize,
        /// Who gives it its values.
        identity: Option<Identity>,
    },
    /// COMMENT ON the table, or a column.
    Comment {
        /// Which column; `None` is the table.
        column: Option<usize>,
        /// The text; `None` takes it away.
        text: Option<String>,
    },
    /// Something about triggers.
    Trigger(TriggerChange),
    /// ATTACH PARTITION.
    AttachPartition(NewPartition),
    /// DETACH PARTITION.
    DetachPartition(Arc<TableDef>),
    /// ALTER INDEX … ATTACH PARTITION.
    AttachIndex {
        /// The name of the table's index.
        index: String,
        /// The partition.
        partition: Arc<TableDef>,
        /// The name of its index.
        of_partition: String,
    },
    /// ALTER COLUMN … DROP EXPRESSION.
    DropExpression {
        /// Which.
        column: usize,
    },
    /// ALTER CONSTRAINT of a FOREIGN KEY.
    DeferForeignKey {
        /// Its name.
        name: String,
        /// DEFERRABLE, INITIALLY DEFERRED
        when: (bool, bool),
    },
    /// ADD CONSTRAINT … USING INDEX.
    UseIndex {
        /// The name of the index.
        index: String,
        /// That of the constraint.
        name: String,
        /// PRIMARY KEY
        primary: bool,
    },
    /// Nothing but a notice.
    Notice(SqlState, String),
    /// About how rows are kept.
    Keep {
        /// The index that it is about; without it the table.
        index: Option<String>,
        /// What of it is kept in the catalog.
        what: Vec<Kept>,
    },
}

/// ADD COLUMN.
#[derive(Clone, Debug, PartialEq)]
pub struct AddColumn {
    /// The column.
    pub column: ColumnDef,
    /// Its DEFAULT.
    pub default: Expr,
    /// The sequence of a SERIAL or IDENTITY column.
    pub sequence: Option<NewSequence>,
    /// The rules of the table's rows with it.
    pub rules: RowRules,
    /// PRIMARY KEY.
    pub primary_key: Option<KeyConstraint>,
    /// UNIQUE.
    pub unique: Vec<KeyConstraint>,
    /// CHECK.
    pub checks: Vec<NewCheck>,
    /// REFERENCES.
    pub foreign_keys: Vec<NewForeignKey>,
}

/// ALTER COLUMN … TYPE.
#[derive(Clone, Debug, PartialEq)]
pub struct SetType {
    /// Which.
    pub column: usize,
    /// The new type.
    pub ty: Type,
    /// The domain that it is of, if it is of one.
    pub domain: Option<Domain>,
    /// COLLATE
    pub collation: Collation,
    /// What it becomes, over the row before.
    pub value: Expr,
    /// The rules of the table's rows with it.
    pub rules: RowRules,
    /// The stored values are right as they are.
    pub relabels: bool,
}

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

/// A change of the storage options of a table or an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StorageChange {
    /// SET (…): new values of storage parameters.
    Set(StorageOptions),
    /// RESET (…): the names of the parameters that get their defaults.
    Reset(Vec<String>),
    /// SET UNLOGGED, or SET LOGGED (false).
    Unlogged(bool),
}

/// One action of an ALTER TABLE. Columns are positions in the table as the earlier actions leave
/// it.
#[derive(Clone, Debug, PartialEq)]
pub enum AlterAction {
    /// ADD [CONSTRAINT name] PRIMARY KEY (…)
    AddPrimaryKey(KeyConstraint),
    /// ADD [CONSTRAINT name] UNIQUE (…)
    AddUnique(KeyConstraint),
    /// ADD [CONSTRAINT name] CHECK (…), and whether the existing rows are checked.
    AddCheck(NewCheck, bool),
    /// ADD [CONSTRAINT name] FOREIGN KEY (…), and whether the existing rows are checked.
    AddForeignKey(NewForeignKey, bool),
    /// ADD COLUMN.
    AddColumn(Box<AddColumn>),
    /// DROP COLUMN.
    DropColumn {
        /// The position of the column.
        column: usize,
        /// Whether CASCADE also drops the dependent objects.
        cascade: bool,
    },
    /// RENAME COLUMN.
    RenameColumn {
        /// The position of the column.
        column: usize,
        /// The new name of the column.
        to: String,
    },
    /// RENAME TO.
    RenameTable(String),
    /// ALTER INDEX … RENAME TO.
    RenameIndex {
        /// The present name of the index.
        from: String,
        /// The new name of the index.
        to: String,
    },
    /// RENAME CONSTRAINT.
    RenameConstraint {
        /// The present name of the constraint.
        from: String,
        /// The new name of the constraint.
        to: String,
    },
    /// VALIDATE CONSTRAINT of a CHECK.
    ValidateCheck {
        /// The name of the constraint.
        name: String,
        /// The condition that every row must satisfy.
        condition: Expr,
    },
    /// VALIDATE CONSTRAINT of a FOREIGN KEY.
    ValidateForeignKey {
        /// The name of the constraint.
        name: String,
    },
    /// DROP CONSTRAINT.
    DropConstraint {
        /// The name of the constraint.
        name: String,
        /// Whether a missing constraint is only a notice.
        if_exists: bool,
        /// Whether CASCADE also drops the dependent objects.
        cascade: bool,
    },
    /// ALTER COLUMN … SET DEFAULT, DROP DEFAULT.
    SetDefault {
        /// The position of the column.
        column: usize,
        /// The expression as SQL text.
        default: Option<String>,
    },
    /// ALTER COLUMN … SET NOT NULL, DROP NOT NULL.
    SetNotNull {
        /// The position of the column.
        column: usize,
        /// Whether it is SET NOT NULL.
        not_null: bool,
    },
    /// ALTER COLUMN … TYPE.
    SetType(Box<SetType>),
    /// ALTER COLUMN … ADD GENERATED … AS IDENTITY.
    AddIdentity(Identity, NewSequence),
    /// ALTER COLUMN … SET GENERATED, or DROP IDENTITY (`None`).
    SetIdentity {
        /// The position of the column.
        column: usize,
        /// ALWAYS or BY DEFAULT; `None` for DROP IDENTITY.
        identity: Option<Identity>,
    },
    /// COMMENT ON the table, or a column.
    Comment {
        /// The position of the column; `None` for the table.
        column: Option<usize>,
        /// The text; `None` removes the comment.
        text: Option<String>,
    },
    /// A change of the triggers.
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
        /// The position of the column.
        column: usize,
    },
    /// ALTER CONSTRAINT of a FOREIGN KEY.
    DeferForeignKey {
        /// The name of the constraint.
        name: String,
        /// Whether the constraint is DEFERRABLE, and whether it is INITIALLY DEFERRED.
        when: (bool, bool),
    },
    /// ADD CONSTRAINT … USING INDEX.
    UseIndex {
        /// The name of the index.
        index: String,
        /// The name of the constraint.
        name: String,
        /// Whether it is PRIMARY KEY rather than UNIQUE.
        primary: bool,
    },
    /// A notice without any change.
    Notice(SqlState, String),
    /// A change of the storage options.
    Keep {
        /// The name of the index; `None` for the table itself.
        index: Option<String>,
        /// The changes that the catalog stores.
        what: Vec<StorageChange>,
    },
}

/// ADD COLUMN.
#[derive(Clone, Debug, PartialEq)]
pub struct AddColumn {
    /// The column.
    pub column: ColumnDef,
    /// The DEFAULT of the column, which the existing rows get.
    pub default: Expr,
    /// The sequence of a SERIAL or IDENTITY column.
    pub sequence: Option<NewSequence>,
    /// The rules of the table's rows with the new column.
    pub rules: RowRules,
    /// The PRIMARY KEY, if the definition has one.
    pub primary_key: Option<KeyConstraint>,
    /// The UNIQUE constraints of the definition.
    pub unique: Vec<KeyConstraint>,
    /// The CHECK constraints of the definition.
    pub checks: Vec<NewCheck>,
    /// The foreign keys of the definition.
    pub foreign_keys: Vec<NewForeignKey>,
}

/// ALTER COLUMN … TYPE.
#[derive(Clone, Debug, PartialEq)]
pub struct SetType {
    /// The position of the column.
    pub column: usize,
    /// The new type.
    pub ty: Type,
    /// The domain of the new type; `None` for other types.
    pub domain: Option<Domain>,
    /// The collation of the new type.
    pub collation: Collation,
    /// The new value of the column, over the old row.
    pub value: Expr,
    /// The rules of the table's rows with the new type.
    pub rules: RowRules,
    /// Whether the stored values stay valid without a conversion.
    pub relabels: bool,
}

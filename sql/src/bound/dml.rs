//! Bound INSERT, UPDATE, DELETE and COPY.

use std::sync::Arc;

use super::expr::Expr;
use super::rules::{Integrity, ViewCheck};
use super::select::{From, Select, Target};
use super::statement::Statement;
use crate::catalog::TableDef;

/// INSERT.
#[derive(Clone, Debug, PartialEq)]
pub struct Insert {
    /// The target table.
    pub table: Arc<TableDef>,
    /// The source of the rows.
    pub source: InsertSource,
    /// ON CONFLICT.
    pub on_conflict: Option<OnConflict>,
    /// The rules that the rows must satisfy.
    pub integrity: Integrity,
    /// RETURNING, over the new row; empty for none.
    pub returning: Vec<Target>,
}

/// The rows of an INSERT.
#[derive(Clone, Debug, PartialEq)]
pub enum InsertSource {
    /// Whole rows, with one expression for each table column. The expressions read no columns, have
    /// the column types, and include the defaults.
    Values(Vec<Vec<Expr>>),
    /// A query, and one expression for each table column over the visible row of the query.
    Select {
        /// The query.
        select: Box<Select>,
        /// The value of each table column.
        row: Vec<Expr>,
    },
}

/// ON CONFLICT.
#[derive(Clone, Debug, PartialEq)]
pub struct OnConflict {
    /// The arbiter: the unique index of the conflict, by position in `TableDef::indexes`; `None` is
    /// any.
    pub index: Option<usize>,
    /// DO UPDATE, which requires an arbiter; `None` is DO NOTHING.
    pub update: Option<ConflictUpdate>,
}

/// `DO UPDATE SET … WHERE …`, over the existing row followed by the proposed row.
#[derive(Clone, Debug, PartialEq)]
pub struct ConflictUpdate {
    /// SET.
    pub assignments: Vec<Assignment>,
    /// WHERE.
    pub filter: Option<Expr>,
}

/// UPDATE.
#[derive(Clone, Debug, PartialEq)]
pub struct Update {
    /// The target table.
    pub table: Arc<TableDef>,
    /// The name by which the statement refers to it.
    pub alias: String,
    /// The query of the target view, if its INSTEAD OF triggers perform the change.
    pub view: Option<Box<Select>>,
    /// The relations of `UPDATE … FROM`. Their slots follow the table's.
    pub from: Option<From>,
    /// WHERE.
    pub filter: Option<Expr>,
    /// WHERE CURRENT OF: the location of the row.
    pub current: Option<Expr>,
    /// SET, over the old row.
    pub assignments: Vec<Assignment>,
    /// The rules that the rows must satisfy.
    pub integrity: Integrity,
    /// RETURNING, over the new row; empty for none.
    pub returning: Vec<Target>,
}

/// `column = value`.
#[derive(Clone, Debug, PartialEq)]
pub struct Assignment {
    /// Position in `TableDef::columns`.
    pub column: usize,
    /// The value, of the column's type.
    pub value: Expr,
}

/// DELETE.
#[derive(Clone, Debug, PartialEq)]
pub struct Delete {
    /// The target table.
    pub table: Arc<TableDef>,
    /// The name by which the statement refers to it.
    pub alias: String,
    /// The query of the target view, if its INSTEAD OF triggers perform the deletion.
    pub view: Option<Box<Select>>,
    /// The relations of `DELETE … USING`. Their slots follow the table's.
    pub using: Option<From>,
    /// WHERE.
    pub filter: Option<Expr>,
    /// WHERE CURRENT OF: the location of the row.
    pub current: Option<Expr>,
    /// The rules that the remaining rows must satisfy.
    pub integrity: Integrity,
    /// RETURNING, over the old row; empty for none.
    pub returning: Vec<Target>,
}

/// MERGE.
#[derive(Clone, Debug, PartialEq)]
pub struct Merge {
    /// The target table.
    pub table: Arc<TableDef>,
    /// The name by which the statement refers to it.
    pub alias: String,
    /// The source of USING; its slots follow the table's.
    pub source: From,
    /// ON.
    pub on: Expr,
    /// The WHEN clauses; the first one that applies to a row determines its action.
    pub whens: Vec<MergeWhen>,
    /// The rules that the rows must satisfy.
    pub integrity: Integrity,
}

/// `WHEN [NOT] MATCHED [AND condition] THEN action`.
#[derive(Clone, Debug, PartialEq)]
pub struct MergeWhen {
    /// Whether the clause applies to source rows with a matching row in the table.
    pub matched: bool,
    /// AND, over the table's row and the source's.
    pub condition: Option<Expr>,
    /// THEN.
    pub action: MergeAction,
}

/// The action of MERGE. Its expressions read the table's row, if it is matched, followed by the
/// source's row.
#[derive(Clone, Debug, PartialEq)]
pub enum MergeAction {
    /// DO NOTHING.
    Nothing,
    /// DELETE.
    Delete,
    /// UPDATE SET.
    Update(Vec<Assignment>),
    /// INSERT: a value for each column.
    Insert(Vec<Expr>),
}

impl Merge {
    /// Calls `f` on each expression of the statement itself.
    pub fn for_each_expr<'a>(&'a self, f: &mut dyn FnMut(&'a Expr)) {
        f(&self.on);
        for when in &self.whens {
            when.condition.iter().for_each(&mut *f);
            match &when.action {
                MergeAction::Update(set) => set.iter().for_each(|a| f(&a.value)),
                MergeAction::Insert(row) => row.iter().for_each(&mut *f),
                MergeAction::Nothing | MergeAction::Delete => {}
            }
        }
    }
}

/// A statement with data-modifying CTEs. They run before it, each exactly once, whether or not
/// their RETURNING rows are read.
#[derive(Clone, Debug, PartialEq)]
pub struct Changes {
    /// The CTE statements with their numbers, which share a sequence with those of subqueries.
    pub first: Vec<(usize, Statement)>,
    /// The statement that contains the WITH.
    pub main: Statement,
}

impl Statement {
    /// Returns the table that an INSERT, UPDATE, DELETE or MERGE changes.
    pub fn changed_table(&self) -> Option<&Arc<TableDef>> {
        match self {
            Statement::Insert(insert) => Some(&insert.table),
            Statement::Update(update) => Some(&update.table),
            Statement::Delete(delete) => Some(&delete.table),
            Statement::Merge(merge) => Some(&merge.table),
            _ => None,
        }
    }

    /// Returns the check options of the views through which rows are written.
    pub fn view_checks(&self) -> &[ViewCheck] {
        match self {
            Statement::Insert(insert) => &insert.integrity.rules.views,
            Statement::Update(update) => &update.integrity.rules.views,
            _ => &[],
        }
    }

    /// Returns the targets of RETURNING.
    pub fn returning(&self) -> &[Target] {
        match self {
            Statement::Insert(insert) => &insert.returning,
            Statement::Update(update) => &update.returning,
            Statement::Delete(delete) => &delete.returning,
            _ => &[],
        }
    }
}

/// COPY.
#[derive(Clone, Debug, PartialEq)]
pub struct Copy {
    /// The direction of the copy.
    pub direction: CopyDirection,
    /// The source of a COPY TO, or the target of a COPY FROM.
    pub source: CopySource,
    /// The format options.
    pub options: CopyOptions,
    /// WHERE of a COPY FROM: only rows that satisfy it are inserted.
    pub filter: Option<Expr>,
}

/// The direction of a COPY.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyDirection {
    /// FROM STDIN
    In,
    /// TO STDOUT
    Out,
}

/// The table or query of a COPY.
#[derive(Clone, Debug, PartialEq)]
pub enum CopySource {
    /// Columns of a table.
    Table {
        /// The table.
        table: Arc<TableDef>,
        /// The columns in the file's order, by position in `TableDef::columns`.
        columns: Vec<usize>,
        /// For COPY FROM: the default of each table column that is not in the file; `None` for the
        /// columns in it.
        defaults: Vec<Option<Expr>>,
        /// For COPY FROM: the rules that the rows must satisfy.
        integrity: Box<Integrity>,
    },
    /// A query's result (COPY TO only).
    Query(Box<Select>),
}

/// The format of the copied data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyFormat {
    /// Tab-separated with backslash escapes.
    Text,
    /// Comma-separated with quotes.
    Csv,
    /// PostgreSQL's binary format.
    Binary,
}

/// The options of a COPY.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyOptions {
    /// The format.
    pub format: CopyFormat,
    /// The separator between columns.
    pub delimiter: u8,
    /// The text that represents NULL.
    pub null: String,
    /// Whether the first line contains the column names.
    pub header: bool,
    /// Whether the header must match the columns (HEADER MATCH).
    pub header_match: bool,
    /// The quote character around values (CSV).
    pub quote: u8,
    /// The character before a quote inside a value (CSV).
    pub escape: u8,
    /// The columns that are always quoted on output, as positions in the copied list; `None` is
    /// none.
    pub force_quote: Option<Vec<usize>>,
    /// The columns in which a quoted NULL string is NULL, too, as positions in the copied list.
    pub force_null: Vec<usize>,
    /// The columns in which no value is NULL, as positions in the copied list.
    pub force_not_null: Vec<usize>,
}

impl Default for CopyOptions {
    fn default() -> CopyOptions {
        CopyOptions {
            format: CopyFormat::Text,
            delimiter: b'\t',
            null: "\\N".to_owned(),
            header: false,
            header_match: false,
            quote: b'"',
            escape: b'"',
            force_quote: None,
            force_null: Vec::new(),
            force_not_null: Vec::new(),
        }
    }
}

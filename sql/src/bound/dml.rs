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
    /// Into this table.
    pub table: Arc<TableDef>,
    /// The rows.
    pub source: InsertSource,
    /// ON CONFLICT.
    pub on_conflict: Option<OnConflict>,
    /// What the rows have to satisfy.
    pub integrity: Integrity,
    /// RETURNING, over the new row; empty for none.
    pub returning: Vec<Target>,
}

/// The rows of an INSERT.
#[derive(Clone, Debug, PartialEq)]
pub enum InsertSource {
    /// Whole rows: one expression per table column, without columns, defaults filled in, cast to the
    /// column types.
    Values(Vec<Vec<Expr>>),
    /// A query, and one expression per table column over the query's visible row.
    Select {
        /// The query.
        select: Box<Select>,
        /// What goes into each table column.
        row: Vec<Expr>,
    },
}

/// ON CONFLICT.
#[derive(Clone, Debug, PartialEq)]
pub struct OnConflict {
    /// The unique index the conflict must be on, by position in `TableDef::indexes`; `None` is any.
    pub index: Option<usize>,
    /// DO UPDATE, which has an index; `None` is DO NOTHING.
    pub update: Option<ConflictUpdate>,
}

/// `DO UPDATE SET … WHERE …`, over the row that is there and, behind it, the one that was to go in.
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
    /// This table.
    pub table: Arc<TableDef>,
    /// The name it goes by.
    pub alias: String,
    /// The query of the view that the table is, whose rows triggers change in its place.
    pub view: Option<Box<Select>>,
    /// More relations to join with: `UPDATE … FROM`. Their slots follow the table's.
    pub from: Option<From>,
    /// WHERE.
    pub filter: Option<Expr>,
    /// WHERE CURRENT OF: the place of the row.
    pub current: Option<Expr>,
    /// SET, over the old row.
    pub assignments: Vec<Assignment>,
    /// What the rows have to satisfy.
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
    /// From this table.
    pub table: Arc<TableDef>,
    /// The name it goes by.
    pub alias: String,
    /// The query of the view that the table is, whose rows triggers delete in its place.
    pub view: Option<Box<Select>>,
    /// More relations to join with: `DELETE … USING`. Their slots follow the table's.
    pub using: Option<From>,
    /// WHERE.
    pub filter: Option<Expr>,
    /// WHERE CURRENT OF: the place of the row.
    pub current: Option<Expr>,
    /// What the rows that are left have to satisfy.
    pub integrity: Integrity,
    /// RETURNING, over the old row; empty for none.
    pub returning: Vec<Target>,
}

/// MERGE.
#[derive(Clone, Debug, PartialEq)]
pub struct Merge {
    /// Into this table.
    pub table: Arc<TableDef>,
    /// The name it goes by.
    pub alias: String,
    /// USING: its slots follow the table's.
    pub source: From,
    /// ON.
    pub on: Expr,
    /// The first that fits says what happens to a row.
    pub whens: Vec<MergeWhen>,
    /// What the rows have to satisfy.
    pub integrity: Integrity,
}

/// `WHEN [NOT] MATCHED [AND condition] THEN action`.
#[derive(Clone, Debug, PartialEq)]
pub struct MergeWhen {
    /// Of source rows that have a row in the table.
    pub matched: bool,
    /// AND, over the table's row and the source's.
    pub condition: Option<Expr>,
    /// THEN.
    pub action: MergeAction,
}

/// What MERGE does; expressions are over the table's row, where it is matched, and the source's.
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
    /// Calls `f` on each expression of its own.
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

/// Statements in the WITH of another that change rows: they run before it, each once, whoever reads what they return.
#[derive(Clone, Debug, PartialEq)]
pub struct Changes {
    /// Their numbers, among those of queries in expressions, and what they are.
    pub first: Vec<(usize, Statement)>,
    /// The statement that has the WITH.
    pub main: Statement,
}

impl Statement {
    /// The table that an INSERT, UPDATE, DELETE or MERGE changes.
    pub fn changed_table(&self) -> Option<&Arc<TableDef>> {
        match self {
            Statement::Insert(insert) => Some(&insert.table),
            Statement::Update(update) => Some(&update.table),
            Statement::Delete(delete) => Some(&delete.table),
            Statement::Merge(merge) => Some(&merge.table),
            _ => None,
        }
    }

    /// What views that rows are written through ask of them.
    pub fn view_checks(&self) -> &[ViewCheck] {
        match self {
            Statement::Insert(insert) => &insert.integrity.rules.views,
            Statement::Update(update) => &update.integrity.rules.views,
            _ => &[],
        }
    }

    /// The targets of RETURNING.
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
    /// In or out.
    pub direction: CopyDirection,
    /// What is copied.
    pub source: CopySource,
    /// How.
    pub options: CopyOptions,
    /// Only the rows that it is true for go in.
    pub filter: Option<Expr>,
}

/// In or out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyDirection {
    /// FROM STDIN
    In,
    /// TO STDOUT
    Out,
}

/// What a COPY copies.
#[derive(Clone, Debug, PartialEq)]
pub enum CopySource {
    /// Columns of a table.
    Table {
        /// The table.
        table: Arc<TableDef>,
        /// The columns in the file's order, by position in `TableDef::columns`.
        columns: Vec<usize>,
        /// For COPY FROM: the value of each table column that the file does not have, in its
        /// column's place; `None` for those it has.
        defaults: Vec<Option<Expr>>,
        /// For COPY FROM: what the rows have to satisfy.
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

/// How a COPY reads or writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyOptions {
    /// The format.
    pub format: CopyFormat,
    /// Between columns.
    pub delimiter: u8,
    /// What NULL looks like.
    pub null: String,
    /// The first line has the column names.
    pub header: bool,
    /// The header must match the columns (HEADER MATCH).
    pub header_match: bool,
    /// Around values (CSV).
    pub quote: u8,
    /// Before a quote inside a value (CSV).
    pub escape: u8,
    /// Columns (positions in the copied list) always quoted on output; `None` is none.
    pub force_quote: Option<Vec<usize>>,
    /// Columns (positions in the copied list) where a quoted NULL string is NULL, too.
    pub force_null: Vec<usize>,
    /// Columns (positions in the copied list) where nothing is NULL.
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

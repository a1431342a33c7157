//! The columns that tables have without declaring them: `tableoid`, `xmin`, and `xmax` in
//! RETURNING.
//!
//! `*` and column lists omit them, and a user column of the same name hides them. Rows do not store
//! the number of the transaction that wrote them. So `xmin` is a fingerprint of the values of the
//! row. A client can use it to check whether a row has changed since it was read. An UPDATE that
//! changes nothing leaves it the same.

use super::scope::{ResolvedColumn, ScopeColumn, ScopeLeaf, UNSEEN};
use crate::bound::{Expr, Node};
use crate::catalog::FIRST_USER_OID;
use crate::error::{SqlError, SqlState};
use crate::functions::{partition_of, row_of, row_version};
use crate::types::{Fields, Type, TypeKind};
use crate::value::Value;

const TABLE_OID: &str = "tableoid";
const XMIN: &str = "xmin";

/// The column `xmax` in RETURNING of an INSERT: 0 for an inserted row, and not 0 for a row that ON
/// CONFLICT has updated.
const XMAX: &str = "xmax";

/// The system columns of PostgreSQL that are unsupported, or supported in some places only.
const REFUSED: [&str; 4] = ["cmax", "cmin", "ctid", XMAX];

/// Checks that a column of a table may have a name.
///
/// # Errors
/// 42701 for the name of a system column.
pub(super) fn check_column_name(name: &str) -> Result<(), SqlError> {
    match [TABLE_OID, XMIN].contains(&name) || REFUSED.contains(&name) {
        true => Err(SqlError::new(
            SqlState::DUPLICATE_COLUMN,
            format!("column name \"{name}\" conflicts with a system column name"),
        )),
        false => Ok(()),
    }
}

/// Returns whether a name is that of a system column that an expression over a table can contain
/// when it is deparsed.
pub(super) fn is_system_column(name: &str) -> bool {
    [TABLE_OID, XMIN].contains(&name)
}

impl ScopeLeaf {
    /// Adds `xmax`, whose value comes after all columns of the row.
    pub(super) fn push_xmax(&mut self) {
        self.columns.push(ScopeColumn {
            name: format!("{UNSEEN}{XMAX}"),
            ty: Type::of(TypeKind::Xid),
            origin: None,
            hidden: true,
        });
    }

    /// Returns the system column of this name, if the relation has it. `alone` means that no outer
    /// join can replace its row by NULLs.
    pub(super) fn system_column(
        &self,
        name: &str,
        alone: bool,
    ) -> Result<Option<ResolvedColumn>, SqlError> {
        match name {
            TABLE_OID if self.is_table => self.table_oid(alone).map(Some),
            XMIN if self.is_table => Ok(Some(self.xmin(alone))),
            XMAX => Ok(self.xmax()),
            _ => Ok(None),
        }
    }

    /// Returns the error 0A000 for the name of a system column that only tables in PostgreSQL have;
    /// `None` for other names.
    pub(super) fn refused_column(&self, name: &str) -> Option<SqlError> {
        let refused = self.is_table && REFUSED.contains(&name);
        refused.then(|| SqlError::unsupported(format!("system column {name}")))
    }

    fn xmax(&self) -> Option<ResolvedColumn> {
        let last = self.columns.len().checked_sub(1)?;
        let name = self.columns[last].name.strip_prefix(UNSEEN)?;
        (name == XMAX).then(|| self.found(last))
    }

    /// Returns `tableoid`: the oid of the table, or NULL without a row. For a row of a partitioned
    /// table it is the oid of the partition.
    fn table_oid(&self, alone: bool) -> Result<ResolvedColumn, SqlError> {
        let origin = self.columns.first().and_then(|column| column.origin);
        let table = origin.map_or(0, |origin| origin.table);
        let mut oid = Expr::constant(Type::of(TypeKind::Oid), Value::Oid(table));
        if !self.routed.is_empty() {
            let slots = self.routed.iter();
            let slots = slots.map(|slot| self.found(slot - self.first_slot).expr);
            let args = std::iter::once(oid).chain(slots).collect();
            let function = partition_of();
            oid = Expr::new(Type::of(TypeKind::Oid), Node::Call { function, args });
        }
        let of_catalog = origin.is_some() && u64::from(table) < FIRST_USER_OID;
        let non_null = match self.key.first() {
            Some(slot) => slot - self.first_slot,
            None if of_catalog => 0,
            None if alone => {
                return Ok(ResolvedColumn {
                    expr: oid,
                    origin: None,
                });
            }
            None => {
                return Err(SqlError::unsupported(
                    "tableoid of a joined table without a primary key",
                ));
            }
        };
        Ok(where_row(self.is_not_null(non_null), oid))
    }

    /// Returns `xmin`: the fingerprint of the values, or NULL without a row.
    fn xmin(&self, alone: bool) -> ResolvedColumn {
        let columns = self.columns.iter().enumerate();
        let columns = columns.filter(|(_, column)| !column.name.starts_with(UNSEEN));
        let fields = Fields::own(columns.clone().map(|(_, c)| (c.name.clone(), c.ty)));
        let values = columns.map(|(at, _)| self.found(at).expr).collect();
        let call = Node::Call {
            function: row_version(),
            args: vec![row_of(fields, values)],
        };
        let version = Expr::new(Type::of(TypeKind::Xid), call);
        match self.key.first() {
            _ if alone => ResolvedColumn {
                expr: version,
                origin: None,
            },
            Some(slot) => where_row(self.is_not_null(slot - self.first_slot), version),
            None => {
                let any = (0..self.columns.len()).map(|at| self.is_not_null(at));
                where_row(Expr::new(Type::BOOL, Node::Or(any.collect())), version)
            }
        }
    }

    fn is_not_null(&self, column: usize) -> Expr {
        let node = Node::IsNull {
            negated: true,
            input: Box::new(self.found(column).expr),
        };
        Expr::new(Type::BOOL, node)
    }
}

/// Returns a value that is NULL in the null-extended rows of an outer join.
fn where_row(is_there: Expr, value: Expr) -> ResolvedColumn {
    let ty = value.ty;
    let node = Node::Case {
        operand: None,
        branches: vec![(is_there, value)],
        otherwise: None,
    };
    ResolvedColumn {
        expr: Expr::new(ty, node),
        origin: None,
    }
}

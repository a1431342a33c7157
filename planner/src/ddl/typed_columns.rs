//! The columns of a type: of the type itself, of an array of it, or of a domain over it.

use fencepost_sql::catalog::{ColumnDef, TableDef, TypeDef};
use fencepost_sql::types::composites::is_made_of;

/// Returns the columns of a table that have the type, or an array of it.
pub(super) fn columns_of<'a>(table: &'a TableDef, ty: &'a TypeDef) -> impl Iterator<Item = usize> {
    let all = table.columns.iter().enumerate();
    all.filter(|(_, column)| is_of_column(column, ty))
        .map(|(at, _)| at)
}

pub(super) fn is_of(oid: u32, ty: &TypeDef) -> bool {
    oid == ty.id || Some(oid) == ty.array_id()
}

/// Returns whether a column has the type, or a domain over it.
pub(super) fn is_of_column(column: &ColumnDef, ty: &TypeDef) -> bool {
    is_made_of(column.declared().kind, ty.id)
}

/// Returns whether the type is a column's declared type, and not only the base type of its domain.
pub(super) fn is_declared(column: &ColumnDef, ty: &TypeDef) -> bool {
    match column.more.domain {
        Some(of) => of.definition().id == ty.id,
        None => is_of(column.ty.oid(), ty),
    }
}

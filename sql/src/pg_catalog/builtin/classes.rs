//! The operator families and classes of the index methods: `pg_opfamily`, `pg_opclass`, `pg_amop`,
//! `pg_amproc`.

use super::super::rows::Rows;
use super::super::{PG_CATALOG_NAMESPACE, RowInputs};
use super::{LineWords, lines};
use crate::catalog::SUPERUSER_OID;
use crate::value::Value;

/// Returns the lines of one kind, which have `words` words after the kind.
fn of_kind(kind: &'static str, words: usize) -> impl Iterator<Item = LineWords> {
    let all = lines(include_str!("opclasses.txt"), words + 1);
    all.filter(move |row| row.0[0] == kind)
}

/// Adds the rows of `pg_opfamily`.
pub fn families(rows: &mut Rows, _: &RowInputs<'_>) {
    for row in of_kind("family", 3) {
        rows.add([
            ("oid", row.oid(1)),
            ("opfmethod", row.oid(2)),
            ("opfname", row.text(3)),
            ("opfnamespace", Value::Oid(PG_CATALOG_NAMESPACE)),
            ("opfowner", Value::Oid(SUPERUSER_OID)),
        ]);
    }
}

/// Adds the rows of `pg_opclass`.
pub fn classes(rows: &mut Rows, _: &RowInputs<'_>) {
    for row in of_kind("class", 7) {
        rows.add([
            ("oid", row.oid(1)),
            ("opcmethod", row.oid(2)),
            ("opcname", row.text(3)),
            ("opcnamespace", Value::Oid(PG_CATALOG_NAMESPACE)),
            ("opcowner", Value::Oid(SUPERUSER_OID)),
            ("opcfamily", row.oid(4)),
            ("opcintype", row.oid(5)),
            ("opcdefault", Value::Bool(row.flag(6))),
            ("opckeytype", row.oid(7)),
        ]);
    }
}

/// Adds the rows of `pg_amop`.
pub fn class_operators(rows: &mut Rows, _: &RowInputs<'_>) {
    for row in of_kind("operator", 7) {
        rows.add([
            ("oid", row.oid(1)),
            ("amopfamily", row.oid(2)),
            ("amoplefttype", row.oid(3)),
            ("amoprighttype", row.oid(4)),
            ("amopstrategy", row.int2(5)),
            ("amoppurpose", Value::text("s")),
            ("amopopr", row.oid(6)),
            ("amopmethod", row.oid(7)),
        ]);
    }
}

/// Adds the rows of `pg_amproc`.
pub fn class_functions(rows: &mut Rows, _: &RowInputs<'_>) {
    for row in of_kind("function", 6) {
        rows.add([
            ("oid", row.oid(1)),
            ("amprocfamily", row.oid(2)),
            ("amproclefttype", row.oid(3)),
            ("amprocrighttype", row.oid(4)),
            ("amprocnum", row.int2(5)),
            ("amproc", row.function(6)),
        ]);
    }
}

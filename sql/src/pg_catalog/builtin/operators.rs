//! The operators of `pg_operator`.

use std::sync::LazyLock;

use super::super::rows::{Rows, object};
use super::super::{PG_CATALOG_NAMESPACE, RowInputs};
use super::{LineWords, lines};
use crate::catalog::SUPERUSER_OID;
use crate::value::Value;

/// An operator of `pg_catalog`.
pub struct Operator {
    /// The oid.
    pub oid: u32,
    /// The name.
    pub name: &'static str,
    /// The oid of the left operand's type; 0 for a prefix operator.
    pub left: u32,
    /// The oid of the right operand's type.
    pub right: u32,
    row: LineWords,
}

static OPERATORS: LazyLock<Vec<Operator>> = LazyLock::new(|| {
    let rows = lines(include_str!("operators.txt"), 13);
    let operators = rows.map(|row| Operator {
        oid: row.number(0),
        name: row.0[1],
        left: row.number(5),
        right: row.number(6),
        row,
    });
    operators.collect()
});

impl Operator {
    /// Returns the operator with an oid.
    pub fn of(oid: u32) -> Option<&'static Operator> {
        OPERATORS.iter().find(|of| of.oid == oid)
    }

    /// Returns the operators with a name.
    pub fn named(name: &str) -> impl Iterator<Item = &'static Operator> {
        OPERATORS.iter().filter(move |of| of.name == name)
    }
}

/// Adds the rows of `pg_operator`.
pub fn operators(rows: &mut Rows, _: &RowInputs<'_>) {
    for of in OPERATORS.iter() {
        let row = &of.row;
        // The selectivity functions have no rows in `pg_proc`.
        let estimator = |at| object(row.number(at), "-");
        rows.add([
            ("oid", Value::Oid(of.oid)),
            ("oprname", Value::text(of.name)),
            ("oprnamespace", Value::Oid(PG_CATALOG_NAMESPACE)),
            ("oprowner", Value::Oid(SUPERUSER_OID)),
            ("oprkind", row.text(2)),
            ("oprcanmerge", Value::Bool(row.flag(3))),
            ("oprcanhash", Value::Bool(row.flag(4))),
            ("oprleft", Value::Oid(of.left)),
            ("oprright", Value::Oid(of.right)),
            ("oprresult", row.oid(7)),
            ("oprcom", row.oid(8)),
            ("oprnegate", row.oid(9)),
            ("oprcode", row.function(10)),
            ("oprrest", estimator(11)),
            ("oprjoin", estimator(12)),
        ]);
    }
}

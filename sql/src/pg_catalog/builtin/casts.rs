//! The rows of `pg_cast` and `pg_aggregate`.

use super::super::RowInputs;
use super::super::rows::Rows;
use super::lines;
use crate::value::Value;

/// Adds the rows of `pg_cast`.
pub fn casts(rows: &mut Rows, _: &RowInputs<'_>) {
    for row in lines(include_str!("casts.txt"), 6) {
        rows.add([
            ("oid", row.oid(0)),
            ("castsource", row.oid(1)),
            ("casttarget", row.oid(2)),
            ("castfunc", row.oid(3)),
            ("castcontext", row.text(4)),
            ("castmethod", row.text(5)),
        ]);
    }
}

/// Adds the rows of `pg_aggregate`.
pub fn aggregates(rows: &mut Rows, _: &RowInputs<'_>) {
    for row in lines(include_str!("aggregates.txt"), 12) {
        let begins = match row.0[11] {
            "~" => Value::Null,
            value => Value::text(value),
        };
        rows.add([
            ("aggfnoid", row.function(0)),
            ("aggkind", row.text(1)),
            ("aggnumdirectargs", row.int2(2)),
            ("aggtransfn", row.function(3)),
            ("aggfinalfn", row.function(4)),
            ("aggcombinefn", row.function(5)),
            ("aggfinalextra", Value::Bool(row.flag(6))),
            ("aggfinalmodify", row.text(7)),
            ("aggmfinalmodify", row.text(7)),
            ("aggsortop", row.oid(8)),
            ("aggtranstype", row.oid(9)),
            ("aggtransspace", Value::Int4(row.number(10))),
            ("agginitval", begins),
        ]);
    }
}

//! Expressions, compared with the answers of PostgreSQL 15.
//!
//! `expressions.txt` and the files of `expressions/` hold, for each statement, the column names,
//! types and values that PostgreSQL 15 returned, or its SQLSTATE and message. `TimeZone` was
//! America/New_York. Each statement runs unchanged, and with its literals lifted.

use std::sync::Arc;

use fencepost_sql::binder::{ParamTypes, bind};
use fencepost_sql::bound::Statement;
use fencepost_sql::catalog::{CatalogView, RoleDef, TableDef};
use fencepost_sql::parser::{Literal, lift, parse};
use fencepost_sql::{EvalContext, Settings, SqlError, functions, types};

/// Statements, each with the answer of PostgreSQL 15.
const FILES: [&str; 8] = [
    include_str!("expressions.txt"),
    include_str!("expressions/interval.txt"),
    include_str!("expressions/arrays.txt"),
    include_str!("expressions/json.txt"),
    include_str!("expressions/regex.txt"),
    include_str!("expressions/strings.txt"),
    include_str!("expressions/format.txt"),
    include_str!("expressions/math.txt"),
];

struct NoTables;

impl CatalogView for NoTables {
    fn table(&self, _: Option<&str>, _: &str) -> Result<Option<Arc<TableDef>>, SqlError> {
        Ok(None)
    }

    fn table_of_index(&self, _: Option<&str>, _: &str) -> Result<Option<Arc<TableDef>>, SqlError> {
        Ok(None)
    }

    fn role(&self, _: &str) -> Result<Option<Arc<RoleDef>>, SqlError> {
        Ok(None)
    }
}

/// Column names and types, and values.
fn answer(sql: &str, lifted: bool, cx: &EvalContext) -> Result<(String, String), SqlError> {
    let lifted = lift(sql).filter(|_| lifted);
    let (text, literals) = match &lifted {
        Some(l) => (l.text.as_str(), l.literals.as_slice()),
        None => (sql, &[][..]),
    };
    let parsed = parse(text)?;
    let mut params = ParamTypes::declared(literals.iter().map(Literal::ty).collect());
    let statement = bind(&parsed[0], &NoTables, &mut params, cx)?;
    let mut values = Vec::new();
    for (literal, ty) in literals.iter().zip(params.types()) {
        values.push(match literal {
            Literal::Text(text) => {
                types::text_in_at(ty, text, &cx.settings, Some(cx.transaction_start))?
            }
            other => other.value(),
        });
    }
    let Statement::Select(select) = statement else {
        return Err(SqlError::internal("not a SELECT"));
    };
    let mut columns = Vec::new();
    let mut row = Vec::new();
    for target in select.columns() {
        let value = functions::eval(&target.expr, &[], &values, cx)?;
        columns.push(format!("{}:{}", target.name, target.expr.ty));
        row.push(types::to_text(&value, &target.expr.ty, &cx.settings));
    }
    Ok((columns.join("|"), row.join("|")))
}

#[test]
fn expressions_are_as_in_postgresql() {
    let mut settings = Settings::new();
    settings
        .set("TimeZone", "America/New_York")
        .expect("a zone");
    let cx = EvalContext::new(Arc::new(settings), 0, 1);
    let mut wrong = Vec::new();
    let mut count = 0;
    let entries = FILES.iter().flat_map(|file| file.split("## ").skip(1));
    for entry in entries {
        let mut lines = entry.lines();
        let sql = lines.next().unwrap_or("");
        let expected: Vec<&str> = lines.collect();
        for lifted in [false, true] {
            let got = match answer(sql, lifted, &cx) {
                Ok((columns, row)) => vec![format!("T {columns}"), format!("V {row}")],
                Err(e) => vec![format!("E {}: {}", e.sqlstate(), e.message())],
            };
            if got != expected {
                wrong.push(format!(
                    "{sql} (lifted {lifted})\n  got      {got:?}\n  expected {expected:?}"
                ));
            }
        }
        count += 1;
    }
    assert!(count > 140, "only {count} expressions");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

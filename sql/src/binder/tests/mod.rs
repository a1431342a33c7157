//! Statements bound against a small catalog. The expected messages are those of PostgreSQL 15.

mod ddl;
mod errors;
mod queries;

use std::sync::Arc;

use super::{ParamTypes, bind};
use crate::bound::{self, Statement};
use crate::catalog::{
    CatalogView, ColumnDef, ColumnMore, Guards, IndexColumn, IndexDef, IndexKind, PUBLIC_SCHEMA,
    Partitioning, RoleDef, Roots, TableDef, TableRules,
};
use crate::context::EvalContext;
use crate::error::SqlError;
use crate::parser::parse;
use crate::settings::Settings;
use crate::types::{Type, TypeKind};

/// A catalog without tables.
pub(crate) struct NoTables;

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

/// `t(id int primary key, name varchar(5), price numeric(8,2) default 1.5, note text)` and
/// `u(id bigint primary key, tid int)`.
struct TwoTables;

fn table(id: u32, name: &str, columns: &[(&str, Type, Option<&str>)]) -> TableDef {
    TableDef {
        id,
        schema: PUBLIC_SCHEMA.to_owned(),
        name: name.to_owned(),
        columns: columns
            .iter()
            .enumerate()
            .map(|(i, (name, ty, default))| ColumnDef {
                name: (*name).to_owned(),
                ty: *ty,
                not_null: i == 0,
                default: default.map(str::to_owned),
                attnum: i as i16 + 1,
                more: ColumnMore::default(),
            })
            .collect(),
        indexes: vec![IndexDef {
            id: id + 1,
            name: format!("{name}_pkey"),
            kind: IndexKind::BTree,
            unique: true,
            primary: true,
            constraint: true,
            columns: vec![IndexColumn {
                column: 0,
                desc: false,
                nulls_first: false,
            }],
            more: Default::default(),
            roots: Roots::One(0),
        }],
        partitioning: None,
        hierarchy: None,
        materialized: None,
        rules: TableRules::default(),
        version: 1,
        guards: Guards::at([0]).expect("one"),
    }
}

impl CatalogView for TwoTables {
    fn table(&self, _: Option<&str>, name: &str) -> Result<Option<Arc<TableDef>>, SqlError> {
        Ok(match name {
            "t" => Some(Arc::new(table(
                100,
                "t",
                &[
                    ("id", Type::INT4, None),
                    ("name", Type::varchar(5), None),
                    ("price", Type::numeric(8, 2), Some("1.5")),
                    ("note", Type::TEXT, None),
                ],
            ))),
            "u" => Some(Arc::new(table(
                200,
                "u",
                &[("id", Type::INT8, None), ("tid", Type::INT4, None)],
            ))),
            "parted" => {
                let mut parted = table(300, "parted", &[("id", Type::INT4, None)]);
                parted.partitioning = Some(Partitioning {
                    column: 0,
                    kind: TypeKind::Int4,
                    count: 8,
                    group: 300,
                });
                Some(Arc::new(parted))
            }
            _ => None,
        })
    }

    fn table_of_index(
        &self,
        schema: Option<&str>,
        name: &str,
    ) -> Result<Option<Arc<TableDef>>, SqlError> {
        match name {
            "t_pkey" => self.table(schema, "t"),
            _ => Ok(None),
        }
    }

    fn role(&self, _: &str) -> Result<Option<Arc<RoleDef>>, SqlError> {
        Ok(None)
    }
}

fn bind_with(sql: &str, params: &mut ParamTypes) -> Result<Statement, SqlError> {
    let cx = EvalContext::new(Arc::new(Settings::new()), 0, 1);
    let parsed = parse(sql)?;
    bind(&parsed[0], &TwoTables, params, &cx)
}

fn bound(sql: &str) -> Statement {
    bind_with(sql, &mut ParamTypes::new()).unwrap_or_else(|e| panic!("{sql}: {e}"))
}

fn select(sql: &str) -> bound::Select {
    match bound(sql) {
        Statement::Select(select) => *select,
        other => panic!("{sql}: {other:?}"),
    }
}

/// Returns `name:type` of each output column.
fn columns(sql: &str) -> Vec<String> {
    let columns = bound(sql).columns().expect("it has rows");
    columns
        .iter()
        .map(|c| format!("{}:{}", c.name, c.ty))
        .collect()
}

/// Returns the types of the parameters.
fn params(sql: &str) -> Vec<Type> {
    let mut params = ParamTypes::new();
    bind_with(sql, &mut params).unwrap_or_else(|e| panic!("{sql}: {e}"));
    params.types().to_vec()
}

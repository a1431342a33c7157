//! Statements bound against a small catalog; messages are PostgreSQL 15's.

use std::sync::Arc;

use super::{ParamTypes, bind};
use crate::bound::{self, Expr, From, InsertSource, JoinKind, LeafSource, Node, Statement};
use crate::catalog::{
    CatalogView, ColumnDef, Guards, IndexColumn, IndexDef, IndexKind, PUBLIC_SCHEMA, Partitioning,
    RoleDef, Roots, TableDef,
};
use crate::context::EvalContext;
use crate::error::SqlError;
use crate::parser::parse;
use crate::settings::Settings;
use crate::types::{Type, TypeKind};
use crate::value::Value;

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
            roots: Roots::One(0),
        }],
        partitioning: None,
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

/// `name:type` of each output column.
fn columns(sql: &str) -> Vec<String> {
    let columns = bound(sql).columns().expect("it has rows");
    columns
        .iter()
        .map(|c| format!("{}:{}", c.name, c.ty))
        .collect()
}

/// The types of the parameters.
fn params(sql: &str) -> Vec<Type> {
    let mut params = ParamTypes::new();
    bind_with(sql, &mut params).unwrap_or_else(|e| panic!("{sql}: {e}"));
    params.types().to_vec()
}

#[test]
fn stars_and_origins() {
    assert_eq!(
        columns("select *, t.note as n from t"),
        [
            "id:integer",
            "name:character varying(5)",
            "price:numeric(8,2)",
            "note:text",
            "n:text"
        ]
    );
    let s = select("select price, price + 1, t.name from t");
    let origins: Vec<Option<i16>> = s
        .targets
        .iter()
        .map(|t| t.origin.map(|o| o.attnum))
        .collect();
    assert_eq!(origins, [Some(3), None, Some(2)]);
}

#[test]
fn joins_number_their_slots_from_the_left() {
    let s = select("select u.tid, name from t left join u on t.id = u.tid where u.id > 5");
    assert_eq!(s.targets[0].expr, Expr::column(Type::INT4, 5));
    let From::Join(join) = &s.from else {
        panic!("a join");
    };
    assert_eq!(join.kind, JoinKind::Left);
    assert_eq!(join.right.first_slot(), 4);
    // USING merges: one id in the star, from the left side.
    assert_eq!(
        columns("select * from u join t using (id)"),
        [
            "id:bigint",
            "tid:integer",
            "name:character varying(5)",
            "price:numeric(8,2)",
            "note:text"
        ]
    );
    assert_eq!(
        columns("select * from t, u as v cross join (values (1, 'a')) as w(x, y)").len(),
        8
    );
}

#[test]
fn grouping_reads_the_group_row() {
    let s = select(
        "select name, count(*), sum(price) + 1 from t group by name having max(id) > 2 order by 2 desc, name",
    );
    let grouping = s.grouping.expect("it groups");
    assert_eq!(grouping.keys.len(), 1);
    assert_eq!(grouping.aggregates.len(), 3);
    assert_eq!(s.targets[0].expr.node, Node::Column(0));
    assert_eq!(s.targets[1].expr, Expr::column(Type::INT8, 1));
    assert_eq!((s.order_by[0].target, s.order_by[0].desc), (1, true));
    assert!(s.order_by[0].nulls_first && !s.order_by[1].nulls_first);
    // Columns that depend on a grouped primary key may stand alone.
    let s = select("select name from t group by id");
    assert_eq!(s.grouping.expect("it groups").keys.len(), 2);
    assert_eq!(
        columns("select sum(id), sum(price), avg(id), min(name), count(distinct id) from t"),
        [
            "sum:bigint",
            "sum:numeric",
            "avg:numeric",
            "min:text",
            "count:bigint"
        ]
    );
}

#[test]
fn order_by_adds_hidden_targets() {
    let s = select("select name as n from t order by price, n");
    assert_eq!((s.visible, s.targets.len()), (1, 2));
    assert_eq!(s.order_by[0].target, 1);
    assert_eq!(s.order_by[1].target, 0);
}

#[test]
fn parameters_learn_their_types() {
    assert_eq!(
        params("select * from t where id = $1 and name = $2"),
        [Type::INT4, Type::TEXT]
    );
    assert_eq!(
        params("select * from t limit $1 offset $2"),
        [Type::INT8, Type::INT8]
    );
    assert_eq!(
        params("insert into t values ($1, $2, $3, $4)"),
        [
            Type::INT4,
            Type::of(crate::TypeKind::VarChar),
            Type::NUMERIC,
            Type::TEXT
        ]
    );
    assert_eq!(
        params("update t set price = price + $1 where id = $2"),
        [Type::NUMERIC, Type::INT4]
    );
    assert_eq!(params("select $1"), [Type::TEXT]);
    assert_eq!(
        params("select $1::int, $2 + 1, id in ($3, $4) from t").len(),
        4
    );
    assert_eq!(params("insert into u (tid) select $1"), [Type::INT4]);
    let mut declared = ParamTypes::declared(vec![Type::INT8]);
    bind_with("select * from t where id = $1", &mut declared).expect("mixed widths compare");
    assert_eq!(declared.types(), [Type::INT8]);
}

#[test]
fn inserts_fill_in_defaults() {
    let Statement::Insert(insert) =
        bound("insert into t (name, id) values ('a', 1), (default, 2) returning *")
    else {
        panic!("an insert");
    };
    let InsertSource::Values(rows) = &insert.source else {
        panic!("values");
    };
    assert_eq!(rows.len(), 2);
    assert_eq!(rows[0][0], Expr::constant(Type::INT4, Value::Int4(1)));
    assert_eq!(rows[1][1], Expr::constant(Type::varchar(5), Value::Null));
    assert_eq!(rows[0][2].ty, Type::numeric(8, 2));
    assert_eq!(insert.returning.len(), 4);
    let Statement::Insert(insert) =
        bound("insert into u select id, 5 from t on conflict do nothing")
    else {
        panic!("an insert");
    };
    let InsertSource::Select { row, .. } = &insert.source else {
        panic!("a query");
    };
    assert_eq!((row[0].ty, row[1].ty), (Type::INT8, Type::INT4));
}

#[test]
fn comparisons_keep_columns_bare() {
    for sql in [
        "select 1 from t where id = 5",
        "select 1 from u where id = 5",
        "select 1 from t where name = 'x'",
        "select 1 from u where id between 1 and 3",
        "select 1 from t where price > 1",
    ] {
        let filter = select(sql).filter.expect("a filter");
        let first = match filter.node {
            Node::And(mut parts) => parts.remove(0),
            node => Expr::new(Type::BOOL, node),
        };
        let Node::Compare { left, right, .. } = first.node else {
            panic!("{sql}: {first:?}");
        };
        assert!(matches!(left.node, Node::Column(_)), "{sql}");
        assert!(matches!(right.node, Node::Const(_)), "{sql}");
    }
}

#[test]
fn ddl() {
    let Statement::CreateTable(create) = bound(
        "create table x (a int primary key, b char(3) not null default 'x', c numeric(5,1) unique) with (fillfactor = 70, index = hash)",
    ) else {
        panic!("a table");
    };
    assert_eq!(create.index_kind, IndexKind::Hash);
    assert_eq!(create.primary_key.expect("a key").columns, [0]);
    assert!(create.columns[0].not_null);
    assert_eq!(create.columns[1].default.as_deref(), Some("'x'"));
    assert_eq!(create.unique.len(), 1);
    let Statement::DropTable(drop) = bound("drop table if exists t, nope cascade") else {
        panic!("a drop");
    };
    assert_eq!(
        (drop.tables.len(), drop.missing),
        (1, vec!["nope".to_owned()])
    );
    let Statement::CreateIndex(index) =
        bound("create unique index on t using btree (name desc, id)")
    else {
        panic!("an index");
    };
    assert!(index.unique && index.columns[0].desc && index.columns[0].nulls_first);
    assert!(matches!(
        bound("alter table u add constraint k primary key (tid)"),
        Statement::AlterTable(_)
    ));
    assert!(matches!(
        bound("truncate table t, u"),
        Statement::Truncate(_)
    ));
    assert!(matches!(
        bound("copy t (id, name) from stdin"),
        Statement::Copy(_)
    ));
    assert!(matches!(bound("explain select 1"), Statement::Explain(_)));
}

#[test]
fn partitions() {
    for (sql, column, count, with) in [
        (
            "create table x (a int primary key) partition by hash (a)",
            0,
            16,
            None,
        ),
        (
            "create table x (a int, b int not null) partition by hash (b) with (partitions = 3)",
            1,
            3,
            None,
        ),
        (
            "create table x (b text, a int, primary key (b, \"a\"))\n partition by hash (\"a\")\n with (colocate_with = 'parted', index = hash)",
            1,
            8,
            Some("parted"),
        ),
        (
            "create table x (a int primary key) partition by hash (A) with (colocate_with = public.parted, partitions = 8)",
            0,
            8,
            Some("parted"),
        ),
    ] {
        let Statement::CreateTable(create) = bound(sql) else {
            panic!("a table");
        };
        let by = create.partition_by.expect("partitions");
        let together = by.with.as_ref().map(|table| table.name.as_str());
        assert_eq!(
            (by.column, by.count, together),
            (column, count, with),
            "{sql}"
        );
    }
}

#[test]
fn partitions_that_cannot_be() {
    let lacks = "unique constraint on partitioned table must include all partitioning columns";
    for (sql, state, message, position) in [
        (
            "create table x (a int) partition by hash (z)",
            "42703",
            "column \"z\" named in partition key does not exist",
            43,
        ),
        (
            "create table x (a int) partition by hash (a)",
            "42P17",
            "partition column \"a\" can be null",
            0,
        ),
        (
            "create table x (a int, b int primary key) partition by hash (a)",
            "0A000",
            lacks,
            0,
        ),
        (
            "create table x (a int primary key, b int unique) partition by hash (a)",
            "0A000",
            lacks,
            0,
        ),
        (
            "create table x (a int not null, unique (a)) partition by hash (a, a)",
            "0A000",
            "PARTITION BY HASH of several columns is not supported",
            0,
        ),
        (
            "create table x (a int not null) partition by hash ((a + 1))",
            "0A000",
            "PARTITION BY HASH of an expression is not supported",
            0,
        ),
        (
            "create table x (a int not null) partition by range (a)",
            "0A000",
            "PARTITION BY RANGE is not supported",
            0,
        ),
        (
            "create table x (a int not null) partition by list (a)",
            "0A000",
            "PARTITION BY LIST is not supported",
            0,
        ),
        (
            "create table x (a int not null) partition by foo (a)",
            "22023",
            "unrecognized partitioning strategy \"foo\"",
            0,
        ),
        (
            "create table x (a int not null) partition by hash (a b)",
            "42601",
            "syntax error at or near \"b\"",
            54,
        ),
        (
            "create table x (a int not null) partition by hash",
            "42601",
            "syntax error in PARTITION BY",
            0,
        ),
        (
            "create table x (a int not null) partition by hash ()",
            "42601",
            "syntax error in PARTITION BY",
            0,
        ),
        (
            "create table x partition of t for values with (modulus 4, remainder 0)",
            "0A000",
            "CREATE TABLE ... PARTITION OF is not supported",
            0,
        ),
        (
            "create table x (a int not null) partition by hash (a) with (partitions = 0)",
            "22023",
            "invalid value for option \"partitions\": \"0\"",
            0,
        ),
        (
            "create table x (a int not null) partition by hash (a) with (partitions = 1025)",
            "22023",
            "invalid value for option \"partitions\": \"1025\"",
            0,
        ),
        (
            "create table x (a int) with (partitions = 4)",
            "42P17",
            "option \"partitions\" needs PARTITION BY HASH",
            0,
        ),
        (
            "create table x (a int) with (colocate_with = 'parted')",
            "42P17",
            "option \"colocate_with\" needs PARTITION BY HASH",
            0,
        ),
        (
            "create table x (a int not null) partition by hash (a) with (colocate_with = 'nope')",
            "42P01",
            "relation \"nope\" does not exist",
            0,
        ),
        (
            "create table x (a int not null) partition by hash (a) with (colocate_with = 't')",
            "42P17",
            "cannot be kept together with table \"t\", which has no partitions",
            0,
        ),
        (
            "create table x (a int not null) partition by hash (a) with (colocate_with = 'parted', partitions = 4)",
            "42P17",
            "table \"parted\" has 8 partitions, not 4",
            0,
        ),
        (
            "create table x (a bigint not null) partition by hash (a) with (colocate_with = 'parted')",
            "42P17",
            "partition columns \"a\" and \"id\" are of different types",
            0,
        ),
    ] {
        let error = bind_with(sql, &mut ParamTypes::new()).expect_err(sql);
        let found = (
            error.sqlstate().to_string(),
            error.message().to_owned(),
            error.fields().position.unwrap_or(0),
        );
        assert_eq!(
            found,
            (state.to_owned(), message.to_owned(), position),
            "{sql}"
        );
    }
}

#[test]
fn series_and_values() {
    assert_eq!(
        columns("select tid, (tid - 1) / 10 + 1, 0 from generate_series(1, 10) as tid"),
        ["tid:integer", "?column?:integer", "?column?:integer"]
    );
    assert_eq!(
        columns("select generate_series(1, 3::bigint)"),
        ["generate_series:bigint"]
    );
    assert_eq!(
        columns("values (1, 'a'), (2.5, null)"),
        ["column1:numeric", "column2:text"]
    );
    let s = select("select x from (select 1 as x) as q");
    let From::Leaf(leaf) = &s.from else {
        panic!("a leaf");
    };
    assert!(matches!(leaf.source, LeafSource::Subquery(_)));
}

#[test]
fn errors_are_postgresqls() {
    for (sql, state, message, position) in [
        (
            "select nope from t",
            "42703",
            "column \"nope\" does not exist",
            8,
        ),
        (
            "select t.nope from t",
            "42703",
            "column t.nope does not exist",
            8,
        ),
        (
            "select x.id from t",
            "42P01",
            "missing FROM-clause entry for table \"x\"",
            8,
        ),
        (
            "select t.id from t as x",
            "42P01",
            "invalid reference to FROM-clause entry for table \"t\"",
            8,
        ),
        (
            "select id from t, u",
            "42702",
            "column reference \"id\" is ambiguous",
            8,
        ),
        (
            "select * from nope",
            "42P01",
            "relation \"nope\" does not exist",
            15,
        ),
        (
            "select * from t, t",
            "42712",
            "table name \"t\" specified more than once",
            0,
        ),
        (
            "select name, count(*) from t",
            "42803",
            "column \"t.name\" must appear in the GROUP BY clause or be used in an aggregate function",
            0,
        ),
        (
            "select 1 from t where count(*) > 1",
            "42803",
            "aggregate functions are not allowed in WHERE",
            23,
        ),
        (
            "select sum(count(*)) from t",
            "42803",
            "aggregate function calls cannot be nested",
            12,
        ),
        (
            "select 1 from t order by 3",
            "42P10",
            "ORDER BY position 3 is not in select list",
            26,
        ),
        (
            "select distinct name from t order by id",
            "42P10",
            "for SELECT DISTINCT, ORDER BY expressions must appear in select list",
            38,
        ),
        (
            "insert into t (nope) values (1)",
            "42703",
            "column \"nope\" of relation \"t\" does not exist",
            16,
        ),
        (
            "insert into t (id, id) values (1, 2)",
            "42701",
            "column \"id\" specified more than once",
            20,
        ),
        (
            "insert into t (id) values (1, 2)",
            "42601",
            "INSERT has more expressions than target columns",
            0,
        ),
        (
            "insert into t (id, name) values (1)",
            "42601",
            "INSERT has more target columns than expressions",
            0,
        ),
        (
            "insert into t (id) values (true)",
            "42804",
            "column \"id\" is of type integer but expression is of type boolean",
            28,
        ),
        (
            "insert into t (id) values ('x')",
            "22P02",
            "invalid input syntax for type integer: \"x\"",
            28,
        ),
        (
            "insert into t (name) values ('abcdefg')",
            "22001",
            "value too long for type character varying(5)",
            30,
        ),
        (
            "update t set id = 1, id = 2",
            "42601",
            "multiple assignments to same column \"id\"",
            0,
        ),
        (
            "select 1 from t where id",
            "42804",
            "argument of WHERE must be type boolean, not type integer",
            23,
        ),
        (
            "select 1 from t where name = 1",
            "42883",
            "operator does not exist: character varying = integer",
            0,
        ),
        (
            "select foo(id) from t",
            "42883",
            "function foo(integer) does not exist",
            8,
        ),
        ("select $1 is null and $2 = $3", "", "", 0),
        (
            "select $1 + $2",
            "42725",
            "operator is not unique: unknown + unknown",
            0,
        ),
        (
            "create table x (a int, a int)",
            "42701",
            "column \"a\" specified more than once",
            0,
        ),
        (
            "create table x (a foo)",
            "42704",
            "type \"foo\" does not exist",
            17,
        ),
        (
            "create table x (a int primary key, primary key (a))",
            "42P16",
            "multiple primary keys for table \"x\" are not allowed",
            0,
        ),
        (
            "create table x (a int default 'b')",
            "22P02",
            "invalid input syntax for type integer: \"b\"",
            0,
        ),
        (
            "drop table nope",
            "42P01",
            "table \"nope\" does not exist",
            0,
        ),
        (
            "drop index nope",
            "42704",
            "index \"nope\" does not exist",
            0,
        ),
        (
            "select * from t where id in (select 1)",
            "0A000",
            "a subquery in an expression is not supported",
            0,
        ),
        (
            "select 1 union select 2",
            "0A000",
            "UNION is not supported",
            0,
        ),
        (
            "insert into t values (1) on conflict (name) do nothing",
            "42P10",
            "there is no unique or exclusion constraint matching the ON CONFLICT specification",
            0,
        ),
    ] {
        let result = bind_with(sql, &mut ParamTypes::new());
        if state.is_empty() {
            result.unwrap_or_else(|e| panic!("{sql}: {e}"));
            continue;
        }
        let error = match result {
            Ok(_) => panic!("{sql} was taken"),
            Err(error) => error,
        };
        assert_eq!(error.sqlstate().as_str(), state, "{sql}: {error}");
        assert_eq!(error.message(), message, "{sql}");
        if position > 0 {
            assert_eq!(error.fields().position, Some(position), "{sql}");
        }
    }
}

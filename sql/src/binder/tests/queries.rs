//! Queries, parameters and inserts: the columns, slots and types that they are bound to.

use super::{bind_with, bound, columns, params, select};
use crate::binder::ParamTypes;
use crate::bound::{Expr, From, InsertSource, JoinKind, LeafSource, Node, Statement};
use crate::types::Type;
use crate::value::Value;

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
fn join_slots_are_numbered_from_left() {
    let s = select("select u.tid, name from t left join u on t.id = u.tid where u.id > 5");
    assert_eq!(s.targets[0].expr, Expr::column(Type::INT4, 5));
    let From::Join(join) = &s.from else {
        panic!("a join");
    };
    assert_eq!(join.kind, JoinKind::Left);
    assert_eq!(join.right.first_slot(), 4);
    // USING merges the columns: `*` contains one id, from the left side.
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
        "select name, count(*), sum(price) + 1 from t group by name having max(id) > 2 \
         order by 2 desc, name",
    );
    let grouping = s.grouping.expect("it groups");
    assert_eq!(grouping.keys.len(), 1);
    assert_eq!(grouping.aggregates.len(), 3);
    assert_eq!(s.targets[0].expr.node, Node::Column(0));
    assert_eq!(s.targets[1].expr, Expr::column(Type::INT8, 1));
    assert_eq!((s.order_by[0].target, s.order_by[0].desc), (1, true));
    assert!(s.order_by[0].nulls_first && !s.order_by[1].nulls_first);
    // Columns that are functionally dependent on a grouped primary key need not be grouped.
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
fn parameter_types_are_inferred() {
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

/// Checks that the hint does not name `xmax` of RETURNING, whose generated name users cannot write.
#[test]
fn hint_names_no_internal_column() {
    let sql = "insert into t (name) values ('a') returning xmaxx";
    let error = bind_with(sql, &mut ParamTypes::new()).expect_err("there is none");
    assert_eq!(error.fields().hint, None);
    bound("insert into t (name) values ('a') returning xmax = 0");
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

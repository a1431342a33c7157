//! DDL, including the partitionings that are allowed and refused.

use super::{bind_with, bound};
use crate::binder::ParamTypes;
use crate::bound::Statement;
use crate::catalog::IndexKind;

#[test]
fn ddl() {
    let Statement::CreateTable(create) = bound(
        "create table x (a int primary key, b char(3) not null default 'x', c numeric(5,1) \
         unique) with (fillfactor = 70, index = hash)",
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
            "create table x (a int primary key) partition by hash (a) with (partitions = 16)",
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
            "create table x (b text, a int, primary key (b, \"a\"))\n partition by hash (\"a\")\n \
             with (colocate_with = 'parted', index = hash)",
            1,
            8,
            Some("parted"),
        ),
        (
            "create table x (a int primary key) partition by hash (A) \
             with (colocate_with = public.parted, partitions = 8)",
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
            "create table x (a int) partition by hash (z) with (partitions = 16)",
            "42703",
            "column \"z\" named in partition key does not exist",
            43,
        ),
        (
            "create table x (a int) partition by hash (a) with (partitions = 16)",
            "42P17",
            "partition column \"a\" can be null",
            0,
        ),
        (
            "create table x (a int, b int primary key) partition by hash (a) \
             with (partitions = 16)",
            "0A000",
            lacks,
            0,
        ),
        (
            "create table x (a int primary key, b int unique) partition by hash (a) \
             with (partitions = 16)",
            "0A000",
            lacks,
            0,
        ),
        (
            "create table x (a int not null, unique (a)) partition by hash (a, a) \
             with (partitions = 16)",
            "0A000",
            "PARTITION BY HASH of several columns WITH (partitions = …) is not supported",
            0,
        ),
        (
            "create table x (a int not null) partition by hash ((a + 1)) with (partitions = 16)",
            "0A000",
            "PARTITION BY HASH of an expression is not supported",
            0,
        ),
        (
            "create table x (a int not null) partition by foo (a) with (partitions = 16)",
            "22023",
            "unrecognized partitioning strategy \"foo\"",
            0,
        ),
        (
            "create table x (a int not null) partition by hash (a b) with (partitions = 16)",
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
            "create table x (a int not null) partition by hash () with (partitions = 16)",
            "42601",
            "syntax error in PARTITION BY",
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
            "create table x (a int not null) partition by hash (a) \
             with (colocate_with = 'parted', partitions = 4)",
            "42P17",
            "table \"parted\" has 8 partitions, not 4",
            0,
        ),
        (
            "create table x (a bigint not null) partition by hash (a) \
             with (colocate_with = 'parted')",
            "42P17",
            "partition columns \"a\" and \"id\" are of different types",
            0,
        ),
    ] {
        let error = bind_with(sql, &mut ParamTypes::new()).expect_err(sql);
        assert_eq!(error.sqlstate().as_str(), state, "{sql}");
        assert_eq!(error.message(), message, "{sql}");
        assert_eq!(error.fields().position.unwrap_or(0), position, "{sql}");
    }
}

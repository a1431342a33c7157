//! Errors, with PostgreSQL's text.

use super::bind_with;
use crate::binder::ParamTypes;

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
            "column \"t.name\" must appear in the GROUP BY clause or be used in an aggregate \
             function",
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
            "select * from t where id in (select 1, 2)",
            "42601",
            "subquery has too many columns",
            0,
        ),
        (
            "select 1 union select 2, 3",
            "42601",
            "each UNION query must have the same number of columns",
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
        let Err(error) = result else {
            panic!("{sql} was taken");
        };
        assert_eq!(error.sqlstate().as_str(), state, "{sql}: {error}");
        assert_eq!(error.message(), message, "{sql}");
        if position > 0 {
            assert_eq!(error.fields().position, Some(position), "{sql}");
        }
    }
}

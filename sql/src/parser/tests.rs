//! Tests of the parser: texts and their trees.

use std::sync::Arc;

use super::lexer::Lexer;
use super::{Literal, MaintenanceCommand, Statement, lift, parse};
use crate::bound::{self, SystemChange};
use crate::error::{SqlError, SqlState};
use crate::notify::{ListenChange, Notification};

/// Runs a check on a stack as small as that of a worker thread.
fn on_small_stack(check: fn()) {
    let thread = std::thread::Builder::new()
        .stack_size(2 << 20)
        .spawn(check)
        .expect("a thread starts");
    thread.join().expect("the check holds on a 2 MiB stack");
}

/// Parses and binds a text, as a session does before planning.
fn parse_and_bind(sql: &str) -> Result<(), SqlError> {
    let context = crate::EvalContext::new(Arc::new(crate::Settings::new()), 0, 1);
    for parsed in parse(sql)? {
        let mut params = crate::binder::ParamTypes::new();
        let catalog = crate::binder::NoTables;
        let statement = crate::binder::bind(&parsed, &catalog, &mut params, &context)?;
        if let bound::Statement::Select(select) = &statement {
            for target in select.columns() {
                target.expr.volatility();
                let _ = crate::functions::eval(&target.expr, &[], &[], &context);
            }
        }
    }
    Ok(())
}

#[test]
fn deep_text_is_refused() {
    on_small_stack(|| {
        const MEGABYTE: usize = 1 << 20;
        let texts = [
            format!("SELECT {}1", "(".repeat(MEGABYTE)),
            format!(
                "SELECT {}1{}",
                "(".repeat(MEGABYTE / 2),
                ")".repeat(MEGABYTE / 2)
            ),
            format!("SELECT 1{}", "+1".repeat(MEGABYTE / 2)),
            format!(
                "SELECT {}1",
                "-".repeat(2).replace("--", "- ").repeat(MEGABYTE / 2)
            ),
            format!("SELECT {}true", "NOT ".repeat(MEGABYTE / 4)),
            format!("SELECT 1{}", "::int".repeat(MEGABYTE / 5)),
            format!("SELECT 1{}", " IS NULL".repeat(MEGABYTE / 8)),
            format!("SELECT true{}", " AND true".repeat(MEGABYTE / 9)),
            format!("SELECT 1 WHERE a=1{}", " OR a=1".repeat(MEGABYTE / 7)),
            format!("SELECT {}1", "CASE WHEN true THEN ".repeat(MEGABYTE / 20)),
            format!("SELECT 1{}", " UNION SELECT 1".repeat(MEGABYTE / 15)),
            format!("SELECT 1 FROM {}t", "(SELECT 1 FROM ".repeat(MEGABYTE / 15)),
            format!("SELECT 1 FROM t{}", " JOIN t ON true".repeat(MEGABYTE / 15)),
            format!("SELECT {}1", "EXPLAIN ".repeat(MEGABYTE / 8)),
            format!("{}SELECT 1", "EXPLAIN ".repeat(MEGABYTE / 8)),
            format!("SELECT a{}", "[1]".repeat(MEGABYTE / 3)),
            format!("SELECT 1::int{}", "[]".repeat(MEGABYTE / 2)),
            format!("SELECT a{} ARRAY", "()".repeat(MEGABYTE / 2)),
            format!("SELECT '1'{}", " || '1'".repeat(MEGABYTE / 7)),
            format!("SELECT 1 {}", "BETWEEN 1 AND 2 ".repeat(MEGABYTE / 16)),
            format!("PREPARE a({}) AS SELECT 1", "int[]".repeat(MEGABYTE / 5)),
            format!("COPY ({}) TO STDOUT", "(".repeat(MEGABYTE)),
        ];
        for text in texts {
            let state = match parse_and_bind(&text) {
                Ok(()) => panic!("{} was taken", &text[..40]),
                Err(e) => e.sqlstate(),
            };
            assert!(
                state == SqlState::STATEMENT_TOO_COMPLEX || state == SqlState::SYNTAX_ERROR,
                "{}: {state}",
                &text[..40]
            );
        }
    });
}

#[test]
fn deepest_allowed_statements_fit_stack() {
    on_small_stack(|| {
        for text in [
            format!("SELECT {}1{}", "(".repeat(120), ")".repeat(120)),
            format!("SELECT 1{}", "+1".repeat(240)),
            format!("SELECT '1'{}", " || now()".repeat(200)),
            format!("SELECT true{}", " AND true".repeat(3900)),
            format!(
                "SELECT 1, unnest('{{1}}'::int[]) WHERE true{}",
                " AND true".repeat(3900)
            ),
            format!(
                "SELECT 1, unnest('{{1}}'::int[]) IS NULL{}",
                " AND true".repeat(3900)
            ),
            format!("SELECT 1=1{}", " OR 1=2".repeat(1900)),
            format!("SELECT {}1{}", "abs(".repeat(120), ")".repeat(120)),
            format!(
                "SELECT {}1{}",
                "CASE WHEN random() < 2 THEN ".repeat(120),
                " END".repeat(120)
            ),
            format!(
                "SELECT '{}{}'::jsonb::text",
                "[".repeat(990),
                "]".repeat(990)
            ),
            format!("SELECT '{}{}'::json", "[".repeat(990), "]".repeat(990)),
            format!(
                "SELECT '$ ? ({}@ > 1{})'::jsonpath::text",
                "(".repeat(140),
                ")".repeat(140)
            ),
            format!("SELECT '$ ? ({}@ > 1)'::jsonpath::text", "-".repeat(290)),
            format!("SELECT jsonb_path_exists('1', '{}$')", "-".repeat(290)),
            format!("SELECT 'a' ~ '{}a{}'", "(".repeat(90), ")".repeat(90)),
            format!(
                "SELECT * FROM {}generate_series(1, 2){}",
                "(SELECT * FROM ".repeat(40),
                ") AS s".repeat(40)
            ),
        ] {
            if let Err(e) = parse_and_bind(&text) {
                assert_eq!(
                    e.sqlstate(),
                    SqlState::STATEMENT_TOO_COMPLEX,
                    "{}: {e}",
                    &text[..40]
                );
            }
        }
    });
}

/// The parser once searched each of these texts again from each of its words.
#[test]
fn repeated_words_parse_in_bounded_time() {
    const MEGABYTE: usize = 1 << 20;
    let started = std::time::Instant::now();
    for word in [
        "FETCH FIRST ",
        "FETCH FIRST (",
        "GROUP BY DISTINCT a ",
        "SIMILAR ",
        "substring(a SIMILAR ",
        "substring(a SIMILAR b) ",
    ] {
        let _ = parse(&format!("SELECT {}", word.repeat(MEGABYTE / word.len())));
    }
    assert!(started.elapsed().as_secs() < 60);
}

#[test]
fn bracketed_joins_do_not_take_forever() {
    let started = std::time::Instant::now();
    for depth in [10, 20, 40, 100] {
        let text = format!("SELECT 1 FROM {}t{}", "(".repeat(depth), ")".repeat(depth));
        let _ = parse(&text);
    }
    assert!(started.elapsed().as_secs() < 5);
}

fn ready(sql: &str) -> bound::Statement {
    let mut parsed = parse(sql).expect("it parses");
    assert_eq!(parsed.len(), 1, "{sql}");
    match parsed.remove(0).statement() {
        Statement::Ready(statement) => bound::Statement::clone(statement),
        other => panic!("{sql}: {other:?}"),
    }
}

#[test]
fn text_is_split_into_statements() {
    let texts = |sql: &str| -> Vec<String> {
        parse(sql)
            .expect("it parses")
            .into_iter()
            .map(|p| p.text)
            .collect()
    };
    assert!(texts("").is_empty());
    assert!(texts(" ; /* ; */ ;-- ;\n").is_empty());
    assert_eq!(
        texts("select ';'; begin;; select $$;$$ "),
        ["select ';'", "begin", "select $$;$$"]
    );
}

#[test]
fn transaction_statements() {
    assert_eq!(ready("END"), bound::Statement::Commit { chain: false });
    assert_eq!(
        ready("abort work"),
        bound::Statement::Rollback { chain: false }
    );
    assert_eq!(
        ready("rollback to savepoint \"A b\""),
        bound::Statement::RollbackTo("A b".to_owned())
    );
    assert_eq!(
        ready("BEGIN ISOLATION LEVEL SERIALIZABLE, READ ONLY DEFERRABLE"),
        bound::Statement::Begin {
            start: false,
            modes: bound::TransactionModes {
                isolation: Some(bound::Isolation::Serializable),
                read_only: Some(true),
                deferrable: Some(true),
            },
        }
    );
}

#[test]
fn settings_statements() {
    let set = |name: &str, value: &str| {
        bound::Statement::Set(bound::SetStatement {
            name: name.to_owned(),
            scope: bound::SetScope::Session,
            value: bound::SetValue::Value(value.to_owned()),
        })
    };
    assert_eq!(
        ready("SET search_path TO a, \"B\""),
        set("search_path", "a, \"B\"")
    );
    assert_eq!(
        ready("set extra_float_digits = -3"),
        set("extra_float_digits", "-3")
    );
    assert_eq!(ready("SET TIME ZONE 'UTC'"), set("timezone", "UTC"));
    assert_eq!(
        ready("SET TIME ZONE INTERVAL '+00:00' HOUR TO MINUTE"),
        set("timezone", "<+00>-00")
    );
    assert_eq!(ready("SET NAMES 'utf8'"), set("client_encoding", "utf8"));
    assert_eq!(
        ready("show transaction isolation level"),
        bound::Statement::Show("transaction_isolation".to_owned())
    );
    assert_eq!(ready("reset all"), bound::Statement::Reset(None));
    let vacuum = parse("vacuum analyze t").expect("it parses").remove(0);
    assert!(matches!(
        vacuum.statement(),
        Statement::Maintenance(syntax) if syntax.command == MaintenanceCommand::VacuumAnalyze
    ));
    let listen = |sql: &str, change| assert_eq!(ready(sql), bound::Statement::Listen(change));
    listen("unlisten *", ListenChange::ToNothing);
    listen("unlisten A", ListenChange::NoMore("a".into()));
    listen("LISTEN \"A b\"", ListenChange::To("A b".into()));
    let notify = |sql: &str, payload: &str| {
        let (channel, payload) = ("c".into(), payload.into());
        let wanted = bound::Statement::Notify(Notification { channel, payload });
        assert_eq!(ready(sql), wanted);
    };
    notify("notify c", "");
    notify("notify C, 'it''s'", "it's");
    assert_eq!(
        ready("ALTER SYSTEM DRAIN MACHINE 3"),
        bound::Statement::DrainMachine(3)
    );
    assert_eq!(
        ready("alter system remove machine 12"),
        bound::Statement::RemoveMachine(12)
    );
}

#[test]
fn alter_system_changes_settings() {
    for (sql, change) in [
        (
            "alter system set Log_Statement to 'ddl'",
            SystemChange::Set("log_statement".into(), "ddl".into()),
        ),
        (
            "ALTER SYSTEM SET log_min_duration_statement = 250",
            SystemChange::Set("log_min_duration_statement".into(), "250".into()),
        ),
        (
            "ALTER SYSTEM SET work_mem TO DEFAULT",
            SystemChange::Reset("work_mem".into()),
        ),
        (
            "ALTER SYSTEM RESET work_mem",
            SystemChange::Reset("work_mem".into()),
        ),
        ("ALTER SYSTEM RESET ALL", SystemChange::ResetAll),
    ] {
        assert_eq!(ready(sql), bound::Statement::AlterSystem(change), "{sql}");
    }
}

#[test]
fn syntax_errors_are_postgresqls() {
    for (sql, message, position) in [
        ("selec 1", "syntax error at or near \"selec\"", 1),
        ("select 1 +", "syntax error at end of input", 11),
        ("select 1; selec 2", "syntax error at or near \"selec\"", 11),
        ("select 'é' frm x y", "syntax error at or near \"x\"", 16),
        (
            "select 'abc",
            "unterminated quoted string at or near \"'abc\"",
            8,
        ),
        (
            "select 1 /* x",
            "unterminated /* comment at or near \"/* x\"",
            10,
        ),
        ("begin foo", "syntax error at or near \"foo\"", 7),
        ("alter system drain 3", "syntax error at or near \"3\"", 20),
    ] {
        let error = parse(sql).expect_err("it does not parse");
        assert_eq!(error.sqlstate(), SqlState::SYNTAX_ERROR, "{sql}");
        assert_eq!(error.message(), message, "{sql}");
        assert_eq!(error.fields().position, Some(position), "{sql}");
    }
    let sql = "alter extension hstore add function f()";
    let state = parse_and_bind(sql).expect_err("not ours").sqlstate();
    assert_eq!(state, SqlState::FEATURE_NOT_SUPPORTED);
}

#[test]
fn copy_forms() {
    let options = |sql: &str| match parse(sql).expect("it parses").remove(0).statement() {
        Statement::Copy(copy) => copy.options.clone(),
        other => panic!("{other:?}"),
    };
    let c = options("copy pgbench_accounts from stdin with (freeze on)");
    assert_eq!(c, bound::CopyOptions::default());
    let c = options("COPY t (a, b) TO STDOUT WITH (FORMAT csv, HEADER, DELIMITER ';', NULL 'x')");
    assert_eq!(c.format, bound::CopyFormat::Csv);
    assert_eq!((c.delimiter, c.header), (b';', true));
    assert_eq!(c.null, "x");
    let c = options("copy t from stdin csv header quote '|' escape '\\'");
    assert_eq!((c.quote, c.escape), (b'|', b'\\'));
    options("copy (select 1) to stdout");
    assert!(parse("copy (select 1) from stdin").is_err());
}

#[test]
fn literals_are_lifted() {
    let lifted = lift("UPDATE t SET a = a + -5 WHERE b = 'x''y' AND c > 1.50 LIMIT 3;")
        .expect("there is something to lift");
    assert_eq!(
        lifted.text,
        "UPDATE t SET a = a + $1 WHERE b = $2 AND c > $3 LIMIT $4/*:itni*/"
    );
    assert_eq!(lifted.literals[0], Literal::Int4(-5));
    assert_eq!(lifted.literals[1], Literal::Text("x'y".into()));
    // Statements that must not be lifted.
    for sql in [
        "select a from t order by 1",
        "select a, count(*) from t where b = 1 group by 1",
        "select distinct 1 from t",
        "select cast(a as numeric(10, 2)) from t",
        "select date '2020-01-01'",
        "select a from t where a = $1 and b = 2",
        "begin",
        "select 1; select 2",
    ] {
        assert_eq!(lift(sql), None, "{sql}");
    }
    let lifted = lift("select x::varchar(3), 'a' from t order by x, 2 limit 1").expect("two");
    assert_eq!(
        lifted.text,
        "select x::varchar(3), $1 from t order by x, 2 limit $2/*:ti*/"
    );
    let one = |sql: &str| lift(sql).expect("one").literals.remove(0);
    for (sql, literal) in [
        ("select - 2147483648", Literal::Int4(i32::MIN)),
        ("select 2147483648", Literal::Int8(1 << 31)),
        ("select - 9223372036854775808", Literal::Int8(i64::MIN)),
    ] {
        assert_eq!(one(sql), literal, "{sql}");
    }
    for sql in [
        "9223372036854775808",
        "-9223372036854775809",
        "99999999999999999999",
    ] {
        let value = sql.parse().expect("a number");
        assert_eq!(one(&format!("select {sql}")), Literal::Numeric(value));
    }
    // The number has more digits than any type.
    assert_eq!(lift(&format!("select {}", "9".repeat(60))), None);
}

#[test]
fn keywords_match_case_insensitively() {
    let is = |sql: &str, word| {
        let token = Lexer::new(sql).next_token().expect("a token");
        token.is_some_and(|token| token.is(sql, word))
    };
    for sql in ["select", "SELECT", "sElEcT", "Select(", "select é"] {
        assert!(is(sql, "select"), "{sql}");
    }
    // Characters beyond ASCII are compared unchanged, although the same bit distinguishes their
    // case.
    for (sql, word) in [
        ("é", "É"),
        ("selec", "select"),
        ("selectt", "select"),
        ("selecté", "select"),
        ("\"select\"", "select"),
        ("'select'", "select"),
    ] {
        assert!(!is(sql, word), "{sql}");
    }
}

#[test]
fn storage_parameter_placeholder_is_never_longer() {
    for short in ["WITH(x)", "WITH (x=1)", "WITH (fillfactor=70)"] {
        let sql = format!(
            "CREATE TABLE t (\"é\" int, PRIMARY KEY (\"é\") {short}, UNIQUE (\"éé\") \
             WITH (fillfactor=70))"
        );
        assert_eq!(parse(&sql).is_ok(), short.contains("fill"), "{sql}");
    }
}

#[test]
fn nested_brackets_with_errors_are_read_in_linear_time() {
    for part in [
        "(VALUES ((",
        "((SELECT ",
        "(((VALUES (",
        "1 IN ((SELECT ",
        "1 IN (SELECT ",
        "(SELECT 1 FROM ((SELECT ",
        "EXISTS (((SELECT ",
        "1 = ANY ((SELECT ",
    ] {
        let text = format!("SELECT {}INSERT ;(", part.repeat(60));
        assert!(parse(&text).is_err(), "{part}");
    }
}

#[test]
fn subscripts_within_subscripts_of_other_targets_are_refused() {
    for text in [
        "szati.n_.Su[[[[n_.SEt FROM[[[[t[[*[[n_.SEt FROM[[[[n_.SE[[n_.SEt FROM[[n_.SEt FROM STDIN",
        "SELECT a[SET b[SET c[1]]]",
        "UPDATE t SET a[SET b[1] = 2] = 3",
    ] {
        assert!(parse(text).is_err(), "{text}");
    }
}

#[test]
fn earlier_patches_do_not_shift_partition_clause() {
    for text in [
        "CREATE TABLE q PARTITION OF p FOR VALUES FROM (10 SET a [1 : 2 2] = 5) TO (20) \
         PARTITION BY LIST (n)",
        "CREATE TABLE q (a int DEFAULT (SET a[1] = 5, b[é] = 6)) PARTITION BY LIST (n)",
    ] {
        assert!(parse(text).is_err(), "{text}");
    }
}

#[test]
fn partition_bounds_follow_names_of_any_characters() {
    for text in [
        "ALTER TABLE \"éééééééééééééééééééé\" ATTACH PARTITION p DEFAULT",
        "ALTER TABLE \"éééééééééé\" ATTACH PARTITION \"ééé\" FOR VALUES IN ('éééé')",
        "ALTER TABLE \"日本\"\nATTACH PARTITION \"語\" FOR VALUES IN ('語')",
        "CREATE TABLE \"é\" (\"éé\" text COLLATE \"C\") PARTITION BY LIST (\"éé\") \
         WITH (fillfactor = 70)",
    ] {
        assert!(parse(text).is_ok(), "{text}");
    }
}

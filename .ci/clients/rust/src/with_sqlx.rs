//! sqlx: a pool, values, transactions, streams of rows, errors, and its migrations.

use std::borrow::Cow;

use futures_util::TryStreamExt;
use sqlx::migrate::{Migration, MigrationType, Migrator};
use sqlx::postgres::{PgConnectOptions, PgListener, PgPool, PgPoolOptions};
use sqlx::types::chrono::{DateTime, NaiveDate, Utc};
use sqlx::types::{Decimal, Json, Uuid};
use sqlx::{Acquire, Connection, Executor, PgConnection, Row};

use crate::{Checked, Urls, check, same};

pub async fn run(urls: &Urls) {
    check("connecting", connecting(urls)).await;
    check("values_come_back", values_come_back(urls)).await;
    check("rows_become_structures", rows_become_structures(urls)).await;
    check(
        "transactions_and_savepoints",
        transactions_and_savepoints(urls),
    )
    .await;
    check("rows_are_streamed", rows_are_streamed(urls)).await;
    check("errors_say_what", errors_say_what(urls)).await;
    check("statements_are_described", statements_are_described(urls)).await;
    check(
        "prepared_statements_survive_changes",
        prepared_statements_survive_changes(urls),
    )
    .await;
    check("copies", copies(urls)).await;
    check("enums", enums(urls)).await;
    check("notifications_arrive", notifications_arrive(urls)).await;
    check("migrations", migrations(urls)).await;
    check("migrations_without_locks", migrations_without_locks(urls)).await;
}

async fn pool(urls: &Urls) -> Result<PgPool, sqlx::Error> {
    PgPoolOptions::new()
        .max_connections(3)
        .connect(&urls.url)
        .await
}

async fn connecting(urls: &Urls) -> Checked {
    let options: PgConnectOptions = urls
        .url
        .parse::<PgConnectOptions>()?
        .application_name("checks")
        .options([("statement_timeout", "30s")]);
    let mut c = PgConnection::connect_with(&options).await?;
    c.ping().await?;
    same(
        sqlx::query_scalar::<_, String>("SHOW application_name")
            .fetch_one(&mut c)
            .await?,
        "checks",
    )?;
    same(
        sqlx::query_scalar::<_, String>("SHOW statement_timeout")
            .fetch_one(&mut c)
            .await?,
        "30s",
    )?;
    c.close().await?;
    Ok(())
}

async fn values_come_back(urls: &Urls) -> Checked {
    let pool = pool(urls).await?;
    let moment: DateTime<Utc> = DateTime::from_timestamp(1_709_208_000, 1000).ok_or("a time")?;
    let price: Decimal = "-12345.6700".parse()?;
    let row = sqlx::query("SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10")
        .bind(true)
        .bind(i64::MIN)
        .bind(0.5f64)
        .bind("it's žluť")
        .bind(vec![0u8, 255])
        .bind(moment)
        .bind(Uuid::from_u128(7))
        .bind(Json(vec![1, 2]))
        .bind(price)
        .bind(vec!["a", "b"])
        .fetch_one(&pool)
        .await?;
    same(
        (
            row.get::<bool, _>(0),
            row.get::<i64, _>(1),
            row.get::<f64, _>(2),
        ),
        (true, i64::MIN, 0.5),
    )?;
    same(
        (row.get::<&str, _>(3), row.get::<&[u8], _>(4)),
        ("it's žluť", [0, 255].as_slice()),
    )?;
    same(
        (row.get::<DateTime<Utc>, _>(5), row.get::<Uuid, _>(6)),
        (moment, Uuid::from_u128(7)),
    )?;
    same(
        (row.get::<Json<Vec<i32>>, _>(7).0, row.get::<Decimal, _>(8)),
        (vec![1, 2], price),
    )?;
    same(row.get::<Vec<String>, _>(9), vec!["a", "b"])
}

#[derive(Debug, PartialEq, sqlx::FromRow)]
struct Account {
    id: i32,
    owner: String,
    since: Option<NaiveDate>,
}

async fn rows_become_structures(urls: &Urls) -> Checked {
    let pool = pool(urls).await?;
    pool.execute("CREATE TABLE account (id serial PRIMARY KEY, owner text NOT NULL, since date)")
        .await?;
    let id: i32 = sqlx::query_scalar("INSERT INTO account (owner) VALUES ($1) RETURNING id")
        .bind("Ada")
        .fetch_one(&pool)
        .await?;
    let found =
        sqlx::query_as::<_, Account>("SELECT id, owner, since FROM account WHERE id = ANY($1)")
            .bind(vec![id])
            .fetch_all(&pool)
            .await?;
    same(
        found,
        vec![Account {
            id,
            owner: "Ada".to_owned(),
            since: None,
        }],
    )?;
    let done = sqlx::query("UPDATE account SET since = $1")
        .bind(NaiveDate::from_ymd_opt(2024, 2, 29))
        .execute(&pool)
        .await?;
    same(done.rows_affected(), 1)
}

async fn transactions_and_savepoints(urls: &Urls) -> Checked {
    let pool = pool(urls).await?;
    pool.execute("CREATE TABLE blocks (x int)").await?;
    let mut outer = pool.begin().await?;
    outer.execute("INSERT INTO blocks VALUES (1)").await?;
    let mut inner = outer.begin().await?;
    inner.execute("INSERT INTO blocks VALUES (2)").await?;
    same(inner.execute("SELECT 1/0").await.is_err(), true)?;
    inner.rollback().await?;
    outer.commit().await?;
    let mut dropped = pool.begin().await?;
    dropped.execute("DELETE FROM blocks").await?;
    drop(dropped);
    same(
        sqlx::query_scalar::<_, i64>("SELECT count(*) FROM blocks")
            .fetch_one(&pool)
            .await?,
        1,
    )
}

async fn rows_are_streamed(urls: &Urls) -> Checked {
    let pool = pool(urls).await?;
    let mut rows = sqlx::query_scalar::<_, i32>("SELECT generate_series(1, $1)")
        .bind(3000)
        .fetch(&pool);
    let mut total = 0;
    while let Some(x) = rows.try_next().await? {
        total += x;
    }
    drop(rows);
    same(total, 3000 * 3001 / 2)?;
    // One that is left in the middle.
    let first = sqlx::query_scalar::<_, i32>("SELECT generate_series(1, 100000)")
        .fetch_one(&pool)
        .await?;
    same(first, 1)?;
    let several = sqlx::raw_sql("SELECT 1; SELECT 2, 3")
        .fetch_all(&pool)
        .await?;
    same(
        several.iter().map(|row| row.len()).collect::<Vec<_>>(),
        vec![1, 2],
    )
}

async fn errors_say_what(urls: &Urls) -> Checked {
    let pool = pool(urls).await?;
    pool.execute("CREATE TABLE wrong (x int CONSTRAINT wrong_x UNIQUE, y int CHECK (y > 0))")
        .await?;
    pool.execute("INSERT INTO wrong VALUES (1, 1)").await?;
    let error = sqlx::query("INSERT INTO wrong VALUES ($1, 1)")
        .bind(1)
        .execute(&pool)
        .await
        .err()
        .ok_or("no error")?;
    let error = error.as_database_error().ok_or("of the server")?;
    same(
        (
            error.constraint(),
            error.is_unique_violation(),
            error.table(),
        ),
        (Some("wrong_x"), true, Some("wrong")),
    )?;
    let error = pool
        .execute("INSERT INTO wrong VALUES (2, 0)")
        .await
        .err()
        .ok_or("no error")?;
    same(
        error
            .as_database_error()
            .map(|error| error.is_check_violation()),
        Some(true),
    )
}

/// Checks the descriptions that the macros of sqlx read at compile time.
async fn statements_are_described(urls: &Urls) -> Checked {
    let mut c = PgConnection::connect(&urls.url).await?;
    c.execute("CREATE TABLE described (a int NOT NULL, b text)")
        .await?;
    let described = c
        .describe("SELECT a, b, a + 1 AS c FROM described WHERE a = $1")
        .await?;
    same(
        (0..3).map(|k| described.nullable(k)).collect::<Vec<_>>(),
        vec![Some(false), Some(true), None],
    )
}

async fn prepared_statements_survive_changes(urls: &Urls) -> Checked {
    let mut c = PgConnection::connect(&urls.url).await?;
    c.execute("CREATE TABLE changing (x int, y text)").await?;
    c.execute("INSERT INTO changing VALUES (1, 'a')").await?;
    let text = "SELECT y FROM changing WHERE x = $1";
    same(
        sqlx::query_scalar::<_, String>(text)
            .bind(1)
            .fetch_one(&mut c)
            .await?,
        "a",
    )?;
    PgConnection::connect(&urls.other)
        .await?
        .execute("ALTER TABLE changing ADD COLUMN z int")
        .await?;
    same(
        sqlx::query_scalar::<_, String>(text)
            .bind(1)
            .fetch_one(&mut c)
            .await?,
        "a",
    )
}

async fn copies(urls: &Urls) -> Checked {
    let mut c = PgConnection::connect(&urls.url).await?;
    c.execute("CREATE TABLE copied (x int, y text)").await?;
    let mut copy = c.copy_in_raw("COPY copied FROM STDIN (FORMAT csv)").await?;
    copy.send(b"1,a\n2,b\n".as_slice()).await?;
    same(copy.finish().await?, 2)?;
    let chunks: Vec<_> = c
        .copy_out_raw("COPY (SELECT * FROM copied ORDER BY x) TO STDOUT")
        .await?
        .try_collect()
        .await?;
    same(chunks.concat(), b"1\ta\n2\tb\n".to_vec())
}

#[derive(Debug, PartialEq, sqlx::Type)]
#[sqlx(type_name = "mood", rename_all = "lowercase")]
enum Mood {
    Sad,
    Happy,
}

async fn enums(urls: &Urls) -> Checked {
    let pool = pool(urls).await?;
    pool.execute("CREATE TYPE mood AS ENUM ('sad', 'happy')")
        .await?;
    same(
        sqlx::query_scalar::<_, Mood>("SELECT $1")
            .bind(Mood::Happy)
            .fetch_one(&pool)
            .await?,
        Mood::Happy,
    )?;
    same(
        sqlx::query_scalar::<_, Mood>("SELECT 'sad'::mood")
            .fetch_one(&pool)
            .await?,
        Mood::Sad,
    )
}

async fn notifications_arrive(urls: &Urls) -> Checked {
    let mut listener = PgListener::connect(&urls.url).await?;
    listener.listen("news").await?;
    PgConnection::connect(&urls.other)
        .await?
        .execute("NOTIFY news, 'one'")
        .await?;
    let heard = listener.recv().await?;
    same((heard.channel(), heard.payload()), ("news", "one"))
}

fn migrator(locking: bool, versions: &[(i64, &'static str, &'static str)]) -> Migrator {
    let migrations = versions.iter().flat_map(|(version, up, down)| {
        [
            (MigrationType::ReversibleUp, *up),
            (MigrationType::ReversibleDown, *down),
        ]
        .map(|(kind, sql)| {
            Migration::new(
                *version,
                Cow::Borrowed("step"),
                kind,
                Cow::Borrowed(sql),
                false,
            )
        })
    });
    Migrator {
        migrations: Cow::Owned(migrations.collect()),
        locking,
        ..Migrator::DEFAULT
    }
}

const STEPS: [(i64, &str, &str); 2] = [
    (
        1,
        "CREATE TABLE step (id int PRIMARY KEY); INSERT INTO step VALUES (1)",
        "DROP TABLE step",
    ),
    (
        2,
        "ALTER TABLE step ADD COLUMN name text NOT NULL DEFAULT 'x'; \
         CREATE INDEX step_name ON step (name)",
        "ALTER TABLE step DROP COLUMN name",
    ),
];

async fn migrate(urls: &Urls, locking: bool) -> Checked {
    let pool = pool(urls).await?;
    pool.execute("DROP TABLE IF EXISTS step; DROP TABLE IF EXISTS _sqlx_migrations")
        .await?;
    migrator(locking, &STEPS[..1]).run(&pool).await?;
    // All of them again, by two at once: each step is taken once.
    if locking {
        let other = PgPool::connect(&urls.other).await?;
        let (whole, same_whole) = (migrator(true, &STEPS), migrator(true, &STEPS));
        let (one, two) = futures_util::future::join(whole.run(&pool), same_whole.run(&other)).await;
        one?;
        two?;
    } else {
        migrator(false, &STEPS).run(&pool).await?;
    }
    same(
        sqlx::query_scalar::<_, String>("SELECT name FROM step")
            .fetch_one(&pool)
            .await?,
        "x",
    )?;
    // A step that fails leaves nothing.
    let broken = [
        STEPS[0],
        STEPS[1],
        (3, "CREATE TABLE half (x int); SELECT 1/0", ""),
    ];
    // The failed migrator keeps its lock with its connection, and another connection of the same
    // pool would wait for that lock.
    let alone = self::pool(urls).await?;
    same(migrator(locking, &broken).run(&alone).await.is_err(), true)?;
    alone.close().await;
    same(
        sqlx::query_scalar::<_, i64>("SELECT count(*) FROM pg_class WHERE relname = 'half'")
            .fetch_one(&pool)
            .await?,
        0,
    )?;
    migrator(locking, &STEPS).undo(&pool, 1).await?;
    same(
        sqlx::query_scalar::<_, i64>("SELECT count(*) FROM _sqlx_migrations WHERE success")
            .fetch_one(&pool)
            .await?,
        1,
    )?;
    same(
        sqlx::query("SELECT name FROM step")
            .fetch_one(&pool)
            .await
            .is_err(),
        true,
    )
}

async fn migrations(urls: &Urls) -> Checked {
    migrate(urls, true).await
}

async fn migrations_without_locks(urls: &Urls) -> Checked {
    migrate(urls, false).await
}

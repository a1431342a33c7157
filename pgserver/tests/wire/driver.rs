//! A real driver: tokio-postgres, which uses only the extended protocol and only binary format.

use crate::common::server;
use fencepost_pgserver::Server;
use tokio_postgres::{Client, NoTls, error::SqlState};

async fn connect(server: &Server) -> Client {
    let mut config = tokio_postgres::Config::new();
    config.host("127.0.0.1").port(server.local_addr().port());
    config.user("postgres").dbname("postgres");
    let (client, connection) = config.connect(NoTls).await.expect("a server");
    tokio::spawn(connection);
    client
}

#[tokio::test]
async fn values_go_both_ways_in_binary() {
    let server = server();
    let client = connect(&server).await;
    let sql = "SELECT $1::int2, $2::int4, $3::int8, $4::float4, $5::float8, $6::text, $7::bool, \
               $8::bytea, $9::text";
    let row = client
        .query_one(
            sql,
            &[
                &1i16,
                &-2i32,
                &(1i64 << 40),
                &1.5f32,
                &-2.5f64,
                &"naïve",
                &true,
                &&b"\0\xff"[..],
                &None::<&str>,
            ],
        )
        .await
        .expect("a row");
    assert_eq!(
        (
            row.get::<_, i16>(0),
            row.get::<_, i32>(1),
            row.get::<_, i64>(2)
        ),
        (1, -2, 1 << 40)
    );
    assert_eq!((row.get::<_, f32>(3), row.get::<_, f64>(4)), (1.5, -2.5));
    assert_eq!(
        (row.get::<_, &str>(5), row.get::<_, bool>(6)),
        ("naïve", true)
    );
    assert_eq!(row.get::<_, &[u8]>(7), b"\0\xff");
    assert_eq!(row.get::<_, Option<&str>>(8), None);
}

#[tokio::test]
async fn arrays_go_both_ways_in_binary() {
    let server = server();
    let client = connect(&server).await;
    client
        .batch_execute("CREATE TABLE t (id int PRIMARY KEY, v text[], n bigint[])")
        .await
        .expect("a table");
    let words = vec![Some("a b"), None, Some("")];
    for id in 1..=3i32 {
        let numbers: Vec<i64> = (0..i64::from(id)).collect();
        client
            .execute(
                "INSERT INTO t VALUES ($1, $2, $3)",
                &[&id, &words, &numbers],
            )
            .await
            .expect("inserted");
    }
    let rows = client
        .query(
            "SELECT id, v, n FROM t WHERE id = ANY($1) ORDER BY id",
            &[&vec![3i32, 1, 7]],
        )
        .await
        .expect("rows");
    let found: Vec<i32> = rows.iter().map(|row| row.get(0)).collect();
    assert_eq!(found, [1, 3]);
    assert_eq!(rows[0].get::<_, Vec<Option<&str>>>(1), words);
    assert_eq!(rows[1].get::<_, Vec<i64>>(2), [0, 1, 2]);
    let all = client
        .query_one(
            "SELECT array_agg(x) FROM unnest($1::text[]) AS x",
            &[&words],
        )
        .await
        .expect("a row");
    assert_eq!(all.get::<_, Vec<Option<&str>>>(0), words);
    let none = client
        .query("SELECT id FROM t WHERE id = ANY($1)", &[&Vec::<i32>::new()])
        .await
        .expect("no rows");
    assert!(none.is_empty());
}

#[tokio::test]
async fn driver_commits_and_rolls_back() {
    let server = server();
    let mut client = connect(&server).await;
    client
        .batch_execute("CREATE TABLE t (id int PRIMARY KEY, v text)")
        .await
        .expect("a table");
    let insert = client
        .prepare("INSERT INTO t VALUES ($1, $2)")
        .await
        .expect("prepared");
    let tx = client.transaction().await.expect("begun");
    assert_eq!(
        tx.execute(&insert, &[&1, &"one"]).await.expect("inserted"),
        1
    );
    tx.commit().await.expect("committed");
    let tx = client.transaction().await.expect("begun");
    tx.execute(&insert, &[&2, &"two"]).await.expect("inserted");
    let error = tx
        .execute(&insert, &[&1, &"again"])
        .await
        .expect_err("a duplicate");
    assert_eq!(error.code(), Some(&SqlState::UNIQUE_VIOLATION));
    let error = error.as_db_error().expect("of the server");
    assert_eq!(
        (error.table(), error.constraint()),
        (Some("t"), Some("t_pkey"))
    );
    tx.rollback().await.expect("rolled back");
    let rows = client
        .query("SELECT id, v FROM t ORDER BY id", &[])
        .await
        .expect("rows");
    assert_eq!(rows.len(), 1);
    assert_eq!(
        (rows[0].get::<_, i32>(0), rows[0].get::<_, &str>(1)),
        (1, "one")
    );
}

#[tokio::test]
async fn portals_page_through_a_result() {
    let server = server();
    let mut client = connect(&server).await;
    let tx = client.transaction().await.expect("begun");
    let portal = tx
        .bind("SELECT g FROM generate_series(1, 10) AS g", &[])
        .await
        .expect("bound");
    let mut seen = Vec::new();
    loop {
        let rows = tx.query_portal(&portal, 3).await.expect("rows");
        if rows.is_empty() {
            break;
        }
        seen.extend(rows.iter().map(|row| row.get::<_, i32>(0)));
    }
    assert_eq!(seen, (1..=10).collect::<Vec<_>>());
}

#[tokio::test]
async fn hundred_pipelined_statements_keep_order() {
    let server = server();
    let client = connect(&server).await;
    let statement = client
        .prepare("SELECT $1::int4 * 2")
        .await
        .expect("prepared");
    let client = std::sync::Arc::new(client);
    let mut tasks = Vec::new();
    for n in 0..100i32 {
        let (client, statement) = (client.clone(), statement.clone());
        tasks.push(tokio::spawn(async move {
            client
                .query_one(&statement, &[&n])
                .await
                .map(|row| row.get::<_, i32>(0))
        }));
    }
    for (n, task) in tasks.into_iter().enumerate() {
        let doubled = task.await.expect("run").expect("a row");
        assert_eq!(doubled, n as i32 * 2);
    }
}

#[tokio::test]
async fn cancel_token_cancels_statement() {
    let server = server();
    let holder = connect(&server).await;
    holder
        .batch_execute("CREATE TABLE t (id int PRIMARY KEY, v int); INSERT INTO t VALUES (1, 0)")
        .await
        .expect("a table");
    holder
        .batch_execute("BEGIN; UPDATE t SET v = 1")
        .await
        .expect("updated");
    let waiter = connect(&server).await;
    let token = waiter.cancel_token();
    let task = tokio::spawn(async move { waiter.batch_execute("BEGIN; UPDATE t SET v = 2").await });
    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    token.cancel_query(NoTls).await.expect("asked");
    let error = task.await.expect("run").expect_err("cancelled");
    assert_eq!(error.code(), Some(&SqlState::QUERY_CANCELED));
}

#[tokio::test]
async fn long_values_go_both_ways() {
    let server = server();
    let client = connect(&server).await;
    client
        .batch_execute("CREATE TABLE t (id int PRIMARY KEY, v bytea)")
        .await
        .expect("a table");
    let bytes: Vec<u8> = (0..64u32 << 20).map(|i| (i >> 8 ^ i) as u8).collect();
    let sql = "INSERT INTO t VALUES (1, $1)";
    assert_eq!(client.execute(sql, &[&bytes]).await.expect("a row"), 1);
    let row = client.query_one("SELECT v FROM t WHERE id = 1", &[]).await;
    assert!(row.expect("a row").get::<_, &[u8]>(0) == bytes);
}

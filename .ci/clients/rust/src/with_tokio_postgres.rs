//! Checks of tokio-postgres, which uses only the binary format: values, pipelines, portals, COPY,
//! cancel requests, errors, and the types that it looks up.

use std::pin::pin;
use std::time::Duration;

use futures_util::{SinkExt, StreamExt, TryStreamExt, future};
use tokio_postgres::types::{Kind, Type};
use tokio_postgres::{AsyncMessage, Client, NoTls, SimpleQueryMessage};

use crate::{Checked, Urls, check, same};

async fn connect(url: &str) -> Result<Client, tokio_postgres::Error> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

fn state(error: &tokio_postgres::Error) -> &str {
    error.code().map_or("", |code| code.code())
}

pub async fn run(urls: &Urls) {
    check("values_come_back", values_come_back(urls)).await;
    check("statements_are_described", statements_are_described(urls)).await;
    check("statements_of_a_text", statements_of_a_text(urls)).await;
    check(
        "transactions_and_savepoints",
        transactions_and_savepoints(urls),
    )
    .await;
    check("pipelines", pipelines(urls)).await;
    check("portals", portals(urls)).await;
    check("copies", copies(urls)).await;
    check("copies_in_binary", copies_in_binary(urls)).await;
    check("cancelling", cancelling(urls)).await;
    check("errors_say_where_and_what", errors_say_where_and_what(urls)).await;
    check("types_are_looked_up", types_are_looked_up(urls)).await;
    check("notices_and_notifications", notices_and_notifications(urls)).await;
}

async fn values_come_back(urls: &Urls) -> Checked {
    let client = connect(&urls.url).await?;
    let text = "SELECT $1::bool, $2::int2, $3::int4, $4::int8, $5::float4, $6::float8, $7::text, \
                $8::bytea, $9::int4[], $10::jsonb, \
                $11::uuid, $12::timestamptz, $13::date, $14::text[], $15::varchar(3)";
    let document = sqlx::types::JsonValue::from(vec![1, 2]);
    let id = sqlx::types::Uuid::from_u128(7);
    let moment =
        sqlx::types::chrono::DateTime::from_timestamp(1_709_208_000, 1000).ok_or("a time")?;
    let day = moment.date_naive();
    let row = client
        .query_one(
            text,
            &[
                &true,
                &-5i16,
                &i32::MAX,
                &i64::MIN,
                &1.5f32,
                &0.1f64,
                &"it's žluť",
                &[0u8, 255].as_slice(),
                &vec![Some(1), None],
                &document,
                &id,
                &moment,
                &day,
                &vec!["a", ""],
                &None::<&str>,
            ],
        )
        .await?;
    same(
        (
            row.get::<_, bool>(0),
            row.get::<_, i16>(1),
            row.get::<_, i32>(2),
        ),
        (true, -5, i32::MAX),
    )?;
    same(
        (
            row.get::<_, i64>(3),
            row.get::<_, f32>(4),
            row.get::<_, f64>(5),
        ),
        (i64::MIN, 1.5, 0.1),
    )?;
    same(row.get::<_, &str>(6), "it's žluť")?;
    same(row.get::<_, &[u8]>(7), [0, 255].as_slice())?;
    same(row.get::<_, Vec<Option<i32>>>(8), vec![Some(1), None])?;
    same(row.get::<_, sqlx::types::JsonValue>(9), document)?;
    same(row.get::<_, sqlx::types::Uuid>(10), id)?;
    same(
        row.get::<_, sqlx::types::chrono::DateTime<sqlx::types::chrono::Utc>>(11),
        moment,
    )?;
    same(row.get::<_, sqlx::types::chrono::NaiveDate>(12), day)?;
    same(row.get::<_, Vec<&str>>(13), vec!["a", ""])?;
    same(row.get::<_, Option<&str>>(14), None::<&str>)
}

async fn statements_are_described(urls: &Urls) -> Checked {
    let client = connect(&urls.url).await?;
    client
        .batch_execute("CREATE TABLE described (a int, b varchar(7), c numeric(10,3))")
        .await?;
    let statement = client
        .prepare("SELECT a, b, c, 1 AS d FROM described WHERE a = $1 AND b = $2")
        .await?;
    same(
        statement.params(),
        [Type::INT4, Type::VARCHAR].map(|ty| if ty == Type::VARCHAR { Type::TEXT } else { ty }),
    )?;
    let columns: Vec<_> = statement
        .columns()
        .iter()
        .map(|c| (c.name(), c.type_().clone(), c.column_id()))
        .collect();
    same(
        columns,
        vec![
            ("a", Type::INT4, Some(1)),
            ("b", Type::VARCHAR, Some(2)),
            ("c", Type::NUMERIC, Some(3)),
            ("d", Type::INT4, None),
        ],
    )?;
    same(
        client
            .execute("INSERT INTO described VALUES (1, 'x', 2), (2, 'y', 3)", &[])
            .await?,
        2,
    )?;
    same(
        client.query_opt(&statement, &[&1, &"x"]).await?.is_some(),
        true,
    )?;
    same(
        client.query_opt(&statement, &[&1, &"z"]).await?.is_some(),
        false,
    )
}

async fn statements_of_a_text(urls: &Urls) -> Checked {
    let client = connect(&urls.url).await?;
    let messages = client
        .simple_query(
            "CREATE TABLE texts (x int); INSERT INTO texts \
                                        VALUES (1), (2); SELECT x FROM texts ORDER BY x",
        )
        .await?;
    let mut seen = Vec::new();
    for message in &messages {
        match message {
            SimpleQueryMessage::Row(row) => seen.push(row.get(0).unwrap_or("NULL").to_owned()),
            SimpleQueryMessage::CommandComplete(count) => seen.push(format!("done {count}")),
            _ => {}
        }
    }
    same(seen, vec!["done 0", "done 2", "1", "2", "done 2"])
}

async fn transactions_and_savepoints(urls: &Urls) -> Checked {
    let mut client = connect(&urls.url).await?;
    client.batch_execute("CREATE TABLE blocks (x int)").await?;
    let mut transaction = client
        .build_transaction()
        .isolation_level(tokio_postgres::IsolationLevel::Serializable)
        .start()
        .await?;
    transaction
        .execute("INSERT INTO blocks VALUES (1)", &[])
        .await?;
    let savepoint = transaction.savepoint("s").await?;
    let error = savepoint
        .execute("SELECT 1/0", &[])
        .await
        .err()
        .ok_or("no error")?;
    same(state(&error), "22012")?;
    savepoint.rollback().await?;
    transaction
        .execute("INSERT INTO blocks VALUES (2)", &[])
        .await?;
    transaction.commit().await?;
    // One that is dropped is rolled back.
    client
        .transaction()
        .await?
        .execute("DELETE FROM blocks", &[])
        .await?;
    same(
        client
            .query_one("SELECT count(*) FROM blocks", &[])
            .await?
            .get::<_, i64>(0),
        2,
    )
}

async fn pipelines(urls: &Urls) -> Checked {
    let client = connect(&urls.url).await?;
    let statement = client.prepare("SELECT $1::int * 2").await?;
    let numbers: Vec<i32> = (0..300).collect();
    let parameters: Vec<[&(dyn tokio_postgres::types::ToSql + Sync); 1]> =
        numbers.iter().map(|n| [n as _]).collect();
    let all = parameters
        .iter()
        .map(|parameters| client.query_one(&statement, parameters));
    let rows = future::try_join_all(all).await?;
    same(
        rows.iter().map(|row| row.get(0)).collect::<Vec<i32>>(),
        (0..300).map(|k| k * 2).collect::<Vec<i32>>(),
    )
}

async fn portals(urls: &Urls) -> Checked {
    let mut client = connect(&urls.url).await?;
    let transaction = client.transaction().await?;
    let portal = transaction
        .bind("SELECT x FROM generate_series(1, $1) AS g(x)", &[&250i32])
        .await?;
    let mut sizes = Vec::new();
    loop {
        let rows = transaction.query_portal(&portal, 100).await?;
        sizes.push(rows.len());
        if rows.len() < 100 {
            break;
        }
        transaction.query_one("SELECT 'between'", &[]).await?;
    }
    same(sizes, vec![100, 100, 50])
}

async fn copies(urls: &Urls) -> Checked {
    let client = connect(&urls.url).await?;
    client
        .batch_execute("CREATE TABLE copied (x int PRIMARY KEY, y text)")
        .await?;
    let mut sink = pin!(client.copy_in("COPY copied FROM STDIN").await?);
    sink.send(tokio_postgres::types::private::BytesMut::from("1\ta\n2\t\\N\n").freeze())
        .await?;
    same(sink.finish().await?, 2)?;
    let out = client
        .copy_out("COPY (SELECT * FROM copied ORDER BY x) TO STDOUT")
        .await?;
    let out: Vec<_> = pin!(out).try_collect().await?;
    same(out.concat(), b"1\ta\n2\t\\N\n".to_vec())
}

async fn copies_in_binary(urls: &Urls) -> Checked {
    let client = connect(&urls.url).await?;
    client
        .batch_execute("CREATE TABLE copied_binary (x int PRIMARY KEY, y text)")
        .await?;
    let sink = client
        .copy_in("COPY copied_binary FROM STDIN BINARY")
        .await?;
    let mut writer = pin!(tokio_postgres::binary_copy::BinaryCopyInWriter::new(
        sink,
        &[Type::INT4, Type::TEXT]
    ));
    for k in 0..100i32 {
        writer
            .as_mut()
            .write(&[&k, &(k % 2 == 0).then(|| k.to_string())])
            .await?;
    }
    same(writer.finish().await?, 100)?;
    let out = client
        .copy_out("COPY (SELECT * FROM copied_binary ORDER BY x) TO STDOUT BINARY")
        .await?;
    let rows =
        tokio_postgres::binary_copy::BinaryCopyOutStream::new(out, &[Type::INT4, Type::TEXT]);
    let rows: Vec<_> = pin!(rows).try_collect().await?;
    same(rows.len(), 100)?;
    same(
        (
            rows[2].get::<i32>(0),
            rows[2].get::<Option<&str>>(1),
            rows[3].get::<Option<&str>>(1),
        ),
        (2, Some("2"), None),
    )
}

async fn cancelling(urls: &Urls) -> Checked {
    let client = connect(&urls.url).await?;
    let token = client.cancel_token();
    let sleeping = client.query("SELECT pg_sleep(50)", &[]);
    let cancelling = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        token.cancel_query(NoTls).await
    };
    let (slept, cancelled) = future::join(sleeping, cancelling).await;
    cancelled?;
    same(state(&slept.err().ok_or("no error")?), "57014")?;
    same(client.query_one("SELECT 1", &[]).await?.get::<_, i32>(0), 1)
}

async fn errors_say_where_and_what(urls: &Urls) -> Checked {
    let client = connect(&urls.url).await?;
    client
        .batch_execute(
            "CREATE TABLE wrong (x int CONSTRAINT wrong_x UNIQUE); INSERT INTO wrong VALUES (1)",
        )
        .await?;
    let error = client
        .execute("INSERT INTO wrong VALUES ($1)", &[&1])
        .await
        .err()
        .ok_or("no error")?;
    let fields = error.as_db_error().ok_or("of the server")?;
    same(
        (fields.code().code(), fields.constraint(), fields.table()),
        ("23505", Some("wrong_x"), Some("wrong")),
    )?;
    same(fields.detail(), Some("Key (x)=(1) already exists."))?;
    let error = client
        .query("SELECT nothing", &[])
        .await
        .err()
        .ok_or("no error")?;
    let position = error
        .as_db_error()
        .and_then(|fields| fields.position())
        .cloned();
    same(
        position,
        Some(tokio_postgres::error::ErrorPosition::Original(8)),
    )
}

async fn types_are_looked_up(urls: &Urls) -> Checked {
    let client = connect(&urls.url).await?;
    client
        .batch_execute(
            "CREATE TYPE mood AS ENUM ('sad', 'happy'); CREATE TABLE moods (m mood, n mood[])",
        )
        .await?;
    let statement = client.prepare("SELECT m, n FROM moods").await?;
    let kinds: Vec<_> = statement
        .columns()
        .iter()
        .map(|column| column.type_().kind().clone())
        .collect();
    same(
        &kinds[0],
        &Kind::Enum(vec!["sad".to_owned(), "happy".to_owned()]),
    )?;
    same(
        matches!(&kinds[1], Kind::Array(of) if of.name() == "mood"),
        true,
    )
}

async fn notices_and_notifications(urls: &Urls) -> Checked {
    let (client, mut connection) = tokio_postgres::connect(&urls.url, NoTls).await?;
    let (sender, mut heard) = tokio::sync::mpsc::unbounded_channel();
    tokio::spawn(async move {
        let mut messages = futures_util::stream::poll_fn(move |cx| connection.poll_message(cx));
        while let Some(Ok(message)) = messages.next().await {
            if let AsyncMessage::Notification(message) = message {
                // The receiver is dropped when the check ends; ignore the send error.
                let _ = sender.send((message.channel().to_owned(), message.payload().to_owned()));
            }
        }
    });
    client.batch_execute("LISTEN news").await?;
    connect(&urls.other)
        .await?
        .execute("SELECT pg_notify('news', $1)", &[&"one"])
        .await?;
    same(
        heard.recv().await,
        Some(("news".to_owned(), "one".to_owned())),
    )
}

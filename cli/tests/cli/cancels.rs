//! A cancel request that reaches another machine than its session's.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use tokio::runtime::Builder;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Config, NoTls};

use crate::common::dev_cluster::DevCluster;

/// A statement that runs for hours.
const LONG: &str = "SELECT count(*) FROM generate_series(1, 1000000000000)";
/// The first words of a CancelRequest: its length and its code.
const CANCEL: [i32; 2] = [16, 80_877_102];

async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.expect("connects");
    tokio::spawn(connection);
    client
}

/// Returns the address in a URL.
fn address(url: &str) -> (&'static str, u16) {
    let config: Config = url.parse().expect("a url");
    ("127.0.0.1", config.get_ports()[0])
}

/// Asks a machine to cancel a session, and waits until it has closed the connection.
fn ask(url: &str, pid: i32, secret: i32) {
    let mut stream = TcpStream::connect(address(url)).expect("connects");
    for word in CANCEL.into_iter().chain([pid, secret]) {
        stream.write_all(&word.to_be_bytes()).expect("is sent");
    }
    let mut said = Vec::new();
    let bytes = stream.read_to_end(&mut said).expect("is closed");
    assert_eq!(bytes, 0, "a cancel request gets no answer");
}

#[test]
fn cancel_from_any_machine_reaches_session() {
    for fabric in ["shm", "tcp"] {
        let cluster = DevCluster::start(fabric);
        let runtime = Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(finds(&cluster));
    }
}

async fn finds(cluster: &DevCluster) {
    for (session, asked) in [(0, 1), (1, 0), (2, 1), (2, 2)] {
        let client = connect(&cluster.url(session)).await;
        let row = client.query_one("SELECT pg_backend_pid()", &[]).await;
        let pid: i32 = row.expect("a row").get(0);
        assert_eq!(pid >> 20, i32::from(session) + 1, "it has its machine");
        let token = client.cancel_token();
        let long = tokio::spawn(async move {
            let ended = client.batch_execute(LONG).await;
            (client, ended)
        });
        tokio::time::sleep(Duration::from_millis(100)).await;
        // None of these requests has the right secret, or names a session.
        for machine in 0..3 {
            for (pid, secret) in [(pid, 1), (pid + 1, 1), (-1, 1), (0, 0), (60 << 20, 1)] {
                ask(&cluster.url(machine), pid, secret);
            }
        }
        assert!(!long.is_finished(), "it goes on");
        let asked = tokio::net::TcpStream::connect(address(&cluster.url(asked)));
        let asked = asked.await.expect("connects");
        token.cancel_query_raw(asked, NoTls).await.expect("asks");
        let (client, ended) = long.await.expect("no panic");
        let code = ended.expect_err("is cancelled").code().cloned();
        assert_eq!(code, Some(SqlState::QUERY_CANCELED));
        client.batch_execute("SELECT 1").await.expect("it goes on");
    }
}

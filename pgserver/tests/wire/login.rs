//! Passwords and TLS.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::common::{Client, error, packet, server, server_with, startup, tags};
use fencepost_pgserver::{
    AccessRule, AccessRules, AuthMode, ListenOptions, RuleText, Server, TlsOptions,
};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

const TLS_CODE: u32 = 80_877_103;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures")
        .join(name)
}

fn tls(required: bool) -> TlsOptions {
    TlsOptions {
        certificate: fixture("localhost.crt"),
        key: fixture("localhost.key"),
        client_ca: None,
        required,
    }
}

/// Starts a server that requires passwords, after it ran `sql`.
fn guarded(sql: &str) -> Server {
    let database = fencepost::Database::in_memory().expect("a database");
    let mut session = database.blocking();
    session.batch(sql).expect("roles");
    let options = ListenOptions {
        auth: AuthMode::Scram,
        ..ListenOptions::new("127.0.0.1:0")
    };
    fencepost_pgserver::listen(&database, options).expect("a free port")
}

async fn log_in(server: &Server, user: &str, password: &str) -> Result<i32, String> {
    let mut config = tokio_postgres::Config::new();
    config.host("127.0.0.1").port(server.local_addr().port());
    config.user(user).password(password).dbname("postgres");
    let connected = config.connect(tokio_postgres::NoTls).await;
    let (client, connection) =
        connected.map_err(|e| e.code().map_or(e.to_string(), |c| c.code().into()))?;
    tokio::spawn(connection);
    let row = client
        .query_one("SELECT 1", &[])
        .await
        .map_err(|e| e.to_string())?;
    Ok(row.get(0))
}

#[tokio::test]
async fn scram_takes_the_right_password_only() {
    let server = guarded(
        "ALTER ROLE postgres PASSWORD 'correct horse'; CREATE USER ann; \
         CREATE ROLE off PASSWORD 'x'",
    );
    assert_eq!(log_in(&server, "postgres", "correct horse").await, Ok(1));
    for (user, password, error) in [
        ("postgres", "wrong", "28P01"),
        ("unprivileged", "correct horse", "28P01"),
        ("ann", "", "28P01"),
        ("ann", "x", "28P01"),
        ("off", "wrong", "28P01"),
        ("off", "x", "28000"),
    ] {
        let refused = log_in(&server, user, password).await;
        assert_eq!(refused, Err(error.into()), "{user} {password}");
    }
}

#[tokio::test]
async fn trusted_role_must_exist_and_may_log_in() {
    let server = server();
    let mut client = Client::start(server.local_addr());
    client.run("CREATE ROLE off; CREATE USER ann");
    assert_eq!(log_in(&server, "ann", "").await, Ok(1));
    for user in ["off", "unprivileged"] {
        assert_eq!(log_in(&server, user, "").await, Err("28000".into()));
    }
}

#[tokio::test]
async fn changed_password_applies_from_commit() {
    let server = guarded("ALTER ROLE postgres PASSWORD 'old'; CREATE USER ann PASSWORD 'ann'");
    let mut config = tokio_postgres::Config::new();
    config.host("127.0.0.1").port(server.local_addr().port());
    config.user("postgres").password("old").dbname("postgres");
    let (client, connection) = config.connect(tokio_postgres::NoTls).await.expect("log in");
    tokio::spawn(connection);
    let run = async |sql: &str| client.batch_execute(sql).await.expect("it runs");
    run("BEGIN; ALTER USER ann PASSWORD 'new'").await;
    assert_eq!(log_in(&server, "ann", "ann").await, Ok(1));
    run("COMMIT").await;
    assert_eq!(log_in(&server, "ann", "ann").await, Err("28P01".into()));
    assert_eq!(log_in(&server, "ann", "new").await, Ok(1));
    run("DROP USER ann").await;
    assert_eq!(log_in(&server, "ann", "new").await, Err("28P01".into()));
}

#[test]
fn scram_that_is_no_scram_ends_the_session() {
    let server = guarded("");
    for answer in [
        &b"MD5\0\0\0\0\0"[..],
        b"SCRAM-SHA-256\0\0\0\0\x03abc",
        b"SCRAM-SHA-256\0\x7f\xff\xff\xff",
        b"",
    ] {
        let mut client = Client::connect(server.local_addr());
        client.send(&startup(""));
        assert_eq!(client.read().map(|message| message.tag), Some('R'));
        client.send(&crate::common::frame(b'p', answer));
        let messages = client.rest();
        assert_eq!(
            (tags(&messages).as_str(), error(&messages).0.as_str()),
            ("E", "08P01")
        );
    }
}

#[test]
fn query_before_password_ends_session() {
    let server = guarded("");
    let mut client = Client::connect(server.local_addr());
    client.send(&startup(""));
    client.send(&crate::common::query("SELECT 1"));
    let messages = client.rest();
    assert_eq!(
        (tags(&messages).as_str(), error(&messages).0.as_str()),
        ("RE", "08P01")
    );
}

#[test]
fn without_a_certificate_tls_is_declined() {
    let server = server();
    let mut client = Client::connect(server.local_addr());
    client.send(&packet(TLS_CODE, b""));
    let mut answer = [0];
    client.stream.read_exact(&mut answer).expect("an answer");
    assert_eq!(&answer, b"N");
    client.send(&startup(""));
    client.until('Z');
}

#[test]
fn plain_text_behind_a_tls_request_is_refused() {
    for tls in [None, Some(tls(false))] {
        let server = server_with(ListenOptions {
            tls,
            ..ListenOptions::new("127.0.0.1:0")
        });
        let mut client = Client::connect(server.local_addr());
        client.send_all(&[
            packet(TLS_CODE, b""),
            startup(""),
            crate::common::query("DROP TABLE t"),
        ]);
        let messages = client.rest();
        assert_eq!(
            (tags(&messages).as_str(), error(&messages).0.as_str()),
            ("E", "08P01")
        );
    }
}

/// Starts a server that offers TLS.
pub fn server_with_tls() -> Server {
    server_with(ListenOptions {
        tls: Some(tls(true)),
        ..ListenOptions::new("127.0.0.1:0")
    })
}

/// Connects to a server that offers TLS and completes the handshake, before the start-up packet.
pub fn connect_in_tls(server: &Server) -> StreamOwned<ClientConnection, TcpStream> {
    connect_with(server, None)
}

/// Does the same as [`connect_in_tls`], with a certificate of the client and its key.
fn connect_with(
    server: &Server,
    certificate: Option<(CertificateDer<'static>, PrivateKeyDer<'static>)>,
) -> StreamOwned<ClientConnection, TcpStream> {
    let mut client = Client::connect(server.local_addr());
    client.send(&packet(TLS_CODE, b""));
    let mut answer = [0];
    client.stream.read_exact(&mut answer).expect("an answer");
    assert_eq!(&answer, b"S");
    let mut roots = RootCertStore::empty();
    let own = CertificateDer::from_pem_file(fixture("localhost.crt")).expect("a fixture");
    roots.add(own).expect("a certificate");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots);
    let config = match certificate {
        None => config.with_no_client_auth(),
        Some((certificate, key)) => config
            .with_client_auth_cert(vec![certificate], key)
            .expect("a certificate with its key"),
    };
    let name = ServerName::try_from("localhost").expect("a name");
    let session = ClientConnection::new(Arc::new(config), name).expect("a session");
    StreamOwned::new(session, client.stream)
}

#[test]
fn queries_run_under_tls() {
    let server = server_with_tls();
    let mut stream = connect_in_tls(&server);
    stream.write_all(&startup("")).expect("written");
    let mut text = Vec::new();
    let mut read_until = |wanted: &[u8]| {
        text.clear();
        while !text.ends_with(wanted) {
            let mut piece = [0; 4096];
            let count = stream.read(&mut piece).expect("readable");
            assert!(count > 0, "the end came early");
            text.extend_from_slice(&piece[..count]);
        }
        stream
            .write_all(&crate::common::query(
                "SELECT g FROM generate_series(1, 20000) AS g",
            ))
            .expect("written");
        text.len()
    };
    read_until(b"Z\0\0\0\x05I");
    assert!(read_until(b"C\0\0\0\x11SELECT 20000\0Z\0\0\0\x05I") > 20_000 * 12);
}

#[test]
fn malformed_certificate_fails_listen() {
    let database = fencepost::Database::in_memory().expect("a database");
    let tls = TlsOptions {
        certificate: fixture("localhost.key"),
        key: fixture("nothing"),
        client_ca: None,
        required: false,
    };
    let options = ListenOptions {
        tls: Some(tls),
        ..ListenOptions::new("127.0.0.1:0")
    };
    let error = fencepost_pgserver::listen(&database, options)
        .err()
        .expect("no certificate");
    assert!(error.to_string().contains("no certificate"), "{error}");
}

#[test]
fn certificate_admits_only_its_role() {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().expect("a key");
    let ca = params.self_signed(&key).expect("a certificate").pem();
    let issuer = Issuer::new(params, key);
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("ca.pem");
    std::fs::write(&path, ca).expect("written");
    let certificate = |name: &str| {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().expect("a key");
        let signed = params.signed_by(&key, &issuer).expect("a certificate");
        let key = PrivateKeyDer::try_from(key.serialize_der()).expect("a key");
        (signed.der().clone(), key)
    };
    let all = ["all".to_owned()];
    let rule = AccessRule::parse(&RuleText {
        kind: "hostssl",
        databases: &all,
        users: &all,
        address: Some("all"),
        method: "cert",
    });
    let rules = AccessRules::default();
    rules.replace(Some(vec![rule.expect("a rule")]));
    let server = server_with(ListenOptions {
        rules,
        tls: Some(TlsOptions {
            client_ca: Some(path),
            ..tls(false)
        }),
        ..ListenOptions::new("127.0.0.1:0")
    });
    for (certificate, expected) in [
        (Some(certificate("postgres")), None),
        (
            Some(certificate("ada")),
            Some("certificate authentication failed for user \"postgres\""),
        ),
        (None, Some("connection requires a valid client certificate")),
    ] {
        let mut stream = connect_with(&server, certificate);
        stream.write_all(&startup("")).expect("written");
        let mut messages = Vec::new();
        while let Some(message) = crate::common::read_message(&mut stream) {
            let tag = message.tag;
            messages.push(message);
            if matches!(tag, 'Z' | 'E') {
                break;
            }
        }
        match expected {
            None => assert!(tags(&messages).ends_with('Z'), "{}", tags(&messages)),
            Some(why) => assert_eq!(error(&messages), ("28000".to_owned(), why.to_owned())),
        }
    }
    let mut plain = Client::connect(server.local_addr());
    plain.send(&startup(""));
    let (state, why) = error(&plain.rest());
    assert_eq!(state, "28000");
    assert!(why.starts_with("no pg_hba.conf entry for host"), "{why}");
}

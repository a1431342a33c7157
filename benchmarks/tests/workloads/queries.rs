//! The queries of TPC-H and the statements of `bulk` with little data: the answers must be those of
//! PostgreSQL, and wrong ones must be found.

use std::time::Duration;

use fencepost::Database;
use fencepost_benchmarks::compared::{AnswerCheck, ComparedReport, ItemOutcome, ServerOptions};
use fencepost_benchmarks::sql::{PgSession, SqlSession};
use fencepost_benchmarks::tpch::{LoadMode, RecordedAnswers, TpchOptions, digests, run};
use fencepost_benchmarks::{Interface, bulk};
use fencepost_pgserver::listen;

/// The smallest scale with recorded answers. The generator makes duplicate keys at scale 0.001.
const SMALL: f64 = 0.00295;

fn embedded() -> ServerOptions {
    ServerOptions {
        region_bytes: Some(16 << 20),
        ..ServerOptions::embedded()
    }
}

fn options() -> TpchOptions {
    TpchOptions {
        servers: embedded(),
        ..TpchOptions::embedded(SMALL)
    }
}

/// Returns the options of servers at these addresses.
fn over_the_wire(urls: Vec<String>, beside: Option<String>) -> ServerOptions {
    ServerOptions {
        via: Interface::Pg,
        urls,
        beside,
        ..embedded()
    }
}

fn assert_all_are(report: &ComparedReport, check: &AnswerCheck) {
    assert_eq!(report.check(), None);
    for item in &report.items {
        assert_eq!(&item.check, check, "{}", item.name);
        for outcome in &item.outcomes {
            assert!(outcome.median_ms().is_some_and(|ms| ms > 0.0), "{report}");
        }
    }
}

#[test]
fn tpch_embedded_gives_the_recorded_answers() {
    let report = run(&options()).expect("it runs");
    assert_eq!(report.items.len(), 22);
    assert_all_are(&report, &AnswerCheck::AsRecorded);
    let json = report.to_json();
    assert_eq!(json["check"], "ok");
    assert_eq!(json["items"][21]["item"], "q22");
}

#[test]
fn tpch_over_the_wire_compares_servers() {
    let database = Database::options()
        .region_size(16 << 20)
        .open()
        .expect("a database");
    let server = listen(&database, "127.0.0.1:0").expect("a server");
    let url = format!("postgresql://postgres@{}/postgres", server.local_addr());
    let options = TpchOptions {
        servers: over_the_wire(vec![url.clone()], None),
        queries: vec![22],
        ..options()
    };
    assert_all_are(&run(&options).expect("it runs"), &AnswerCheck::AsRecorded);

    // Both are the same server.
    let compared = TpchOptions {
        servers: over_the_wire(vec![url.clone(), url.clone()], Some(url.clone())),
        load: LoadMode::Reuse,
        recorded: RecordedAnswers::Ignore,
        queries: vec![4, 18, 22],
        ..options.clone()
    };
    let report = run(&compared).expect("it runs");
    assert_eq!(report.servers.len(), 2);
    assert_all_are(&report, &AnswerCheck::ServersAgree);
    assert_eq!(digests(&report, SMALL).lines().count(), 3);

    let mut session = PgSession::connect(&url).expect("a session");
    session
        .script("UPDATE lineitem SET l_extendedprice = l_extendedprice + 1")
        .expect("an update");
    let changed = TpchOptions {
        load: LoadMode::Reuse,
        queries: vec![22, 6],
        ..options.clone()
    };
    let report = run(&changed).expect("it runs");
    let wrong = report.check().expect("a wrong answer");
    assert!(wrong.starts_with("q06: "), "{wrong}");
    assert!(!wrong.contains("q22"), "{wrong}");

    let hurried = TpchOptions {
        timeout: Duration::from_millis(1),
        queries: vec![9],
        ..changed
    };
    let report = run(&hurried).expect("it runs");
    assert_eq!(report.items[0].outcomes, [ItemOutcome::TimedOut]);
    assert_eq!(report.check(), None);
    assert!(report.to_string().contains("over 0.001 s"), "{report}");
}

#[test]
fn bulk_statements_have_equal_answers_on_two_servers() {
    let [one, other] = [(); 2].map(|()| {
        let options = Database::options().region_size(16 << 20);
        let database = options.open().expect("a database");
        listen(&database, "127.0.0.1:0").expect("a server")
    });
    let [one_url, other_url] = [&one, &other]
        .map(|server| format!("postgresql://postgres@{}/postgres", server.local_addr()));
    let options = bulk::BulkOptions {
        servers: over_the_wire(vec![one_url], Some(other_url)),
        rows: 2_000,
        rounds: 1,
        timeout: Duration::from_secs(60),
        items: Vec::new(),
        progress: false,
    };
    let report = bulk::run(&options).expect("it runs");
    assert_all_are(&report, &AnswerCheck::ServersAgree);
    let unknown = bulk::BulkOptions {
        items: vec!["none".to_string()],
        ..options
    };
    assert!(bulk::run(&unknown).is_err());
}

#[test]
fn wrong_tpch_options_are_refused() {
    let url = || vec!["postgresql://postgres@127.0.0.1:1/postgres".to_string()];
    let with = |servers: ServerOptions| TpchOptions {
        servers,
        ..options()
    };
    for wrong in [
        with(ServerOptions {
            via: Interface::Native,
            ..embedded()
        }),
        with(over_the_wire(Vec::new(), None)),
        with(ServerOptions {
            urls: url(),
            ..embedded()
        }),
        with(over_the_wire(url(), None)),
        TpchOptions {
            load: LoadMode::Reuse,
            ..options()
        },
        TpchOptions {
            scale: 0.001,
            ..options()
        },
        TpchOptions {
            rounds: 0,
            ..options()
        },
        TpchOptions {
            timeout: Duration::ZERO,
            ..options()
        },
        TpchOptions {
            queries: vec![23],
            ..options()
        },
    ] {
        assert!(run(&wrong).is_err(), "{wrong:?}");
    }
}

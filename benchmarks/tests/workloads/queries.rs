//! The queries of TPC-H with little data: the answers must be those of PostgreSQL, and wrong ones
//! must be found.

use std::time::Duration;

use fencepost::Database;
use fencepost_benchmarks::Interface;
use fencepost_benchmarks::sql::{PgSession, SqlSession};
use fencepost_benchmarks::tpch::{
    AnswerCheck, LoadMode, QueryOutcome, RecordedAnswers, TpchOptions, TpchReport, run,
};
use fencepost_pgserver::listen;

/// The smallest scale with recorded answers. The generator makes duplicate keys at scale 0.001.
const SMALL: f64 = 0.00295;

fn options() -> TpchOptions {
    TpchOptions {
        region_bytes: Some(16 << 20),
        ..TpchOptions::embedded(SMALL)
    }
}

fn assert_all_are(report: &TpchReport, check: &AnswerCheck) {
    assert_eq!(report.check(), None);
    for query in &report.queries {
        assert_eq!(&query.check, check, "{}", query.name);
        for outcome in &query.outcomes {
            assert!(outcome.median_ms().is_some_and(|ms| ms > 0.0), "{report}");
        }
    }
}

#[test]
fn tpch_embedded_gives_the_recorded_answers() {
    let report = run(&options()).expect("it runs");
    assert_eq!(report.queries.len(), 22);
    assert_all_are(&report, &AnswerCheck::AsRecorded);
    let json = report.to_json();
    assert_eq!(json["check"], "ok");
    assert_eq!(json["queries"][21]["query"], "q22");
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
        via: Interface::Pg,
        urls: vec![url.clone()],
        queries: vec![22],
        ..options()
    };
    assert_all_are(&run(&options).expect("it runs"), &AnswerCheck::AsRecorded);

    // Both are the same server.
    let compared = TpchOptions {
        urls: vec![url.clone(), url.clone()],
        beside: Some(url),
        load: LoadMode::Reuse,
        recorded: RecordedAnswers::Ignore,
        queries: vec![4, 18, 22],
        ..options.clone()
    };
    let report = run(&compared).expect("it runs");
    assert_eq!(report.servers.len(), 2);
    assert_all_are(&report, &AnswerCheck::ServersAgree);
    assert_eq!(report.digests().lines().count(), 3);

    let mut session = PgSession::connect(&options.urls[0]).expect("a session");
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
    assert_eq!(report.queries[0].outcomes, [QueryOutcome::TimedOut]);
    assert_eq!(report.check(), None);
    assert!(report.to_string().contains("over 0.001 s"), "{report}");
}

#[test]
fn wrong_tpch_options_are_refused() {
    let url = || vec!["postgresql://postgres@127.0.0.1:1/postgres".to_string()];
    for wrong in [
        TpchOptions {
            via: Interface::Native,
            ..options()
        },
        TpchOptions {
            via: Interface::Pg,
            ..options()
        },
        TpchOptions {
            urls: url(),
            ..options()
        },
        TpchOptions {
            via: Interface::Pg,
            urls: url(),
            ..options()
        },
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

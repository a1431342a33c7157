//! A short run of the SQL fuzzer with a fixed seed.

use std::path::Path;
use std::time::Duration;

use fencepost_fuzz::sql::{self, Bounds, Options};

#[test]
fn random_statements_show_no_fault() {
    let options = Options {
        program: Path::new(env!("CARGO_BIN_EXE_fencepost-fuzz")).to_owned(),
        corpus: sql::corpus_folder(),
        seed: 1,
        first_round: 0,
        rounds: 4,
        time: Duration::MAX,
        statements: 150,
        reductions: 0,
        bounds: Bounds {
            // The limits are generous, because tests of other crates run at the same time.
            statement: Duration::from_secs(60),
            cancel: Duration::from_secs(60),
            ..Bounds::default()
        },
    };
    let mut texts = Vec::new();
    let summary = sql::run(&options, |finding| texts.push(finding.text(options.seed)));
    let summary = summary.expect("a server");
    assert!(texts.is_empty(), "{}", texts.join("\n"));
    assert_eq!((summary.rounds, summary.statements), (4, 600));
    // Statements that all fail to parse would find little. A message with several statements counts
    // as succeeded only if all of them succeed.
    assert!(summary.succeeded > 100, "{summary:?}");
}

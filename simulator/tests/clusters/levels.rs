//! Isolation levels. The checker finds each anomaly at the levels that forbid it, and permits it at
//! the others. Concurrent transactions of all levels show no anomaly that their levels forbid.
//!
//! More seeds: `SEEDS=from..to`, or
//! `cargo run --release -p fencepost-simulator -- --kind levels --seeds 5000`.

use fencepost_simulator::history::{NEVER, Object};
use fencepost_simulator::levels::{Anomaly, Execution, Statement, check_levels, element};
use fencepost_simulator::lists::Contents;
use fencepost_simulator::plan::Plan;
use fencepost_txn::Isolation::{self, ReadCommitted, RepeatableRead, Serializable};

use crate::held::hold;

const X: Object = Object("ledger", 0);
const Y: Object = Object("ledger", 1);
const LEVELS: [Isolation; 3] = [ReadCommitted, RepeatableRead, Serializable];
/// A span that overlaps all others.
const ALWAYS: (u64, u64) = (1, NEVER);

/// Returns the element of a transaction that appends one element only.
const fn of(id: u64) -> u64 {
    element(id, 1)
}

fn contents(list: Object, elements: &[u64]) -> Contents {
    Contents {
        list,
        numbers: elements.to_vec(),
    }
}

/// Returns a committed execution.
fn execution(id: u64, isolation: Isolation, (began, ended): (u64, u64)) -> Execution {
    Execution {
        ended,
        committed: true,
        ..Execution::begin(id, isolation, began)
    }
}

/// Adds statements and appends to an execution.
trait Steps {
    fn reads(self, lists: &[(Object, &[u64])]) -> Execution;
    fn locks(self, list: Object, elements: &[u64]) -> Execution;
    fn appends(self, list: Object, element: u64) -> Execution;
    fn aborts(self) -> Execution;
}

impl Steps for Execution {
    /// Adds a statement that reads lists in its snapshot.
    fn reads(mut self, lists: &[(Object, &[u64])]) -> Execution {
        let seen = lists
            .iter()
            .map(|(list, elements)| contents(*list, elements));
        self.statements.push(Statement {
            began: self.began,
            seen: seen.collect(),
            ..Statement::default()
        });
        self
    }

    /// Adds a statement that reads a list under a lock.
    fn locks(mut self, list: Object, elements: &[u64]) -> Execution {
        self.statements.push(Statement {
            began: self.began,
            locked: vec![contents(list, elements)],
            ..Statement::default()
        });
        self
    }

    fn appends(mut self, list: Object, element: u64) -> Execution {
        self.appended.push((list, element));
        self
    }

    fn aborts(mut self) -> Execution {
        self.committed = false;
        self
    }
}

/// Returns the history with a reader of both lists at the end.
fn with_reader(mut history: Vec<Execution>, x: &[u64], y: &[u64]) -> Vec<Execution> {
    history.push(execution(99, ReadCommitted, ALWAYS).reads(&[(X, x)]));
    history.push(execution(98, ReadCommitted, ALWAYS).reads(&[(Y, y)]));
    history
}

/// Checks that a history of transactions of one level shows an anomaly at the given levels, and
/// none at the others.
#[track_caller]
fn assert_forbidden(
    anomaly: Anomaly,
    levels: &[Isolation],
    history: impl Fn(Isolation) -> Vec<Execution>,
) {
    for level in LEVELS {
        let found = check_levels(&history(level)).map_err(|found| found.anomaly);
        let expected = if levels.contains(&level) {
            Err(anomaly)
        } else {
            Ok(())
        };
        assert_eq!(found, expected, "{level:?}");
    }
}

#[test]
fn serial_history_is_permitted_at_every_level() {
    for level in LEVELS {
        let history = vec![
            execution(1, level, (1, 2))
                .reads(&[(X, &[])])
                .appends(X, of(1)),
            execution(2, level, (3, 4))
                .reads(&[(X, &[of(1)]), (Y, &[])])
                .appends(X, of(2))
                .appends(Y, of(2)),
            execution(3, level, (5, 6))
                .reads(&[(X, &[of(1), of(2)])])
                .aborts(),
        ];
        let history = with_reader(history, &[of(1), of(2)], &[of(2)]);
        assert_eq!(check_levels(&history), Ok(()));
    }
}

#[test]
fn write_cycle_is_forbidden_at_every_level() {
    assert_forbidden(Anomaly::WriteCycle, &LEVELS, |level| {
        let both = |id| {
            execution(id, level, ALWAYS)
                .appends(X, of(id))
                .appends(Y, of(id))
        };
        with_reader(vec![both(1), both(2)], &[of(1), of(2)], &[of(2), of(1)])
    });
}

#[test]
fn aborted_read_is_forbidden_at_every_level() {
    assert_forbidden(Anomaly::AbortedRead, &LEVELS, |level| {
        vec![
            execution(1, level, ALWAYS).appends(X, of(1)).aborts(),
            execution(2, level, ALWAYS).reads(&[(X, &[of(1)])]),
        ]
    });
}

#[test]
fn intermediate_read_is_forbidden_at_every_level() {
    let (first, second) = (element(1, 1), element(1, 2));
    assert_forbidden(Anomaly::IntermediateRead, &LEVELS, |level| {
        let writer = execution(1, level, ALWAYS)
            .appends(X, first)
            .appends(X, second);
        let reader = execution(2, level, ALWAYS).reads(&[(X, &[first])]);
        with_reader(vec![writer, reader], &[first, second], &[])
    });
}

#[test]
fn cyclic_information_flow_is_forbidden_at_every_level() {
    assert_forbidden(Anomaly::CyclicFlow, &LEVELS, |level| {
        vec![
            execution(1, level, ALWAYS)
                .reads(&[(Y, &[of(2)])])
                .appends(X, of(1)),
            execution(2, level, ALWAYS)
                .reads(&[(X, &[of(1)])])
                .appends(Y, of(2)),
        ]
    });
}

#[test]
fn lost_element_is_forbidden_at_every_level() {
    assert_forbidden(Anomaly::LostUpdate, &LEVELS, |level| {
        let append = |id| execution(id, level, ALWAYS).appends(X, of(id));
        with_reader(vec![append(1), append(2)], &[of(2)], &[])
    });
    assert_forbidden(Anomaly::LostUpdate, &LEVELS, |level| {
        let append = |id| execution(id, level, ALWAYS).appends(X, of(id));
        let reader = execution(3, level, ALWAYS).reads(&[(X, &[of(1)])]);
        with_reader(vec![append(1), append(2), reader], &[of(2), of(1)], &[])
    });
}

#[test]
fn lost_update_in_two_statements_is_permitted_at_read_committed() {
    assert_forbidden(
        Anomaly::LostUpdate,
        &[RepeatableRead, Serializable],
        |level| {
            let stale = execution(2, level, ALWAYS)
                .reads(&[(X, &[])])
                .appends(X, of(2));
            let append = execution(1, level, ALWAYS).appends(X, of(1));
            with_reader(vec![append, stale], &[of(1), of(2)], &[])
        },
    );
}

#[test]
fn lost_update_of_locked_row_is_forbidden_at_every_level() {
    let found = check_levels(&with_reader(
        vec![
            execution(1, ReadCommitted, ALWAYS).appends(X, of(1)),
            execution(2, ReadCommitted, ALWAYS)
                .locks(X, &[])
                .appends(X, of(2)),
        ],
        &[of(1), of(2)],
        &[],
    ));
    let found = found.expect_err("a lock is a lock");
    assert_eq!(found.anomaly, Anomaly::LostUpdate);
    assert_eq!(found.isolation, ReadCommitted);
}

#[test]
fn read_skew_is_permitted_at_read_committed() {
    assert_forbidden(
        Anomaly::ReadSkew,
        &[RepeatableRead, Serializable],
        |level| {
            vec![
                execution(1, level, ALWAYS)
                    .appends(X, of(1))
                    .appends(Y, of(1)),
                execution(2, level, ALWAYS)
                    .reads(&[(X, &[])])
                    .reads(&[(Y, &[of(1)])]),
                execution(3, level, ALWAYS).reads(&[(X, &[of(1)])]),
            ]
        },
    );
}

#[test]
fn read_skew_within_a_statement_is_forbidden_at_every_level() {
    assert_forbidden(Anomaly::ReadSkew, &LEVELS, |level| {
        vec![
            execution(1, level, ALWAYS)
                .appends(X, of(1))
                .appends(Y, of(1)),
            execution(2, level, ALWAYS).reads(&[(X, &[]), (Y, &[of(1)])]),
            execution(3, level, ALWAYS).reads(&[(X, &[of(1)])]),
        ]
    });
}

#[test]
fn phantom_is_permitted_at_read_committed() {
    // The second list has no row when the range is read for the first time.
    assert_forbidden(
        Anomaly::ReadSkew,
        &[RepeatableRead, Serializable],
        |level| {
            vec![
                execution(1, level, ALWAYS).appends(Y, of(1)),
                execution(2, level, ALWAYS)
                    .reads(&[(X, &[]), (Y, &[])])
                    .reads(&[(X, &[]), (Y, &[of(1)])]),
            ]
        },
    );
}

#[test]
fn write_skew_is_forbidden_at_serializable() {
    assert_forbidden(Anomaly::WriteSkew, &[Serializable], |level| {
        let skewed = |id, list| {
            let both = execution(id, level, ALWAYS).reads(&[(X, &[]), (Y, &[])]);
            both.appends(list, of(id))
        };
        with_reader(vec![skewed(1, X), skewed(2, Y)], &[of(1)], &[of(2)])
    });
}

#[test]
fn long_fork_is_permitted_at_read_committed() {
    // Two anti-dependencies that are not consecutive.
    assert_forbidden(
        Anomaly::WriteSkew,
        &[RepeatableRead, Serializable],
        |level| {
            let read = |id, x: &[u64], y: &[u64]| {
                let reader = execution(id, level, ALWAYS);
                reader.reads(&[(X, x)]).reads(&[(Y, y)])
            };
            vec![
                execution(1, level, ALWAYS).appends(X, of(1)),
                execution(2, level, ALWAYS).appends(Y, of(2)),
                read(3, &[of(1)], &[]),
                read(4, &[], &[of(2)]),
            ]
        },
    );
}

#[test]
fn weakest_reader_permits_write_skew() {
    for (first, second, forbidden) in [
        (Serializable, Serializable, true),
        (Serializable, RepeatableRead, false),
        (Serializable, ReadCommitted, false),
        (RepeatableRead, ReadCommitted, false),
    ] {
        let skewed = |id, level, list| {
            let both = execution(id, level, ALWAYS).reads(&[(X, &[]), (Y, &[])]);
            both.appends(list, of(id))
        };
        let history = vec![skewed(1, first, X), skewed(2, second, Y)];
        let found = check_levels(&with_reader(history, &[of(1)], &[of(2)]));
        assert_eq!(found.is_err(), forbidden, "{first:?} and {second:?}");
    }
}

#[test]
fn stale_read_is_forbidden_at_every_level() {
    assert_forbidden(Anomaly::RealTime, &LEVELS, |level| {
        vec![
            execution(1, level, (1, 2)).appends(X, of(1)),
            execution(2, level, (3, 4)).reads(&[(X, &[])]),
            execution(3, level, ALWAYS).reads(&[(X, &[of(1)])]),
        ]
    });
}

#[test]
fn isolation_levels_hold() {
    hold(0..60, Plan::draw_with_levels);
}

#[test]
fn own_insert_in_a_split_leaf_is_found_beside_all_levels() {
    hold(1530..1531, Plan::draw_with_levels);
}

#[test]
fn row_freed_past_a_lost_lock_is_a_conflict() {
    hold(1554..1555, Plan::draw_with_levels_and_faults);
}

#[test]
fn isolation_levels_hold_despite_faults() {
    hold(0..36, Plan::draw_with_levels_and_faults);
}

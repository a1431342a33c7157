//! The checker of appends finds anomalies in short written histories.

use fencepost_simulator::appends::{ListTransaction, check_appends};
use fencepost_simulator::history::Object;
use fencepost_simulator::lists::Contents;

const X: Object = Object("list", 0);
const Y: Object = Object("list", 1);
/// A span that overlaps all others.
const ALWAYS: (u64, u64) = (0, u64::MAX);

fn visit(
    id: u64,
    span: (u64, u64),
    found: &[(Object, &[u64])],
    appended: &[Object],
) -> ListTransaction {
    let contents = |(list, numbers): &(Object, &[u64])| Contents {
        list: *list,
        numbers: numbers.to_vec(),
    };
    ListTransaction {
        id,
        began: span.0,
        ended: span.1,
        found: found.iter().map(contents).collect(),
        appended: appended.to_vec(),
    }
}

/// Checks a history that appends 1 to X, 2 to both and 3 to Y, then reads both, followed by
/// `further`.
fn with(further: &[ListTransaction]) -> Result<(), String> {
    let mut history = vec![
        visit(1, (1, 2), &[(X, &[])], &[X]),
        visit(2, (3, 4), &[(X, &[1])], &[X, Y]),
        visit(3, (5, 6), &[], &[Y]),
        visit(4, (7, 8), &[(X, &[1, 2]), (Y, &[2, 3])], &[]),
    ];
    history.extend_from_slice(further);
    check_appends(&history)
}

#[track_caller]
fn assert_found(further: &[ListTransaction], what: &str) {
    let found = with(further).expect_err("it is not right");
    assert!(found.contains(what), "{found}");
}

#[test]
fn serial_history_passes() {
    assert_eq!(with(&[]), Ok(()));
    let aborted = visit(5, (5, 9), &[(X, &[1, 2]), (Y, &[2])], &[]);
    assert_eq!(with(&[aborted]), Ok(()));
}

#[test]
fn lists_that_no_order_makes_are_found() {
    let beginning = "no beginning of";
    assert_found(&[visit(5, ALWAYS, &[(X, &[2, 1])], &[])], beginning);
    assert_found(&[visit(5, ALWAYS, &[(X, &[2])], &[])], beginning);
    assert_found(&[visit(5, ALWAYS, &[], &[X])], "has lost 5");
    let aborted = visit(6, ALWAYS, &[(X, &[1, 2, 5])], &[]);
    assert_found(&[visit(5, ALWAYS, &[], &[]), aborted], "did not commit");
    assert_found(&[visit(5, ALWAYS, &[(X, &[1, 2, 2])], &[])], "twice");
    let crossed = [
        visit(5, ALWAYS, &[(X, &[1, 2, 5, 6])], &[X, Y]),
        visit(6, ALWAYS, &[(Y, &[2, 3, 6, 5])], &[X, Y]),
    ];
    assert_found(&crossed, "no order of appends");
}

#[test]
fn circles_are_found() {
    let circle = "not strictly serializable";
    let stale = |span| visit(5, span, &[(X, &[1])], &[]);
    assert_eq!(with(&[stale(ALWAYS)]), Ok(()));
    assert_found(&[stale((9, 10))], circle);
    assert_found(&[visit(5, ALWAYS, &[(X, &[1]), (Y, &[2])], &[])], circle);
    assert_found(&[visit(5, ALWAYS, &[(X, &[1]), (X, &[1, 2])], &[])], circle);

    let read = |id, x: &[u64], y: &[u64]| visit(id, ALWAYS, &[(X, x), (Y, y)], &[]);
    let write = |id, list| visit(id, ALWAYS, &[], &[list]);
    let (x, y) = (&[1, 2, 5][..], &[2, 3, 6][..]);
    let long_fork = [
        write(5, X),
        write(6, Y),
        read(7, x, &y[..2]),
        read(8, &x[..2], y),
    ];
    assert_found(&long_fork, circle);

    let before = [(X, &x[..2]), (Y, &y[..2])];
    let skewed = |id, list| visit(id, ALWAYS, &before, &[list]);
    let write_skew = [skewed(5, X), skewed(6, Y), read(7, x, y)];
    assert_found(&write_skew, circle);
}

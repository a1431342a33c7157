//! The checkers find every classical anomaly in short written histories.

use fencepost_simulator::checker::check;
use fencepost_simulator::history::{
    NEVER, Object, ObservedTransaction, ReadVersion, SOMETIME, Write,
};
use fencepost_simulator::lists::{Contents, check_lists};
use fencepost_simulator::snapshots::check_snapshots;
use fencepost_txn::Timestamp;

const X: Object = Object("register", 0);
const Y: Object = Object("register", 1);
const KEY: Object = Object("key", 7);

/// Returns a transaction whose timestamp is its number.
fn seen(
    id: u64,
    span: (u64, u64),
    reads: &[(Object, ReadVersion)],
    writes: &[Object],
) -> ObservedTransaction {
    let write = |object: &Object| Write {
        object: *object,
        stays: true,
        needs: None,
    };
    ObservedTransaction {
        id,
        began: span.0,
        ended: span.1,
        reads: reads.to_vec(),
        writes: writes.iter().map(write).collect(),
        at: Timestamp::from_raw(id),
    }
}

/// Returns the same with one conditional change of a key.
fn change(
    id: u64,
    span: (u64, u64),
    reads: &[(Object, ReadVersion)],
    stays: bool,
    needs: bool,
) -> ObservedTransaction {
    let mut seen = seen(id, span, reads, &[KEY]);
    (seen.writes[0].stays, seen.writes[0].needs) = (stays, Some(needs));
    seen
}

const FIRST: ReadVersion = ReadVersion::By(0);

#[test]
fn serial_history_passes() {
    let serial = [
        seen(1, (1, 2), &[(X, FIRST)], &[X]),
        seen(2, (3, 4), &[(X, ReadVersion::By(1)), (Y, FIRST)], &[X, Y]),
        change(3, (5, 6), &[(KEY, ReadVersion::Absent)], true, false),
        seen(
            4,
            (7, 8),
            &[(X, ReadVersion::By(2)), (KEY, ReadVersion::By(3))],
            &[],
        ),
        change(5, (9, 10), &[], false, true),
        seen(
            6,
            (11, 12),
            &[(KEY, ReadVersion::Absent), (Y, ReadVersion::By(2))],
            &[],
        ),
    ];
    assert_eq!(check(&serial), Ok(()));
    assert_eq!(check_snapshots(&serial), Ok(()));
}

#[test]
fn classical_anomalies_are_found() {
    let write_skew = [
        seen(1, (1, 10), &[(X, FIRST), (Y, FIRST)], &[X]),
        seen(2, (2, 11), &[(X, FIRST), (Y, FIRST)], &[Y]),
    ];
    let lost_update = [
        seen(1, (1, 10), &[(X, FIRST)], &[X]),
        seen(2, (2, 11), &[(X, FIRST)], &[X]),
    ];
    let long_fork = [
        seen(1, (1, 20), &[], &[X]),
        seen(2, (2, 21), &[], &[Y]),
        seen(3, (3, 22), &[(X, ReadVersion::By(1)), (Y, FIRST)], &[]),
        seen(4, (4, 23), &[(X, FIRST), (Y, ReadVersion::By(2))], &[]),
    ];
    let stale_read = [
        seen(1, (1, 2), &[], &[X]),
        seen(2, (3, 4), &[(X, FIRST)], &[]),
    ];
    let torn_write = [
        seen(1, (1, 10), &[], &[X, Y]),
        seen(2, (2, 11), &[(X, ReadVersion::By(1)), (Y, FIRST)], &[]),
    ];
    let dirty_read = [seen(2, (2, 11), &[(X, ReadVersion::By(1))], &[])];
    // An aborted transaction counts as a reader.
    let no_opacity = [
        seen(1, (1, 10), &[], &[X, Y]),
        seen(2, (2, 11), &[(Y, ReadVersion::By(1)), (X, FIRST)], &[]),
    ];
    for anomaly in [
        &write_skew[..],
        &lost_update,
        &long_fork,
        &stale_read,
        &torn_write,
        &dirty_read,
        &no_opacity,
    ] {
        assert!(check(anomaly).is_err(), "missed {anomaly:?}");
    }
}

#[test]
fn phantoms_and_keys_that_are_not_there_are_found() {
    // Each transaction looks up the key, does not find it, and inserts it.
    let both_insert = [
        change(1, (1, 10), &[(KEY, ReadVersion::Absent)], true, false),
        change(2, (2, 11), &[(KEY, ReadVersion::Absent)], true, false),
    ];
    // Each transaction reads what the other one adds.
    let phantom = [
        seen(1, (1, 10), &[(KEY, ReadVersion::Absent)], &[X]),
        change(2, (2, 11), &[(X, FIRST)], true, false),
        seen(
            3,
            (12, 13),
            &[(X, ReadVersion::By(1)), (KEY, ReadVersion::By(2))],
            &[],
        ),
    ];
    let lost_key = [
        change(1, (1, 2), &[], true, false),
        seen(2, (3, 4), &[(KEY, ReadVersion::Absent)], &[]),
    ];
    let ghost = [
        change(1, (1, 2), &[], true, false),
        change(2, (3, 4), &[], false, true),
        seen(3, (5, 6), &[(KEY, ReadVersion::By(1))], &[]),
    ];
    let removed_twice = [
        change(1, (1, 2), &[], true, false),
        change(2, (3, 10), &[], false, true),
        change(3, (4, 11), &[], false, true),
    ];
    for anomaly in [
        &both_insert[..],
        &phantom,
        &lost_key,
        &ghost,
        &removed_twice,
    ] {
        assert!(check(anomaly).is_err(), "missed {anomaly:?}");
    }
}

#[test]
fn unreported_outcome_imposes_no_order() {
    let dropped = seen(1, (1, NEVER), &[], &[X]);
    let before = seen(2, (3, 4), &[(X, FIRST)], &[]);
    let after = seen(3, (5, 6), &[(X, ReadVersion::By(1))], &[]);
    assert_eq!(
        check(&[dropped.clone(), before.clone(), after.clone()]),
        Ok(())
    );
    // The dropped transaction must still take effect at one point.
    let mut again = before;
    (again.id, again.began, again.ended) = (4, 7, 8);
    assert!(check(&[dropped, after, again]).is_err());
}

#[test]
fn evicted_reader_may_see_an_earlier_state() {
    let reads = |reads: &[(Object, ReadVersion)]| {
        [
            change(1, (1, 2), &[], true, false),
            seen(2, (3, 4), &[], &[X]),
            change(3, (5, 6), &[], false, true),
            seen(4, (7, 8), &[], &[Y]),
            seen(9, (SOMETIME, 20), reads, &[]),
        ]
    };
    for so_once in [
        // A time before all of them; the key does not exist at the timestamp of the reader either.
        [(KEY, ReadVersion::Absent), (X, FIRST)],
        [(KEY, ReadVersion::By(1)), (X, ReadVersion::By(2))],
        [(KEY, ReadVersion::Absent), (Y, ReadVersion::By(4))],
    ] {
        assert_eq!(check(&reads(&so_once)), Ok(()));
    }
    for never_so in [
        [(KEY, ReadVersion::By(1)), (Y, ReadVersion::By(4))],
        [(X, FIRST), (Y, ReadVersion::By(4))],
    ] {
        assert!(check(&reads(&never_so)).is_err(), "{never_so:?}");
    }
}

#[test]
fn timestamps_must_match_history() {
    // The history is serializable with the reader first, but the reader's snapshot contradicts
    // that.
    let old = [
        seen(1, (1, 10), &[], &[X]),
        seen(2, (2, 11), &[(X, FIRST)], &[]),
    ];
    assert_eq!(check(&old), Ok(()));
    assert!(check_snapshots(&old).is_err());
    let mut duplicates = [seen(1, (1, 10), &[], &[X]), seen(2, (2, 11), &[], &[X])];
    duplicates[1].at = duplicates[0].at;
    assert!(check(&duplicates).is_err());
    // Two commits with one timestamp: one has read the version that the other replaced.
    let mut tied = [
        seen(1, (1, 10), &[], &[X]),
        seen(2, (2, 11), &[(X, FIRST)], &[Y]),
    ];
    tied[1].at = tied[0].at;
    assert_eq!(check_snapshots(&tied), Ok(()));
    tied[1].reads[0].1 = ReadVersion::By(1);
    assert_eq!(check_snapshots(&tied), Ok(()));
}

#[test]
fn lost_list_entry_is_found() {
    let list = Object("list", 0);
    let history = [
        seen(1, (1, 2), &[(list, FIRST)], &[list]),
        seen(2, (3, 4), &[(list, ReadVersion::By(1))], &[list]),
    ];
    let contents = |numbers: &[u64]| Contents {
        list,
        numbers: numbers.to_vec(),
    };
    assert_eq!(
        check_lists(&history, &[contents(&[]), contents(&[1, 2])]),
        Ok(())
    );
    assert!(check_lists(&history, &[contents(&[2])]).is_err());
    assert!(check_lists(&history, &[contents(&[2, 1])]).is_err());
}

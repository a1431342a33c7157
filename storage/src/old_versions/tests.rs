//! Tests of chains, generations and limits.

use super::*;

/// Keeps version `ts` of an object, replaced at `ts + 10`.
fn keep(
    old: &OldVersions,
    lane: &mut OldVersionLane,
    account: &Account,
    ts: u64,
    before: OldVersionPtr,
    oldest: u64,
) -> OldVersionPtr {
    let header = Header(0).succeed(Timestamp::from_raw(ts), true);
    let oldest = move || Timestamp::from_raw(oldest);
    let version = ReplacedVersion {
        header,
        before,
        payload_words: 100,
        at: Timestamp::from_raw(ts + 10),
    };
    old.keep(lane, account, version, &oldest, |put| {
        put(0, &[ts; 60]);
        put(60, &[ts; 40]);
    })
    .expect("the account is large enough")
}

#[test]
fn chain_returns_version_of_each_reader() {
    let (old, account, mut lane) = (
        OldVersions::new(1 << 20),
        Account::new(1 << 20),
        OldVersionLane::default(),
    );
    let first = keep(&old, &mut lane, &account, 10, OldVersionPtr::NONE, 0);
    let second = keep(&old, &mut lane, &account, 20, first, 0);
    let read = |at| match old.find(
        second,
        Timestamp::from_raw(30),
        Timestamp::from_raw(at),
        |w| (w.len(), w[99].load(Ordering::Relaxed)),
    ) {
        ChainSearch::Version(value, header) => Some((value, header.timestamp().raw())),
        ChainSearch::Absent | ChainSearch::Later(_) => None,
        ChainSearch::Reclaimed => panic!("nothing was reclaimed"),
    };
    assert_eq!(read(25), Some(((100, 20), 20)));
    assert_eq!(read(19), Some(((100, 10), 10)));
    assert_eq!(read(9), None);
}

#[test]
fn blocks_come_round_when_readers_have_passed_and_a_late_reader_notices() {
    let (old, account, mut lane) = (
        OldVersions::new(1 << 30),
        Account::new(1 << 30),
        OldVersionLane::default(),
    );
    let first = keep(
        &old,
        &mut lane,
        &account,
        1,
        OldVersionPtr::NONE,
        u64::MAX >> 10,
    );
    for ts in 2..10_000 {
        keep(
            &old,
            &mut lane,
            &account,
            ts,
            OldVersionPtr::NONE,
            u64::MAX >> 10,
        );
    }
    assert!(old.used_bytes() <= 4 * (BLOCK_WORDS * WORD_BYTES) as u64);
    assert!(matches!(
        old.find(
            first,
            Timestamp::from_raw(11),
            Timestamp::from_raw(5),
            |_| ()
        ),
        ChainSearch::Reclaimed
    ));
}

#[test]
fn past_the_limit_the_oldest_is_given_up_rather_than_memory_taken() {
    let limit = 4 * (BLOCK_WORDS * WORD_BYTES) as u64;
    let (old, account, mut lane) = (
        OldVersions::new(limit),
        Account::new(1 << 30),
        OldVersionLane::default(),
    );
    for ts in 1..10_000 {
        keep(&old, &mut lane, &account, ts, OldVersionPtr::NONE, 0);
    }
    assert!(old.used_bytes() <= limit);
}

#[test]
fn wrapped_generation_does_not_match_old_one() {
    let limit = (BLOCK_WORDS * WORD_BYTES) as u64;
    let (old, account, mut lane) = (
        OldVersions::new(limit),
        Account::new(1 << 30),
        OldVersionLane::default(),
    );
    let first = keep(&old, &mut lane, &account, 1, OldVersionPtr::NONE, 0);
    let mut ts = 2;
    let again = loop {
        let place = keep(&old, &mut lane, &account, ts, OldVersionPtr::NONE, 0);
        ts += 1;
        if place == first {
            break ts - 1;
        }
    };
    assert!(
        again > u64::from(OldVersionPtr::GENERATIONS),
        "all generations were used"
    );
    assert!(matches!(
        old.find(
            first,
            Timestamp::from_raw(11),
            Timestamp::from_raw(5),
            |_| ()
        ),
        ChainSearch::Reclaimed
    ));
}

#[test]
fn lane_reuses_garbage_of_other_lane() {
    let limit = 4 * (BLOCK_WORDS * WORD_BYTES) as u64;
    let (old, account) = (OldVersions::new(limit), Account::new(1 << 30));
    let (mut busy, mut late) = (OldVersionLane::default(), OldVersionLane::default());
    for ts in 1..1000 {
        keep(&old, &mut busy, &account, ts, OldVersionPtr::NONE, 0);
    }
    // A reader at 2000 needs the versions of the late lane, and none of the busy one.
    let first = keep(&old, &mut late, &account, 2000, OldVersionPtr::NONE, 2000);
    for ts in 2001..2150 {
        keep(&old, &mut late, &account, ts, OldVersionPtr::NONE, 2000);
    }
    let found = old.find(
        first,
        Timestamp::from_raw(2010),
        Timestamp::from_raw(2000),
        |_| (),
    );
    assert!(matches!(found, ChainSearch::Version(..)));
}

#[test]
fn long_record_gets_own_block_that_is_reused() {
    let (old, account, mut lane) = (
        OldVersions::new(1 << 30),
        Account::new(1 << 30),
        OldVersionLane::default(),
    );
    let long = ReplacedVersion {
        header: Header(0).succeed(Timestamp::from_raw(1), true),
        before: OldVersionPtr::NONE,
        payload_words: 100_000,
        at: Timestamp::from_raw(2),
    };
    let put = |put: &mut dyn FnMut(usize, &[u64])| put(99_999, &[7]);
    let place = old
        .keep(&mut lane, &account, long, &|| Timestamp::ZERO, put)
        .expect("there is room");
    let read = |w: &[AtomicU64]| (w.len(), w[99_999].load(Ordering::Relaxed));
    let found = old.find(place, Timestamp::from_raw(2), Timestamp::from_raw(1), read);
    assert!(matches!(found, ChainSearch::Version((100_000, 7), _)));
    let mut places = Vec::new();
    for ts in 3..3000 {
        places.push((
            ts,
            keep(
                &old,
                &mut lane,
                &account,
                ts,
                OldVersionPtr::NONE,
                ts.saturating_sub(400),
            ),
        ));
    }
    // The last ones all exist, at any offset of any block.
    for (ts, place) in places.iter().rev().take(300) {
        let at = Timestamp::from_raw(*ts);
        let found = old.find(*place, Timestamp::from_raw(ts + 10), at, |w| {
            w[0].load(Ordering::Relaxed)
        });
        assert!(
            matches!(found, ChainSearch::Version(value, _) if value == *ts),
            "version {ts}"
        );
    }
}

#[test]
fn garbage_versions_are_freed_and_reused() {
    let (old, account, mut lane) = (
        OldVersions::new(1 << 30),
        Account::new(1 << 30),
        OldVersionLane::default(),
    );
    let mut places = Vec::new();
    for ts in 1..20_000 {
        places.push(keep(&old, &mut lane, &account, ts, OldVersionPtr::NONE, 0));
    }
    let most = old.used_bytes();
    // Readers read from 15,000 on: versions replaced before that are not needed.
    old.trim(&account, Timestamp::from_raw(15_000));
    assert!(old.used_bytes() < most * 3 / 4);
    assert_eq!(account.used(), old.used_bytes());
    let find = |ts: u64, at: u64| {
        let replaced = Timestamp::from_raw(ts + 10);
        old.find(
            places[ts as usize - 1],
            replaced,
            Timestamp::from_raw(at),
            |w| w[99].load(Ordering::Relaxed),
        )
    };
    assert!(matches!(find(14_000, 14_005), ChainSearch::Reclaimed));
    assert!(matches!(
        find(16_000, 16_005),
        ChainSearch::Version(16_000, _)
    ));
    let low = old.next.load(Ordering::Relaxed);
    for ts in 20_000..25_000 {
        keep(&old, &mut lane, &account, ts, OldVersionPtr::NONE, 0);
    }
    assert_eq!(
        old.next.load(Ordering::Relaxed),
        low,
        "no new block was needed"
    );
    assert_eq!(account.used(), old.used_bytes());
}

//! Seeds in the ordinary test run: a few runs find no fault, and replay bit for bit. The histories
//! that would result without validation are rejected.

use std::collections::BTreeMap;

use fencepost_simulator::checker::check;
use fencepost_simulator::history::{NEVER, Object, ObservedTransaction, ReadVersion};
use fencepost_simulator::snapshots::check_snapshots;
use fencepost_simulator::{SituationCounts, Summary, record, run};

fn held(seed: u64) -> Summary {
    run(seed).unwrap_or_else(|found| panic!("seed {seed}: {found}"))
}

#[test]
fn sixty_seeds_hold() {
    let mut ends: BTreeMap<&str, u64> = BTreeMap::new();
    let (mut machines, mut unseen, mut met) = ([0; 6], 0, SituationCounts::default());
    for seed in 0..60 {
        let summary = held(seed);
        machines[summary.machines as usize] += 1;
        unseen += summary.committed_unseen;
        met += summary.met;
        for (end, count) in summary.ends {
            *ends.entry(end).or_default() += count;
        }
    }
    // A run without aborts would test little.
    let all: u64 = ends.values().sum();
    assert!(ends["committed"] > all / 3, "{ends:?}");
    for end in [
        "read_conflict",
        "write_conflict",
        "refresh_failed",
        "dropped in commit",
    ] {
        assert!(ends.contains_key(end), "no {end}: {ends:?}");
    }
    assert!(unseen > 0);
    assert!(met.all().iter().all(|met| *met > 0), "{met:?}");
    assert!(machines[1..].iter().all(|seeds| *seeds > 0), "{machines:?}");
}

#[test]
fn same_seed_gives_identical_history() {
    for seed in 0..8 {
        let (first, second) = (held(seed), held(seed));
        assert_eq!(first, second);
        let other = held(seed + 1);
        assert_ne!(first.history, other.history);
        assert_ne!(first.trace, other.trace);
    }
}

/// Makes histories in which a transaction misses a version that it should have seen: one read at a
/// time is changed to the previous version.
fn without_validation(
    history: &[ObservedTransaction],
    mut inject: impl FnMut(&ObservedTransaction, Object, Vec<ObservedTransaction>),
) {
    let mut versions: BTreeMap<Object, Vec<&ObservedTransaction>> = BTreeMap::new();
    for t in history {
        for write in &t.writes {
            versions.entry(write.object).or_default().push(t);
        }
    }
    versions
        .values_mut()
        .for_each(|order| order.sort_by_key(|t| t.at));
    for (at, t) in history.iter().enumerate() {
        for (read, (object, saw)) in t.reads.iter().enumerate() {
            let order = versions.get(object).map_or(&[][..], Vec::as_slice);
            let met = order
                .iter()
                .position(|writer| ReadVersion::By(writer.id) == *saw);
            let Some(met) = met else { continue };
            let before = met.checked_sub(1).map(|before| order[before]);
            let there = |writer: &&ObservedTransaction| {
                let mut writes = writer.writes.iter();
                writes.any(|write| write.object == *object && write.stays)
            };
            let cell = !matches!(object.0, "key" | "hashed key");
            let missed = match before {
                Some(writer) if there(&writer) => ReadVersion::By(writer.id),
                None if cell => ReadVersion::By(0),
                _ => ReadVersion::Absent,
            };
            let mut injected = history.to_vec();
            injected[at].reads[read].1 = missed;
            inject(order[met], *object, injected);
        }
    }
}

#[test]
fn checker_finds_anomaly_injected_into_recorded_history() {
    let (mut found, mut kinds) = (0, BTreeMap::new());
    for seed in 0..6 {
        let history = record(seed).expect("holds").history;
        without_validation(&history, |missed, object, injected| {
            assert!(check_snapshots(&injected).is_err(), "seed {seed}, {object}");
            let changed = injected.iter().zip(&history);
            let (reader, _) = changed.into_iter().find(|(a, b)| a != b).expect("one");
            let overwrites = reader.writes.iter().any(|write| write.object == object);
            // A reader that overwrites the missed version, or began after its writer, cannot be
            // ordered before the writer.
            if overwrites || missed.ended != NEVER && missed.ended < reader.began {
                assert!(check(&injected).is_err(), "seed {seed}, {object}");
                *kinds.entry(object.0).or_insert(0) += 1;
                found += 1;
            }
        });
    }
    assert!(found > 200, "{found}");
    for kind in ["register", "account", "list", "key", "hashed key"] {
        assert!(kinds.contains_key(kind), "{kinds:?}");
    }
}

//! Simulated machines that recover transactions, message by message.

mod check;
mod commits;
mod fault;
mod messages;
mod rules;
mod world;

use fault::Fault;
use world::{Counts, World};

const SEEDS: u64 = 10_000;

#[test]
fn machine_losses_keep_commits_and_leave_no_locks() {
    let mut counts = Counts::default();
    for seed in 0..SEEDS {
        match World::new(seed, None).run() {
            Ok(of_seed) => counts.add(&of_seed),
            Err(wrong) => panic!("seed {seed}: {wrong}"),
        }
    }
    // Each kind of event occurs often enough for the test to be meaningful.
    for (what, count) in [
        ("committed before a loss", counts.shown),
        ("given up before", counts.gave_up),
        ("decided to commit", counts.commits),
        ("decided to abort", counts.aborts),
        ("losses during recovery", counts.again),
        ("contents fetched", counts.fetched),
        ("told to backups", counts.replicated),
        ("votes asked for", counts.requested),
        ("votes of truncated ones", counts.truncated),
        ("votes of those without records", counts.unknown),
        ("sent before the receiver had begun", counts.early),
        ("decided again", counts.decided_again),
    ] {
        assert!(count > SEEDS / 100, "{what}: {count}");
    }
}

#[test]
fn injected_faults_are_found() {
    for fault in [
        Fault::ForgetNeedRecovery,
        Fault::UnknownForTruncated,
        Fault::ForgetAbortRecovery,
        Fault::DecideWithoutAllVotes,
        Fault::VoteBeforeEvidence,
        Fault::ShareLockAlone,
        Fault::WholeTooEarly,
        Fault::TruncatedForOtherRegions,
    ] {
        let wrong = |seed: u64| World::new(seed, Some(fault)).run().is_err();
        let found = (0..SEEDS).any(wrong);
        assert!(found, "{fault:?}");
    }
}

//! A commit of two regions with three replicas each, met by losses at every point, and recovered with more losses at
//! every point of that. All states that can come about are looked at.
//!
//! Which replica is which does not matter to a vote, so a region is the set of what those that are left have seen; the
//! primary of the normal case comes first in it until somebody is lost.

use std::collections::HashSet;

use super::{Decision, Evidence, Vote, decide};

const REGIONS: usize = 2;
const REPLICAS: usize = 3;

/// How far things are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Stage {
    /// The coordinator goes on.
    Normal,
    /// Replicas tell one another what they have seen.
    Recovering,
    /// It is decided, and told.
    Decided(Decision),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    stage: Stage,
    replicas: [Vec<Evidence>; REGIONS],
    /// A version was shown, or success was reported.
    committed: bool,
    /// The coordinator has told its client that it did not commit.
    gave_up: bool,
    /// What was decided first.
    decided: Option<Decision>,
}

/// What the replicas of a region tell one another before it votes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Told {
    /// All that any of them has seen.
    All,
    /// That there was a LOCK, as SOSP'15 §5.3 step 5 has it.
    Lock,
}

impl State {
    fn begin() -> State {
        State {
            stage: Stage::Normal,
            replicas: std::array::from_fn(|_| vec![Evidence::NONE; REPLICAS]),
            committed: false,
            gave_up: false,
            decided: None,
        }
    }

    fn all(&self, mut holds: impl FnMut(usize, Evidence) -> bool) -> bool {
        let each =
            |region: &Vec<Evidence>| region.iter().enumerate().all(|(at, seen)| holds(at, *seen));
        self.replicas.iter().all(each)
    }

    fn has_records(region: &[Evidence]) -> bool {
        !matches!(
            Vote::of(region.iter().copied()),
            Vote::Truncated | Vote::Unknown
        )
    }

    /// All states that may be next.
    fn next(&self, told: Told) -> Vec<State> {
        let mut next = Vec::new();
        for region in 0..REGIONS {
            for replica in 0..self.replicas[region].len() {
                let seen = self.replicas[region][replica];
                let step = match self.stage {
                    Stage::Normal => self.commit_step(replica, seen),
                    Stage::Recovering => self.tell_step(region, seen, told),
                    Stage::Decided(decision) => self.decided_step(decision, seen),
                };
                if let Some(step) = step.filter(|step| *step != seen) {
                    let mut state = self.clone();
                    state.replicas[region][replica] = step;
                    state.committed |=
                        step.any_of(Evidence::COMMIT_PRIMARY.and(Evidence::COMMIT_RECOVERY));
                    next.push(state);
                }
                // No region loses all.
                if self.replicas[region].len() > 1 {
                    let mut state = self.clone();
                    state.stage = Stage::Recovering;
                    state.replicas[region].remove(replica);
                    next.push(state);
                }
            }
        }
        match self.stage {
            Stage::Normal => {
                // The coordinator is lost, or gives up.
                next.push(State {
                    stage: Stage::Recovering,
                    ..self.clone()
                });
                if self.all(|_, seen| !seen.any_of(Evidence::COMMIT_BACKUP)) && !self.committed {
                    next.push(State {
                        gave_up: true,
                        ..self.clone()
                    });
                }
            }
            Stage::Recovering => next.extend(self.vote(told)),
            Stage::Decided(_) => {}
        }
        // What a region is after a loss is a set.
        for state in next.iter_mut().filter(|state| state.stage != Stage::Normal) {
            state.replicas.iter_mut().for_each(|region| region.sort());
        }
        next
    }

    /// What a replica may see next as long as the coordinator goes on (SOSP'15 §4).
    fn commit_step(&self, replica: usize, seen: Evidence) -> Option<Evidence> {
        let primary = replica == 0;
        let is_in =
            |these: Evidence| move |at: usize, seen: Evidence| at != 0 || seen.any_of(these);
        let after_backup = Evidence::COMMIT_BACKUP.and(Evidence::TRUNCATED);
        let after_primary = Evidence::COMMIT_PRIMARY.and(Evidence::TRUNCATED);
        if self.gave_up {
            // ABORT: the record is forgotten.
            return primary.then_some(Evidence::NONE);
        }
        if self.all(is_in(after_primary)) {
            return Some(Evidence::TRUNCATED);
        }
        if primary && self.all(|at, seen| at == 0 || seen.any_of(after_backup)) {
            return Some(seen.and(Evidence::COMMIT_PRIMARY));
        }
        match (primary, self.all(is_in(Evidence::LOCK))) {
            (true, _) => Some(seen.and(Evidence::LOCK)),
            (false, true) => Some(seen.and(Evidence::COMMIT_BACKUP)),
            (false, false) => None,
        }
    }

    /// What a replica knows once it was told; one that has truncated the transaction needs nothing.
    fn tell_step(&self, region: usize, seen: Evidence, told: Told) -> Option<Evidence> {
        let region = &self.replicas[region];
        if seen == Evidence::TRUNCATED || !State::has_records(region) {
            return None;
        }
        Some(match told {
            Told::All => region
                .iter()
                .copied()
                .fold(seen, |all, seen| all.and(seen.without(Evidence::TRUNCATED))),
            Told::Lock if seen == Evidence::NONE => Evidence::LOCK,
            Told::Lock => seen,
        })
    }

    /// The decision, once all were told. Nobody looks after a transaction of which there is no record.
    fn vote(&self, told: Told) -> Option<State> {
        let is_told = |(at, region): (usize, &Vec<Evidence>)| {
            let mut each = region.iter();
            each.all(|seen| {
                self.tell_step(at, *seen, told)
                    .is_none_or(|then| then == *seen)
            })
        };
        if !self.replicas.iter().enumerate().all(is_told)
            || !self
                .replicas
                .iter()
                .any(|region| State::has_records(region))
        {
            return None;
        }
        let votes = self
            .replicas
            .iter()
            .map(|region| Some(Vote::of(region.iter().copied())));
        let decision = decide(votes).expect("all have voted");
        Some(State {
            stage: Stage::Decided(decision),
            decided: self.decided.or(Some(decision)),
            ..self.clone()
        })
    }

    /// What a replica sees next of a decision: that, and after all have, TRUNCATE-RECOVERY.
    fn decided_step(&self, decision: Decision, seen: Evidence) -> Option<Evidence> {
        let record = match decision {
            Decision::Commit => Evidence::COMMIT_RECOVERY,
            Decision::Abort => Evidence::ABORT_RECOVERY,
        };
        match self.all(|_, seen| seen.any_of(record.and(Evidence::TRUNCATED))) {
            true => Some(Evidence::TRUNCATED),
            false if seen == Evidence::TRUNCATED => None,
            false => Some(seen.and(record)),
        }
    }

    /// What is wrong here, if anything.
    fn wrong(&self) -> Option<&'static str> {
        match self.stage {
            Stage::Decided(decision) if self.decided != Some(decision) => {
                Some("two recoveries decide differently")
            }
            Stage::Decided(Decision::Abort) if self.committed => Some("what was committed is lost"),
            Stage::Decided(Decision::Commit) if self.gave_up => Some("what was given up commits"),
            Stage::Decided(Decision::Commit)
                if self.replicas.iter().any(|region| nobody_knows(region)) =>
            {
                Some("a region commits what none of its replicas knows")
            }
            Stage::Recovering
                if self.committed
                    && self.all(|_, seen| !seen.has_records())
                    && !self.all(|_, seen| seen == Evidence::TRUNCATED) =>
            {
                Some("nobody knows any more what was committed")
            }
            _ => None,
        }
    }
}

fn nobody_knows(region: &[Evidence]) -> bool {
    region.iter().all(|seen| *seen == Evidence::NONE)
}

/// Looks at all states; how many there are, or the first that is wrong.
fn explore(told: Told) -> Result<usize, (&'static str, State)> {
    let mut known = HashSet::from([State::begin()]);
    let mut open = vec![State::begin()];
    while let Some(state) = open.pop() {
        if let Some(wrong) = state.wrong() {
            return Err((wrong, state));
        }
        for next in state.next(told) {
            if known.insert(next.clone()) {
                open.push(next);
            }
        }
    }
    Ok(known.len())
}

#[test]
fn no_loss_at_any_point_changes_what_was_decided() {
    match explore(Told::All) {
        Ok(states) => assert!(states > 1000, "{states}"),
        Err((wrong, state)) => panic!("{wrong}: {state:?}"),
    }
}

/// If those that are told of a transaction learn of its LOCK alone, a commit that rests on what one backup has seen
/// is undone when that one is lost, although others have been shown it.
#[test]
fn replicas_have_to_be_told_more_than_of_a_lock() {
    assert!(explore(Told::Lock).is_err());
}

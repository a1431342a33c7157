//! A model of the commit of a transaction that writes two regions with three replicas each.
//! Machines are lost at every point of the commit, and more machines at every point of its
//! recovery. All reachable states are checked.
//!
//! A vote does not depend on which replica has seen what, so a region is the set of the evidence of
//! its remaining replicas. In the normal case the primary's evidence is the first, until a machine
//! is lost.

use std::collections::HashSet;

use super::{Decision, Evidence, Vote, decide};

const REGIONS: usize = 2;
const REPLICAS: usize = 3;

/// The progress of the commit or the recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Stage {
    /// The coordinator is running the commit.
    Normal,
    /// Replicas exchange their evidence.
    Recovering,
    /// The recovery has decided and sends the decision.
    Decided(Decision),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    stage: Stage,
    replicas: [Vec<Evidence>; REGIONS],
    /// Whether a version was shown, or success was reported.
    committed: bool,
    /// Whether the coordinator has reported to its client that the transaction did not commit.
    gave_up: bool,
    /// The first decision of a recovery.
    decided: Option<Decision>,
}

/// The evidence that the replicas of a region exchange before it votes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SharedEvidence {
    /// All evidence that any replica has.
    All,
    /// Only that there was a LOCK, as in SOSP'15 §5.3 step 5.
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

    /// Returns all possible next states.
    fn next(&self, shared: SharedEvidence) -> Vec<State> {
        let mut next = Vec::new();
        for region in 0..REGIONS {
            for replica in 0..self.replicas[region].len() {
                let seen = self.replicas[region][replica];
                let step = match self.stage {
                    Stage::Normal => self.commit_step(replica, seen),
                    Stage::Recovering => self.evidence_step(region, seen, shared),
                    Stage::Decided(decision) => self.decided_step(decision, seen),
                };
                if let Some(step) = step.filter(|step| *step != seen) {
                    let mut state = self.clone();
                    state.replicas[region][replica] = step;
                    state.committed |=
                        step.any_of(Evidence::COMMIT_PRIMARY.and(Evidence::COMMIT_RECOVERY));
                    next.push(state);
                }
                // No region loses all its replicas.
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
            Stage::Recovering => next.extend(self.vote(shared)),
            Stage::Decided(_) => {}
        }
        // After a loss the evidence of a region is a set, so sort it.
        for state in next.iter_mut().filter(|state| state.stage != Stage::Normal) {
            state.replicas.iter_mut().for_each(|region| region.sort());
        }
        next
    }

    /// Returns the next evidence of a replica while the coordinator runs (SOSP'15 §4).
    fn commit_step(&self, replica: usize, seen: Evidence) -> Option<Evidence> {
        let primary = replica == 0;
        let is_in =
            |these: Evidence| move |at: usize, seen: Evidence| at != 0 || seen.any_of(these);
        let after_backup = Evidence::COMMIT_BACKUP.and(Evidence::TRUNCATED);
        let after_primary = Evidence::COMMIT_PRIMARY.and(Evidence::TRUNCATED);
        if self.gave_up {
            // ABORT: the record is deleted.
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

    /// Returns the evidence of a replica after the exchange. A replica that has truncated the
    /// transaction needs none.
    fn evidence_step(
        &self,
        region: usize,
        seen: Evidence,
        shared: SharedEvidence,
    ) -> Option<Evidence> {
        let region = &self.replicas[region];
        if seen == Evidence::TRUNCATED || !State::has_records(region) {
            return None;
        }
        Some(match shared {
            SharedEvidence::All => region
                .iter()
                .copied()
                .fold(seen, |all, seen| all.and(seen.without(Evidence::TRUNCATED))),
            SharedEvidence::Lock if seen == Evidence::NONE => Evidence::LOCK,
            SharedEvidence::Lock => seen,
        })
    }

    /// Returns the state after the decision, once all replicas have the evidence. A transaction
    /// without any record is not recovered.
    fn vote(&self, shared: SharedEvidence) -> Option<State> {
        let has_evidence = |(at, region): (usize, &Vec<Evidence>)| {
            let mut each = region.iter();
            each.all(|seen| {
                self.evidence_step(at, *seen, shared)
                    .is_none_or(|then| then == *seen)
            })
        };
        if !self.replicas.iter().enumerate().all(has_evidence)
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

    /// Returns the next evidence of a replica after a decision: the decision, and once all replicas
    /// have it, TRUNCATE-RECOVERY.
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

    /// Returns the violated invariant, if any.
    fn wrong(&self) -> Option<&'static str> {
        match self.stage {
            Stage::Decided(decision) if self.decided != Some(decision) => {
                Some("two recoveries decide differently")
            }
            Stage::Decided(Decision::Abort) if self.committed => Some("a committed change is lost"),
            Stage::Decided(Decision::Commit) if self.gave_up => Some("a given-up change commits"),
            Stage::Decided(Decision::Commit)
                if self.replicas.iter().any(|region| is_unknown(region)) =>
            {
                Some("a region commits what none of its replicas knows")
            }
            Stage::Recovering
                if self.committed
                    && self.all(|_, seen| !seen.has_records())
                    && !self.all(|_, seen| seen == Evidence::TRUNCATED) =>
            {
                Some("no replica knows the committed transaction any more")
            }
            _ => None,
        }
    }
}

fn is_unknown(region: &[Evidence]) -> bool {
    region.iter().all(|seen| *seen == Evidence::NONE)
}

/// Visits all states. Returns their number, or the first state that violates an invariant.
fn explore(shared: SharedEvidence) -> Result<usize, (&'static str, State)> {
    let mut known = HashSet::from([State::begin()]);
    let mut open = vec![State::begin()];
    while let Some(state) = open.pop() {
        if let Some(wrong) = state.wrong() {
            return Err((wrong, state));
        }
        for next in state.next(shared) {
            if known.insert(next.clone()) {
                open.push(next);
            }
        }
    }
    Ok(known.len())
}

#[test]
fn machine_loss_at_any_point_keeps_decision() {
    match explore(SharedEvidence::All) {
        Ok(states) => assert!(states > 1000, "{states}"),
        Err((wrong, state)) => panic!("{wrong}: {state:?}"),
    }
}

/// If the exchange covers only LOCK, a commit may depend on the evidence of one backup. The commit
/// is undone when that backup is lost, although other transactions have seen its writes.
#[test]
fn replicas_have_to_be_told_more_than_of_a_lock() {
    assert!(explore(SharedEvidence::Lock).is_err());
}

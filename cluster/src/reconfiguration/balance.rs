//! Which replicas go to other machines, so that all bear about as much.
//!
//! ```text
//! a machine has joined ─► step: a further replica of one group ─► all are whole ─► the one that is too many is given up
//!                          ▲                                                                          │
//!                          └──────────── as long as that makes the machines more equal ◄───────────────┘
//! ```
//! A machine *bears* its replicas, and those once more that it is the primary of. The sum of the squares of what machines
//! bear becomes less with each step, so that there is a last one.

use fencepost_fabric::MachineId;

use crate::few::FewSet;
use crate::placement::Placement;
use crate::region::{RegionId, Replicas};
use crate::successors::mix;

/// Who is the rather to be a primary of a group, of those who can: the least.
pub(super) fn rank(machine: MachineId, group: RegionId, placement: &Placement) -> (usize, u64) {
    let primaries = placement.load(machine).map_or(0, |load| load.primaries);
    let lot = mix((u64::from(group.0) << 32) | u64::from(machine.0));
    (primaries, lot)
}

/// Regions that are on the same machines.
pub(super) struct Together<'a> {
    pub group: RegionId,
    /// How many.
    pub count: usize,
    pub primary: MachineId,
    pub placement: &'a Placement,
}

impl Together<'_> {
    /// Who of `stay` becomes the primary, if the one there is does not stay.
    pub fn heir(&self, stay: &FewSet<MachineId>) -> Option<MachineId> {
        let stay = stay.iter().copied();
        stay.min_by_key(|machine| rank(*machine, self.group, self.placement))
    }

    /// Of these machines the one without whom all bear most equally.
    pub fn too_many(&self, machines: &FewSet<MachineId>) -> Option<MachineId> {
        let machines_but = |machine: MachineId| {
            let mut rest = machines.clone();
            rest.remove(&machine);
            rest
        };
        let all = machines.iter().copied();
        all.min_by_key(|machine| {
            let cost = self.cost_of_exchange(*machine, None, &machines_but(*machine));
            (cost, rank(*machine, self.group, self.placement))
        })
    }

    /// By how much what machines bear becomes less equal if `from` has no replicas of these regions any more, and `to`,
    /// who is among those who have them then, has.
    fn cost_of_exchange(
        &self,
        from: MachineId,
        to: Option<MachineId>,
        then: &FewSet<MachineId>,
    ) -> i64 {
        let count = self.count as i64;
        let mut changes = vec![(from, -count)];
        changes.extend(to.map(|to| (to, count)));
        if from == self.primary
            && let Some(heir) = self.heir(then)
        {
            changes.extend([(from, -count), (heir, count)]);
        }
        let mut cost = 0;
        for at in 0..changes.len() {
            let (machine, _) = changes[at];
            // Each machine once, with all that changes for it.
            if changes[..at].iter().any(|(before, _)| *before == machine) {
                continue;
            }
            let its = changes.iter().filter(|(of, _)| *of == machine);
            let change: i64 = its.map(|(_, change)| change).sum();
            let load = self.placement.load(machine).unwrap_or_default();
            let bears = (load.replicas + load.primaries) as i64;
            cost += (bears + change).pow(2) - bears.pow(2);
        }
        cost
    }

    /// A machine that is to have these regions, too, so that another one can give them up; none in `closed` takes any.
    /// And how much less equal all are then, which is below 0.
    pub fn step(
        &self,
        replicas: &Replicas,
        closed: &FewSet<MachineId>,
    ) -> Option<(i64, MachineId)> {
        let all: FewSet<MachineId> = replicas.all().collect();
        let mut best = None;
        for from in &all {
            let having: Vec<MachineId> = all.iter().copied().filter(|m| m != from).collect();
            let others = self.placement.more(self.group, &having, usize::MAX, closed);
            for to in others.into_iter().filter(|to| !all.contains(to)) {
                let then = having.iter().copied().chain([to]).collect();
                let cost = self.cost_of_exchange(*from, Some(to), &then);
                if cost < 0 && best.is_none_or(|best| (cost, to) < best) {
                    best = Some((cost, to));
                }
            }
        }
        best
    }
}

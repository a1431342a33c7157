//! The choice of replicas that move to other machines, so that all machines have about the same
//! load.
//!
//! ```text
//! a machine joins ─► step: one more replica of a group ─► all are whole ─► give one replica up
//!                          ▲                                                          │
//!                          └──────── as long as that makes the loads more equal ◄─────┘
//! ```
//!
//! The *load* of a machine is the number of its replicas plus the number of its primaries. Each
//! step decreases the sum of the squares of all loads, so the steps end.

use fencepost_fabric::MachineId;

use crate::few::FewSet;
use crate::placement::Placement;
use crate::region::{RegionId, Replicas};
use crate::successors::mix;

/// Returns a rank by which the primary of a group is chosen: the eligible machine with the least
/// rank is preferred.
pub(super) fn rank(machine: MachineId, group: RegionId, placement: &Placement) -> (usize, u64) {
    let primaries = placement.load(machine).map_or(0, |load| load.primaries);
    let lot = mix((u64::from(group.0) << 32) | u64::from(machine.0));
    (primaries, lot)
}

/// A group of regions on the same machines.
pub(super) struct RegionGroup<'a> {
    pub group: RegionId,
    /// The number of regions.
    pub count: usize,
    pub primary: MachineId,
    pub placement: &'a Placement,
}

impl RegionGroup<'_> {
    /// Returns the machine of `stay` that becomes the primary if the present primary does not stay.
    pub fn heir(&self, stay: &FewSet<MachineId>) -> Option<MachineId> {
        let stay = stay.iter().copied();
        stay.min_by_key(|machine| rank(*machine, self.group, self.placement))
    }

    /// Returns the one of these machines without which the loads are most equal.
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

    /// Returns the change of the sum of squared loads if `from` gives up these regions and `to`
    /// gets them. The holders are `then` afterwards, `to` among them.
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
            // Each machine counts once, with the sum of its changes.
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

    /// Returns a machine that is to get these regions, so that another machine can give them up.
    /// Also returns the change of the sum of squares, which is below 0. No machine in `closed` gets
    /// any.
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

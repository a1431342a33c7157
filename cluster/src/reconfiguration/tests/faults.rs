//! The faults of the simulated world, until it is healed.

use fencepost_fabric::MachineId;

use super::world::{MS, World};
use crate::testing;

impl World {
    fn draw(&mut self) -> MachineId {
        let ids = self.ids();
        ids[self.random.below(ids.len() as u64) as usize]
    }

    pub fn fault(&mut self) {
        match self.random.below(16) {
            0..=1 => {
                let id = self.draw();
                self.crash(id);
            }
            2 => self.crash(self.store.cm()),
            3 => {
                for _ in 0..2 {
                    let id = self.draw();
                    self.crash(id);
                }
            }
            4..=5 => {
                let (id, pause) = (self.draw(), self.random.below(40 * MS));
                let until = self.time + pause;
                self.node(id).paused_until = until;
            }
            6 => {
                let until = self.time + self.random.below(40 * MS);
                let cm = self.store.cm();
                if let Some(node) = self.nodes.get_mut(&cm) {
                    node.paused_until = until;
                }
            }
            7 => {
                let (from, to) = (self.draw(), self.draw());
                self.cut.insert((from, to));
            }
            8 => {
                // A partition into two sides, in one direction or both.
                let both = self.random.one_in(2);
                let ids = self.ids();
                let sides: Vec<bool> = ids.iter().map(|_| self.random.one_in(2)).collect();
                for (from, a) in ids.iter().zip(&sides) {
                    for (to, b) in ids.iter().zip(&sides) {
                        if a != b && (both || *a) {
                            self.cut.insert((*from, *to));
                        }
                    }
                }
            }
            9..=10 => self.cut.clear(),
            11 => self.store_down = !self.store_down,
            12 => {
                let now = |world: &Self, id: MachineId| world.nodes[&id].now(world.time);
                let cm = self.store.cm();
                let n = self.store.next_machine().0;
                if self
                    .nodes
                    .get(&cm)
                    .is_some_and(|n| n.up && n.paused_until <= self.time)
                {
                    let at = now(self, cm);
                    let reconfiguration = &mut self.node(cm).reconfiguration;
                    let domain = testing::domain(n);
                    if let Ok(actions) = reconfiguration.add(at, testing::address(n), domain) {
                        self.act(cm, actions);
                    }
                }
            }
            13..=14 => {
                let (cm, id) = (self.store.cm(), self.draw());
                let leaving = self.store.leaving().first().copied();
                let time = self.time;
                if let Some(node) = self.nodes.get_mut(&cm).filter(|n| n.up) {
                    let now = node.now(time);
                    let asked = match leaving {
                        None => node.reconfiguration.leave(now, id),
                        Some(id) => node.reconfiguration.part_with(now, cm, id),
                    };
                    if let Ok(actions) = asked {
                        match leaving {
                            None => self.checks.seen.leaving += 1,
                            Some(_) => self.checks.seen.parted += 1,
                        }
                        self.act(cm, actions);
                    }
                }
            }
            _ => {
                let (cm, id) = (self.store.cm(), self.draw());
                let time = self.time;
                let enough = self.store.machines().len() > 3;
                if let Some(node) = self.nodes.get_mut(&cm).filter(|n| n.up && enough) {
                    let now = node.now(time);
                    if let Ok(actions) = node.reconfiguration.remove(now, id) {
                        self.checks.seen.removals += 1;
                        self.act(cm, actions);
                    }
                }
            }
        }
    }

    /// Stops a machine for good, if a majority of the configuration stays.
    fn crash(&mut self, id: MachineId) {
        let members = self.store.machines().iter();
        let stay = members.filter(|machine| {
            let node = self.nodes.get(&machine.id);
            machine.id != id && node.is_some_and(|node| node.up)
        });
        if stay.count() >= self.store.majority()
            && let Some(node) = self.nodes.get_mut(&id)
        {
            node.up = false;
        }
    }

    pub fn heal(&mut self) {
        self.faults = false;
        self.cut.clear();
        self.store_down = false;
        // Delays are bounded so that no lease has expired when the final state is checked.
        self.delay = self.delay.min(300_000);
        let time = self.time;
        for node in self.nodes.values_mut() {
            node.paused_until = node.paused_until.min(time);
        }
    }
}

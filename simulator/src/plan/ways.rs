//! Plans with faults of the connections between machines: lost and late messages, and machines that
//! are cut off.

use fencepost_fabric::{MachineId, Random};

use super::{LONG_NS, Plan};
use crate::faults::{Direction, Fault, FaultTime, StepAt};

impl Plan {
    /// Draws a plan in which a machine crashes and is replaced, some of its messages are lost, and
    /// some messages of all machines are late.
    pub fn draw_with_bad_network(seed: u64) -> Plan {
        let (mut plan, mut random) = Plan::draw_to_fail(seed, 3, 2);
        let (machine, _) = plan.draw_victim(&mut random);
        let mut of = |choices: &[u64]| choices[random.below(choices.len() as u64) as usize];
        plan.net.late_one_in = of(&[10, 50, 200]);
        plan.net.late_ns = of(&[500_000, 2_000_000, 8_000_000]);
        plan.net.lose_one_in = of(&[0, 1, 2]);
        // On a fast network the work of clients takes less than a millisecond.
        let within = of(&[200_000, 1_000_000, 5_000_000, 20_000_000]);
        let when = FaultTime::After(random.below(within));
        plan.faults.push(Fault::Crash(machine, when));
        plan.survives_late_answers();
        plan
    }

    /// Draws a plan in which reads of other machines' memory take a while, during which the memory
    /// changes, and a machine crashes and is replaced.
    pub fn draw_with_torn_reads(seed: u64) -> Plan {
        let mut plan = Plan::draw_with_crash(seed);
        let mut random = Random::new(seed ^ 0x70_12);
        plan.net.torn_one_in = 1 + random.below(4);
        plan.net.torn_ns = [5_000, 50_000, 500_000][random.below(3) as usize];
        plan.narrow_working_set();
        plan
    }

    /// Draws a plan in which a record of a commit is lost with its connection, and the
    /// coordinator's machine crashes soon after.
    pub fn draw_with_lost_record(seed: u64) -> Plan {
        const STEPS: [&str; 3] = ["LOCK", "COMMIT-BACKUP", "COMMIT-PRIMARY"];
        // The receiver may have been evicted by then.
        let (mut plan, mut random) = Plan::draw_to_fail(seed, 5, 3);
        let (machine, _) = plan.draw_victim(&mut random);
        let at = StepAt {
            name: STEPS[random.below(STEPS.len() as u64) as usize],
            by: Some(machine),
            nth: 1 + random.below(8),
            after: false,
        };
        let then = Some(random.below(2_000_000));
        plan.faults.push(Fault::LoseAt(at, then));
        plan
    }

    /// Draws a plan in which a record of a commit is lost with its connection, and a new connection
    /// follows soon. The manager learns of the loss late; the machine that lost the record may
    /// crash before.
    pub fn draw_with_hole(seed: u64) -> Plan {
        const STEPS: [&str; 4] = ["LOCK", "COMMIT-BACKUP", "COMMIT-PRIMARY", "TRUNCATE"];
        // The receiver may have been evicted by then.
        let (mut plan, mut random) = Plan::draw_to_fail(seed, 5, 3);
        // The first machine is the manager.
        let machine = 1 + random.below(u64::from(plan.machines) - 1) as usize;
        let at = StepAt {
            name: STEPS[random.below(STEPS.len() as u64) as usize],
            by: Some(machine),
            nth: 1 + random.below(16),
            after: false,
        };
        let (manager, machine) = (MachineId(1), MachineId(machine as u32 + 1));
        let late = 1_000_000 + random.below(6_000_000);
        // Some clients continue while others wait for the lost record.
        (plan.clients, plan.transactions) = (16, 10);
        plan.net.slow.push((machine, manager, late));
        plan.net.connect_ns = (1_000, 50_000);
        // Otherwise the manager decides which of the two machines leaves.
        let crashes = [Some(late / 2), Some(late), None][random.below(3) as usize];
        plan.faults.push(Fault::LoseAt(at, crashes));
        plan
    }

    /// Draws a plan in which one or two machines are cut off for longer than leases last.
    pub fn draw_with_partition(seed: u64) -> Plan {
        let (mut plan, mut random) = Plan::draw_to_fail(seed, 3, 2);
        let (machine, when) = plan.draw_victim(&mut random);
        let mut cut = vec![machine];
        if plan.machines == 5 && random.below(2) == 0 {
            plan.replicas = 3;
            cut.push(plan.draw_other(machine, &mut random));
        }
        for machine in cut {
            let direction = match random.below(4) {
                0 => Direction::Out,
                1 => Direction::In,
                _ => Direction::Both,
            };
            if direction == Direction::In {
                // The machine may evict the manager, too, because it does not receive the manager's
                // messages.
                plan.replicas = plan.replicas.max(3);
            }
            // This is longer than the limit of a connection, which breaks and loses the messages in
            // flight.
            let ns = 40_000_000 + plan.draw_outage(&mut random);
            plan.faults
                .push(Fault::CutOff(machine, when, ns, direction));
        }
        plan
    }

    /// Draws a plan in which messages from one machine to another are delayed for a while, in one
    /// direction or both. The connections stay up; a third machine may crash meanwhile.
    pub fn draw_with_silence(seed: u64) -> Plan {
        let (mut plan, mut random) = Plan::draw_to_fail(seed, 4, 2);
        let (machine, when) = plan.draw_victim(&mut random);
        let other = plan.draw_other(machine, &mut random);
        let direction = match random.below(2) {
            0 => Direction::Out,
            _ => Direction::Both,
        };
        let ns = plan.draw_outage(&mut random);
        plan.net.patience_ns = LONG_NS;
        plan.faults
            .push(Fault::Silence(machine, other, when, ns, direction));
        if random.below(3) == 0 {
            let third = plan.draw_other(machine, &mut random);
            let (_, when) = plan.draw_victim(&mut random);
            if third != other {
                plan.faults.push(Fault::Crash(third, when));
                // Two machines may be lost before their regions have other replicas.
                plan.replicas = plan.replicas.max(3);
            }
        }
        plan
    }

    /// Draws a plan without failures in which some connections are much slower than others, while
    /// all clients use the same few objects. A machine's last messages arrive long after later work
    /// of other machines.
    pub fn draw_with_slow_ways(seed: u64) -> Plan {
        let (mut plan, mut random) = Plan::draw_to_fail(seed, 3, 2);
        plan.draw_slow_way(&mut random);
        plan.draw_slow_way(&mut random);
        plan.narrow_working_set();
        (plan.think_ns, plan.drop_one_in) = (200_000, 0);
        plan
    }

    /// Draws a plan in which connections of a machine are much slower than others. The machine
    /// crashes with messages in flight, at a step of a commit or at any time.
    pub fn draw_with_crash_on_slow_ways(seed: u64) -> Plan {
        const STEPS: [&str; 5] = [
            "LOCK",
            "COMMIT-BACKUP",
            "COMMIT-PRIMARY",
            "TRUNCATE",
            "TRUNCATE",
        ];
        let (mut plan, mut random) = Plan::draw_to_fail(seed, 3, 2);
        let machine = plan.draw_slow_way(&mut random);
        if random.below(2) == 0 {
            plan.draw_slow_way(&mut random);
        }
        plan.net.lose_one_in = [0, 1, 2][random.below(3) as usize];
        plan.faults.push(match random.below(3) {
            0 => Fault::Crash(machine, FaultTime::After(random.below(20_000_000))),
            _ => Fault::CrashAt(StepAt {
                name: STEPS[random.below(STEPS.len() as u64) as usize],
                by: Some(machine),
                nth: 1 + random.below(20),
                after: random.below(2) == 0,
            }),
        });
        plan.survives_late_answers();
        plan
    }

    /// Draws a plan in which a machine crashes while other machines run commits over slow
    /// connections.
    pub fn draw_with_crash_beside_slow_ways(seed: u64) -> Plan {
        let (mut plan, mut random) = Plan::draw_to_fail(seed, 4, 2);
        let machine = plan.draw_slow_way(&mut random);
        if random.below(2) == 0 {
            plan.draw_slow_way(&mut random);
        }
        let other = plan.draw_other(machine, &mut random);
        let (_, when) = plan.draw_victim(&mut random);
        plan.faults.push(Fault::Crash(other, when));
        plan.narrow_working_set();
        plan.survives_late_answers();
        plan
    }

    /// Adds a replica if a question and its answer may take longer than leases last. A machine may
    /// then be suspected in addition to the one that fails, so data on both needs a third replica.
    fn survives_late_answers(&mut self) {
        let late_ns = match self.net.late_one_in {
            0 => 0,
            _ => self.net.late_ns,
        };
        let way_ns = |from: MachineId, to: MachineId| {
            let slow = self.net.slow.iter();
            let slow = slow.filter(|slow| (slow.0, slow.1) == (from, to));
            late_ns + slow.map(|slow| slow.2).sum::<u64>()
        };
        let ids = || (1..=self.machines).map(MachineId);
        let answers = ids().flat_map(|from| ids().map(move |to| (from, to)));
        let longest_ns = answers.map(|(from, to)| way_ns(from, to) + way_ns(to, from));
        let leases_ns = self.leases.map_or(u64::MAX, |leases| leases.duration_ns());
        if longest_ns.max() >= Some(leases_ns) {
            self.replicas = self.replicas.max(3);
        }
    }

    /// Makes one connection up to some milliseconds slower; returns the sending machine.
    fn draw_slow_way(&mut self, random: &mut Random) -> usize {
        const LONGER: [u64; 4] = [300_000, 1_000_000, 3_000_000, 8_000_000];
        let from = random.below(self.machines.into()) as usize;
        let to = self.draw_other(from, random);
        let longer = LONGER[random.below(LONGER.len() as u64) as usize];
        let id = |machine: usize| MachineId(machine as u32 + 1);
        self.net.slow.push((id(from), id(to), longer));
        from
    }
}

//! What a seed makes of a run: how many machines, how fast, what is stored, and what clients do to it.

use std::time::Duration;

use fencepost_fabric::{MachineId, Random, SimKnobs};
use fencepost_txn::Near;
use fencepost_txn::network::LeaseTerms;

use crate::doom::Crash;
use crate::executor::Pace;
use crate::host::DRIFT_PPM;

/// Everything that is drawn before a run begins.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The seed of all that follows.
    pub seed: u64,
    /// Machines, 1 to 5.
    pub machines: u32,
    /// Hosts that the machines are of, each with a clock of its own.
    pub hosts: u32,
    /// Replicas of each region, 1 to 3.
    pub replicas: usize,
    /// Words of each log: few, so that commits wait for room.
    pub log_words: usize,
    /// Whether old versions get so little memory that readers may be given up.
    pub few_old_versions: bool,
    /// How the network behaves.
    pub net: SimKnobs,
    /// How fast processors are.
    pub pace: Pace,
    /// Objects that are read and overwritten.
    pub registers: usize,
    /// Accounts among which money moves.
    pub accounts: usize,
    /// Objects that transactions append their number to.
    pub lists: usize,
    /// Objects of sections that are changed one by one.
    pub pages: usize,
    /// Keys that the B-tree and the hash table may have.
    pub keys: u64,
    /// Words of a node of the B-tree.
    pub node_words: usize,
    /// Clients, which take turns at machines.
    pub clients: usize,
    /// Transactions of each.
    pub transactions: usize,
    /// Nanoseconds that a client waits at most before each.
    pub think_ns: u64,
    /// One in so many transactions is dropped half-way.
    pub drop_one_in: u64,
    /// One in so many new objects is made on a machine that is drawn.
    pub elsewhere_one_in: u64,
    /// Whether the B-tree is kept together.
    pub together: bool,
    /// Whether machines begin with few blocks left in their first regions, so that they need further ones.
    pub few_blocks: bool,
    /// The leases of the machines, if they have some: longer than all that a run holds messages up for.
    pub leases: Option<LeaseTerms>,
    /// Whether machines that fail are replaced.
    pub replaces: bool,
    /// A machine that crashes.
    pub crash: Option<Crash>,
    /// When another machine joins, in nanoseconds after clients have begun.
    pub join_after_ns: Option<u64>,
    /// Another one, from 0, that crashes once all data of the first has replicas again.
    pub next_crash: Option<usize>,
}

impl Plan {
    /// Where the next object is made.
    pub fn place(&self, random: &mut Random) -> Near {
        match random.one_in(self.elsewhere_one_in) {
            true => Near::Machine(MachineId(1 + random.below(self.machines.into()) as u32)),
            false => Near::Own,
        }
    }

    /// Draws a plan.
    pub fn draw(seed: u64) -> Plan {
        let mut random = Random::new(seed);
        let mut of = |choices: &[u64]| choices[random.below(choices.len() as u64) as usize];
        let machines = of(&[1, 2, 3, 3, 3, 4, 5]);
        let replicas = of(&[1, 2, 3]).min(machines);
        let log_words = 1 << of(&[11, 12, 14]);
        let least = of(&[200, 1_000, 5_000]);
        let spread = of(&[1, 4, 50]);
        let net = SimKnobs {
            delay_ns: (least, least * spread),
            ..SimKnobs::default()
        };
        let pace = Pace {
            latency_ns: of(&[200, 2_000, 20_000]),
            hiccup_one_in: of(&[0, 16, 200]),
            hiccup_ns: of(&[50_000, 500_000]),
            tick_ns: of(&[200_000, 1_000_000, 3_000_000]),
        };
        Plan {
            seed,
            machines: machines as u32,
            hosts: of(&[1, 2, machines]).min(machines) as u32,
            replicas: replicas as usize,
            log_words,
            few_old_versions: of(&[0, 1]) == 0,
            net,
            pace,
            registers: of(&[2, 6, 20]) as usize,
            accounts: of(&[2, 5, 10]) as usize,
            lists: of(&[1, 3]) as usize,
            keys: of(&[4, 20, 60]),
            node_words: of(&[40, 40, 90]) as usize,
            clients: of(&[2, 4, 8]) as usize,
            transactions: of(&[10, 20, 30]) as usize,
            think_ns: of(&[1, 10_000, 200_000]),
            drop_one_in: of(&[0, 4, 12]),
            elsewhere_one_in: of(&[0, 1, 2, 8]),
            together: of(&[0, 1]) == 1,
            pages: of(&[1, 2, 4]) as usize,
            few_blocks: of(&[0, 0, 1]) == 1,
            leases: terms(of(&[0, 10, 50])),
            replaces: of(&[0, 1]) == 1,
            crash: None,
            join_after_ns: None,
            next_crash: None,
        }
    }

    /// Draws a plan in which a machine crashes and is replaced.
    pub fn draw_with_crash(seed: u64) -> Plan {
        let plan = Plan::draw(seed);
        let mut random = Random::new(seed ^ 0xDEAD);
        let machines = plan.machines.max(3);
        Plan {
            machines,
            // The time goes on at the next manager's as it was only if they have their clock in common.
            hosts: 1,
            replicas: plan.replicas.max(2),
            leases: terms(10 + random.below(2) * 20),
            replaces: true,
            crash: Some(Crash {
                machine: random.below(machines.into()) as usize,
                after_ns: random.below(20_000_000),
            }),
            ..plan
        }
    }

    /// Draws a plan in which a machine crashes and is replaced, and later another one.
    pub fn draw_with_two_crashes(seed: u64) -> Plan {
        let plan = Plan::draw_with_crash(seed);
        let mut random = Random::new(seed ^ 0xDEAD_DEAD);
        // Two of three are a majority still.
        let machines = plan.machines.max(4);
        let others = u64::from(machines) - 1;
        let next = |first: usize| (first + 1 + random.below(others) as usize) % machines as usize;
        Plan {
            machines,
            replicas: 2,
            next_crash: plan.crash.map(|crash| crash.machine).map(next),
            ..plan
        }
    }

    /// Draws a plan in which a machine joins at about the time when another one crashes.
    pub fn draw_with_newcomer_and_crash(seed: u64) -> Plan {
        let plan = Plan::draw_with_crash(seed);
        let crash = plan.crash.map_or(0, |crash| crash.after_ns);
        let mut random = Random::new(seed ^ 0xF0D);
        Plan {
            // It is let in some looks of the manager at the door later.
            join_after_ns: Some(crash.saturating_sub(random.below(100_000_000))),
            crash: plan.crash.map(|crash| Crash {
                after_ns: crash.after_ns + random.below(100_000_000),
                ..crash
            }),
            ..plan
        }
    }

    /// Draws a plan in which a machine joins, and, in half of them, another one crashes when all is at rest again.
    pub fn draw_with_newcomer(seed: u64) -> Plan {
        let plan = Plan::draw_with_crash(seed);
        let mut random = Random::new(seed ^ 0xF00D);
        Plan {
            crash: None,
            join_after_ns: Some(random.below(20_000_000)),
            next_crash: (random.below(2) == 0).then(|| random.below(plan.machines.into()) as usize),
            ..plan
        }
    }
}

/// Leases of some milliseconds between clocks such as hosts have.
pub fn terms(ms: u64) -> Option<LeaseTerms> {
    LeaseTerms::new(Duration::from_millis(ms), DRIFT_PPM as u32)
}

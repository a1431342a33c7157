//! What a seed makes of a run: how many machines, how fast, what is stored, and what clients do to it.

mod levels;
mod tables;
mod ways;

pub use levels::LevelPlan;
pub use tables::TablePlan;

use std::time::Duration;

use fencepost_fabric::{MachineId, Nic, Random, SimKnobs};
use fencepost_txn::Near;
use fencepost_txn::network::{LeaseTerms, Step};

use crate::executor::Pace;
use crate::faults::{Fault, SWAP, StepAt, When};
use crate::host::DRIFT_PPM;

/// Longer than anything in a run is waited for.
const LONG_NS: u64 = 100_000_000_000;

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
    /// Tables that clients create, change and drop, in the runs that have such.
    pub tables: Option<TablePlan>,
    /// Transactions of different isolation levels, in the runs that have such.
    pub levels: Option<LevelPlan>,
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
    /// What goes wrong.
    pub faults: Vec<Fault>,
    /// When another machine joins, in nanoseconds after clients have begun.
    pub join_after_ns: Option<u64>,
    /// A machine, from 0, that crashes once all data of others that have failed has replicas again.
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
            stall_one_in: 0,
            stall_ns: 0,
            tick_ns: of(&[200_000, 1_000_000, 3_000_000]),
        };
        Plan {
            seed,
            machines: machines as u32,
            hosts: of(&[1, 2, machines]).min(machines) as u32,
            replicas: replicas as usize,
            log_words,
            few_old_versions: of(&[0, 1]) == 0,
            pace,
            registers: of(&[2, 6, 20]) as usize,
            accounts: of(&[2, 5, 10]) as usize,
            lists: of(&[1, 3]) as usize,
            keys: of(&[4, 20, 60]),
            tables: TablePlan::draw(seed),
            levels: None,
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
            faults: Vec::new(),
            join_after_ns: None,
            next_crash: None,
            net: SimKnobs {
                late_one_in: of(&[0, 0, 50]),
                late_ns: of(&[200_000, 2_000_000]),
                ..net
            },
        }
    }

    /// Draws a plan in which machines that fail are replaced; of at least so many of each.
    fn draw_to_fail(seed: u64, machines: u32, replicas: usize) -> (Plan, Random) {
        let plan = Plan::draw(seed);
        let mut random = Random::new(seed ^ 0xDEAD);
        let leases = terms(10 + random.below(2) * 20);
        let plan = Plan {
            machines: plan.machines.max(machines),
            replicas: plan.replicas.max(replicas),
            leases,
            replaces: true,
            ..plan
        };
        (plan, random)
    }

    /// Which machine fails, and when.
    fn draw_victim(&self, random: &mut Random) -> (usize, When) {
        let machine = random.below(self.machines.into()) as usize;
        (machine, When::After(random.below(20_000_000)))
    }

    /// A machine that is not `first`.
    fn draw_other(&self, first: usize, random: &mut Random) -> usize {
        let others = u64::from(self.machines) - 1;
        (first + 1 + random.below(others) as usize) % self.machines as usize
    }

    /// Draws a plan in which a machine crashes and is replaced.
    pub fn draw_with_crash(seed: u64) -> Plan {
        let (plan, mut random) = Plan::draw_to_fail(seed, 3, 2);
        let (machine, when) = plan.draw_victim(&mut random);
        let faults = vec![Fault::Crash(machine, when)];
        Plan { faults, ..plan }
    }

    /// Draws a plan in which a machine crashes and is replaced, and later another one.
    pub fn draw_with_two_crashes(seed: u64) -> Plan {
        // Two of three are a majority still.
        let (mut plan, mut random) = Plan::draw_to_fail(seed, 4, 2);
        let (machine, when) = plan.draw_victim(&mut random);
        plan.faults.push(Fault::Crash(machine, when));
        plan.next_crash = Some(plan.draw_other(machine, &mut random));
        plan.replicas = 2;
        plan
    }

    /// Draws a plan in which a machine crashes, and another one soon after that was found out.
    pub fn draw_with_crash_in_recovery(seed: u64) -> Plan {
        let (mut plan, mut random) = Plan::draw_to_fail(seed, 5, 3);
        let (machine, when) = plan.draw_victim(&mut random);
        let (other, soon) = (
            plan.draw_other(machine, &mut random),
            random.below(3_000_000),
        );
        plan.faults.push(Fault::Crash(machine, when));
        plan.faults.push(Fault::Crash(other, When::Suspected(soon)));
        plan
    }

    /// Draws a plan in which a machine crashes at a step of a commit.
    pub fn draw_with_crash_in_commit(seed: u64) -> Plan {
        const STEPS: [&str; 8] = [
            "LOCK",
            "LOCK-REPLY",
            "VALIDATE",
            "COMMIT-BACKUP",
            "COMMIT-BACKUP",
            "COMMIT-PRIMARY",
            "TRUNCATE",
            "ABORT",
        ];
        let (mut plan, mut random) = Plan::draw_to_fail(seed, 3, 2);
        let (machine, _) = plan.draw_victim(&mut random);
        let name = STEPS[random.below(STEPS.len() as u64) as usize];
        plan.faults.push(Fault::CrashAt(StepAt {
            name,
            by: Some(machine),
            nth: 1 + random.below(12),
            after: random.below(2) == 0,
        }));
        plan
    }

    /// Draws a plan in which a client leaves while backups have its commit and primaries do not, and soon its machine
    /// crashes, which others notice at once or by its lease.
    pub fn draw_with_client_that_leaves(seed: u64) -> Plan {
        const THEN: [&str; 4] = ["ABORT", "ABORT", "COMMIT-PRIMARY", "TRUNCATE"];
        let (mut plan, mut random) = Plan::draw_to_fail(seed, 3, 2);
        let (machine, _) = plan.draw_victim(&mut random);
        let at = StepAt {
            name: "COMMIT-BACKUP",
            by: Some(machine),
            nth: 1 + random.below(30),
            after: true,
        };
        let then = StepAt {
            name: THEN[random.below(THEN.len() as u64) as usize],
            nth: 1 + random.below(4),
            after: random.below(2) == 0,
            ..at
        };
        plan.net.unnoticed_ns = random.below(2) * LONG_NS;
        plan.faults.push(Fault::LeaveAt(at, then));
        plan.crowd();
        plan
    }

    /// All are at the same few things.
    fn crowd(&mut self) {
        (self.registers, self.accounts, self.lists, self.keys) = (2, 2, 1, 4);
        (self.clients, self.transactions) = (8, 30);
    }

    /// Draws a plan in which a machine crashes, and another one at a step of its being replaced.
    pub fn draw_with_crash_at_recovery(seed: u64) -> Plan {
        const STEPS: [&str; 21] = [
            "PROBE",
            "PROBE-ANSWER",
            SWAP,
            "NEW-CONFIG",
            "CONFIGURATION",
            "NEW-CONFIG-ACK",
            "NEW-CONFIG-COMMIT",
            "NEED-RECOVERY",
            "FETCH-TX-STATE",
            "SEND-TX-STATE",
            "REPLICATE-TX-STATE",
            "REPLICATE-ACK",
            "REPLICATED",
            "RECOVERY-VOTE",
            "REQUEST-VOTE",
            "COMMIT-RECOVERY",
            "ABORT-RECOVERY",
            "RECOVERY-ACK",
            "TRUNCATE-RECOVERY",
            "REGIONS-ACTIVE",
            "ALL-REGIONS-ACTIVE",
        ];
        let (mut plan, mut random) = Plan::draw_to_fail(seed, 5, 3);
        let (machine, when) = plan.draw_victim(&mut random);
        plan.faults.push(Fault::Crash(machine, when));
        plan.faults.push(Fault::CrashAt(StepAt {
            name: STEPS[random.below(STEPS.len() as u64) as usize],
            by: None,
            nth: 1 + random.below(6),
            after: random.below(2) == 0,
        }));
        plan
    }

    /// Draws a plan in which a machine stands still for about as long as leases last, or longer, and goes on.
    pub fn draw_with_pause(seed: u64) -> Plan {
        let (mut plan, mut random) = Plan::draw_to_fail(seed, 3, 2);
        let (machine, when) = plan.draw_victim(&mut random);
        let ns = plan.draw_outage(&mut random);
        let nic = match random.below(3) {
            0 => Nic::Stands,
            _ => Nic::Goes,
        };
        plan.faults.push(Fault::Pause(machine, when, ns, nic));
        plan
    }

    /// Draws a plan in which a machine crashes and is replaced, and later maybe another one, or one comes or goes, while the
    /// threads of clients get a processor only now and then.
    pub fn draw_with_stalls(seed: u64) -> Plan {
        let mut plan = match seed % 4 {
            0 => Plan::draw_with_crash(seed),
            1 => Plan::draw_with_two_crashes(seed),
            2 => Plan::draw_with_newcomer_and_crash(seed),
            _ => Plan::draw_with_leaving_and_crash(seed),
        };
        let mut random = Random::new(seed ^ 0x57_A1);
        let mut of = |choices: &[u64]| choices[random.below(choices.len() as u64) as usize];
        plan.pace.stall_one_in = of(&[4, 20, 100]);
        plan.pace.stall_ns = of(&[2_000_000, 10_000_000, 50_000_000]);
        plan
    }

    /// Draws a plan in which a machine crashes, and nobody hears of that but by its lease.
    pub fn draw_with_unnoticed_crash(seed: u64) -> Plan {
        let (mut plan, mut random) = Plan::draw_to_fail(seed, 3, 2);
        let (machine, when) = plan.draw_victim(&mut random);
        plan.net.unnoticed_ns = LONG_NS;
        plan.faults.push(Fault::Crash(machine, when));
        plan
    }

    /// Draws a plan in which a machine crashes, and another one right after a step of its being replaced that sends nothing.
    pub fn draw_with_crash_at_quiet_step(seed: u64) -> Plan {
        const STEPS: [Step; 8] = [
            Step::Suspect,
            Step::Apply,
            Step::Commit,
            Step::Drain,
            Step::Active,
            Step::AllActive,
            Step::Refill,
            Step::Whole,
        ];
        let (mut plan, mut random) = Plan::draw_to_fail(seed, 5, 3);
        let (machine, when) = plan.draw_victim(&mut random);
        plan.faults.push(Fault::Crash(machine, when));
        plan.faults.push(Fault::CrashAt(StepAt {
            name: STEPS[random.below(STEPS.len() as u64) as usize].name(),
            by: None,
            nth: 1 + random.below(4),
            after: true,
        }));
        plan
    }

    /// Draws a plan in which a machine joins at about the time when another one crashes.
    pub fn draw_with_newcomer_and_crash(seed: u64) -> Plan {
        let (plan, mut random) = Plan::draw_to_fail(seed, 3, 2);
        let (machine, _) = plan.draw_victim(&mut random);
        // It is let in some looks of the manager at the door later.
        let (joins, crashes) = (random.below(20_000_000), random.below(120_000_000));
        Plan {
            join_after_ns: Some(joins),
            faults: vec![Fault::Crash(machine, When::After(crashes))],
            ..plan
        }
    }

    /// Draws a plan in which a machine joins, and, in half of them, another one crashes when all is at rest again.
    pub fn draw_with_newcomer(seed: u64) -> Plan {
        let (plan, mut random) = Plan::draw_to_fail(seed, 3, 2);
        Plan {
            join_after_ns: Some(random.below(20_000_000)),
            next_crash: (random.below(2) == 0).then(|| random.below(plan.machines.into()) as usize),
            ..plan
        }
    }

    /// Draws a plan in which a machine leaves in good order.
    pub fn draw_with_leaving(seed: u64) -> Plan {
        let (mut plan, mut random) = Plan::draw_to_fail(seed, 3, 2);
        plan.machines = plan.machines.max(plan.replicas as u32 + 1);
        plan.draw_leaving(&mut random);
        plan
    }

    /// Draws a plan in which a machine leaves, and a machine crashes at about that time.
    pub fn draw_with_leaving_and_crash(seed: u64) -> Plan {
        let (mut plan, mut random) = Plan::draw_to_fail(seed, 4, 2);
        plan.machines = plan.machines.max(plan.replicas as u32 + 2);
        plan.draw_leaving(&mut random);
        let machine = random.below(plan.machines.into()) as usize;
        let when = When::After(random.below(60_000_000));
        plan.faults.push(Fault::Crash(machine, when));
        plan
    }

    fn draw_leaving(&mut self, random: &mut Random) {
        let (machine, when) = self.draw_victim(random);
        let stays_ns = random.below(2) * random.below(20_000_000);
        self.faults.push(Fault::Leave(machine, when, stays_ns));
    }

    /// Whether any machine fails.
    pub fn has_failures(&self) -> bool {
        self.next_crash.is_some() || self.faults.iter().any(|fault| fault.is_failure())
    }

    /// How long something is not there that is found out: from half of a lease to three.
    fn draw_outage(&self, random: &mut Random) -> u64 {
        let lease = self.leases.map_or(0, LeaseTerms::duration_ns);
        lease / 2 + random.below(lease * 5 / 2)
    }
}

/// A kind of plan, by what goes wrong.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// What it is called.
    pub name: &'static str,
    draw: fn(u64) -> Plan,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 28] = [
        Kind::of("nothing", Plan::draw),
        Kind::of("crash", Plan::draw_with_crash),
        Kind::of("two-crashes", Plan::draw_with_two_crashes),
        Kind::of("crash-in-recovery", Plan::draw_with_crash_in_recovery),
        Kind::of("crash-in-commit", Plan::draw_with_crash_in_commit),
        Kind::of("lost-record", Plan::draw_with_lost_record),
        Kind::of("hole", Plan::draw_with_hole),
        Kind::of("client-that-leaves", Plan::draw_with_client_that_leaves),
        Kind::of("crash-at-recovery", Plan::draw_with_crash_at_recovery),
        Kind::of("pause", Plan::draw_with_pause),
        Kind::of("stalls", Plan::draw_with_stalls),
        Kind::of("partition", Plan::draw_with_partition),
        Kind::of("bad-network", Plan::draw_with_bad_network),
        Kind::of("torn-reads", Plan::draw_with_torn_reads),
        Kind::of("slow-ways", Plan::draw_with_slow_ways),
        Kind::of("crash-on-slow-ways", Plan::draw_with_crash_on_slow_ways),
        Kind::of(
            "crash-beside-slow-ways",
            Plan::draw_with_crash_beside_slow_ways,
        ),
        Kind::of("unnoticed-crash", Plan::draw_with_unnoticed_crash),
        Kind::of("silence", Plan::draw_with_silence),
        Kind::of("crash-at-quiet-step", Plan::draw_with_crash_at_quiet_step),
        Kind::of("newcomer", Plan::draw_with_newcomer),
        Kind::of("newcomer-and-crash", Plan::draw_with_newcomer_and_crash),
        Kind::of("leaving", Plan::draw_with_leaving),
        Kind::of("leaving-and-crash", Plan::draw_with_leaving_and_crash),
        Kind::of("schema", Plan::draw_with_schema),
        Kind::of("schema-and-crash", Plan::draw_with_schema_and_crash),
        Kind::of("levels", Plan::draw_with_levels),
        Kind::of("levels-and-faults", Plan::draw_with_levels_and_faults),
    ];

    const fn of(name: &'static str, draw: fn(u64) -> Plan) -> Kind {
        Kind { name, draw }
    }

    /// The one of a name.
    pub fn named(name: &str) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.name == name)
    }

    /// Draws a plan of it.
    pub fn draw(self, seed: u64) -> Plan {
        (self.draw)(seed)
    }
}

/// Leases of some milliseconds between clocks such as hosts have.
pub fn terms(ms: u64) -> Option<LeaseTerms> {
    LeaseTerms::new(Duration::from_millis(ms), DRIFT_PPM as u32)
}

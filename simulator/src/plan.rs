//! The plan of a run, drawn from its seed: the numbers of machines, their speed, the stored
//! objects, and the clients' work.

mod levels;
mod tables;
mod ways;

pub use levels::LevelPlan;
pub use tables::TablePlan;

use std::time::Duration;

use fencepost_fabric::{MachineId, Nic, Random, SimKnobs};
use fencepost_txn::ObjectLocation;
use fencepost_txn::network::{LeaseTerms, Step};

use crate::executor::ProcessorSpeed;
use crate::faults::{Fault, FaultTime, SWAP, StepAt};
use crate::host::DRIFT_PPM;

/// Longer than any wait in a run.
const LONG_NS: u64 = 100_000_000_000;

/// All parameters that are drawn before a run begins.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The seed of the run.
    pub seed: u64,
    /// The number of machines, 1 to 5.
    pub machines: u32,
    /// The number of hosts of the machines; each host has its own clock.
    pub hosts: u32,
    /// The number of replicas of each region, 1 to 3.
    pub replicas: usize,
    /// The words of each log: few, so that commits wait for space.
    pub log_words: usize,
    /// Whether old versions get so little memory that snapshots may become too old.
    pub few_old_versions: bool,
    /// The parameters of the network.
    pub net: SimKnobs,
    /// The speed of processors.
    pub pace: ProcessorSpeed,
    /// The number of objects that are read and overwritten.
    pub registers: usize,
    /// The number of accounts between which transfers are made.
    pub accounts: usize,
    /// The number of lists to which transactions append their number.
    pub lists: usize,
    /// The number of objects whose sections are changed individually.
    pub pages: usize,
    /// The number of keys of the B-tree and the hash table.
    pub keys: u64,
    /// The tables that clients create, change and drop, in runs with tables.
    pub tables: Option<TablePlan>,
    /// The transactions of different isolation levels, in runs with levels.
    pub levels: Option<LevelPlan>,
    /// The words of a B-tree node.
    pub node_words: usize,
    /// The number of clients, distributed over the machines.
    pub clients: usize,
    /// The number of transactions of each client.
    pub transactions: usize,
    /// The longest pause of a client before a transaction, in nanoseconds.
    pub think_ns: u64,
    /// One in this many transactions is dropped before its end.
    pub drop_one_in: u64,
    /// One in this many new objects is placed on a random machine.
    pub elsewhere_one_in: u64,
    /// Whether the B-tree's nodes are co-located.
    pub together: bool,
    /// Whether machines begin with few free blocks in their first regions, so that they need
    /// further ones.
    pub few_blocks: bool,
    /// The leases of the machines, if any: longer than any delay of messages in the run.
    pub leases: Option<LeaseTerms>,
    /// Whether failed machines are replaced.
    pub replaces: bool,
    /// The injected faults.
    pub faults: Vec<Fault>,
    /// The time at which another machine joins, in nanoseconds after the clients have begun.
    pub join_after_ns: Option<u64>,
    /// A machine, from 0, that crashes once all regions of failed machines have new replicas.
    pub next_crash: Option<usize>,
}

impl Plan {
    /// Returns the placement of the next object.
    pub fn place(&self, random: &mut Random) -> ObjectLocation {
        match random.one_in(self.elsewhere_one_in) {
            true => {
                ObjectLocation::Machine(MachineId(1 + random.below(self.machines.into()) as u32))
            }
            false => ObjectLocation::Own,
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
        let pace = ProcessorSpeed {
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

    /// Draws a plan in which failed machines are replaced, with at least this many machines and
    /// replicas.
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

    /// Draws the machine that fails, and the time.
    fn draw_victim(&self, random: &mut Random) -> (usize, FaultTime) {
        let machine = random.below(self.machines.into()) as usize;
        (machine, FaultTime::After(random.below(20_000_000)))
    }

    /// Draws a machine that is not `first`.
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

    /// Draws a plan in which a machine crashes and is replaced, and later another one crashes.
    pub fn draw_with_two_crashes(seed: u64) -> Plan {
        // After the first crash, two of three machines are still a majority.
        let (mut plan, mut random) = Plan::draw_to_fail(seed, 4, 2);
        let (machine, when) = plan.draw_victim(&mut random);
        plan.faults.push(Fault::Crash(machine, when));
        plan.next_crash = Some(plan.draw_other(machine, &mut random));
        plan.replicas = 2;
        plan
    }

    /// Draws a plan in which a machine crashes, and another one soon after the crash was detected.
    pub fn draw_with_crash_in_recovery(seed: u64) -> Plan {
        let (mut plan, mut random) = Plan::draw_to_fail(seed, 5, 3);
        let (machine, when) = plan.draw_victim(&mut random);
        let (other, soon) = (
            plan.draw_other(machine, &mut random),
            random.below(3_000_000),
        );
        plan.faults.push(Fault::Crash(machine, when));
        plan.faults
            .push(Fault::Crash(other, FaultTime::Suspected(soon)));
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

    /// Draws a plan in which a client leaves while backups have its commit record and primaries do
    /// not. Soon its machine crashes, which other machines detect at once or by its lease.
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
        plan.narrow_working_set();
        plan
    }

    /// Lets all clients use the same few objects.
    fn narrow_working_set(&mut self) {
        (self.registers, self.accounts, self.lists, self.keys) = (2, 2, 1, 4);
        (self.clients, self.transactions) = (8, 30);
    }

    /// Draws a plan in which a machine crashes, and another one at a step of the recovery.
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

    /// Draws a plan in which a machine pauses for about the duration of a lease, or longer, and
    /// resumes.
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

    /// Draws a plan in which a machine crashes and is replaced. Later another machine may crash,
    /// join or leave. The threads of clients seldom get a processor.
    pub fn draw_with_stalls(seed: u64) -> Plan {
        let mut plan = match seed % 4 {
            0 => Plan::draw_with_crash(seed),
            1 => Plan::draw_with_two_crashes(seed),
            2 => Plan::draw_with_join_and_crash(seed),
            _ => Plan::draw_with_leaving_and_crash(seed),
        };
        let mut random = Random::new(seed ^ 0x57_A1);
        let mut of = |choices: &[u64]| choices[random.below(choices.len() as u64) as usize];
        plan.pace.stall_one_in = of(&[4, 20, 100]);
        plan.pace.stall_ns = of(&[2_000_000, 10_000_000, 50_000_000]);
        plan
    }

    /// Draws a plan in which a machine crashes, which other machines detect only by its lease.
    pub fn draw_with_unnoticed_crash(seed: u64) -> Plan {
        let (mut plan, mut random) = Plan::draw_to_fail(seed, 3, 2);
        let (machine, when) = plan.draw_victim(&mut random);
        plan.net.unnoticed_ns = LONG_NS;
        plan.faults.push(Fault::Crash(machine, when));
        plan
    }

    /// Draws a plan in which a machine crashes, and another one right after a step of the recovery
    /// that sends no message.
    pub fn draw_with_crash_at_quiet_step(seed: u64) -> Plan {
        const STEPS: [Step; 8] = [
            Step::Suspect,
            Step::Apply,
            Step::Commit,
            Step::Drain,
            Step::Active,
            Step::AllActive,
            Step::DataRecovery,
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

    /// Draws a plan in which a machine joins at about the time at which another one crashes.
    pub fn draw_with_join_and_crash(seed: u64) -> Plan {
        let (plan, mut random) = Plan::draw_to_fail(seed, 3, 2);
        let (machine, _) = plan.draw_victim(&mut random);
        // The machine is admitted after the manager has looked at the join endpoint a few times.
        let (joins, crashes) = (random.below(20_000_000), random.below(120_000_000));
        Plan {
            join_after_ns: Some(joins),
            faults: vec![Fault::Crash(machine, FaultTime::After(crashes))],
            ..plan
        }
    }

    /// Draws a plan in which a machine joins. In half of the plans another one crashes after all
    /// work is done.
    pub fn draw_with_join(seed: u64) -> Plan {
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
        let when = FaultTime::After(random.below(60_000_000));
        plan.faults.push(Fault::Crash(machine, when));
        plan
    }

    fn draw_leaving(&mut self, random: &mut Random) {
        let (machine, when) = self.draw_victim(random);
        let stays_ns = random.below(2) * random.below(20_000_000);
        self.faults.push(Fault::Leave(machine, when, stays_ns));
    }

    /// Returns whether a machine fails.
    pub fn has_failures(&self) -> bool {
        self.next_crash.is_some() || self.faults.iter().any(|fault| fault.is_failure())
    }

    /// Draws the duration of an outage that is detected: from half of a lease to three leases.
    fn draw_outage(&self, random: &mut Random) -> u64 {
        let lease = self.leases.map_or(0, LeaseTerms::duration_ns);
        lease / 2 + random.below(lease * 5 / 2)
    }
}

/// A kind of plan, named after its faults.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// The name of the kind.
    pub name: &'static str,
    draw: fn(u64) -> Plan,
}

impl Kind {
    /// All kinds.
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
        Kind::of("joining", Plan::draw_with_join),
        Kind::of("joining-and-crash", Plan::draw_with_join_and_crash),
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

    /// Returns the kind with a name.
    pub fn named(name: &str) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.name == name)
    }

    /// Draws a plan of this kind.
    pub fn draw(self, seed: u64) -> Plan {
        (self.draw)(seed)
    }
}

/// Returns leases of some milliseconds for clocks with the drift of hosts.
pub fn terms(ms: u64) -> Option<LeaseTerms> {
    LeaseTerms::new(Duration::from_millis(ms), DRIFT_PPM as u32)
}

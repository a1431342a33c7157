//! The faults of machines under load, and the expected reactions of the others.

use std::thread;
use std::time::Duration;

use fencepost_benchmarks::sql::SqlSession;

use super::loads::Load;
use crate::common::insist;
use crate::common::machines::Machines;
use crate::common::namespaces::Namespaces;

/// Long enough for a host that is busy with other tests.
const LEASE: &str = "2000";
/// The duration for which a machine is stopped or cut off.
const BEYOND: Duration = Duration::from_secs(5);
/// The exit code of an evicted machine.
const LEFT: i32 = 3;

/// The fabric between the machines.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FabricSetup {
    Shm,
    Tcp,
    /// Tcp between network namespaces.
    Namespaces,
}

/// A fault.
pub struct Fault {
    pub name: &'static str,
    between: FabricSetup,
    machines: usize,
    further: &'static [&'static str],
    /// The affected machines.
    struck: &'static [usize],
    how: FailureMode,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum FailureMode {
    /// kill -9, without a restart.
    Killed,
    /// kill -9, and all affected machines are started again.
    KilledAndBack,
    /// kill -9 and a restart of one after the other, then of all machines at once.
    KilledInTurn,
    /// SIGSTOP, SIGCONT.
    Stopped,
    /// Messages between the affected machines and the others are lost.
    CutOff,
    /// Messages from the affected machines to the others are lost.
    Unheard,
    /// Messages between the two affected machines are lost.
    Apart,
}

const TWO: &[&str] = &["--replicas", "2", "--lease-ms", LEASE];
const DOMAINS: &[&str] = &[
    "--replicas",
    "2",
    "--lease-ms",
    LEASE,
    "--domains",
    "a,a,b,c,c",
];
const THREE: &[&str] = &["--replicas", "3", "--lease-ms", LEASE];

const fn of_three(
    name: &'static str,
    between: FabricSetup,
    struck: &'static [usize],
    how: FailureMode,
) -> Fault {
    Fault {
        name,
        between,
        machines: 3,
        further: TWO,
        struck,
        how,
    }
}

pub static KILL: Fault = of_three(
    "one of three killed",
    FabricSetup::Shm,
    &[2],
    FailureMode::Killed,
);
pub static KILL_MANAGER: Fault =
    of_three("the CM killed", FabricSetup::Tcp, &[0], FailureMode::Killed);
pub static KILL_DOMAIN: Fault = Fault {
    machines: 5,
    further: DOMAINS,
    ..of_three(
        "two of five killed that are one domain",
        FabricSetup::Shm,
        &[3, 4],
        FailureMode::Killed,
    )
};
pub static KILL_DOMAIN_OF_MANAGER: Fault = Fault {
    machines: 5,
    further: DOMAINS,
    ..of_three(
        "two of five killed that are one domain, the CM's",
        FabricSetup::Tcp,
        &[0, 1],
        FailureMode::Killed,
    )
};
pub static STOP: Fault = of_three(
    "one of three stopped and resumed",
    FabricSetup::Tcp,
    &[2],
    FailureMode::Stopped,
);
pub static STOP_MANAGER: Fault = of_three(
    "the CM stopped and resumed",
    FabricSetup::Shm,
    &[0],
    FailureMode::Stopped,
);
pub static CUT_OFF: Fault = of_three(
    "one of three cut off",
    FabricSetup::Namespaces,
    &[2],
    FailureMode::CutOff,
);
pub static CUT_OFF_MANAGER: Fault = Fault {
    machines: 5,
    further: THREE,
    ..of_three(
        "two of five cut off, one of them the CM",
        FabricSetup::Namespaces,
        &[0, 1],
        FailureMode::CutOff,
    )
};
pub static UNHEARD: Fault = of_three(
    "one of three that no machine hears",
    FabricSetup::Namespaces,
    &[2],
    FailureMode::Unheard,
);
pub static UNHEARD_MANAGER: Fault = of_three(
    "the CM that no machine hears",
    FabricSetup::Namespaces,
    &[0],
    FailureMode::Unheard,
);
pub static APART: Fault = of_three(
    "two of three that do not hear each other",
    FabricSetup::Namespaces,
    &[1, 2],
    FailureMode::Apart,
);
pub static ALL: Fault = Fault {
    further: &["--replicas", "2", "--durability", "nvram"],
    ..of_three(
        "all killed at once, and started again",
        FabricSetup::Shm,
        &[0, 1, 2],
        FailureMode::KilledAndBack,
    )
};
pub static IN_TURN: Fault = Fault {
    further: &[
        "--replicas",
        "2",
        "--lease-ms",
        LEASE,
        "--durability",
        "nvram",
    ],
    ..of_three(
        "two killed and started again in turn, then all",
        FabricSetup::Shm,
        &[2, 0],
        FailureMode::KilledInTurn,
    )
};
pub static IN_TURN_OF_A_NETWORK: Fault = Fault {
    name: "two of a network killed and started again in turn, then all",
    between: FabricSetup::Tcp,
    ..IN_TURN
};
const DISKS: &[&str] = &["--replicas", "2", "--durability", "ssd"];
pub static ALL_WITH_DISKS: Fault = Fault {
    further: DISKS,
    ..of_three(
        "all with disks killed at once, and started again",
        FabricSetup::Shm,
        &[0, 1, 2],
        FailureMode::KilledAndBack,
    )
};
pub static ALL_OF_A_NETWORK: Fault = Fault {
    further: DISKS,
    ..of_three(
        "all of a network with disks killed at once, and started again",
        FabricSetup::Tcp,
        &[0, 1, 2],
        FailureMode::KilledAndBack,
    )
};

impl Fault {
    /// Runs the fault; returns a description of the check, or the reason why the fault cannot run
    /// here.
    pub fn under(&self, load: Load) -> Result<String, String> {
        let namespaces = match self.between {
            FabricSetup::Namespaces => Some(Namespaces::make(self.machines)?),
            _ => None,
        };
        let mut machines = match (&namespaces, self.between) {
            (Some(namespaces), _) => {
                namespaces.enter();
                Machines::start_in(namespaces, self.further)
            }
            (_, FabricSetup::Shm) => Machines::start("shm", self.machines, self.further),
            _ => Machines::start("tcp", self.machines, self.further),
        };
        let urls = machines.urls();
        let checked = load.run(&urls, self.seconds(), || {
            self.strike(&mut machines, namespaces.as_ref());
            let answering = (0..self.machines).filter(|at| self.answers(*at));
            answering.map(|at| urls[at].clone()).collect()
        });
        for at in (0..self.machines).filter(|at| self.answers(*at)) {
            assert!(machines.runs(at), "{}", machines.said(at));
        }
        Ok(checked)
    }

    /// Returns more seconds than the fault takes, also on a busy host.
    fn seconds(&self) -> u32 {
        match self.how {
            FailureMode::Killed | FailureMode::KilledAndBack => 12,
            FailureMode::KilledInTurn
            | FailureMode::Stopped
            | FailureMode::CutOff
            | FailureMode::Unheard
            | FailureMode::Apart => 30,
        }
    }

    /// Returns whether a machine answers after the fault.
    fn answers(&self, machine: usize) -> bool {
        self.how != FailureMode::Killed || !self.struck.contains(&machine)
    }

    fn others(&self) -> Vec<usize> {
        let all = 0..self.machines;
        all.filter(|at| !self.struck.contains(at)).collect()
    }

    fn strike(&self, machines: &mut Machines, namespaces: Option<&Namespaces>) {
        let others = self.others();
        match self.how {
            FailureMode::Killed => {
                machines.kill(self.struck);
                self.await_service(machines, &others);
            }
            FailureMode::KilledAndBack => {
                machines.kill(self.struck);
                machines.start_again(self.struck);
            }
            FailureMode::KilledInTurn => {
                for at in self.struck {
                    machines.kill(&[*at]);
                    machines.start_again(&[*at]);
                    self.await_copies(machines);
                }
                let all: Vec<usize> = (0..self.machines).collect();
                machines.kill(&all);
                machines.start_again(&all);
            }
            FailureMode::Stopped => {
                for at in self.struck {
                    machines.signal(*at, "-STOP");
                }
                self.await_service(machines, &others);
                thread::sleep(BEYOND);
                for at in self.struck {
                    machines.signal(*at, "-CONT");
                }
                self.await_ends(machines, self.struck);
            }
            FailureMode::Apart => {
                let namespaces = namespaces.expect("they are made");
                self.keep_apart(machines, namespaces);
            }
            FailureMode::CutOff | FailureMode::Unheard => {
                let namespaces = namespaces.expect("they are made");
                namespaces.cut(self.struck, &others);
                if self.how == FailureMode::CutOff {
                    namespaces.cut(&others, self.struck);
                }
                self.await_service(machines, &others);
                thread::sleep(BEYOND);
                namespaces.heal(self.struck, &others);
                if self.how == FailureMode::CutOff {
                    namespaces.heal(&others, self.struck);
                }
                self.await_ends(machines, self.struck);
            }
        }
    }

    /// Cuts the connection of two machines: one of them must leave, and comes back.
    fn keep_apart(&self, machines: &mut Machines, namespaces: &Namespaces) {
        let [one, other] = *self.struck else {
            panic!("two are apart: {:?}", self.struck);
        };
        namespaces.cut(&[one], &[other]);
        namespaces.cut(&[other], &[one]);
        let left = insist("one of them leaves", || {
            let left = self.struck.iter().find(|at| !machines.runs(**at));
            left.copied().ok_or("both go on")
        });
        namespaces.heal(&[one], &[other]);
        namespaces.heal(&[other], &[one]);
        self.await_ends(machines, &[left]);
    }

    /// Waits until the other machines have evicted the affected ones, and serve clients.
    fn await_service(&self, machines: &Machines, others: &[usize]) {
        let mut session = machines.session(others[0]);
        let session: &mut dyn SqlSession = &mut session;
        let members = "SELECT count(*) FROM pg_fencepost_machines";
        insist("the others go on", || match session.number(members) {
            Ok(number) if number == others.len() as i64 => Ok(()),
            other => Err(other),
        });
    }

    /// Waits until all machines have recovered all data of their replicas.
    fn await_copies(&self, machines: &Machines) {
        const LACKS: &str = "\
            SELECT count(*) FROM pg_fencepost_reconfigurations \
            WHERE step = 'data-recovery' AND configuration > \
                (SELECT coalesce(max(configuration), 0) FROM pg_fencepost_reconfigurations \
                 WHERE step = 'whole')";
        for at in 0..self.machines {
            let mut session = machines.session(at);
            let session: &mut dyn SqlSession = &mut session;
            insist("all data is there", || match session.number(LACKS) {
                Ok(0) => Ok(()),
                other => Err(other),
            });
        }
    }

    /// Waits until evicted machines report their eviction and end, then starts them again.
    fn await_ends(&self, machines: &mut Machines, left: &[usize]) {
        for at in left {
            assert_eq!(machines.code(*at), Some(LEFT), "{}", machines.said(*at));
            let said = machines.said(*at);
            assert!(said.contains("no member of the cluster any more"), "{said}");
        }
        machines.start_again(left);
    }
}

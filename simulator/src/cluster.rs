//! The machines of a run, over one simulated network.

use std::cell::OnceCell;
use std::rc::Rc;
use std::sync::Arc;

use fencepost_fabric::{Fabric, MachineId, Random, SimDisk, SimNet};
use fencepost_txn::network::{ClusterSecret, ConfigStore, Configuration, JoinEndpoint, LocalStore};
use fencepost_txn::network::{NetworkOptions, Replication, Step, members};
use fencepost_txn::{Machine, MachineOptions, Timestamp};

use crate::crash_state::CrashState;
use crate::executor::Executor;
use crate::faults::CrashPoints;
use crate::host::HostTime;
use crate::joining_machine;
use crate::leases;
use crate::plan::Plan;
use crate::registrar::Registrar;
use crate::sim::Sim;

/// The smallest allowed size of a region.
const REGION_BYTES: usize = 16 << 20;
/// The number of lanes of the allocator; clients of a machine may share one.
const LANES: usize = 2;

/// A size of old versions that snapshot readers soon exhaust.
const FEW_OLD_VERSIONS: u64 = 1 << 20;
/// A size of old versions that suffices for any run.
const MANY_OLD_VERSIONS: u64 = 1 << 28;

/// A machine's time is compared with the manager's once in this many calls of its drive function.
const LOOK_EVERY: u32 = 8;

/// The cluster of a run.
pub struct Cluster {
    /// The simulated environment.
    pub sim: Sim,
    /// The executor of its tasks.
    pub executor: Executor,
    /// Its machines.
    pub machines: Vec<Arc<Machine>>,
    /// The crash state of each machine.
    pub crash_states: Vec<CrashState>,
    /// The protocol steps at which machines crash.
    pub trips: CrashPoints,
    /// The parameters with which further machines are made.
    pub ground: RunEnvironment,
}

/// A machine, once it exists.
pub type MachineCell = Rc<OnceCell<Arc<Machine>>>;

/// The parameters with which every machine of a run is made.
#[derive(Clone)]
pub struct RunEnvironment {
    plan: Rc<Plan>,
    net: SimNet,
    hosts: Vec<Arc<HostTime>>,
    store: Arc<LocalStore>,
    trips: CrashPoints,
    /// The join endpoint of the cluster.
    pub endpoint: Arc<JoinEndpoint>,
}

impl RunEnvironment {
    fn host_of(&self, id: MachineId) -> usize {
        (id.0 - 1) as usize % self.hosts.len()
    }

    /// Makes a machine: an initial member, or one that `joins`.
    ///
    /// # Errors
    /// The reason why it did not start.
    pub fn open(
        &self,
        id: MachineId,
        configuration: &Configuration,
        joins: bool,
    ) -> Result<Arc<Machine>, String> {
        let plan = &self.plan;
        let fabric = self.net.join(id).map_err(|error| error.to_string())?;
        fabric
            .set_members(&members(configuration))
            .map_err(|error| error.to_string())?;
        let host = self.host_of(id);
        let network = NetworkOptions {
            log_words: plan.log_words,
            clock: Arc::clone(&self.hosts[host]) as _,
            host: host as u64,
            leases: plan.leases,
            store: plan
                .replaces
                .then(|| Registrar::of(&self.store, id, &self.trips) as _),
            join_endpoint: plan.join_after_ns.map(|_| Arc::clone(&self.endpoint)),
            joins,
            driven: true,
            ..NetworkOptions::of(
                Arc::new(fabric),
                configuration.clone(),
                Replication::exactly(plan.replicas),
            )
        };
        let options = MachineOptions {
            region_bytes: REGION_BYTES,
            lanes: LANES,
            old_version_limit: if plan.few_old_versions {
                FEW_OLD_VERSIONS
            } else {
                MANY_OLD_VERSIONS
            },
            network: Some(network),
            ..MachineOptions::default()
        };
        Machine::open(options).map_err(|error| error.to_string())
    }

    /// Returns whether a machine is a member in the stored configuration.
    pub fn counts(&self, id: MachineId) -> bool {
        // The store answers at once.
        let current = pollster::block_on(self.store.read()).ok().flatten();
        current.is_some_and(|current| current.has(id))
    }

    /// Returns the crash state of a machine.
    pub fn crash_state(&self, id: MachineId) -> CrashState {
        self.trips.crash_state(id).clone()
    }

    /// Makes the executor drive machine `id` from its start until its crash. After each drive,
    /// `wrong` may return a violated invariant.
    pub fn drive(
        &self,
        (sim, executor): (&Sim, &mut Executor),
        (id, place): (MachineId, MachineCell),
        mut wrong: impl FnMut(&Arc<Machine>) -> Option<String> + 'static,
    ) {
        let (sim, clock) = (sim.clone(), Arc::clone(&self.hosts[self.host_of(id)]));
        let (crash_state, mut due) = (self.crash_state(id), None);
        let (trips, mut quiet) = (self.trips.clone(), [0; Step::ALL.len()]);
        let drive = move || {
            let Some(machine) = place.get().filter(|_| !crash_state.has_crashed()) else {
                return false;
            };
            let any = machine.drive();
            if trips.quiet_steps(machine, &mut quiet) {
                crash_state.crash();
                return false;
            }
            let next = machine.due_ns().filter(|next| due != Some(*next));
            if let Some(next) = next {
                due = Some(next);
                sim.net().wake_at(id, clock.when(next));
            }
            if let Some(wrong) = wrong(machine) {
                sim.report(wrong);
            }
            any
        };
        executor.add_machine(id, Box::new(drive));
    }
}

impl Cluster {
    /// Makes the machines, which are the members of the first configuration.
    ///
    /// # Errors
    /// The reason why a machine did not start.
    pub fn start(plan: &Plan) -> Result<Cluster, String> {
        let mut random = Random::new(plan.seed ^ 0xC1_05_7E_12);
        let net = SimNet::new(random.next_u64(), plan.net.clone());
        let sim = Sim::new(net.clone());
        let mut executor = Executor::new(sim.clone(), plan.pace, random.fork());
        let configuration = Configuration::of_process(plan.machines);
        let configuration = configuration.map_err(|error| error.to_string())?;
        let store = store_with(&configuration)?;
        let host = |_| Arc::new(HostTime::draw(net.clone(), &mut random));
        let possible = (1..=plan.machines + joining_machine::INCARNATIONS_MAX).map(MachineId);
        let possible: Vec<CrashState> = possible.map(|id| CrashState::of(&net, id)).collect();
        let crash_states = possible[..plan.machines as usize].to_vec();
        let trips = CrashPoints::of(possible);
        let ground = RunEnvironment {
            plan: Rc::new(plan.clone()),
            net: net.clone(),
            hosts: (0..plan.hosts.max(1)).map(host).collect(),
            store,
            trips: trips.clone(),
            endpoint: join_endpoint_of(plan)?,
        };
        let mut machines = Vec::new();
        let all: Rc<OnceCell<Vec<Arc<Machine>>>> = Rc::default();
        for member in configuration.machines() {
            let id = member.id;
            let machine = ground.open(id, &configuration, false)?;
            machines.push(Arc::clone(&machine));
            let (manager, all) = (Arc::clone(&machines[0]), Rc::clone(&all));
            let first = crash_states[0].clone();
            let (mut low, mut looks) = (Timestamp::ZERO, 0u32);
            let wrong = move |machine: &Arc<Machine>| {
                let before = std::mem::replace(&mut low, machine.interval().0);
                if low < before {
                    let number = machine.number();
                    return Some(format!("m{number} is at {low:?}, and was at {before:?}"));
                }
                let all = all.get();
                let act = all.and_then(|all| leases::two_act(all));
                looks = looks.wrapping_add(1);
                let all_there = all.filter(|_| looks.is_multiple_of(LOOK_EVERY));
                let cm = all_there.and_then(|all| manager_of(machine, all));
                let time = || wrong_about_time(machine, cm?);
                let wrong = act.or_else(time);
                if wrong.is_some() || first.has_crashed() || manager.is_evicted() {
                    return wrong;
                }
                let manages = machine.number() == manager.number();
                let all = all.filter(|_| manages);
                leases::wrong_about(&manager, all?)
            };
            let place = Rc::new(OnceCell::from(machine));
            ground.drive((&sim, &mut executor), (id, place), wrong);
        }
        // From here on the drive functions know all machines.
        let _ = all.set(machines.clone());
        Ok(Cluster {
            sim,
            executor,
            machines,
            crash_states,
            trips,
            ground,
        })
    }
}

/// Returns a store that outlives every machine.
fn store_with(configuration: &Configuration) -> Result<Arc<LocalStore>, String> {
    let store = LocalStore::in_memory();
    // The store answers at once.
    let first = pollster::block_on(store.compare_and_swap(None, configuration));
    first.map_err(|error| error.to_string())?;
    Ok(Arc::new(store))
}

/// Returns a join endpoint that outlives every machine.
fn join_endpoint_of(plan: &Plan) -> Result<Arc<JoinEndpoint>, String> {
    let secret = ClusterSecret::new(b"known to all machines of a run");
    let secret = secret.map_err(|error| error.to_string())?;
    Ok(Arc::new(JoinEndpoint::new(
        Arc::new(SimDisk::new(plan.seed)),
        secret,
    )))
}

/// Returns the manager of a machine's configuration, if both are in it and answer.
fn manager_of<'a>(machine: &Machine, all: &'a [Arc<Machine>]) -> Option<&'a Machine> {
    let cm = all.iter().find(|cm| cm.number() == machine.manager())?;
    let answer = machine.is_answering() && cm.is_answering();
    (answer && cm.configuration() == machine.configuration()).then_some(cm)
}

/// Returns an error if the manager's time is outside the machine's bounds for it (CLOCK-1).
fn wrong_about_time(machine: &Machine, manager: &Machine) -> Option<String> {
    let (low, high) = machine.interval();
    let (now, breaks) = (manager.now(), machine.clock_state().breaks);
    let wrong = now < low || now > high || breaks > 0;
    wrong.then(|| {
        let number = machine.number();
        format!(
            "m{number} has it between {low:?} and {high:?}, broken {breaks} times, \
             and it is {now:?}"
        )
    })
}

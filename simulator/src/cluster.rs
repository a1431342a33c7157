//! The machines of a run, over one simulated network.

use std::cell::OnceCell;
use std::rc::Rc;
use std::sync::Arc;

use fencepost_fabric::{Fabric, MachineId, Member, Random, SimNet};
use fencepost_txn::network::{ConfigStore, Configuration, LocalStore, NetworkOptions, Replication};
use fencepost_txn::{Machine, MachineOptions};

use crate::doom::Doom;
use crate::executor::Executor;
use crate::host::HostTime;
use crate::leases;
use crate::plan::Plan;
use crate::sim::Sim;

/// The least that a region may be.
const REGION_BYTES: usize = 16 << 20;
/// Lanes of the allocator: clients of a machine may share one.
const LANES: usize = 2;

/// Bytes of old versions of which readers of the past soon have not enough.
const FEW_OLD_VERSIONS: u64 = 1 << 20;
/// Bytes of old versions that are enough for any run.
const MANY_OLD_VERSIONS: u64 = 1 << 28;

/// A cluster that a plan asked for.
pub struct Cluster {
    /// Its world.
    pub sim: Sim,
    /// What runs it.
    pub executor: Executor,
    /// Its machines.
    pub machines: Vec<Arc<Machine>>,
    /// Which of them have crashed.
    pub dooms: Vec<Doom>,
}

impl Cluster {
    /// Makes the machines, which are each other's members.
    ///
    /// # Errors
    /// Why one did not start.
    pub fn start(plan: &Plan) -> Result<Cluster, String> {
        let mut random = Random::new(plan.seed ^ 0xC1_05_7E_12);
        let net = SimNet::new(random.next_u64(), plan.net.clone());
        let sim = Sim::new(net.clone());
        let mut executor = Executor::new(sim.clone(), plan.pace, random.fork());
        let ids: Vec<_> = (1..=plan.machines).map(MachineId).collect();
        let members = ids.iter().map(|id| Member {
            id: *id,
            address: String::new(),
        });
        let members: Vec<_> = members.collect();
        let configuration = Configuration::of_process(plan.machines);
        let configuration = configuration.map_err(|error| error.to_string())?;
        let store = store_with(&configuration)?;
        let (mut machines, mut dooms) = (Vec::new(), Vec::<Doom>::new());
        let all: Rc<OnceCell<Vec<Arc<Machine>>>> = Rc::default();
        let host = |_| Arc::new(HostTime::draw(net.clone(), &mut random));
        let hosts: Vec<_> = (0..plan.hosts.max(1)).map(host).collect();
        for id in &ids {
            let host = (id.0 - 1) as usize % hosts.len();
            let fabric = net.join(*id).map_err(|error| error.to_string())?;
            fabric
                .set_members(&members)
                .map_err(|error| error.to_string())?;
            let network = NetworkOptions {
                fabric: Arc::new(fabric),
                configuration: configuration.clone(),
                replication: Replication::exactly(plan.replicas),
                log_words: plan.log_words,
                clock: Arc::clone(&hosts[host]) as _,
                host: host as u64,
                leases: plan.leases,
                store: plan.replaces.then(|| Arc::clone(&store) as _),
                driven: true,
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
            let machine = Machine::open(options).map_err(|error| error.to_string())?;
            machines.push(Arc::clone(&machine));
            let (manager, sim) = (Arc::clone(&machines[0]), sim.clone());
            let (clock, all) = (Arc::clone(&hosts[host]), Rc::clone(&all));
            let (id, mut due) = (*id, None);
            let doom = Doom::default();
            dooms.push(doom.clone());
            let first = dooms[0].clone();
            let drive = move || {
                if doom.has_come() {
                    return false;
                }
                let any = machine.drive();
                let next = machine.due_ns().filter(|next| due != Some(*next));
                if let Some(next) = next {
                    due = Some(next);
                    sim.net().wake_at(id, clock.when(next));
                }
                if first.has_come() {
                    return any;
                }
                if let Some(wrong) = wrong_about_time(&machine, &manager) {
                    sim.report(wrong);
                }
                let manages = machine.number() == manager.number();
                let all = all.get().filter(|_| manages);
                if let Some(wrong) = all.and_then(|all| leases::wrong_about(&manager, all)) {
                    sim.report(wrong);
                }
                any
            };
            executor.add_machine(id, Box::new(drive));
        }
        // Whoever is driven has been told of all.
        let _ = all.set(machines.clone());
        Ok(Cluster {
            sim,
            executor,
            machines,
            dooms,
        })
    }
}

/// A store that outlives every machine.
fn store_with(configuration: &Configuration) -> Result<Arc<LocalStore>, String> {
    let store = LocalStore::in_memory();
    // It answers at once.
    let first = pollster::block_on(store.compare_and_swap(None, configuration));
    first.map_err(|error| error.to_string())?;
    Ok(Arc::new(store))
}

/// Whether the manager's time is beyond the bounds that a machine has of it (CLOCK-1).
fn wrong_about_time(machine: &Machine, manager: &Machine) -> Option<String> {
    let (low, high) = machine.interval();
    let (now, breaks) = (manager.now(), machine.clock_state().breaks);
    let wrong = now < low || now > high || breaks > 0;
    wrong.then(|| {
        let number = machine.number();
        format!("m{number} has it between {low:?} and {high:?}, broken {breaks} times, and it is {now:?}")
    })
}

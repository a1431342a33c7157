//! A cluster that keeps its configuration by Raft among its machines: how they start, and join.
//!
//! ```text
//! initial member: listens ─► asks the others
//!      ├─ none is in a group, all are there: the CM creates a group of all
//!      ├─ a group has this incarnation of it ─► initial member
//!      └─ a group has a configuration, without it ─┐
//! joining machine, or initial member of before: ◄──┘
//!      reads the configuration through any member ─► join request to the CM ─► member ─► listens
//! ```
//! These messages use a separate channel ([`ControlClient`]), because they go to addresses of
//! machines that may be no members.
//!
//! # Invariants
//! * RAFT-1: no machine bootstraps while others run. A group is bootstrapped by machines that have
//!   all said that they are in none, with their incarnations. A process that ends loses its vote
//!   and number.
//! * RAFT-2: machines with disks create a group after their disks have agreed to restart (DISK-4),
//!   which they do not while others run. The group's configuration is later than every
//!   configuration of an earlier group.
//!
//! # Failure
//! While a majority of the machines of the configuration is reachable, it can be changed. Without a
//! majority, the cluster stops when another machine fails, and admits no machine: restart all of
//! them. A joining machine ends if it finds none of the machines in its list.

#[cfg(feature = "raft")]
mod joining {
    use std::collections::BTreeMap;
    use std::sync::Arc;
    use std::time::{Duration, Instant};

    use fencepost_cluster::join::{ClusterSecret, JoinEndpoint};
    use fencepost_cluster::{
        Address, ConfigStore, Configuration, FailureDomain, Machine, MachineId, RaftMember,
        RaftOutsider, RaftPace, RaftPeer, RaftStore, RaftTransport, StoreError,
    };
    use fencepost_fabric::{
        ControlClient, ControlService, HandshakeError, Random, TcpFabric, entropy_seed,
    };
    use parking_lot::Mutex;
    use pollster::FutureExt;

    use crate::cluster::{Start, is_final};
    use crate::disks::{DiskIdentity, OutsiderAccess, StoreRestart};
    use crate::error::OpenError;
    use crate::membership::{
        MachineIdentity, MachineRole, StoreAccess, is_first, request_to_join, store, unusable,
    };

    /// The longest wait for all machines to start.
    const TIME_LIMIT: Duration = Duration::from_secs(60);
    /// The longest wait for a reply to a join request, which may need the election of a leader.
    const ELECTION: Duration = Duration::from_secs(15);
    /// The time limit for each step of a request.
    const STEP: Duration = Duration::from_millis(500);
    /// The time limit for a read or a swap.
    const ANSWER: Duration = Duration::from_secs(2);
    /// The time after which a machine that all others refuse ends.
    const REFUSED: Duration = Duration::from_secs(3);
    const REST: Duration = Duration::from_millis(20);
    /// The shortest and the longest heartbeat interval of the group: about two heartbeats a lease.
    const HEARTBEATS: (Duration, Duration) =
        (Duration::from_millis(25), Duration::from_millis(250));

    /// The connections to the other machines.
    #[derive(Debug)]
    struct RaftConnections {
        asker: ControlClient,
        /// The reasons of the machines that did not reply to the last request, by address.
        refusals: Mutex<BTreeMap<String, HandshakeError>>,
    }

    impl RaftConnections {
        fn new(asker: ControlClient) -> RaftConnections {
            let refusals = Mutex::default();
            RaftConnections { asker, refusals }
        }
    }

    impl RaftTransport for RaftConnections {
        fn call(&self, address: &str, question: &[u8]) -> Result<Vec<u8>, StoreError> {
            let answer = self.asker.ask(address, question, STEP);
            let mut refusals = self.refusals.lock();
            match answer {
                Ok(answer) => {
                    refusals.remove(address);
                    Ok(answer)
                }
                Err(why) => {
                    let unreachable = StoreError::Unreachable(why.to_string());
                    // A machine that refused this one and has ended since would refuse it again:
                    // keep that reason.
                    let before = refusals.entry(address.to_owned());
                    let before = before.or_insert_with(|| why.clone());
                    if is_final(&why) || !is_final(before) {
                        *before = why;
                    }
                    Err(unreachable)
                }
            }
        }
    }

    /// Replies to requests for this machine's part of the store.
    #[derive(Debug)]
    struct StoreService(Arc<RaftStore>);

    impl ControlService for StoreService {
        fn answer(&self, question: &[u8]) -> Vec<u8> {
            // An empty reply counts as no reply.
            self.0.serve(question).block_on().unwrap_or_default()
        }
    }

    /// The settings that a machine needs to start in such a cluster.
    pub(crate) struct Group<'a> {
        pub first: Configuration,
        pub secret: ClusterSecret,
        pub lease: Duration,
        /// Starts the network endpoint of the machine.
        pub start: Start<'a>,
    }

    impl Group<'_> {
        /// Returns the role of a machine in such a cluster, and its network endpoint.
        pub fn part(
            &self,
            who: MachineIdentity,
            asker: ControlClient,
        ) -> Result<(MachineRole, Arc<TcpFabric>), OpenError> {
            let lines = Arc::new(RaftConnections::new(asker));
            let (address, domain) = match who {
                MachineIdentity::JoiningMember(address) => {
                    // The machine is a failure domain of its own.
                    let domain = FailureDomain::new(address.as_str()).map_err(unusable)?;
                    (address, domain)
                }
                MachineIdentity::InitialMember(me) => {
                    let member = self.first.machine(me);
                    let member =
                        member.expect("CONFIG-1: initial members are in the first configuration");
                    let (fabric, config_store) =
                        self.listen(me, &member.address, &self.first, &lines)?;
                    if self.begin(&config_store, me, &lines)? {
                        let part = self.begun(me, self.first.clone(), false, (config_store, None));
                        return Ok((part, fabric));
                    }
                    (member.address.clone(), member.domain.clone())
                }
            };
            let addresses = addresses(&self.first, None);
            let outsider = Arc::new(RaftOutsider::new(Arc::clone(&lines) as _, addresses));
            self.await_group(&outsider)?;
            let endpoint = Arc::new(JoinEndpoint::at(outsider, self.secret.clone()));
            let (me, configuration) =
                request_to_join(&endpoint, &self.first, address.clone(), domain)?;
            let (fabric, config_store) = self.listen(me, &address, &configuration, &lines)?;
            Ok((
                self.begun(me, configuration, true, (config_store, None)),
                fabric,
            ))
        }

        fn begun(
            &self,
            me: MachineId,
            configuration: Configuration,
            joins: bool,
            (config_store, again): (Arc<RaftStore>, Option<StoreRestart>),
        ) -> MachineRole {
            let endpoint = JoinEndpoint::at(config_store.join_messages(), self.secret.clone());
            let votes = Arc::clone(&config_store);
            MachineRole {
                me,
                configuration,
                joins,
                store_access: Some(StoreAccess {
                    store: config_store,
                    endpoint: Arc::new(endpoint),
                    place: None,
                    awaits: Some(Box::new(move || votes.waits_for())),
                    again,
                }),
            }
        }

        /// Returns the role of a machine that keeps its data on a disk, and its network endpoint.
        /// The group's state was lost when the last machine ended. The restarting machines create
        /// another group, once their disks agree (RAFT-2).
        pub fn part_with_a_disk(
            &self,
            (me, configuration, joins): DiskIdentity,
            asker: ControlClient,
        ) -> Result<(MachineRole, Arc<TcpFabric>), OpenError> {
            let lines = Arc::new(RaftConnections::new(asker));
            let own = configuration.machine(me);
            let own = own.expect("a machine is in the configuration in which it begins");
            let address = own.address.clone();
            let (fabric, config_store) = self.listen(me, &address, &configuration, &lines)?;
            let mut known = addresses(&configuration, Some(me));
            known.extend(addresses(&self.first, Some(me)));
            let outside = outside_of(lines, known, self.secret.clone());
            let group = Arc::clone(&config_store);
            let again = StoreRestart {
                outside,
                found: Some(Box::new(move |next| found_again(&group, next))),
            };
            let part = self.begun(me, configuration, joins, (config_store, Some(again)));
            Ok((part, fabric))
        }

        /// Starts to listen, and to reply to requests for the store.
        fn listen(
            &self,
            me: MachineId,
            address: &Address,
            configuration: &Configuration,
            lines: &Arc<RaftConnections>,
        ) -> Result<(Arc<TcpFabric>, Arc<RaftStore>), OpenError> {
            let fabric = (self.start)(me, address)?;
            let mut random = Random::new(entropy_seed());
            let member = RaftMember {
                // 0 stands for no machine.
                incarnation: random.next_u64() | 1,
                machine: me,
                address: address.to_string(),
            };
            let (least, most) = HEARTBEATS;
            let pace = RaftPace {
                heartbeat: (self.lease / 2).clamp(least, most),
                patience: ANSWER,
            };
            let others = addresses(configuration, Some(me));
            let lines = Arc::clone(lines) as _;
            let config_store = RaftStore::open(member, others, None, lines, pace, random);
            let config_store = Arc::new(config_store.map_err(store)?);
            config_store.follow_configurations();
            fabric.answer_with(Arc::new(StoreService(Arc::clone(&config_store))));
            Ok((fabric, config_store))
        }

        /// Returns whether an initial member may start with the cluster, once all of them are there
        /// (RAFT-1). Returns false if it has run before.
        fn begin(
            &self,
            config_store: &Arc<RaftStore>,
            me: MachineId,
            lines: &RaftConnections,
        ) -> Result<bool, OpenError> {
            let others = self.first.machines().iter().filter(|m| m.id != me);
            let others: Vec<_> = others.collect();
            let began = Instant::now();
            let mut refused_since = None;
            loop {
                let own = config_store.description();
                if config_store.votes() {
                    match is_first(&**config_store, &self.first) {
                        // The others may not have elected a leader yet.
                        Err(OpenError::Store(StoreError::Unreachable(_))) => {}
                        known => return known,
                    }
                } else {
                    let ask = |machine: &&Machine| config_store.who(machine.address.as_str()).ok();
                    let there: Vec<RaftPeer> = others.iter().filter_map(ask).collect();
                    let is_in = |peer: &RaftPeer| peer.voters.contains(&own.incarnation);
                    // The machine at an initial member's address may be another one by now.
                    if there.iter().any(|peer| peer.configured && !is_in(peer)) {
                        return Ok(false);
                    }
                    let initial_members = others.iter().map(|machine| machine.id);
                    let all = there.iter().map(|peer| peer.machine).eq(initial_members);
                    if me == self.first.cm() && all && there.iter().all(|p| p.voters.is_empty()) {
                        let all = there.into_iter().chain([own]);
                        let members = all.map(|peer| member(&self.first, peer)).collect();
                        config_store.found(members).block_on().map_err(store)?;
                    }
                }
                let refusals = lines.refusals.lock().clone();
                let all = refusals.len() == others.len() && refusals.values().all(is_final);
                match all && !others.is_empty() {
                    false => refused_since = None,
                    true => {
                        let since = *refused_since.get_or_insert_with(Instant::now);
                        if since.elapsed() > REFUSED {
                            return Err(OpenError::Refused(list(&refusals)));
                        }
                    }
                }
                if began.elapsed() > TIME_LIMIT {
                    let missing = match refusals.is_empty() {
                        true => "machines disagree about the incarnation of the cluster: stop all \
                                 machines, then start them again"
                            .into(),
                        false => list(&refusals),
                    };
                    return Err(OpenError::Incomplete(TIME_LIMIT.as_secs(), missing));
                }
                std::thread::sleep(REST);
            }
        }

        /// Waits until a member of the group returns its configuration.
        fn await_group(&self, outsider: &RaftOutsider) -> Result<(), OpenError> {
            let began = Instant::now();
            loop {
                let why = match outsider.read() {
                    Ok(Some(current)) if current.cluster() != self.first.cluster() => {
                        let (theirs, ours) = (current.cluster(), self.first.cluster());
                        return Err(store(StoreError::OtherCluster { theirs, ours }));
                    }
                    Ok(Some(_)) => return Ok(()),
                    Ok(None) => "the machines of the cluster have not begun".to_owned(),
                    Err(why) => why.to_string(),
                };
                if began.elapsed() > ELECTION {
                    return Err(OpenError::Incomplete(ELECTION.as_secs(), why));
                }
                std::thread::sleep(REST);
            }
        }
    }

    /// Returns the access of an outsider to machines at these addresses.
    pub(crate) fn outside(
        asker: ControlClient,
        addresses: Vec<String>,
        secret: ClusterSecret,
    ) -> OutsiderAccess {
        outside_of(Arc::new(RaftConnections::new(asker)), addresses, secret)
    }

    fn outside_of(
        lines: Arc<RaftConnections>,
        mut addresses: Vec<String>,
        secret: ClusterSecret,
    ) -> OutsiderAccess {
        addresses.sort();
        addresses.dedup();
        let outsider = Arc::new(RaftOutsider::new(lines, addresses));
        let look = Arc::clone(&outsider);
        OutsiderAccess {
            endpoint: Arc::new(JoinEndpoint::at(outsider, secret)),
            look: Box::new(move || match look.read() {
                // An unreachable cluster counts as none.
                Err(StoreError::Unreachable(_)) => Ok(None),
                known => known.map_err(store),
            }),
        }
    }

    /// Creates a group of the machines of a configuration, all of which restart. Returns once it
    /// has a leader.
    fn found_again(config_store: &RaftStore, next: &Configuration) -> Result<(), OpenError> {
        let began = Instant::now();
        loop {
            let own = config_store.description();
            if config_store.votes() {
                match config_store.read().block_on() {
                    Err(StoreError::Unreachable(_)) => {}
                    known => return known.map(drop).map_err(store),
                }
            } else if own.machine == next.cm() {
                let others = next.machines().iter().filter(|one| one.id != own.machine);
                let ask = |one: &Machine| {
                    let peer = config_store.who(one.address.as_str()).ok();
                    peer.filter(|peer| peer.machine == one.id && peer.voters.is_empty())
                };
                if let Some(there) = others.map(ask).collect::<Option<Vec<RaftPeer>>>() {
                    let all = there.into_iter().chain([own]);
                    let members = all.map(|peer| member(next, peer)).collect();
                    config_store.found(members).block_on().map_err(store)?;
                }
            }
            if began.elapsed() > TIME_LIMIT {
                let why = "the machines did not found a group".into();
                return Err(OpenError::Incomplete(TIME_LIMIT.as_secs(), why));
            }
            std::thread::sleep(REST);
        }
    }

    fn member(of: &Configuration, peer: RaftPeer) -> RaftMember {
        let machine = of.machine(peer.machine);
        let machine = machine.expect("it was asked as one of them");
        RaftMember {
            incarnation: peer.incarnation,
            machine: peer.machine,
            address: machine.address.to_string(),
        }
    }

    fn addresses(configuration: &Configuration, but: Option<MachineId>) -> Vec<String> {
        let machines = configuration.machines().iter();
        let machines = machines.filter(|machine| Some(machine.id) != but);
        machines
            .map(|machine| machine.address.to_string())
            .collect()
    }

    fn list(refusals: &BTreeMap<String, HandshakeError>) -> String {
        let one = |(address, why): (&String, &HandshakeError)| format!("{address}: {why}");
        let all: Vec<String> = refusals.iter().map(one).collect();
        all.join("; ")
    }
}

#[cfg(feature = "raft")]
pub(crate) use joining::{Group, outside};

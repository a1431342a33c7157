//! Replicas after a configuration that only some of its members have applied.

use fencepost_fabric::MachineId;

use super::node::Node;
use super::regions::{answers, committed, holdings, m, mapping, prepared, request};
use crate::allocation::{HeldRegion, MovedRegion};
use crate::configuration::Configuration;
use crate::few::{FewMap, FewSet};
use crate::placement::Replication;
use crate::reconfiguration::gather::{KnownRegions, gather};
use crate::reconfiguration::remap::{OptionalChanges, RemapResult, remap_regions};
use crate::reconfiguration::{NewConfig, RegionReport};
use crate::region::{Mapping, RegionId};
use crate::testing;

const REGION: RegionId = RegionId(1);

fn remap(gathered: &KnownRegions, next: &Configuration, settled: bool) -> RemapResult {
    let (two, none) = (Replication::exactly(2), FewSet::new());
    let balances = false;
    remap_regions(
        gathered,
        next,
        two,
        &none,
        OptionalChanges { settled, balances },
    )
}

/// Five machines, of which m2, m3 and m4 hold the region with all of its data.
struct Machines(FewMap<MachineId, Node>);

impl Machines {
    fn new(configuration: &Configuration, region: &Mapping) -> Self {
        let mut random = fencepost_fabric::Random::new(1);
        let node = |id| Node::new(m(id), configuration, false, 0, &mut random);
        let nodes = (1..=5).map(m).zip((1..=5).map(node)).collect();
        let mut machines = Self(nodes);
        for id in 1..=5 {
            let next = configuration.without(&FewSet::new(), m(1)).unwrap();
            machines.apply(id, &next, region);
            let node = machines.0.get_mut(&m(id)).unwrap();
            node.last_drained = next.id();
            if region.replicas.has(m(id)) {
                assert!(node.replica.filled(REGION));
                node.memory.data.insert(REGION, region.clone());
            }
        }
        machines
    }

    fn report(&mut self, id: u32) -> (MachineId, RegionReport) {
        let node = self.0.get_mut(&m(id)).unwrap();
        let drained = node.last_drained;
        (m(id), node.regions().0.freeze_and_report(drained))
    }

    fn apply(&mut self, id: u32, configuration: &Configuration, region: &Mapping) {
        let new = NewConfig {
            configuration: configuration.clone(),
            moved: vec![MovedRegion {
                mapping: region.clone(),
                request: request(1),
            }],
            given_up: Vec::new(),
            lost: Vec::new(),
            next_region: RegionId(9),
            clock: None,
        };
        let (mut regions, memory) = self.0.get_mut(&m(id)).unwrap().regions();
        assert!(regions.apply(&new, memory).refused.is_empty());
    }
}

/// Configuration 6 is in force. Configuration 7 gives up one of three replicas, and only its CM
/// applies it.
fn with_given_up_replica() -> (Machines, Configuration, u32, Vec<u32>) {
    let five = testing::machines(5);
    let mut machines = Machines::new(&five, &mapping(1, 1, &[2, 3, 4], 6));
    let sixth = five.without(&FewSet::new(), m(1)).unwrap();
    let seventh = sixth.without(&FewSet::new(), m(1)).unwrap();
    let reports = (1..=5).map(|id| machines.report(id)).collect();
    let remapped = remap(&gather(&reports), &seventh, true);
    let region = remapped.map.get(REGION).unwrap().clone();
    machines.apply(1, &seventh, &region);
    let (stay, given_up): (Vec<u32>, Vec<u32>) =
        (2..=4).partition(|id| region.replicas.has(m(*id)));
    assert_eq!((stay.len(), given_up.len()), (2, 1), "REMAP-4");
    (machines, seventh, given_up[0], stay)
}

#[test]
fn given_up_replica_survives_loss_of_staying_replicas_if_it_missed_the_configuration() {
    let (mut machines, seventh, given_up, stay) = with_given_up_replica();
    let lost: FewSet<MachineId> = stay.iter().map(|id| m(*id)).collect();
    let eighth = seventh.without(&lost, m(1)).unwrap();
    let reports = [1, given_up, 5].map(|id| machines.report(id));
    let gathered = gather(&reports.into());
    assert!(!gathered.loses_any() && gathered.given_up.is_empty());
    let remapped = remap(&gathered, &eighth, false);
    assert!(remapped.lost.is_empty() && remapped.under_replicated.is_empty());
    let region = remapped.map.get(REGION).unwrap();
    assert_eq!(region.replicas.primary(), m(given_up), "REMAP-1");
    assert_eq!(region.last_primary_change, eighth.id());
    assert_eq!(region.last_replica_change, eighth.id());
    machines.apply(given_up, &eighth, region);
    let node = &machines.0[&m(given_up)];
    let held = node.replica.get(REGION).unwrap();
    assert!(held.whole && held.mapping == *region && node.memory.data.contains_key(&REGION));
    // The CM knew a later mapping than the one in force.
    machines.apply(1, &eighth, region);
    assert_eq!(machines.0[&m(1)].cache.map().get(REGION), Some(region));
}

#[test]
fn given_up_primary_stays_primary_if_it_missed_the_configuration() {
    // The CM alone knows the mapping without the primary.
    let (in_force, never) = (mapping(1, 1, &[2, 3, 4], 6), mapping(1, 1, &[3, 4], 7));
    let holds = || holdings(vec![committed(&in_force)], vec![]);
    let applied = holdings(vec![committed(&never)], vec![]);
    let gathered = gather(&answers(vec![
        (1, holdings(vec![], vec![never.clone()])),
        (2, holds()),
        (3, applied),
        (4, holds()),
    ]));
    let eighth = testing::machines(4);
    let remapped = remap(&gathered, &eighth, false);
    let region = remapped.map.get(REGION).unwrap();
    assert_eq!(region.replicas.primary(), m(2));
    assert_eq!(region.replicas.count(), 3, "REMAP-2");
    let changes = (region.last_primary_change, region.last_replica_change);
    assert_eq!(changes, (eighth.id(), eighth.id()));
    assert!(remapped.moving, "a later configuration gives a replica up");
    let again = remap(&gathered, &eighth, true);
    let region = again.map.get(REGION).unwrap();
    assert_eq!(region.replicas.count(), 2);
    assert_eq!(region.last_replica_change, eighth.id());
}

#[test]
fn newest_mapping_is_valid_if_all_replicas_have_applied_it() {
    let (before, newest) = (mapping(1, 1, &[2, 3], 6), mapping(1, 1, &[3, 4], 7));
    let lacking = |mapping: &Mapping| HeldRegion {
        whole: false,
        ..committed(mapping)
    };
    let gathered = gather(&answers(vec![
        (2, holdings(vec![lacking(&before)], vec![])),
        (3, holdings(vec![committed(&newest)], vec![])),
        (4, holdings(vec![lacking(&newest)], vec![])),
    ]));
    let known = &gathered.regions[&REGION];
    assert!(known.mapping == newest && !known.reverted, "m2 has no data");
}

#[test]
fn prepared_replica_survives_if_it_missed_commit_and_next_configuration() {
    // The machines m1 and m2 have prepared the region. Then m1 is lost, and m3 makes a
    // configuration with a new replica at m4 that m3 alone applies.
    let (before, never) = (mapping(1, 1, &[1, 2], 6), mapping(1, 1, &[2, 4], 7));
    let gathered = gather(&answers(vec![
        (2, holdings(vec![prepared(&before)], vec![])),
        (3, holdings(vec![], vec![never.clone()])),
        (4, holdings(vec![], vec![])),
    ]));
    let known = &gathered.regions[&REGION];
    assert_eq!(known.holders, [(m(2), true)].into());
    assert!(known.mapping == never && gathered.given_up.is_empty());
    assert!(!gathered.loses_any());
}

#[test]
fn earlier_attempt_of_the_same_request_is_no_replica() {
    // The attempt at m3 and m5 failed. Its ABORT never reached m3, and the same request got the
    // region with the same number at m1 and m2.
    let (failed, region) = (mapping(1, 1, &[3, 5], 6), mapping(1, 1, &[1, 2], 6));
    let reports = |region: &Mapping| {
        let holds = || holdings(vec![committed(region)], vec![]);
        let stale = holdings(vec![prepared(&failed)], vec![]);
        answers(vec![(1, holds()), (2, holds()), (3, stale)])
    };
    let gathered = gather(&reports(&region));
    let known = &gathered.regions[&REGION];
    assert_eq!(known.holders, [(m(1), true), (m(2), true)].into());
    assert_eq!(gathered.given_up, [(m(3), vec![REGION])].into());
    // The machine gets no replica while it may still have the failed attempt.
    let three = testing::machines(3);
    let next = three.without(&[m(2)].into(), m(1)).unwrap();
    let remapped = remap(&gathered, &next, false);
    let replicas = &remapped.map.get(REGION).unwrap().replicas;
    assert_eq!(replicas.all().collect::<Vec<_>>(), [m(1)]);
    assert_eq!(remapped.under_replicated, [REGION]);
    let later = mapping(1, 1, &[1, 2], 7);
    let gathered = gather(&reports(&later));
    assert_eq!(gathered.given_up, [(m(3), vec![REGION])].into());
}

//! Successors of configurations, refused ones, and questions to a configuration.

use super::*;
use crate::testing::{address, domain, machines};

#[test]
fn ids_count_up_and_are_never_given_again() {
    let three = machines(3);
    assert_eq!(three.id(), ConfigurationId(3));
    let lost = FewSet::from([MachineId(3)]);
    let two = three.without(&lost, MachineId(2)).unwrap();
    assert_eq!((two.id(), two.cm()), (ConfigurationId(4), MachineId(2)));
    assert!(!two.has(MachineId(3)));
    let (again, joined) = two.with_machine(address(3), domain(3)).unwrap();
    assert_eq!(
        joined,
        MachineId(4),
        "the id of the machine that left stays unused"
    );
    assert_eq!(again.machine(joined).unwrap().address, address(3));
    assert_eq!(again.id(), ConfigurationId(5));
}

#[test]
fn configuration_that_breaks_invariant_is_refused() {
    let three = machines(3);
    let lost = FewSet::from([MachineId(1)]);
    assert_eq!(
        three.without(&lost, MachineId(1)),
        Err(ConfigurationError::NoSuchManager(MachineId(1)))
    );
    let all = FewSet::from([1, 2, 3].map(MachineId));
    assert_eq!(
        three.without(&all, MachineId(1)),
        Err(ConfigurationError::Empty)
    );
    assert_eq!(
        three.with_machine(address(2), domain(9)),
        Err(ConfigurationError::AddressTwice(MachineId(4)))
    );
    let parts =
        |id, list, next| Configuration::from_parts(ClusterId(7), id, list, MachineId(1), next);
    let mut twice = three.machines().to_vec();
    twice.swap(1, 2);
    assert_eq!(
        parts(ConfigurationId(9), twice, MachineId(4)),
        Err(ConfigurationError::MachineTwice(MachineId(2)))
    );
    let list = three.machines().to_vec();
    assert_eq!(
        parts(ConfigurationId(9), list.clone(), MachineId(3)),
        Err(ConfigurationError::IdNotGiven(MachineId(3)))
    );
    assert_eq!(
        parts(ConfigurationId(0), list, MachineId(4)),
        Err(ConfigurationError::Unnumbered)
    );
    let many = (1..=MAX_MACHINES as u32 + 1).map(|n| Machine {
        id: MachineId(n),
        address: address(n),
        domain: domain(n),
        leaving: false,
    });
    assert_eq!(
        parts(ConfigurationId(9), many.collect(), MachineId(u32::MAX)),
        Err(ConfigurationError::Full)
    );
}

#[test]
fn leaving_machine_is_member_until_removed() {
    let three = machines(3);
    let leaving = three.with_leaving(MachineId(2)).unwrap();
    assert_eq!(leaving.id(), three.id().next());
    assert!(leaving.has(MachineId(2)) && leaving.is_leaving(MachineId(2)));
    assert!(!three.is_leaving(MachineId(2)) && !leaving.is_leaving(MachineId(9)));
    assert_eq!(leaving.leaving(), FewSet::from([MachineId(2)]));
    assert_eq!(
        (three.domains_that_stay(), leaving.domains_that_stay()),
        (3, 2)
    );
    // Another machine may be lost while one is leaving.
    let lost = FewSet::from([MachineId(3)]);
    let two = leaving.without(&lost, MachineId(1)).unwrap();
    assert!(two.is_leaving(MachineId(2)));
    assert_eq!(
        three.with_leaving(MachineId(9)),
        Err(ConfigurationError::NoSuchMachine(MachineId(9)))
    );
}

#[test]
fn listed_initial_members_form_first_configuration() {
    let both = [(address(1), domain(1)), (address(2), domain(1))];
    let two = Configuration::of_initial_members(ClusterId(7), both.clone()).unwrap();
    assert_eq!((two.id(), two.cm()), (ConfigurationId::FIRST, MachineId(1)));
    assert_eq!(two.next_machine(), MachineId(3));
    assert_eq!(two.machine(MachineId(2)).unwrap().domain, domain(1));
    let again = [both[0].clone(), both[0].clone()];
    assert_eq!(
        Configuration::of_initial_members(ClusterId(7), again),
        Err(ConfigurationError::AddressTwice(MachineId(2)))
    );
    assert_eq!(Configuration::of_process(0), Err(ConfigurationError::Empty));
    assert_eq!(
        Configuration::of_process(u32::MAX),
        Err(ConfigurationError::Full)
    );
    assert_eq!(Configuration::of_process(3).unwrap().machines().len(), 3);
}

#[test]
fn majorities_of_one_configuration_intersect() {
    for count in 1..=7 {
        let majority = machines(count).majority();
        assert!(2 * majority > count as usize && 2 * (majority - 1) <= count as usize);
    }
}

#[test]
fn backup_cms_are_the_successors_of_the_cm() {
    let five = machines(5);
    let backups = five.backup_cms(2);
    assert_eq!(backups, five.backup_cms(9)[..2]);
    assert_eq!(five.backup_cms(9).len(), 4);
    assert!(!backups.contains(&five.cm()) && backups.iter().all(|m| five.has(*m)));
    assert!(machines(1).backup_cms(2).is_empty());
}

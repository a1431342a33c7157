//! Machines, domains and configurations for the tests of this crate.

use crate::configuration::Configuration;
use crate::ids::{Address, ClusterId, FailureDomain};

/// Returns the address of the `n`th machine.
pub fn address(n: u32) -> Address {
    Address::new(&format!("host-{n}:5433")).unwrap()
}

/// Returns the `n`th failure domain.
pub fn domain(n: u32) -> FailureDomain {
    FailureDomain::new(&format!("rack-{n}")).unwrap()
}

/// Returns a configuration of machines m1, m2, … in the given domains; m1 is the CM.
pub fn configuration(domains: &[u32]) -> Configuration {
    let founded = Configuration::founded(ClusterId(7), address(1), domain(domains[0]));
    let others = (2..).zip(&domains[1..]);
    others.fold(founded, |before, (n, d)| {
        before.with_machine(address(n), domain(*d)).unwrap().0
    })
}

/// Returns a configuration of `count` machines, each in its own domain.
pub fn machines(count: u32) -> Configuration {
    configuration(&(1..=count).collect::<Vec<_>>())
}

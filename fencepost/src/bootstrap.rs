//! The first configuration of a cluster.
//!
//! It is read from a configuration store. So far that is a store of this process: all machines get
//! the same list, put the same first configuration into their stores and read it there. With a
//! common store (`raft`, `zookeeper`), the first machine to write it would bootstrap the cluster.

use std::collections::BTreeSet;

use fencepost_cluster::{
    Address, ClusterId, ConfigStore, Configuration, FailureDomain, LocalStore, StoreError,
};
use pollster::FutureExt;

use crate::error::OpenError;

/// The settings of the initial members, in the order of their numbers.
pub(crate) struct InitialMembers {
    pub cluster: ClusterId,
    /// The address or name of each machine.
    pub addresses: Vec<String>,
    /// The failure domain of each machine; empty if each machine is a domain of its own.
    pub domains: Vec<String>,
    pub replicas: u32,
}

impl InitialMembers {
    /// Returns the first configuration, whose CM is the first machine.
    pub fn configuration(&self) -> Result<Configuration, OpenError> {
        let first = self.first()?;
        let of = |machine: &fencepost_cluster::Machine| machine.domain.clone();
        let domains: BTreeSet<_> = first.machines().iter().map(of).collect();
        if domains.len() < self.replicas as usize {
            return Err(OpenError::TooFewDomains {
                domains: domains.len() as u32,
                replicas: self.replicas,
            });
        }
        let store = LocalStore::in_memory();
        let configuration = async {
            store.compare_and_swap(None, &first).await?;
            store.read().await
        };
        let configuration: Result<_, StoreError> = configuration.block_on();
        let configuration = configuration.map_err(invalid)?;
        configuration.ok_or_else(|| OpenError::Configuration("the store is empty".into()))
    }

    fn first(&self) -> Result<Configuration, OpenError> {
        let machines = self.addresses.len();
        if !self.domains.is_empty() && self.domains.len() != machines {
            let domains = self.domains.len();
            let why = format!("{machines} machines have as many failure domains, not {domains}");
            return Err(OpenError::Configuration(why));
        }
        let initial_member = |(at, address): (usize, &String)| {
            let own = format!("m{}", at + 1);
            let domain = self.domains.get(at).unwrap_or(&own);
            let named = |what: &str, error| {
                OpenError::Configuration(format!("the {what} of {own}: {error}"))
            };
            let address = Address::new(address).map_err(|error| named("address", error))?;
            let domain = FailureDomain::new(domain);
            Ok((
                address,
                domain.map_err(|error| named("failure domain", error))?,
            ))
        };
        let initial_members = self.addresses.iter().enumerate().map(initial_member);
        let initial_members: Vec<_> = initial_members.collect::<Result<_, OpenError>>()?;
        Configuration::of_initial_members(self.cluster, initial_members).map_err(invalid)
    }
}

fn invalid(error: impl ToString) -> OpenError {
    OpenError::Configuration(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn initial_members(domains: &[&str], replicas: u32) -> InitialMembers {
        InitialMembers {
            cluster: ClusterId(5),
            addresses: ["a:1", "b:1", "c:1"].map(String::from).into(),
            domains: domains.iter().map(|domain| domain.to_string()).collect(),
            replicas,
        }
    }

    fn refused(initial_members: &InitialMembers) -> String {
        let error = initial_members
            .configuration()
            .expect_err("no configuration");
        error.to_string()
    }

    #[test]
    fn same_machine_list_gives_same_configuration() {
        let configuration = || {
            initial_members(&[], 3)
                .configuration()
                .expect("three machines")
        };
        assert_eq!(configuration(), configuration());
        let first = configuration();
        assert_eq!((first.id().0, first.cm().0), (1, 1));
        let domains = |configuration: &Configuration| -> Vec<String> {
            let machines = configuration.machines().iter();
            machines.map(|machine| machine.domain.to_string()).collect()
        };
        assert_eq!(domains(&first), ["m1", "m2", "m3"]);
        let racks = initial_members(&["x", "y", "x"], 2);
        let racks = racks.configuration().expect("two domains");
        assert_eq!(domains(&racks), ["x", "y", "x"]);
    }

    #[test]
    fn invalid_initial_members_are_refused_with_reason() {
        let few = "3 replicas need as many failure domains, and there are 2";
        assert_eq!(refused(&initial_members(&["x", "y", "x"], 3)), few);
        let missing = refused(&initial_members(&["x", "y"], 1));
        assert!(
            missing.contains("3 machines have as many failure domains, not 2"),
            "{missing}"
        );
        let bad = refused(&initial_members(&["x", "rack 7", "z"], 1));
        assert!(bad.contains("the failure domain of m2"), "{bad}");
        let mut twice = initial_members(&[], 1);
        twice.addresses[2] = "a:1".into();
        let twice = refused(&twice);
        assert!(
            twice.contains("m3 has the address of another machine"),
            "{twice}"
        );
    }
}

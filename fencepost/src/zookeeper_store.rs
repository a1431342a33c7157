//! A cluster whose configuration is in a ZooKeeper ensemble: how its machines start and join.
//!
//! ```text
//! PATH/configuration       the current configuration
//! PATH/initial-members/m1  m1 has started as an initial member
//! PATH/join/…              join requests
//! ```
//! Each cluster has a path of its own. An initial member takes its place there once. If the place
//! is taken, the machine has run before, and joins like a new machine. So no machine bootstraps the
//! cluster again while others run, even if the ensemble has lost other data. Machines that keep
//! their data on disks take no place: they restart when their disks agree.
//!
//! # Failure
//! While the ensemble is unreachable, no machine starts or joins. Running machines need it when one
//! of them fails. Data of ended machines stays in the path, and prevents a new cluster from
//! starting there.

use std::str::FromStr;

use crate::error::OpenError;

/// The servers of an ensemble, and the path of a configuration in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ZookeeperServers {
    /// The list that the ensemble's clients use: `host:port,host:port`.
    servers: String,
    /// The absolute path.
    path: String,
}

impl FromStr for ZookeeperServers {
    type Err = OpenError;

    /// Parses `zookeeper://host:port,host:port/path`.
    fn from_str(url: &str) -> Result<ZookeeperServers, OpenError> {
        let wrong = || {
            let why = format!("{url}: not zookeeper://HOST:PORT,…/PATH");
            OpenError::Configuration(why)
        };
        let rest = url.strip_prefix("zookeeper://").ok_or_else(wrong)?;
        let (servers, path) = rest.split_once('/').ok_or_else(wrong)?;
        let is_server = |server: &str| {
            let parts = server.rsplit_once(':');
            parts.is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok())
        };
        let is_name = |name: &str| {
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
            !name.is_empty() && ![".", "..", "zookeeper"].contains(&name) && name.bytes().all(plain)
        };
        let right = servers.split(',').all(is_server) && path.split('/').all(is_name);
        right
            .then(|| ZookeeperServers {
                servers: servers.into(),
                path: format!("/{path}"),
            })
            .ok_or_else(wrong)
    }
}

#[cfg(not(feature = "zookeeper"))]
mod joining {
    use fencepost_cluster::Configuration;
    use fencepost_cluster::join::ClusterSecret;

    use super::ZookeeperServers;
    use crate::disks::{DiskIdentity, OutsiderAccess};
    use crate::error::OpenError;
    use crate::membership::{MachineIdentity, MachineRole};

    impl ZookeeperServers {
        /// Returns the role of a machine in such a cluster; here always an error.
        pub fn part(
            &self,
            _: MachineIdentity,
            _: Configuration,
            _: ClusterSecret,
        ) -> Result<MachineRole, OpenError> {
            Err(self.is_not_there())
        }

        pub fn part_with_a_disk(
            &self,
            _: DiskIdentity,
            _: &Configuration,
            _: ClusterSecret,
        ) -> Result<MachineRole, OpenError> {
            Err(self.is_not_there())
        }

        pub fn outside(
            &self,
            _: &Configuration,
            _: ClusterSecret,
        ) -> Result<OutsiderAccess, OpenError> {
            Err(self.is_not_there())
        }

        fn is_not_there(&self) -> OpenError {
            let ZookeeperServers { servers, path } = self;
            let why = format!("{path} of {servers}: this program was built without ZooKeeper");
            OpenError::Configuration(why)
        }
    }
}

#[cfg(feature = "zookeeper")]
mod joining {
    use std::sync::Arc;
    use std::time::Duration;

    use fencepost_cluster::join::{ClusterSecret, JoinEndpoint};
    use fencepost_cluster::{
        ConfigStore, Configuration, FailureDomain, StoreError, ZookeeperStore,
    };
    use pollster::FutureExt;

    use super::ZookeeperServers;
    use crate::disks::{DiskIdentity, OutsiderAccess, StoreRestart};
    use crate::error::OpenError;
    use crate::membership::{
        MachineIdentity, MachineRole, ReleaseMember, StoreAccess, is_first, request_to_join, store,
        unusable,
    };

    /// The time limit for each of the few requests to the ensemble.
    const TIME_LIMIT: Duration = Duration::from_secs(2);

    impl ZookeeperServers {
        /// Returns the role of a machine in such a cluster.
        pub fn part(
            &self,
            who: MachineIdentity,
            first: Configuration,
            secret: ClusterSecret,
        ) -> Result<MachineRole, OpenError> {
            let ZookeeperServers { servers, path } = self;
            let (config_store, endpoint) = self.open_store(&first, secret)?;
            let current = config_store.read().block_on().map_err(store)?;
            let (address, domain) = match who {
                MachineIdentity::JoiningMember(_) if current.is_none() => {
                    let why = format!("no machine of the cluster has been in {path} of {servers}");
                    return Err(OpenError::Configuration(why));
                }
                MachineIdentity::JoiningMember(address) => {
                    // The machine is a failure domain of its own.
                    let domain = FailureDomain::new(address.as_str()).map_err(unusable)?;
                    (address, domain)
                }
                MachineIdentity::InitialMember(me) => {
                    let place = format!("{path}/initial-members/{me}");
                    if let Some(place) = begin(&config_store, place, &first)? {
                        return Ok(MachineRole {
                            me,
                            configuration: first,
                            joins: false,
                            store_access: Some(StoreAccess {
                                store: config_store,
                                endpoint,
                                place: Some(place),
                                awaits: None,
                                again: None,
                            }),
                        });
                    }
                    let member = first.machine(me);
                    let member =
                        member.expect("CONFIG-1: initial members are in the first configuration");
                    (member.address.clone(), member.domain.clone())
                }
            };
            let joined = request_to_join(&endpoint, &first, address, domain);
            let (me, configuration) = joined.map_err(|why| match why {
                OpenError::Incomplete(seconds, _) => {
                    let why = format!(
                        "no machine answers of the cluster that is in {path} of {servers}; \
                         where all have ended, others begin in another path"
                    );
                    OpenError::Incomplete(seconds, why)
                }
                why => why,
            })?;
            Ok(MachineRole {
                me,
                configuration,
                joins: true,
                store_access: Some(StoreAccess {
                    store: config_store,
                    endpoint,
                    place: None,
                    awaits: None,
                    again: None,
                }),
            })
        }

        /// Returns the store and the join endpoint. `first` is the first configuration of the
        /// cluster.
        fn open_store(
            &self,
            first: &Configuration,
            secret: ClusterSecret,
        ) -> Result<(Arc<ZookeeperStore>, Arc<JoinEndpoint>), OpenError> {
            let ZookeeperServers { servers, path } = self;
            let config_store =
                ZookeeperStore::new(servers, &format!("{path}/configuration"), TIME_LIMIT);
            let config_store = Arc::new(config_store.map_err(store)?);
            let messages = Arc::new(config_store.join_messages(&format!("{path}/join")));
            Ok((
                checked(config_store, first)?,
                Arc::new(JoinEndpoint::at(messages, secret)),
            ))
        }

        /// Returns the access of an outsider to the cluster.
        pub fn outside(
            &self,
            first: &Configuration,
            secret: ClusterSecret,
        ) -> Result<OutsiderAccess, OpenError> {
            let (config_store, endpoint) = self.open_store(first, secret)?;
            Ok(OutsiderAccess {
                endpoint,
                look: Box::new(move || config_store.read().block_on().map_err(store)),
            })
        }

        /// Returns the role of a machine that keeps its data on a disk.
        pub fn part_with_a_disk(
            &self,
            (me, configuration, joins): DiskIdentity,
            first: &Configuration,
            secret: ClusterSecret,
        ) -> Result<MachineRole, OpenError> {
            let (config_store, endpoint) = self.open_store(first, secret.clone())?;
            Ok(MachineRole {
                me,
                configuration,
                joins,
                store_access: Some(StoreAccess {
                    store: config_store,
                    endpoint,
                    place: None,
                    awaits: None,
                    again: Some(StoreRestart {
                        outside: self.outside(first, secret)?,
                        found: None,
                    }),
                }),
            })
        }
    }

    /// Returns the store, unless it belongs to another cluster.
    fn checked(
        config_store: Arc<ZookeeperStore>,
        first: &Configuration,
    ) -> Result<Arc<ZookeeperStore>, OpenError> {
        let current = config_store.read().block_on().map_err(store)?;
        let theirs = current.map(|current| current.cluster());
        match theirs.filter(|theirs| *theirs != first.cluster()) {
            None => Ok(config_store),
            Some(theirs) => {
                let ours = first.cluster();
                Err(store(StoreError::OtherCluster { theirs, ours }))
            }
        }
    }

    /// Takes an initial member's place. Returns `None` if the place is taken, or if the cluster is
    /// no longer in its first configuration.
    fn begin(
        config_store: &Arc<ZookeeperStore>,
        place: String,
        first: &Configuration,
    ) -> Result<Option<ReleaseMember>, OpenError> {
        let taken = config_store.take_place(&place).block_on().map_err(store)?;
        if !taken || !is_first(&**config_store, first)? {
            return Ok(None);
        }
        let config_store = Arc::clone(config_store);
        Ok(Some(Box::new(move || {
            // A place that cannot be released stays taken.
            let _ = config_store.give_place_back(&place).block_on();
        })))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_has_servers_and_a_path() {
        let ensemble: ZookeeperServers = "zookeeper://a:2181,10.0.0.2:2182/fencepost/one"
            .parse()
            .expect("it is one");
        assert_eq!(ensemble.servers, "a:2181,10.0.0.2:2182");
        assert_eq!(ensemble.path, "/fencepost/one");
        for wrong in [
            "a:2181/x",
            "etcd://a:2181/x",
            "zookeeper://a:2181",
            "zookeeper://a:2181/",
            "zookeeper:///x",
            "zookeeper://a/x",
            "zookeeper://a:2181,/x",
            "zookeeper://a:99999/x",
            "zookeeper://a:2181/x//y",
            "zookeeper://a:2181/x/../y",
            "zookeeper://a:2181/zookeeper",
        ] {
            let refused = ZookeeperServers::from_str(wrong).expect_err(wrong);
            assert!(refused.to_string().contains(wrong), "{refused}");
        }
    }
}

//! Machines that join a running cluster, and machines that return.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use fencepost::{Cluster, Database, OpenError, Options, params};

use crate::between::{Interconnect, MACHINES, SECRET, addresses, alike, shared, until};

/// Long enough for a host that is busy with other tests.
const LEASE: Duration = Duration::from_secs(2);

/// A cluster that other machines can join.
struct Open {
    between: Interconnect,
    configuration: tempfile::TempDir,
}

impl Open {
    fn new(between: Interconnect) -> Open {
        let configuration = shared();
        Open {
            between,
            configuration,
        }
    }

    fn options(&self, cluster: Cluster) -> Options {
        let cluster = cluster
            .lease(LEASE)
            .configuration_in(self.configuration.path());
        Database::options().region_size(16 << 20).cluster(cluster)
    }

    fn machines(&self) -> Vec<Database> {
        self.between
            .machines_with(2, |_, cluster| self.options(cluster))
    }

    /// Returns the settings of an initial member, or with number 0 of a joining machine.
    fn machine(&self, number: u32, secret: &[u8]) -> Cluster {
        let cluster = match &self.between {
            Interconnect::Memory(directory) => Cluster::of_host(directory.path(), number, MACHINES),
            Interconnect::Network(addresses) => {
                Cluster::of_network(addresses.clone(), number, secret)
            }
        };
        cluster.replicas(2)
    }

    fn open_joining(&self, address: &str) -> Result<Database, OpenError> {
        let cluster = self.machine(0, SECRET).joining(address);
        self.options(cluster).open()
    }
}

fn sum(db: &Database) -> i64 {
    let sum = db.blocking().query_one("SELECT sum(b) FROM t", &[]);
    sum.expect("all is there").get(0).expect("a number")
}

fn members(db: &Database) -> Vec<u32> {
    let members = db.machine().members().machines;
    members.iter().map(|member| member.id).collect()
}

/// Adds one to rows until it is told to end. Returns the number of additions.
fn add_ones(db: &Database, over: &AtomicBool) -> i64 {
    let (mut session, mut ones) = (db.blocking(), 0);
    while !over.load(Ordering::Relaxed) {
        let row = params![ones % 300];
        match session.execute("UPDATE t SET b = b + 1 WHERE a = $1", row) {
            Ok(_) => ones += 1,
            Err(error) => assert!(error.is_retryable(), "{error}"),
        }
    }
    ones
}

fn joins_and_comes_back(open: &Open, address: &str) {
    let mut machines = open.machines();
    let mut first = machines[0].blocking();
    first
        .batch("CREATE TABLE t (a bigint PRIMARY KEY, b int)")
        .expect("a table");
    first
        .batch("INSERT INTO t SELECT g, 0 FROM generate_series(0, 299) g")
        .expect("rows");
    let over = AtomicBool::new(false);
    let (joined, ones) = thread::scope(|scope| {
        let adds = scope.spawn(|| add_ones(&machines[1], &over));
        let joining_database = open.open_joining(address);
        over.store(true, Ordering::Relaxed);
        (
            joining_database.expect("is let in"),
            adds.join().expect("no panic"),
        )
    });
    machines.push(joined);
    for db in &machines {
        assert_eq!(members(db), [1, 2, 3, 4]);
        assert_eq!(sum(db), ones, "each acknowledged update is there");
    }
    let mut joining = machines[3].blocking();
    joining
        .batch(
            "UPDATE t SET b = b + 1 WHERE a < 100; CREATE TABLE u (a int PRIMARY KEY); \
             INSERT INTO u VALUES (1)",
        )
        .expect("writes");
    assert_eq!(sum(&machines[2]), ones + 100);
    alike(&machines);
    // The third machine ends. The other machines, including the new one, have its data.
    drop(machines.remove(2));
    until(|| machines.iter().all(|db| members(db) == [1, 2, 4]));
    until(|| machines.iter().all(|db| db.machine().is_answering()));
    assert_eq!(sum(&machines[0]), ones + 100);
    alike(&machines);
    let back = open.options(open.machine(3, SECRET)).open();
    machines.push(back.expect("is let in again"));
    assert_eq!(machines[3].machine().number(), 5, "the number is new");
    let mut back = machines[3].blocking();
    back.batch("INSERT INTO u VALUES (2)").expect("writes");
    assert_eq!(sum(&machines[3]), ones + 100);
    for db in &machines {
        assert_eq!(members(db), [1, 2, 4, 5]);
    }
    alike(&machines);
}

#[test]
fn machine_joins_and_member_returns_over_shared_memory() {
    joins_and_comes_back(&Open::new(Interconnect::memory()), "joining");
}

#[test]
fn machine_joins_and_member_returns_over_network() {
    let open = Open::new(Interconnect::network(11));
    let joining = addresses(12, 1).remove(0);
    let early = open.open_joining(&joining).err().expect("no machine runs");
    assert!(
        early.to_string().contains("no machine of the cluster runs"),
        "{early}"
    );
    joins_and_comes_back(&open, &joining);
}

#[test]
fn outsider_without_secret_cannot_join() {
    let open = Open::new(Interconnect::network(13));
    let machines = open.machines();
    let joining = addresses(14, 1).remove(0);
    let cluster = open
        .machine(0, b"known to another cluster")
        .joining(joining.as_str());
    let refused = open.options(cluster).open().err().expect("is refused");
    assert!(
        refused
            .to_string()
            .contains("the secret is not the cluster's"),
        "{refused}"
    );
    let cluster = open
        .machine(0, SECRET)
        .name("another")
        .joining(joining.as_str());
    let refused = open.options(cluster).open().err().expect("is refused");
    assert!(
        refused.to_string().contains("belongs to cluster"),
        "{refused}"
    );
    // Without leases no machine can join.
    let cluster = open.machine(0, SECRET).joining(joining);
    let refused = Database::join(cluster).err().expect("is refused");
    assert!(matches!(refused, OpenError::Configuration(_)), "{refused}");
    assert_eq!(members(&machines[0]), [1, 2, 3]);
}

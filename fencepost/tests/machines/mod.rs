//! Machines of one database in this process, with shared memory or a network between them.

use std::net::TcpListener;
use std::thread;
use std::time::{Duration, Instant};

use fencepost::{BlockingSession, Cluster, Database};

pub const MACHINES: u32 = 3;
const PATIENCE: Duration = Duration::from_secs(60);

/// What is between the machines.
pub enum Between {
    Memory(tempfile::TempDir),
    Network(Vec<String>),
}

impl Between {
    pub fn memory() -> Between {
        let tmpfs = std::path::Path::new("/dev/shm");
        let dir = tempfile::tempdir_in(tmpfs).or_else(|_| tempfile::tempdir());
        Between::Memory(dir.expect("a directory"))
    }

    /// Addresses that are free and stay so: nobody calls from the hosts of a test.
    pub fn network(test: u32) -> Between {
        let any =
            |machine| TcpListener::bind(format!("127.1.{test}.{machine}:0")).expect("a free port");
        let listeners: Vec<_> = (1..=MACHINES).map(any).collect();
        let address = |listener: &TcpListener| listener.local_addr().expect("bound").to_string();
        Between::Network(listeners.iter().map(address).collect())
    }

    /// The machines, with so many replicas of each region, each opened by a thread as each would be by a process.
    pub fn machines(&self, replicas: u32) -> Vec<Database> {
        let open = |machine| {
            let cluster = match self {
                Between::Memory(directory) => Cluster::of_host(directory.path(), machine, MACHINES),
                Between::Network(addresses) => {
                    Cluster::of_network(addresses.clone(), machine, *b"of these tests alone")
                }
            };
            let options = Database::options().region_size(64 << 20);
            options
                .cluster(cluster.replicas(replicas))
                .open()
                .expect("opens")
        };
        thread::scope(|scope| {
            let opening: Vec<_> = (1..=MACHINES)
                .map(|machine| scope.spawn(move || open(machine)))
                .collect();
            let opened = opening.into_iter().map(|one| one.join().expect("no panic"));
            opened.collect()
        })
    }
}

/// A session that ships whatever can be.
pub fn shipping(db: &Database) -> BlockingSession {
    let mut session = db.blocking();
    session
        .execute("SET fencepost.ship = always", &[])
        .expect("a setting");
    session
}

/// A session that ships nothing.
pub fn staying(db: &Database) -> BlockingSession {
    let mut session = db.blocking();
    session
        .execute("SET fencepost.ship = off", &[])
        .expect("a setting");
    session
}

pub fn until(mut so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !so() {
        assert!(began.elapsed() < PATIENCE, "it never is");
        thread::sleep(Duration::from_millis(1));
    }
}

/// Waits until all machines know the table: over a network that is busy they may be slow to hear of it.
pub fn seen(machines: &[Database]) {
    for db in machines {
        until(|| staying(db).query("SELECT 1 FROM t LIMIT 1", &[]).is_ok());
    }
}

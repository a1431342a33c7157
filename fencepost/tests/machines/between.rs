//! Machines of one database in this process, with shared memory or a network between them.

use std::net::TcpListener;
use std::thread;
use std::time::{Duration, Instant};

use fencepost::{BlockingSession, Cluster, Database, Options};
use fencepost_txn::Machine;

pub const MACHINES: u32 = 3;
/// The secret of all test networks.
pub const SECRET: &[u8] = b"of these tests alone";
const TIME_LIMIT: Duration = Duration::from_secs(60);

/// The connection between the machines.
pub enum Interconnect {
    Memory(tempfile::TempDir),
    Network(Vec<String>),
}

impl Interconnect {
    pub fn memory() -> Interconnect {
        Interconnect::Memory(shared())
    }

    pub fn network(test: u32) -> Interconnect {
        Interconnect::Network(addresses(test, MACHINES))
    }

    /// Opens the machines, with `replicas` replicas of each region.
    pub fn machines(&self, replicas: u32) -> Vec<Database> {
        self.machines_with(replicas, |_, cluster| {
            Database::options().region_size(64 << 20).cluster(cluster)
        })
    }

    /// Opens the machines with these options. Each is opened by a thread, as a process would do it.
    pub fn machines_with(
        &self,
        replicas: u32,
        options: impl Fn(u32, Cluster) -> Options + Sync,
    ) -> Vec<Database> {
        let open = |machine| {
            let cluster = match self {
                Interconnect::Memory(directory) => {
                    Cluster::of_host(directory.path(), machine, MACHINES)
                }
                Interconnect::Network(addresses) => {
                    Cluster::of_network(addresses.clone(), machine, SECRET)
                }
            };
            let options = options(machine, cluster.replicas(replicas));
            options.open().expect("opens")
        };
        let open = &open;
        thread::scope(|scope| {
            let opening: Vec<_> = (1..=MACHINES)
                .map(|machine| scope.spawn(move || open(machine)))
                .collect();
            let opened = opening.into_iter().map(|one| one.join().expect("no panic"));
            opened.collect()
        })
    }
}

/// Returns a directory for memory that machines share.
pub fn shared() -> tempfile::TempDir {
    let tmpfs = std::path::Path::new("/dev/shm");
    let dir = tempfile::tempdir_in(tmpfs).or_else(|_| tempfile::tempdir());
    dir.expect("a directory")
}

/// Returns free addresses. No other program uses these hosts, so they stay free.
pub fn addresses(test: u32, machines: u32) -> Vec<String> {
    let any =
        |machine| TcpListener::bind(format!("127.1.{test}.{machine}:0")).expect("a free port");
    let listeners: Vec<_> = (1..=machines).map(any).collect();
    let address = |listener: &TcpListener| listener.local_addr().expect("bound").to_string();
    listeners.iter().map(address).collect()
}

/// Runs a test over shared memory, and over a network with its own addresses.
pub fn over_both(test: u32, run: impl Fn(&[Database])) {
    for between in [Interconnect::memory(), Interconnect::network(test)] {
        run(&between.machines(2));
    }
}

/// Returns a session that ships every statement that can be shipped.
pub fn shipping(db: &Database) -> BlockingSession {
    let mut session = db.blocking();
    session
        .execute("SET fencepost.ship = always", &[])
        .expect("a setting");
    session
}

/// Returns a session that ships nothing.
pub fn staying(db: &Database) -> BlockingSession {
    let mut session = db.blocking();
    session
        .execute("SET fencepost.ship = off", &[])
        .expect("a setting");
    session
}

/// Returns how many statements a machine has sent to others, without those it had to run itself.
pub fn sent(db: &Database) -> u64 {
    db.shipped().sent - db.shipped().returned
}

/// Returns the number that a statement selects.
pub fn number(session: &mut BlockingSession, sql: &str) -> i64 {
    let row = session.query_one(sql, &[]).expect(sql);
    row.get(0).expect("a number")
}

pub fn until(mut so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !so() {
        assert!(began.elapsed() < TIME_LIMIT, "it never is");
        thread::sleep(Duration::from_millis(1));
    }
}

/// Waits until no transaction has left anything and the memory of dropped tables is free, and
/// asserts that all backups equal their primaries.
pub fn alike(machines: &[Database]) {
    for db in machines {
        db.blocking().execute("VACUUM", &[]).expect("it waits");
    }
    let all: Vec<_> = machines.iter().map(|db| db.machine().clone()).collect();
    let began = Instant::now();
    while !Machine::are_at_rest(&all) {
        let left: Vec<_> = all.iter().map(|of| (of.number(), of.unrest())).collect();
        assert!(began.elapsed() < TIME_LIMIT, "never at rest: {left:?}");
        thread::sleep(Duration::from_millis(1));
    }
    for machine in &all {
        assert_eq!(machine.compare_backups(&all), []);
    }
}

/// Waits until all machines know the table. Over a busy network they may learn of it late.
pub fn seen(machines: &[Database]) {
    for db in machines {
        until(|| staying(db).query("SELECT 1 FROM t LIMIT 1", &[]).is_ok());
    }
}

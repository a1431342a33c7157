//! Requests to the services of a machine: shipped statements and parts of plans, advisory locks,
//! notifications, sessions, counters and cancels.
//!
//! Two databases form a cluster. Machine 2 sends requests to machine 1, which must reply in some
//! way.

use std::pin::pin;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::task::{Context, Waker};
use std::thread;
use std::time::{Duration, Instant};

use fencepost::{Cluster, Database};
use fencepost_fabric::MachineId;
use fencepost_txn::network::call::Answer;

/// The maximal length of a request, in bytes.
const REQUEST_BYTES_MAX: usize = 8 << 10;

/// The number of services of a machine, including some invalid numbers.
const SERVICES: u8 = 10;

/// The longest time until a machine replies.
const TIME_LIMIT: Duration = Duration::from_secs(30);

/// Statements that produce the requests used as seeds.
const WORK: [&str; 9] = [
    "SELECT * FROM far WHERE a = 7",
    "UPDATE far SET b = 'x' WHERE a = 8",
    "INSERT INTO far VALUES (101, 'y')",
    "SELECT count(*), sum(a) FROM spread",
    "SELECT pg_try_advisory_lock(5)",
    "SELECT pg_advisory_unlock(5)",
    "NOTIFY c, 'said'",
    "SELECT * FROM pg_stat_activity, pg_locks",
    "SELECT pg_cancel_backend(1 << 21), pg_stat_reset()",
];

/// The two machines.
struct Machines {
    asked: Database,
    asks: Database,
    _folder: tempfile::TempDir,
}

static MACHINES: LazyLock<Machines> = LazyLock::new(Machines::open);

/// Runs one input.
///
/// # Panics
/// If the machine does not reply.
pub fn run(service: u8, request: &[u8]) {
    let request = &request[..request.len().min(REQUEST_BYTES_MAX)];
    let service = service % SERVICES;
    let call = MACHINES.asks.machine().call(MachineId(1), service, request);
    let mut call = pin!(call);
    let began = Instant::now();
    let mut context = Context::from_waker(Waker::noop());
    while call.as_mut().poll(&mut context).is_pending() {
        let late = began.elapsed() > TIME_LIMIT;
        assert!(
            !late,
            "no answer to {:?} of service {service}",
            request.escape_ascii().to_string()
        );
        thread::yield_now();
    }
}

impl Machines {
    fn open() -> Machines {
        let folder = tempfile::tempdir().unwrap_or_else(|error| panic!("a folder: {error}"));
        let join = |machine: u32| {
            let cluster = Cluster::of_host(folder.path(), machine, 2).replicas(1);
            let options = Database::options().region_size(16 << 20);
            let options = options.durability(fencepost::Durability::Memory);
            options.cluster(cluster).open()
        };
        let (asked, asks) = thread::scope(|scope| {
            let first = scope.spawn(|| join(1));
            let second = join(2);
            (first.join(), second)
        });
        let (Ok(Ok(asked)), Ok(asks)) = (asked, asks) else {
            panic!("the machines do not open");
        };
        let machines = Machines {
            asked,
            asks,
            _folder: folder,
        };
        for (database, tables) in [
            (
                &machines.asks,
                "CREATE TABLE far (a int PRIMARY KEY, b text)",
            ),
            (
                &machines.asked,
                "CREATE TABLE spread (a int PRIMARY KEY) PARTITION BY RANGE (a);
                 CREATE TABLE spread_1 PARTITION OF spread FOR VALUES FROM (0) TO (50)",
            ),
            (
                &machines.asks,
                "CREATE TABLE spread_2 PARTITION OF spread FOR VALUES FROM (50) TO (100);
                 INSERT INTO far SELECT n, 'row ' || n FROM generate_series(1, 40) n;
                 INSERT INTO spread SELECT n FROM generate_series(0, 99) n",
            ),
        ] {
            let made = database.blocking().batch(tables);
            made.unwrap_or_else(|error| panic!("tables: {error}"));
        }
        machines
    }
}

/// The requests that a machine has sent.
type Requests = Arc<Mutex<Vec<Vec<u8>>>>;

/// Returns the requests of real statements. Machine 2 records the requests of machine 1, and does
/// not reply.
pub fn seeds() -> Vec<Vec<u8>> {
    // The seeds need their own machines, because those of the inputs must continue to reply.
    let machines = Machines::open();
    let requests: Requests = Arc::default();
    for service in 1..SERVICES {
        let noted = Arc::clone(&requests);
        let note = move |_, request: Vec<u8>, answer: Answer| {
            let mut noted = noted.lock().unwrap_or_else(PoisonError::into_inner);
            noted.push([vec![service], request].concat());
            drop(answer);
        };
        machines.asks.machine().serve(service, Arc::new(note));
    }
    let mut session = machines.asked.blocking();
    for statement in WORK {
        // Some statements fail, because they get no reply.
        let _ = session.query(statement, &[]);
    }
    drop(session);
    let mut noted = requests.lock().unwrap_or_else(PoisonError::into_inner);
    std::mem::take(&mut *noted)
}

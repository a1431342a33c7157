//! Batches of bound statements whose data is on another machine: the client gets the same replies
//! as if they ran here.

use std::thread;

use fencepost::{Cluster, Database};
use fencepost_pgserver::{ListenOptions, Server, listen};

use crate::common::{Client, Message, bind, error, execute, flush, named, parse, sync, tags};

/// Two machines of this host, and a server on the first one.
struct Pair {
    machines: Vec<Database>,
    server: Server,
    _directory: tempfile::TempDir,
}

impl Pair {
    fn start() -> Pair {
        let directory = tempfile::tempdir().expect("a directory");
        let open = |machine| {
            let cluster = Cluster::of_host(directory.path(), machine, 2);
            let options = Database::options().region_size(64 << 20);
            options.cluster(cluster).open().expect("opens")
        };
        let machines: Vec<Database> = thread::scope(|scope| {
            let opening = [1, 2].map(|machine| scope.spawn(move || open(machine)));
            opening.map(|one| one.join().expect("no panic")).into()
        });
        let table = "CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL)";
        machines[1].blocking().batch(table).expect("a table");
        let server = listen(&machines[0], ListenOptions::new("127.0.0.1:0")).expect("a free port");
        Pair {
            machines,
            server,
            _directory: directory,
        }
    }

    fn client(&self, ship: &str) -> Client {
        let mut client = Client::start(self.server.local_addr());
        client.run(&format!("SET fencepost.ship = {ship}"));
        client.send_all(&[
            parse("i", "INSERT INTO t VALUES ($1, $2)"),
            parse("u", "UPDATE t SET n = n + $2 WHERE id = $1 RETURNING n, id"),
            parse("s", "SELECT n FROM t WHERE id = $1"),
            parse("a", "SELECT count(*) FROM t"),
            sync(),
        ]);
        assert_eq!(tags(&client.until('Z')), "1111Z");
        client
    }

    /// Returns the number of statements that the first machine has sent, and that the second has
    /// run.
    fn shipped(&self) -> (u64, u64) {
        let [first, second] = [0, 1].map(|at: usize| self.machines[at].shipped());
        assert_eq!(first.returned, 0);
        (first.sent, second.served)
    }

    /// Runs a batch here and on the other machine, each time on the rows (1, 10) to (3, 30). Checks
    /// that the replies are the same. Returns them, and the number of shipped statements.
    fn both(&self, batch: &[Vec<u8>]) -> (Vec<Message>, u64) {
        let (mut stays, mut ships) = (self.client("off"), self.client("always"));
        let mut run = |client: &mut Client| {
            stays.run("DELETE FROM t");
            stays.run("INSERT INTO t VALUES (1, 10), (2, 20), (3, 30)");
            client.send_all(batch);
            let answer = client.until('Z');
            (answer, rows(&mut stays))
        };
        let local = run(&mut self.client("off"));
        let before = self.shipped();
        let shipped = run(&mut ships);
        let after = self.shipped();
        assert_eq!(local, shipped);
        assert_eq!(after.0 - before.0, after.1 - before.1);
        (local.0, after.0 - before.0)
    }
}

fn rows(client: &mut Client) -> Vec<Vec<Option<String>>> {
    let answer = client.run("SELECT id, n FROM t ORDER BY id");
    let rows = answer.iter().filter(|message| message.tag == 'D');
    rows.map(Message::columns).collect()
}

fn step(statement: &str, parameters: &[&str]) -> Vec<u8> {
    bound(statement, parameters, &[])
}

fn described(statement: &str, parameters: &[&str]) -> Vec<u8> {
    bound(statement, parameters, &named(b'D', 'P', ""))
}

/// Returns Bind and Execute of a statement, with `between` between them.
fn bound(statement: &str, parameters: &[&str], between: &[u8]) -> Vec<u8> {
    let parameters: Vec<_> = parameters.iter().map(|text| Some(*text)).collect();
    [&bind("", statement, &parameters), between, &execute("", 0)].concat()
}

#[test]
fn shipped_batch_gets_same_replies_as_local_batch() {
    let pair = Pair::start();
    let (answer, shipped) = pair.both(&[
        step("i", &["4", "40"]),
        described("u", &["4", "2"]),
        step("u", &["1", "1"]),
        described("s", &["1"]),
        step("s", &["9"]),
        sync(),
    ]);
    assert_eq!(tags(&answer), "2C2TDC2DC2TDC2CZ");
    assert_eq!(answer[4].columns(), [Some("42".into()), Some("4".into())]);
    assert_eq!(answer[11].columns(), [Some("11".into())]);
    assert_eq!(shipped, 5);
}

#[test]
fn error_rolls_back_whole_batch() {
    let pair = Pair::start();
    let (answer, shipped) = pair.both(&[
        step("u", &["1", "5"]),
        step("i", &["2", "5"]),
        step("u", &["3", "5"]),
        sync(),
    ]);
    assert_eq!(tags(&answer), "2DC2EZ");
    assert_eq!(error(&answer).0, "23505");
    assert_eq!(shipped, 3);
    // The last statement fails like any other.
    let (answer, _) = pair.both(&[step("u", &["1", "5"]), step("i", &["2", "5"]), sync()]);
    assert_eq!(tags(&answer), "2DC2EZ");
    assert_eq!(rows(&mut pair.client("off"))[0][1], Some("10".into()));
}

#[test]
fn ineligible_pipeline_runs_locally() {
    let pair = Pair::start();
    for (batch, wanted) in [
        // A statement about all rows; a single statement, which is shipped by itself; a request for
        // replies in the middle.
        (
            vec![step("u", &["1", "1"]), step("a", &[]), sync()],
            ("2DC2DCZ", 0),
        ),
        (vec![step("u", &["1", "1"]), sync()], ("2DCZ", 1)),
        (
            vec![step("u", &["1", "1"]), flush(), step("s", &["1"]), sync()],
            ("2DC2DCZ", 0),
        ),
        // A statement that cannot be bound.
        (
            vec![step("u", &["1", "1"]), step("u", &["1"]), sync()],
            ("2DCEZ", 0),
        ),
        (
            vec![step("u", &["1", "1"]), step("u", &["1", "x"]), sync()],
            ("2DCEZ", 0),
        ),
        (
            vec![step("u", &["1", "1"]), step("nothing", &["1"]), sync()],
            ("2DCEZ", 0),
        ),
        // A row limit, and a named portal.
        (
            vec![
                step("u", &["1", "1"]),
                [bind("", "s", &[Some("1")]), execute("", 1)].concat(),
                sync(),
            ],
            ("2DC2DCZ", 0),
        ),
        (
            vec![
                step("u", &["1", "1"]),
                [bind("p", "s", &[Some("1")]), execute("p", 0)].concat(),
                sync(),
            ],
            ("2DC2DCZ", 0),
        ),
    ] {
        let (answer, shipped) = pair.both(&batch);
        assert_eq!((tags(&answer).as_str(), shipped), wanted);
    }
}

#[test]
fn batch_in_pieces_or_in_block_runs_locally() {
    let pair = Pair::start();
    let mut client = pair.client("always");
    client.run("INSERT INTO t VALUES (1, 10)");
    let before = pair.shipped();
    client.run("BEGIN");
    client.send_all(&[step("u", &["1", "1"]), step("u", &["1", "1"]), sync()]);
    assert_eq!(tags(&client.until('Z')), "2DC2DCZ");
    client.run("ROLLBACK");
    assert_eq!(pair.shipped(), before);
    client.send_all(&[step("u", &["1", "1"]), flush()]);
    assert_eq!(tags(&client.until('C')), "2DC");
    client.send_all(&[step("u", &["1", "1"]), sync()]);
    assert_eq!(tags(&client.until('Z')), "2DCZ");
    assert_eq!(client.value("SELECT n FROM t"), "12");
    assert_eq!(pair.shipped(), before);
}

#[test]
fn batches_that_meet_are_run_again_there() {
    const CLIENTS: usize = 4;
    const BATCHES: usize = 50;
    let pair = Pair::start();
    let mut client = pair.client("off");
    client.run("INSERT INTO t SELECT i, 0 FROM generate_series(1, 3) i");
    thread::scope(|scope| {
        for number in 0..CLIENTS {
            let mut client = pair.client("always");
            scope.spawn(move || {
                for _ in 0..BATCHES {
                    // Each client has its own order, so that deadlocks occur.
                    let mut keys = ["1", "2", "3"];
                    keys.rotate_left(number % 3);
                    let steps = keys.map(|key| step("u", &[key, "1"])).concat();
                    client.send_all(&[steps, sync()]);
                    let answer = client.until('Z');
                    assert_eq!(tags(&answer), "2DC2DC2DCZ", "{:?}", error(&answer));
                }
            });
        }
    });
    let total = (3 * CLIENTS * BATCHES).to_string();
    assert_eq!(client.value("SELECT sum(n) FROM t"), total);
}

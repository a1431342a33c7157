//! Machines of a network that store their configuration in ZooKeeper, a real server on the loopback
//! if Debian's package is installed. The server is stopped, killed and started again while machines
//! serve and fail.

use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use fencepost_benchmarks::sql::SqlSession;

use super::{
    FIRST, LEASE, MACHINES, MachineParameters, MachineProcess, SECOND, address, becomes, secrets,
    session, under_load,
};
use crate::common::dev_cluster::{DevCluster, signal};
use crate::common::doomed::ShortLivedProgram;
use crate::common::free_port;
use crate::common::machines::Machines;
use crate::ssd::survive_rejoining_machines;

const JAR: &str = "/usr/share/java/zookeeper.jar";
/// Longer than the timeout of ZooKeeper sessions here, so that the sessions expire.
const AWAY: Duration = Duration::from_secs(4);

/// A ZooKeeper server of the test.
struct ZooKeeper {
    directory: tempfile::TempDir,
    java: PathBuf,
    address: SocketAddr,
    child: Child,
}

impl ZooKeeper {
    /// Starts a server, or writes to stderr that the test is skipped, and why.
    fn start(test: &str) -> Option<ZooKeeper> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let mut java = std::env::split_paths(&path).map(|directory| directory.join("java"));
        let java = java.find(|java| java.is_file());
        let Some(java) = java.filter(|_| Path::new(JAR).is_file()) else {
            // eprintln would be hidden while the test passes.
            let why = format!("{test}: skipped, ZooKeeper or Java is not installed");
            let _ = writeln!(std::io::stderr(), "{why}");
            return None;
        };
        let directory = tempfile::tempdir().expect("a directory");
        let address = SocketAddr::from(([127, 0, 0, 1], free_port("127.0.0.1")));
        let config = format!(
            "tickTime=500\nmaxSessionTimeout=2000\ndataDir={}\nclientPort={}\n\
             clientPortAddress=127.0.0.1\nadmin.enableServer=false\n",
            directory.path().display(),
            address.port(),
        );
        std::fs::write(directory.path().join("zoo.cfg"), config).expect("is written");
        let child = run(&java, directory.path());
        let mut started = ZooKeeper {
            directory,
            java,
            address,
            child,
        };
        started.wait_until_ready();
        Some(started)
    }

    fn wait_until_ready(&mut self) {
        while TcpStream::connect(self.address).is_err() {
            let ended = self.child.try_wait().expect("a child");
            assert!(ended.is_none(), "ZooKeeper ended with {ended:?}");
            thread::sleep(Duration::from_millis(20));
        }
    }

    fn pid(&self) -> String {
        self.child.id().to_string()
    }

    fn kill(&mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it was running");
    }

    /// Starts the server again with the content of its disk.
    fn start_again(&mut self) {
        self.child = run(&self.java, self.directory.path());
        self.wait_until_ready();
    }

    fn url(&self) -> String {
        format!("zookeeper://{}/fencepost/one", self.address)
    }
}

impl Drop for ZooKeeper {
    fn drop(&mut self) {
        // The server may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn run(java: &Path, directory: &Path) -> Child {
    let main = "org.apache.zookeeper.server.quorum.QuorumPeerMain";
    Command::new(java)
        .args(["-Xmx128m", "-cp", JAR, main])
        .arg(directory.join("zoo.cfg"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("java runs")
}

/// Starts three machines that store their configuration there.
fn machines(zookeeper: &ZooKeeper) -> Machines {
    let store = ["--configuration-store", &zookeeper.url()];
    Machines::start("tcp", 3, &[&LEASE[..], &store].concat())
}

#[test]
fn machines_with_disks_come_back_and_begin_again_with_zookeeper() {
    let Some(zookeeper) = ZooKeeper::start("machines with disks and ZooKeeper") else {
        return;
    };
    let url = zookeeper.url();
    survive_rejoining_machines("tcp", &["--configuration-store", &url]);
}

#[test]
fn outage_of_zookeeper_delays_only_reconfiguration() {
    let test = "outage_of_zookeeper_delays_only_reconfiguration";
    let Some(mut zookeeper) = ZooKeeper::start(test) else {
        return;
    };
    let mut machines = machines(&zookeeper);
    let urls = machines.urls();
    under_load([&urls[0], &urls[1]], |load| {
        load.goes_on();
        signal("-STOP", &zookeeper.pid());
        let began = Instant::now();
        while began.elapsed() < AWAY {
            load.goes_on();
        }
        signal("-CONT", &zookeeper.pid());
        load.goes_on();
        zookeeper.kill();
        load.goes_on();
        // No machine can store the next configuration.
        machines.kill(&[2]);
        thread::sleep(AWAY);
        zookeeper.start_again();
        becomes(&urls[0], MACHINES, 2);
        load.goes_on();
    });
}

#[test]
fn cm_killed_during_zookeeper_pause_rejoins() {
    let test = "cm_killed_during_zookeeper_pause_rejoins";
    let Some(zookeeper) = ZooKeeper::start(test) else {
        return;
    };
    let mut machines = machines(&zookeeper);
    let urls = machines.urls();
    under_load([&urls[1], &urls[2]], |load| {
        load.goes_on();
        signal("-STOP", &zookeeper.pid());
        machines.kill(&[0]);
        thread::sleep(AWAY);
        signal("-CONT", &zookeeper.pid());
        becomes(&urls[1], MACHINES, 2);
        load.goes_on();
        machines.start_again(&[0]);
        becomes(&urls[0], MACHINES, 3);
        let last = "SELECT max(machine) FROM pg_fencepost_machines";
        becomes(&urls[0], last, 4);
        load.goes_on();
    });
}

#[test]
fn only_member_of_path_joins_zookeeper_store() {
    let test = "only_member_of_path_joins_zookeeper_store";
    let Some(zookeeper) = ZooKeeper::start(test) else {
        return;
    };
    let (_directory, [ours, theirs]) = secrets();
    let [first, second, third] = ["127.0.3.1", "127.0.3.2", "127.0.3.3"].map(address);
    let (addresses, store) = (format!("{first},{second}"), zookeeper.url());
    let joining = ["--joining", third.as_str()];
    let right = MachineParameters {
        addresses: &addresses,
        secret: &ours,
        store: &store,
    };
    let wrong = MachineParameters {
        secret: &theirs,
        ..right
    };
    let why = "no machine of the cluster has been in /fencepost/one";
    right.fails(joining).assert_fails(why);

    // A machine that could not start can do so later.
    let taken = TcpListener::bind(&first).expect("free");
    let why = format!("cannot listen for other machines on {first}");
    right.fails(FIRST).assert_fails(&why);
    drop(taken);
    let both = [right.fails(FIRST), wrong.fails(SECOND)];
    for one in both {
        one.assert_fails("the secret is another one");
    }
    let mut both = [FIRST, SECOND].map(|who| right.start(who));
    let [url, _] = both.each_mut().map(MachineProcess::url);
    session(&url)
        .script("CREATE TABLE kept (id int PRIMARY KEY); INSERT INTO kept VALUES (1)")
        .expect("a table");

    let why = "cannot join the cluster: the secret is not the cluster's";
    wrong.fails(joining).assert_fails(why);
    let three = format!("{addresses},{third}");
    let other = MachineParameters {
        addresses: &three,
        ..right
    };
    for who in [FIRST, ["--machine", "3"], joining] {
        other
            .fails(who)
            .assert_fails("the store belongs to cluster");
    }
    becomes(&url, MACHINES, 2);
    let mut third = right.start(joining);
    let url = third.url();
    becomes(&url, MACHINES, 3);
    becomes(&url, "SELECT count(*) FROM kept", 1);
}

#[test]
fn dev_cluster_restarts_machine_with_zookeeper_store() {
    let test = "dev_cluster_restarts_machine_with_zookeeper_store";
    let Some(zookeeper) = ZooKeeper::start(test) else {
        return;
    };
    let store = ["--restart", "--configuration-store", &zookeeper.url()];
    let cluster = DevCluster::start_with("tcp", &[&LEASE[..], &store].concat());
    signal("-KILL", &cluster.machines()[2]);
    let last = "SELECT max(machine) FROM pg_fencepost_machines";
    becomes(&cluster.url(2), last, 4);
    becomes(&cluster.url(0), MACHINES, 3);
}

#[test]
fn unreachable_store_is_reported() {
    let (_directory, [secret, _]) = secrets();
    let addresses = format!("{},{}", address("127.0.3.4"), address("127.0.3.5"));
    let of = |store| MachineParameters {
        addresses: &addresses,
        secret: &secret,
        store,
    };
    for store in ["etcd://127.0.0.1:2181/one", "zookeeper://127.0.0.1:2181"] {
        let why = format!("{store}: not zookeeper://HOST:PORT,…/PATH");
        of(store).fails(FIRST).assert_fails(&why);
    }
    let of_host = ["dev-cluster", "--lease-ms", "2000", "--configuration-store"];
    let store = ["zookeeper://127.0.0.1:2181/one"];
    let why = "--configuration-store is of machines that talk";
    ShortLivedProgram::start(&[&of_host[..], &store].concat()).assert_fails(why);
    let silent = address("127.0.0.1");
    let store = format!("zookeeper://{silent}/fencepost/one");
    let why = format!("the store of the configuration does not answer: {silent}");
    let all = [FIRST, ["--joining", "127.0.3.6:7000"]].map(|who| of(&store).fails(who));
    for one in all {
        one.assert_fails(&why);
    }
}

//! Tests of the ZooKeeper store, against a real server on the loopback if Debian's package is
//! installed.

use std::io::Write as _;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use fencepost_cluster::join::JoinMessageStore;
use fencepost_cluster::{ConfigStore, ConfigurationId, StoreError, SwapOutcome, ZookeeperStore};
use pollster::block_on;
use tempfile::TempDir;

use super::conformance::{check_store_invariants, founded, joined};
use super::proxy::Proxy;

const JAR: &str = "/usr/share/java/zookeeper.jar";
const NODE: &str = "/fencepost/tests/configuration";
const TIME_LIMIT: Duration = Duration::from_secs(20);

struct Server {
    dir: TempDir,
    java: PathBuf,
    address: SocketAddr,
    child: Child,
}

impl Server {
    /// Starts a server for one test, or writes to stderr that the test is skipped, and why.
    fn start(test: &str) -> Option<Self> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let mut java = std::env::split_paths(&path).map(|dir| dir.join("java"));
        let java = java.find(|java| java.is_file());
        let missing = match (&java, Path::new(JAR).is_file()) {
            (None, _) => "java",
            (_, false) => "ZooKeeper",
            _ => "",
        };
        let (Some(java), "") = (java, missing) else {
            // eprintln would be hidden while the test passes.
            let _ = writeln!(
                std::io::stderr(),
                "{test}: skipped, {missing} is not installed"
            );
            return None;
        };
        let dir = tempfile::tempdir().expect("there is room");
        let address = free_address();
        let config = format!(
            "tickTime=500\ndataDir={}\nclientPort={}\nclientPortAddress=127.0.0.1\n\
             admin.enableServer=false\n",
            dir.path().display(),
            address.port(),
        );
        std::fs::write(dir.path().join("zoo.cfg"), config).expect("there is room");
        let child = run(&java, dir.path());
        let mut server = Self {
            dir,
            java,
            address,
            child,
        };
        server.wait_until_listening();
        Some(server)
    }

    fn wait_until_listening(&mut self) {
        while TcpStream::connect(self.address).is_err() {
            let ended = self.child.try_wait().expect("it is our child");
            assert!(ended.is_none(), "ZooKeeper ended with {ended:?}");
            std::thread::yield_now();
        }
    }

    fn stop(&mut self) {
        // The server may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    fn restart(&mut self) {
        self.stop();
        self.child = run(&self.java, self.dir.path());
        self.wait_until_listening();
    }
}

fn free_address() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("the loopback has ports");
    listener.local_addr().expect("it is bound")
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

fn run(java: &Path, dir: &Path) -> Child {
    Command::new(java)
        .args([
            "-Xmx128m",
            "-cp",
            JAR,
            "org.apache.zookeeper.server.quorum.QuorumPeerMain",
        ])
        .arg(dir.join("zoo.cfg"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("java runs")
}

fn store(address: SocketAddr) -> ZookeeperStore {
    ZookeeperStore::new(&address.to_string(), NODE, TIME_LIMIT).expect("a thread is to be had")
}

#[test]
fn zookeeper_store_keeps_invariants() {
    let Some(mut server) = Server::start("zookeeper_store_keeps_invariants") else {
        return;
    };
    let handles: Vec<Arc<dyn ConfigStore>> = (0..3)
        .map(|_| Arc::new(store(server.address)) as Arc<dyn ConfigStore>)
        .collect();
    check_store_invariants(&handles);
    let kept = block_on(handles[0].read()).unwrap();
    server.restart();
    assert_eq!(block_on(handles[0].read()).unwrap(), kept, "an old session");
    assert_eq!(
        block_on(store(server.address).read()).unwrap(),
        kept,
        "a new session"
    );
}

#[test]
fn swap_with_lost_answer_is_found_successful() {
    let Some(server) = Server::start("swap_with_lost_answer_is_found_successful") else {
        return;
    };
    let proxy = Proxy::new(server.address).unwrap();
    let store = store(proxy.address);
    let first = founded(1, "first");
    let second = joined(&first, "second");
    for (expected, new) in [(None, &first), (Some(ConfigurationId(1)), &second)] {
        assert!(block_on(store.read()).is_ok());
        proxy.cut_after_the_next_write();
        let swapped = block_on(store.compare_and_swap(expected, new)).unwrap();
        assert_eq!(swapped, SwapOutcome::Won);
        assert!(proxy.has_cut());
        assert_eq!(block_on(store.read()).unwrap().as_ref(), Some(new));
    }
    let third = joined(&first, "third");
    let swapped = block_on(store.compare_and_swap(Some(ConfigurationId(1)), &third)).unwrap();
    assert_eq!(swapped, SwapOutcome::Lost);
}

#[test]
fn stopped_servers_are_unreachable() {
    let silent = free_address();
    let patience = Duration::from_millis(20);
    let store = ZookeeperStore::new(&silent.to_string(), NODE, patience).unwrap();
    assert!(matches!(
        block_on(store.read()),
        Err(StoreError::Unreachable(_))
    ));
    let first = founded(1, "first");
    let swapped = block_on(store.compare_and_swap(None, &first));
    assert!(matches!(swapped, Err(StoreError::Unreachable(_))));
}

#[test]
fn join_messages_and_reservations_are_taken_once() {
    let Some(server) = Server::start("join_messages_and_reservations_are_taken_once") else {
        return;
    };
    let [ours, theirs] = [(); 2].map(|()| store(server.address));
    let [local, remote] =
        [&ours, &theirs].map(|store| store.join_messages("/fencepost/tests/join"));
    local.leave("1.ask", b"first").unwrap();
    local.leave("2.answer", b"another").unwrap();
    let take = |end: &str| loop {
        match remote.take_all(end) {
            letters if letters.is_empty() => std::thread::sleep(Duration::from_millis(5)),
            letters => return letters,
        }
    };
    assert_eq!(take(".ask"), [("1.ask".to_owned(), b"first".to_vec())]);
    local.leave("1.ask", b"second").unwrap();
    // The first message has been taken.
    assert_eq!(take("1.ask"), [("1.ask".to_owned(), b"second".to_vec())]);
    assert_eq!(
        take(".answer"),
        [("2.answer".to_owned(), b"another".to_vec())]
    );
    let place = "/fencepost/tests/initial-members/m1";
    assert!(block_on(ours.take_place(place)).unwrap());
    assert!(!block_on(theirs.take_place(place)).unwrap());
    assert!(!block_on(ours.take_place(place)).unwrap());
    block_on(ours.give_place_back(place)).unwrap();
    assert!(block_on(theirs.take_place(place)).unwrap());
    assert!(block_on(ours.take_place("/fencepost/tests/initial-members/m2")).unwrap());
}

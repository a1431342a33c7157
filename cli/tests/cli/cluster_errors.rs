//! Errors that keep machines from forming a database: the program reports them and ends soon, and
//! leaves no files or processes.

use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::thread;
use std::time::Duration;

use crate::common::dev_cluster::signal;
use crate::common::doomed::{SOON, ShortLivedProgram};
use crate::common::{free_port, program, said};

const SECRET: &str = "correct horse battery staple";

/// Returns free addresses, separated by commas.
fn addresses(count: usize) -> String {
    let address = |_| format!("127.0.0.1:{}", free_port("127.0.0.1"));
    let addresses: Vec<String> = (0..count).map(address).collect();
    addresses.join(",")
}

/// Creates a directory with a secret in it.
fn with_secret() -> (tempfile::TempDir, std::path::PathBuf) {
    let dir = tempfile::tempdir().expect("a directory");
    let secret = dir.path().join("secret");
    std::fs::write(&secret, SECRET).expect("written");
    (dir, secret)
}

/// Checks that a directory is empty, and that no process has it in its command line.
#[track_caller]
fn assert_nothing_left(directory: &Path) {
    let left = std::fs::read_dir(directory).expect("a directory");
    let left: Vec<_> = left.flatten().map(|entry| entry.path()).collect();
    assert!(left.is_empty(), "{left:?}");
    let processes = std::fs::read_dir("/proc").expect("processes").flatten();
    for process in processes {
        // A process that has ended meanwhile has no command line.
        let command = std::fs::read(process.path().join("cmdline")).unwrap_or_default();
        let command = String::from_utf8_lossy(&command).into_owned();
        assert!(
            !command.contains(directory.to_str().expect("a path")),
            "{command}"
        );
    }
}

#[test]
fn machines_that_refuse_each_other_say_why() {
    let (dir, secret) = with_secret();
    let other = dir.path().join("other");
    std::fs::write(&other, "incorrect horse battery").expect("written");
    let both = addresses(2);
    let one = ShortLivedProgram::join(&both, "1", &secret, &[]);
    let two = ShortLivedProgram::join(&both, "2", &other, &[]);
    one.assert_fails("the other machines refuse this one: m2: the secret is another one");
    two.assert_fails("the other machines refuse this one: m1: the secret is another one");

    let both = addresses(2);
    let one = ShortLivedProgram::join(&both, "1", &secret, &["--cluster-name", "one"]);
    let two = ShortLivedProgram::join(&both, "2", &secret, &["--cluster-name", "two"]);
    one.assert_fails("m2: the machine belongs to another cluster");
    two.assert_fails("m1: the machine belongs to another cluster");

    let both = addresses(2);
    let one = ShortLivedProgram::join(&both, "1", &secret, &["--replicas", "1"]);
    let two = ShortLivedProgram::join(&both, "2", &secret, &["--replicas", "2"]);
    one.assert_fails("m2: the machine belongs to another cluster");
    two.assert_fails("m1: the machine belongs to another cluster");
}

#[test]
fn invalid_machine_options_are_reported_at_once() {
    let (dir, secret) = with_secret();
    let short = dir.path().join("short");
    std::fs::write(&short, "horse").expect("written");
    let three = addresses(3);
    let join = |machine, secret: &Path, further: &[&str]| {
        ShortLivedProgram::join(&three, machine, secret, further)
    };
    let missing = dir.path().join("missing");
    join("1", &missing, &[]).assert_fails("missing: No such file or directory");
    join("1", &short, &[]).assert_fails("the cluster's secret must have at least 16 bytes");
    join("1", &secret, &["--replicas", "4"]).assert_fails("4 replicas need as many machines");
    join("1", &secret, &["--replicas", "0"]).assert_fails("0 replicas");
    let one_rack = ["--replicas", "2", "--domains", "a,a,a"];
    join("1", &secret, &one_rack)
        .assert_fails("2 replicas need as many failure domains, and there are 1");
    join("1", &secret, &["--domains", "a,b"]).assert_fails("as many failure domains, not 2");
    join("4", &secret, &[]).assert_fails("machine 4 is none of 3 machines");
    join("0", &secret, &[]).assert_fails("machine 0 is none of 3 machines");
    let nvram = |further: &[&'static str]| [&["--durability", "nvram"], further].concat();
    join("1", &secret, &nvram(&["--replicas", "2"]))
        .assert_fails("machines of the nvram tier that talk are all on one host");
    let memory = dir.path().to_str().expect("a path");
    let alone = [&nvram(&[])[..], &["--memory-dir", memory]].concat();
    join("1", &secret, &alone).assert_fails("the nvram tier needs a backup of each region");
    join("1", &secret, &["--memory-dir", memory])
        .assert_fails("memory outlives processes in the nvram tier alone");

    let missing = missing.to_str().expect("a path");
    let tls = [
        "--cluster-tls-cert",
        "--cluster-tls-key",
        "--cluster-tls-ca",
    ];
    let files = tls.map(|option| [option, missing]).concat();
    let why = "cannot use TLS between the machines: ";
    join("1", &secret, &files).assert_fails(&format!("{why}{missing}"));

    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let taken = taken.local_addr().map(|at| (at.to_string(), taken));
    let (at, _taken) = taken.expect("bound");
    let why = format!("cannot listen for other machines on {at}");
    ShortLivedProgram::join(&at, "1", &secret, &[]).assert_fails(&why);
}

#[test]
fn certificates_between_machines_are_given_all_or_none() {
    let (_dir, secret) = with_secret();
    let secret = secret.to_str().expect("a path");
    let tls = [
        "--cluster-tls-cert",
        "--cluster-tls-key",
        "--cluster-tls-ca",
    ];
    for missing in tls {
        let given = tls.iter().filter(|option| **option != missing);
        let mut arguments = vec!["start", "--join", "127.0.0.1:1", "--machine", "1"];
        arguments.extend(["--cluster-secret", secret]);
        given.for_each(|option| arguments.extend([option, "file"]));
        let output = program(&arguments).output().expect("the program starts");
        assert_eq!(output.status.code(), Some(2));
        assert!(said(&output).contains(missing), "{}", said(&output));
    }
}

#[test]
fn waiting_machine_ends_on_signal() {
    let (_dir, secret) = with_secret();
    let both = addresses(2);
    let waiting = ShortLivedProgram::join(&both, "1", &secret, &[]);
    let (own, _) = both.split_once(',').expect("two of them");
    // The process handles signals before it listens.
    while TcpStream::connect(own).is_err() {
        assert!(waiting.began.elapsed() < SOON, "it does not listen");
        thread::sleep(Duration::from_millis(10));
    }
    signal("-TERM", &waiting.child.id().to_string());
    waiting.assert_fails("SIGTERM: ended before the database was open");
}

#[test]
fn shared_memory_is_removed_at_exit() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().to_str().expect("a path");
    let start = |further: &[&str]| {
        let mut arguments = vec!["start", "--listen", "127.0.0.1:0", "--cluster", path];
        arguments.extend(further);
        ShortLivedProgram::start(&arguments)
    };
    let [none, four, three] = [["--machine", "0"], ["--machine", "4"], ["--machine", "3"]];
    let of_three = ["--machines", "3"];
    start(&[none, of_three].concat()).assert_fails("machine 0 is none of 3 machines");
    start(&[four, of_three].concat()).assert_fails("machine 4 is none of 3 machines");
    let replicas = [three, of_three, ["--replicas", "4"]].concat();
    start(&replicas).assert_fails("4 replicas need as many machines");
    assert_nothing_left(dir.path());
}

#[test]
fn failed_dev_cluster_ends_all_machines() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().to_str().expect("a path");
    for fabric in ["shm", "tcp"] {
        let start = |further: &[&str]| {
            let mut arguments = vec!["dev-cluster", "--fabric", fabric, "--directory", path];
            arguments.extend(["--memory-limit", "64M"]);
            arguments.extend(further);
            ShortLivedProgram::start(&arguments)
        };
        let few = ["--machines", "2", "--replicas", "3"];
        start(&few).assert_fails("3 replicas need as many machines, and there are 2");
        assert_nothing_left(dir.path());

        // The client port of the last machine is taken.
        let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = taken.local_addr().expect("bound").port();
        let first = format!("127.0.0.1:{}", port - 2);
        start(&["--listen", &first]).assert_fails(&format!("127.0.0.1:{port}"));
        assert_nothing_left(dir.path());
    }
}

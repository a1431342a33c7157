//! Machines of a network that use TLS.

use std::path::Path;
use std::thread;

use fencepost::{Cluster, Database, OpenError};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

use crate::between::{SECRET, addresses};

/// Creates a directory with certificates of one CA: `ca.pem`, and for each machine K `K.pem` and
/// `K.key`.
fn certificates(machines: u32) -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a directory");
    let write = |name: &str, pem: String| {
        std::fs::write(dir.path().join(name), pem).expect("written");
    };
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().expect("a key");
    write("ca.pem", params.self_signed(&key).expect("signed").pem());
    let authority = Issuer::new(params, key);
    for machine in 1..=machines {
        let key = KeyPair::generate().expect("a key");
        let certificate = CertificateParams::default().signed_by(&key, &authority);
        write(
            &format!("{machine}.pem"),
            certificate.expect("signed").pem(),
        );
        write(&format!("{machine}.key"), key.serialize_pem());
    }
    dir
}

fn open(addresses: &[String], machine: u32, files: Option<&Path>) -> Result<Database, OpenError> {
    let mut cluster = Cluster::of_network(addresses.to_vec(), machine, SECRET);
    if let Some(files) = files {
        cluster = cluster.tls(
            files.join(format!("{machine}.pem")),
            files.join(format!("{machine}.key")),
            files.join("ca.pem"),
        );
    }
    let options = Database::options().region_size(16 << 20);
    options.cluster(cluster).open()
}

/// Opens two machines at once.
fn both(addresses: &[String], files: [Option<&Path>; 2]) -> [Result<Database, OpenError>; 2] {
    thread::scope(|scope| {
        let [first, second] = files;
        let second = scope.spawn(move || open(addresses, 2, second));
        let first = open(addresses, 1, first);
        [first, second.join().expect("no panic")]
    })
}

#[test]
fn machines_with_certificates_are_one_database() {
    let files = certificates(2);
    let machines = both(&addresses(60, 2), [Some(files.path()); 2]);
    let [first, second] = machines.map(|machine| machine.expect("opens"));
    let create = "CREATE TABLE t (n int PRIMARY KEY)";
    first.blocking().execute(create, &[]).expect("creates");
    let insert = "INSERT INTO t SELECT * FROM generate_series(1, 100)";
    second.blocking().execute(insert, &[]).expect("inserts");
    let count = "SELECT count(*) FROM t";
    let row = first.blocking().query_one(count, &[]).expect("counts");
    assert_eq!(row.get::<i64>(0).expect("a number"), 100);
}

#[test]
fn machines_that_do_not_believe_each_other_say_why() {
    let (files, foreign) = (certificates(2), certificates(2));
    let tls_at_one_end = "one of the machines is set up for TLS, and the other is not";
    for (second, whys) in [
        (None, [tls_at_one_end; 2]),
        (
            Some(foreign.path()),
            ["of the other machine is not signed by the CA"; 2],
        ),
    ] {
        let refused = both(&addresses(61, 2), [Some(files.path()), second]);
        for (machine, why) in refused.into_iter().zip(whys) {
            let refused = machine.err().expect("is refused");
            assert!(matches!(refused, OpenError::Refused(_)), "{refused}");
            assert!(refused.to_string().contains(why), "{refused}");
        }
    }
}

#[test]
fn malformed_certificate_is_reported_at_once() {
    let files = certificates(1);
    let opened = |name: &str, pem: Option<&str>| {
        let path = files.path().join(name);
        let before = std::fs::read(&path).expect("is there");
        match pem {
            Some(pem) => std::fs::write(&path, pem).expect("written"),
            None => std::fs::remove_file(&path).expect("removed"),
        }
        let opened = open(&addresses(62, 2), 1, Some(files.path()));
        std::fs::write(&path, before).expect("written");
        opened.err().expect("is refused")
    };
    for name in ["1.pem", "1.key", "ca.pem"] {
        for pem in [None, Some("no PEM at all")] {
            let refused = opened(name, pem);
            assert!(matches!(refused, OpenError::Tls(_)), "{refused}");
        }
    }
}

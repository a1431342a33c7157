//! Refusals for missing TLS or an unaccepted certificate; both ends report the reason.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fencepost_fabric::{
    CertificateFault, Fabric, HandshakeError, MachineId, Member, TcpConfig, TcpFabric, TcpTls,
    TlsError,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{AlertDescription, ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::certificates::Authority;

fn start(id: u32, tls: Option<TcpTls>) -> TcpFabric {
    let config = TcpConfig {
        me: MachineId(id),
        cluster: 1,
        secret: b"of the suite".to_vec(),
        listen: "127.0.0.1:0".into(),
        tls,
        silence: None,
    };
    TcpFabric::start(&config).expect("a free port")
}

/// Runs two machines until their refusals are the expected ones.
fn refuse(tls: [Option<TcpTls>; 2], expected: [HandshakeError; 2]) {
    let [first, second] = tls;
    let machines = [start(1, first), start(2, second)];
    let member = |machine: &TcpFabric| Member {
        id: machine.me(),
        address: machine.address().to_string(),
    };
    let members = [member(&machines[0]), member(&machines[1])];
    for machine in &machines {
        machine.set_members(&members).expect("is one of them");
    }
    let [of_first, of_second] = expected;
    let expected = [
        vec![(machines[1].me(), of_first)],
        vec![(machines[0].me(), of_second)],
    ];
    let begun = Instant::now();
    loop {
        let refusals = [machines[0].refusals(), machines[1].refusals()];
        if refusals == expected {
            break;
        }
        let patient = begun.elapsed() < Duration::from_secs(60);
        assert!(patient, "{refusals:?} and not {expected:?}");
        std::thread::sleep(Duration::from_millis(1));
    }
    for machine in &machines {
        assert!(machine.take_events().is_empty(), "they never met");
    }
}

#[test]
fn tls_at_one_end() {
    let authority = Authority::new();
    for first in [true, false] {
        let tls = [first, !first].map(|tls| tls.then(|| authority.tls()));
        refuse(
            tls,
            [HandshakeError::TlsAtOneEnd, HandshakeError::TlsAtOneEnd],
        );
    }
}

#[test]
fn certificate_of_other_authority_is_refused() {
    let (authority, other) = (Authority::new(), Authority::new());
    let foreign = other.certificate(4000).tls(&authority);
    let theirs = HandshakeError::TheirCertificate(CertificateFault::UnknownAuthority);
    let own = HandshakeError::OwnCertificate(CertificateFault::UnknownAuthority);
    let tls = [Some(foreign.clone()), Some(authority.tls())];
    refuse(tls, [own.clone(), theirs.clone()]);
    let tls = [Some(authority.tls()), Some(foreign)];
    refuse(tls, [theirs, own]);
}

#[test]
fn expired_certificate_is_refused() {
    let authority = Authority::new();
    let expired = authority.certificate(2001).tls(&authority);
    let theirs = HandshakeError::TheirCertificate(CertificateFault::OutOfDate);
    let own = HandshakeError::OwnCertificate(CertificateFault::OutOfDate);
    let tls = [Some(expired.clone()), Some(authority.tls())];
    refuse(tls, [own.clone(), theirs.clone()]);
    let tls = [Some(authority.tls()), Some(expired)];
    refuse(tls, [theirs, own]);
}

#[test]
fn caller_without_certificate_is_refused() {
    let authority = Authority::new();
    let machine = start(1, Some(authority.tls()));
    let mut stream = TcpStream::connect(machine.address()).expect("listens");
    let timeout = Some(Duration::from_secs(60));
    stream.set_read_timeout(timeout).expect("a socket");
    stream.write_all(b"FNCP\x02\0\x01").expect("connected");
    let mut status = [9];
    stream.read_exact(&mut status).expect("an answer");
    assert_eq!(status, [0]);

    let mut roots = RootCertStore::empty();
    let root = CertificateDer::from_pem_slice(authority.pem.as_bytes());
    roots.add(root.expect("PEM")).expect("a certificate");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("ours")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from("fencepost").expect("a name");
    let session = ClientConnection::new(Arc::new(config), name).expect("a client");
    let read = StreamOwned::new(session, stream).read(&mut [0; 8]);
    let error = read.expect_err("refused");
    let why = error.get_ref().and_then(|inner| inner.downcast_ref());
    let required = rustls::Error::AlertReceived(AlertDescription::CertificateRequired);
    assert_eq!(why, Some(&required));
}

#[test]
fn malformed_certificate_is_refused() {
    let authority = Authority::new();
    let (one, other) = (authority.certificate(4000), authority.certificate(4000));
    let from = |chain: &str, key: &str, authority: &str| {
        TcpTls::from_pem(chain.as_bytes(), key.as_bytes(), authority.as_bytes()).map(drop)
    };
    let ca = authority.pem.as_str();
    assert_eq!(from(&one.chain, &one.key, ca), Ok(()));
    for (chain, key, ca) in [
        ("", &*one.key, ca),
        (&one.chain, "", ca),
        (&one.chain, &one.key, ""),
    ] {
        assert!(matches!(from(chain, key, ca), Err(TlsError::Pem(..))));
    }
    let mixed = from(&one.chain, &other.key, ca);
    assert!(matches!(mixed, Err(TlsError::Unusable(_))));
}

//! Certificates for machines in TLS, made as they are needed.

use fencepost_fabric::TcpTls;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd};

/// A CA.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    /// Its own certificate.
    pub pem: String,
}

/// A certificate and its private key, both PEM.
pub struct Certificate {
    pub chain: String,
    pub key: String,
}

impl Authority {
    /// Another one each time, though all have one name.
    pub fn new() -> Self {
        let mut params = CertificateParams::default();
        let name = &mut params.distinguished_name;
        name.push(DnType::CommonName, "the CA of the suite");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let pem = params.self_signed(&key).expect("a certificate").pem();
        Authority {
            issuer: Issuer::new(params, key),
            pem,
        }
    }

    /// A certificate that is valid until a year.
    pub fn certificate(&self, until: i32) -> Certificate {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(["fencepost".to_string()]).expect("a name");
        params.not_before = date_time_ymd(2000, 1, 1);
        params.not_after = date_time_ymd(until, 1, 1);
        let signed = params.signed_by(&key, &self.issuer);
        Certificate {
            chain: signed.expect("a certificate").pem(),
            key: key.serialize_pem(),
        }
    }

    /// What a machine of this CA shows, which believes only machines of this CA.
    pub fn tls(&self) -> TcpTls {
        self.certificate(4000).tls(self)
    }
}

impl Certificate {
    /// What a machine with this certificate shows, which believes the machines of a CA.
    pub fn tls(&self, believes: &Authority) -> TcpTls {
        let [chain, key, authority] =
            [&self.chain, &self.key, &believes.pem].map(|pem| pem.as_bytes());
        TcpTls::from_pem(chain, key, authority).expect("they belong together")
    }
}

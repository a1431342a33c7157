//! Certificates for machines with TLS, made by the tests.

use fencepost_fabric::TcpTls;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd};

/// A certificate authority.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    /// The authority's own certificate.
    pub pem: String,
}

/// A certificate and its private key, both PEM.
pub struct Certificate {
    pub chain: String,
    pub key: String,
}

impl Authority {
    /// Returns a new authority; all have the same name.
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

    /// Returns a certificate that is valid until the year `until`.
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

    /// Returns the TLS configuration of a machine of this CA, which accepts only machines of this
    /// CA.
    pub fn tls(&self) -> TcpTls {
        self.certificate(4000).tls(self)
    }
}

impl Certificate {
    /// Returns the TLS configuration of a machine with this certificate, which accepts the machines
    /// of `believes`.
    pub fn tls(&self, believes: &Authority) -> TcpTls {
        let [chain, key, authority] =
            [&self.chain, &self.key, &believes.pem].map(|pem| pem.as_bytes());
        TcpTls::from_pem(chain, key, authority).expect("they belong together")
    }
}

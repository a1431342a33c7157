//! Channel binding of the type `tls-server-end-point` (RFC 5929, section 4): the exchange is bound to the server's certificate,
//! so that one who stands between and shows another certificate cannot pass it on.
//!
//! A client binds, or cannot, or says that it could and was told that the server cannot. The last of these is a lie told to it
//! where the server can (AUTH-2).

use ring::digest;

use super::ScramError;
use super::der::{OBJECT_IDENTIFIER, SEQUENCE, element};
use super::message::{Flag, malformed};

const TYPE: &str = "tls-server-end-point";

/// What stands for the server in an exchange: the hash of its certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EndPoint(Vec<u8>);

/// What the client must repeat in its last message: the header of its first one, and the end point where it is bound to it.
#[derive(Debug)]
pub(super) struct Binding(Vec<u8>);

impl Binding {
    /// What the client's flag asks for under the mechanism that it chose; `end_point` is there where it could have chosen to bind.
    pub(super) fn agree(
        flag: Flag<'_>,
        bound: bool,
        end_point: Option<&EndPoint>,
    ) -> Result<Binding, ScramError> {
        match (flag, end_point) {
            (Flag::Bound(TYPE), Some(end_point)) if bound => Ok(Binding(end_point.0.clone())),
            (Flag::Bound(_), Some(_)) if bound => {
                let what = "unsupported SCRAM channel-binding type";
                Err(ScramError::Protocol(what.into()))
            }
            (Flag::Bound(_), _) => Err(malformed(
                "channel binding data without the mechanism for it",
            )),
            (_, _) if bound => Err(malformed("the mechanism binds, and nothing is bound")),
            (Flag::ServerCannot, Some(_)) => Err(ScramError::Binding(
                "SCRAM channel binding negotiation error",
            )),
            (Flag::ServerCannot | Flag::No, _) => Ok(Binding(Vec::new())),
        }
    }

    /// With the header of the client's first message.
    pub(super) fn of_header(self, header: &str) -> Binding {
        Binding([header.as_bytes(), &self.0].concat())
    }

    /// Compares with what the client repeats.
    pub(super) fn check(&self, repeated: &[u8]) -> Result<(), ScramError> {
        match repeated == self.0 {
            true => Ok(()),
            false => Err(ScramError::Binding("SCRAM channel binding check failed")),
        }
    }
}

/// The content of an object identifier, and the hash of the signatures it stands for. MD5 and SHA-1 are too weak to stand for a
/// certificate: SHA-256 takes their place. Others (Ed25519, RSASSA-PSS) have no hash that clients agree on.
const SIGNATURES: [(&[u8], &digest::Algorithm); 9] = [
    // 1.2.840.113549.1.1: RSA with MD5, SHA-1, SHA-256, SHA-384, SHA-512
    (b"\x2a\x86\x48\x86\xf7\x0d\x01\x01\x04", &digest::SHA256),
    (b"\x2a\x86\x48\x86\xf7\x0d\x01\x01\x05", &digest::SHA256),
    (b"\x2a\x86\x48\x86\xf7\x0d\x01\x01\x0b", &digest::SHA256),
    (b"\x2a\x86\x48\x86\xf7\x0d\x01\x01\x0c", &digest::SHA384),
    (b"\x2a\x86\x48\x86\xf7\x0d\x01\x01\x0d", &digest::SHA512),
    // 1.2.840.10045.4: ECDSA with SHA-1, SHA-256, SHA-384, SHA-512
    (b"\x2a\x86\x48\xce\x3d\x04\x01", &digest::SHA256),
    (b"\x2a\x86\x48\xce\x3d\x04\x03\x02", &digest::SHA256),
    (b"\x2a\x86\x48\xce\x3d\x04\x03\x03", &digest::SHA384),
    (b"\x2a\x86\x48\xce\x3d\x04\x03\x04", &digest::SHA512),
];

impl EndPoint {
    /// That of a certificate in DER; none where the way it is signed has no hash of its own, and nothing can be bound to it.
    pub(crate) fn of_certificate(certificate: &[u8]) -> Option<EndPoint> {
        // Certificate ::= SEQUENCE { what is signed, signatureAlgorithm SEQUENCE { identifier, … }, signature }
        let (fields, _) = element(certificate, SEQUENCE)?;
        let (_, behind) = element(fields, SEQUENCE)?;
        let (algorithm, _) = element(behind, SEQUENCE)?;
        let (identifier, _) = element(algorithm, OBJECT_IDENTIFIER)?;
        let (_, hash) = SIGNATURES.iter().find(|(id, _)| *id == identifier)?;
        Some(EndPoint(
            digest::digest(hash, certificate).as_ref().to_vec(),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rcgen::{CertificateParams, KeyPair, SignatureAlgorithm};

    fn signed_with(algorithm: &'static SignatureAlgorithm) -> Vec<u8> {
        let key = KeyPair::generate_for(algorithm).expect("a key");
        let params = CertificateParams::new(vec!["localhost".into()]).expect("a name");
        params
            .self_signed(&key)
            .expect("a certificate")
            .der()
            .to_vec()
    }

    #[test]
    fn the_hash_is_that_of_the_signature() {
        for (signature, hash) in [
            (&rcgen::PKCS_ECDSA_P256_SHA256, &digest::SHA256),
            (&rcgen::PKCS_ECDSA_P384_SHA384, &digest::SHA384),
        ] {
            let certificate = signed_with(signature);
            let expected = digest::digest(hash, &certificate).as_ref().to_vec();
            assert_eq!(
                EndPoint::of_certificate(&certificate),
                Some(EndPoint(expected))
            );
        }
        assert_eq!(
            EndPoint::of_certificate(&signed_with(&rcgen::PKCS_ED25519)),
            None
        );
    }

    #[test]
    fn a_flag_must_fit_the_mechanism_and_the_server() {
        let end_point = EndPoint(vec![7; 32]);
        let agreed = |flag, bound, end_point| Binding::agree(flag, bound, end_point).map(|b| b.0);
        assert_eq!(agreed(Flag::No, false, Some(&end_point)), Ok(Vec::new()));
        assert_eq!(agreed(Flag::No, false, None), Ok(Vec::new()));
        assert_eq!(agreed(Flag::ServerCannot, false, None), Ok(Vec::new()));
        let flag = Flag::Bound(TYPE);
        assert_eq!(agreed(flag, true, Some(&end_point)), Ok(vec![7; 32]));
        assert!(matches!(
            agreed(Flag::ServerCannot, false, Some(&end_point)),
            Err(ScramError::Binding(_))
        ));
        for (flag, bound, end_point) in [
            (Flag::Bound("tls-unique"), true, Some(&end_point)),
            (Flag::Bound(TYPE), false, Some(&end_point)),
            (Flag::Bound(TYPE), false, None),
            (Flag::No, true, Some(&end_point)),
            (Flag::ServerCannot, true, Some(&end_point)),
        ] {
            let refused = agreed(flag, bound, end_point);
            assert!(
                matches!(refused, Err(ScramError::Protocol(_))),
                "{flag:?} {bound}"
            );
        }
    }

    proptest! {
        #[test]
        fn what_is_no_certificate_has_no_end_point(bytes in prop::collection::vec(any::<u8>(), 0..40), cut in 0_usize..300) {
            let _ = EndPoint::of_certificate(&bytes);
            let mut whole = vec![SEQUENCE, 0x84];
            whole.extend_from_slice(&bytes);
            let _ = EndPoint::of_certificate(&whole);
            let certificate = signed_with(&rcgen::PKCS_ECDSA_P256_SHA256);
            prop_assert_eq!(EndPoint::of_certificate(&certificate[..cut.min(certificate.len() - 1)]), None);
        }
    }
}

//! The subject of a client's certificate, for the method `cert`. TLS has already checked the
//! certificate against the CA.

use super::der::{OBJECT_IDENTIFIER, SEQUENCE, SET, behind, element, tag};

/// The object identifier 2.5.4.3.
const COMMON_NAME: &[u8] = b"\x55\x04\x03";
/// The tag of the version in a certificate.
const VERSION: u8 = 0xa0;
const UTF8_STRING: u8 = 0x0c;
const PRINTABLE_STRING: u8 = 0x13;
const IA5_STRING: u8 = 0x16;

/// Returns the common name of the subject of a certificate in DER. Returns `None` if there is none,
/// or if there are several.
pub(crate) fn common_name(certificate: &[u8]) -> Option<&str> {
    // Certificate ::= SEQUENCE { TBSCertificate SEQUENCE { version?, serialNumber, signature,
    // issuer, validity, subject, … }, … }
    let (fields, _) = element(certificate, SEQUENCE)?;
    let (mut rest, _) = element(fields, SEQUENCE)?;
    if tag(rest)? == VERSION {
        rest = behind(rest)?;
    }
    for _serial_signature_issuer_validity in 0..4 {
        rest = behind(rest)?;
    }
    let (mut names, _) = element(rest, SEQUENCE)?;
    let mut found = None;
    while !names.is_empty() {
        let (mut attributes, more) = element(names, SET)?;
        names = more;
        while !attributes.is_empty() {
            let (attribute, more) = element(attributes, SEQUENCE)?;
            attributes = more;
            let (kind, value) = element(attribute, OBJECT_IDENTIFIER)?;
            if kind == COMMON_NAME && found.replace(text(value)?).is_some() {
                return None;
            }
        }
    }
    found
}

fn text(value: &[u8]) -> Option<&str> {
    let kind = tag(value)?;
    if ![UTF8_STRING, PRINTABLE_STRING, IA5_STRING].contains(&kind) {
        return None;
    }
    let (text, _) = element(value, kind)?;
    let text = std::str::from_utf8(text).ok()?;
    // Other programs may cut a name at a zero byte, so such a name is refused.
    (!text.is_empty() && !text.contains('\0')).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, DnType, KeyPair};

    fn named(names: &[(DnType, &str)]) -> Vec<u8> {
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        for (kind, name) in names {
            params.distinguished_name.push(kind.clone(), *name);
        }
        let key = KeyPair::generate().expect("a key");
        let signed = params.self_signed(&key).expect("a certificate");
        signed.der().to_vec()
    }

    #[test]
    fn common_name_is_found_among_other_attributes() {
        let organization = (DnType::OrganizationName, "postgres");
        let certificate = named(&[organization.clone(), (DnType::CommonName, "Ada é")]);
        assert_eq!(common_name(&certificate), Some("Ada é"));
        assert_eq!(common_name(&named(&[organization])), None);
        assert_eq!(common_name(&named(&[(DnType::CommonName, "a\0b")])), None);
    }

    #[test]
    fn truncated_certificate_has_no_common_name() {
        let certificate = named(&[(DnType::CommonName, "ada")]);
        for end in 0..certificate.len() {
            assert_eq!(common_name(&certificate[..end]), None, "{end}");
        }
    }
}

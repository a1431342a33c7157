//! Exchanges with the client of another crate.

use std::num::NonZeroU32;

use bytes::{Bytes, BytesMut};
use pgwire::messages::Message;
use pgwire::messages::startup::SASLInitialResponse;
use postgres_protocol::authentication::sasl::{ChannelBinding, ScramSha256};
use proptest::prelude::*;
use rcgen::{CertificateParams, KeyPair, SignatureAlgorithm};
use ring::digest;

use super::*;

/// Returns the body of a SASLInitialResponse, as pgwire writes it.
fn initial(mechanism: &str, text: &[u8]) -> Vec<u8> {
    let data = Some(Bytes::copy_from_slice(text));
    let mut body = BytesMut::new();
    let written = SASLInitialResponse::new(mechanism.into(), data).encode_body(&mut body);
    written.expect("a small message");
    body.to_vec()
}

fn scram() -> Scram {
    Scram::new(None).expect("random bytes")
}

fn certificate(algorithm: &'static SignatureAlgorithm) -> Vec<u8> {
    let key = KeyPair::generate_for(algorithm).expect("a key");
    let params = CertificateParams::new(vec!["localhost".into()]).expect("a name");
    let signed = params.self_signed(&key).expect("a certificate");
    signed.der().to_vec()
}

fn verifier() -> Option<Verifier> {
    Some(Verifier::of_password("pencil", [7; 16]))
}

/// Completes an exchange. `change` modifies the client's last message.
fn exchange(
    scram: &Scram,
    (mechanism, binding): (&str, ChannelBinding),
    verifier: Option<Verifier>,
    change: impl Fn(String) -> String,
) -> Result<(), ScramError> {
    let tls = scram.bound.is_some();
    let mut client = ScramSha256::new(b"pencil", binding);
    let first = initial(mechanism, client.message());
    let (text, exchange) = scram.first(&first, "ann", tls, verifier)?;
    client.update(text.as_bytes()).expect("a first message");
    let last = String::from_utf8(client.message().to_vec()).expect("a text");
    let answer = exchange.last(change(last).as_bytes())?;
    client.finish(answer.as_bytes()).expect("the signature");
    Ok(())
}

fn plain(verifier: Option<Verifier>, change: impl Fn(String) -> String) -> Result<(), ScramError> {
    let offer = (SCRAM_SHA_256_METHOD, ChannelBinding::unsupported());
    exchange(&scram(), offer, verifier, change)
}

#[test]
fn right_password_is_accepted() {
    assert_eq!(plain(verifier(), |last| last), Ok(()));
    // A client that supports binding, and a server that does not.
    let offer = (SCRAM_SHA_256_METHOD, ChannelBinding::unrequested());
    assert_eq!(exchange(&scram(), offer, verifier(), |last| last), Ok(()));
}

/// Uses a verifier of "pencil" as PostgreSQL 16 creates it with `scram_iterations = 10000`.
#[test]
fn verifier_with_other_iterations_is_accepted() {
    let salted = {
        let mut salted = [0; 32];
        let iterations = NonZeroU32::new(10_000).expect("a number");
        let algorithm = ring::pbkdf2::PBKDF2_HMAC_SHA256;
        ring::pbkdf2::derive(
            algorithm,
            iterations,
            b"salt of any size",
            b"pencil",
            &mut salted,
        );
        hmac::Key::new(hmac::HMAC_SHA256, &salted)
    };
    let client_key = hmac::sign(&salted, b"Client Key");
    let stored_key = digest::digest(&digest::SHA256, client_key.as_ref());
    let server_key = hmac::sign(&salted, b"Server Key");
    let of = |hash: &[u8]| hash.try_into().expect("32 bytes");
    let verifier = Verifier {
        iterations: NonZeroU32::new(10_000).expect("a number"),
        salt: b"salt of any size".to_vec(),
        stored_key: of(stored_key.as_ref()),
        server_key: of(server_key.as_ref()),
    };
    assert_eq!(plain(Some(verifier), |last| last), Ok(()));
}

#[test]
fn wrong_proof_is_a_wrong_password() {
    let other = Some(Verifier::of_password("crayon", [7; 16]));
    assert_eq!(plain(other, |last| last), Err(ScramError::Password));
    assert_eq!(plain(None, |last| last), Err(ScramError::Password));
    // Extensions are part of the signed message.
    let extended = plain(verifier(), |last| last.replace(",p=", ",x=1,p="));
    assert_eq!(extended, Err(ScramError::Password));
}

#[test]
fn malformed_last_message_is_refused() {
    let refused = |change: fn(String) -> String| plain(verifier(), change);
    let changes: [fn(String) -> String; 8] = [
        |last| last.replace("c=", "d="),
        |last| last.replace(",p=", ",p=AAAA"),
        |last| last.replace(",p=", ",p=?"),
        |last| last.replace(",p=", ",q="),
        |last| format!("{last},x=1"),
        |last| format!("{last}\0"),
        |last| last.replace(',', ";"),
        |_| String::new(),
    ];
    for change in changes {
        let text = change("c=biws,r=x,p=eA==".into());
        assert_eq!(refused(change), Err(malformed()), "{text:?}");
    }
    let nonce = ScramError::Protocol("invalid SCRAM response".into());
    assert_eq!(refused(|last| last.replace(",r=", ",r=x")), Err(nonce));
    let unexpected = "unexpected SCRAM channel-binding attribute in client-final-message";
    let bound = refused(|last| last.replace("c=biws", "c=eSws"));
    assert_eq!(bound, Err(ScramError::Protocol(unexpected.into())));
}

#[test]
fn exchange_is_bound_to_the_certificate() {
    for (algorithm, hash) in [
        (&rcgen::PKCS_ECDSA_P256_SHA256, &digest::SHA256),
        (&rcgen::PKCS_ECDSA_P384_SHA384, &digest::SHA384),
    ] {
        let certificate = certificate(algorithm);
        let scram = Scram::new(Some(&certificate)).expect("random bytes");
        let hash = digest::digest(hash, &certificate).as_ref().to_vec();
        let bound = |hash: Vec<u8>| {
            let binding = ChannelBinding::tls_server_end_point(hash);
            let offer = (SCRAM_SHA_256_PLUS_METHOD, binding);
            exchange(&scram, offer, verifier(), |last| last)
        };
        assert_eq!(bound(hash), Ok(()));
        let other = bound(vec![7; 32]);
        let failed = ScramError::Binding("SCRAM channel binding check failed");
        assert_eq!(other, Err(failed));
        // The client believes that the server does not support binding.
        let offer = (SCRAM_SHA_256_METHOD, ChannelBinding::unrequested());
        let downgrade = exchange(&scram, offer, verifier(), |last| last);
        assert!(matches!(downgrade, Err(ScramError::Binding(_))));
        let offer = (SCRAM_SHA_256_METHOD, ChannelBinding::unsupported());
        assert_eq!(exchange(&scram, offer, verifier(), |last| last), Ok(()));
    }
}

#[test]
fn binding_is_offered_under_tls_alone() {
    let ed25519 = certificate(&rcgen::PKCS_ED25519);
    for unhashed in [&ed25519[..], b"", b"no certificate"] {
        let scram = Scram::new(Some(unhashed)).expect("random bytes");
        assert_eq!(scram.mechanisms(true), [SCRAM_SHA_256_METHOD]);
    }
    let certificate = certificate(&rcgen::PKCS_ECDSA_P256_SHA256);
    let scram = Scram::new(Some(&certificate)).expect("random bytes");
    let both = [SCRAM_SHA_256_PLUS_METHOD, SCRAM_SHA_256_METHOD];
    assert_eq!(scram.mechanisms(true), both);
    assert_eq!(scram.mechanisms(false), [SCRAM_SHA_256_METHOD]);
    let text = b"p=tls-server-end-point,,n=,r=x";
    let bound = initial(SCRAM_SHA_256_PLUS_METHOD, text);
    assert!(scram.first(&bound, "ann", true, None).is_ok());
    assert!(scram.first(&bound, "ann", false, None).is_err());
}

#[test]
fn decoy_keeps_its_salt() {
    let scram = scram();
    assert_eq!(scram.decoy_of("ann"), scram.decoy_of("ann"));
    assert_ne!(scram.decoy_of("ann").salt, scram.decoy_of("bob").salt);
}

#[test]
fn no_nonce_comes_twice() {
    let scram = scram();
    let body = initial(SCRAM_SHA_256_METHOD, b"n,,n=,r=x");
    let once = || scram.first(&body, "ann", false, None).ok();
    let text = |begun: Option<(String, Exchange)>| begun.map(|(text, _)| text);
    assert_ne!(
        text(once()).expect("an answer"),
        text(once()).expect("an answer")
    );
}

proptest! {
    #[test]
    fn random_answers_never_panic(
        body in prop::collection::vec(any::<u8>(), 0..80),
        text in ".{0,60}",
        attributes in "[a-z=,+/A-Z]{0,60}",
    ) {
        let scram = scram();
        let _ = scram.first(&body, "ann", false, None);
        for first in [text.as_bytes(), attributes.as_bytes()] {
            let _ = scram.first(&initial(SCRAM_SHA_256_METHOD, first), "ann", false, None);
        }
        let good = initial(SCRAM_SHA_256_METHOD, b"n,,n=a,r=xy");
        let (_, exchange) = scram.first(&good, "ann", false, None).expect("a first message");
        for last in [&body[..], text.as_bytes(), attributes.as_bytes()] {
            prop_assert!(exchange.last(last).is_err());
        }
    }

    #[test]
    fn truncated_certificate_binds_nothing(cut in 0_usize..300) {
        let certificate = certificate(&rcgen::PKCS_ECDSA_P256_SHA256);
        let cut = cut.min(certificate.len() - 1);
        prop_assert!(bound_to(&certificate[..cut]).is_none());
    }
}

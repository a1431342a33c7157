//! Exchanges as a client leads them.

use std::num::NonZeroU32;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use proptest::prelude::*;

use super::*;

fn initial(mechanism: &str, text: &str) -> Vec<u8> {
    let mut body = mechanism.as_bytes().to_vec();
    body.push(0);
    body.extend_from_slice(&(text.len() as u32).to_be_bytes());
    body.extend_from_slice(text.as_bytes());
    body
}

fn scram() -> Scram {
    Scram::new(None).expect("random bytes")
}

fn refused<T>(result: Result<T, ScramError>) -> ScramError {
    result.err().expect("refused")
}

/// The exchange of RFC 7677, section 3, whose password is "pencil".
fn example(known: bool) -> (String, Exchange) {
    let salt = STANDARD.decode("W22ZaJ0SNY7soEsUEjb6gQ==").expect("base64");
    let verifier = Verifier::of_password("pencil", salt.try_into().expect("16 bytes"));
    assert_eq!(
        verifier.iterations,
        NonZeroU32::new(4096).expect("a number")
    );
    let first = ClientFirst::parse(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO").expect("a message");
    let nonce = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
    let binding = Binding::agree(first.flag, false, None).expect("no binding");
    Exchange::begin(&first, nonce, binding, verifier, known)
}

const PROOF: &str = "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";

#[test]
fn the_example_of_the_rfc() {
    let (text, exchange) = example(true);
    let expected =
        "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
    assert_eq!(text, expected);
    let signature = "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=";
    assert_eq!(exchange.last(PROOF.as_bytes()), Ok(signature.into()));
}

#[test]
fn a_proof_that_does_not_fit() {
    let (_, unknown) = example(false);
    assert_eq!(unknown.last(PROOF.as_bytes()), Err(ScramError::Password));
    let (_, exchange) = example(true);
    let wrong = PROOF.replace("p=dHzb", "p=dHzc");
    assert_eq!(exchange.last(wrong.as_bytes()), Err(ScramError::Password));
    // What is said besides it is part of what is proved.
    let more = PROOF.replace(",p=", ",x=1,p=");
    assert_eq!(exchange.last(more.as_bytes()), Err(ScramError::Password));
    let bound = PROOF.replace("c=biws", "c=eSws");
    assert!(matches!(
        exchange.last(bound.as_bytes()),
        Err(ScramError::Binding(_))
    ));
    for malformed in [
        PROOF.replace("r=r", "r=s"),
        PROOF.replace("c=", "d="),
        PROOF.replace("VQ=", "V="),
        PROOF.replace("ZapW", ""),
        PROOF.replace(",p=", ",q="),
        format!("{PROOF},x=1"),
        PROOF.replace(',', ";"),
        String::new(),
    ] {
        let error = refused(exchange.last(malformed.as_bytes()));
        assert!(
            matches!(error, ScramError::Protocol(_)),
            "{malformed}: {error:?}"
        );
    }
}

#[test]
fn first_messages_that_are_refused() {
    let scram = scram();
    let first = |text: &str| refused(scram.first(&initial(MECHANISM, text), "ann", false, None));
    for text in ["n,a=bob,n=,r=x", "n,,m=1,n=,r=x"] {
        assert!(matches!(first(text), ScramError::Unsupported(_)), "{text}");
    }
    for text in [
        "",
        "n",
        "n,",
        "n,,",
        "n,,n=",
        "n,,n=,",
        "n,,n=,r=",
        "n,,n=,r=\u{7f}",
        "n,,r=x,n=",
        "x,,n=,r=x",
        "p=tls-unique,,n=,r=x",
    ] {
        assert!(matches!(first(text), ScramError::Protocol(_)), "{text}");
    }
    let plus = scram.first(&initial(MECHANISM_PLUS, "n,,n=,r=x"), "ann", true, None);
    assert!(matches!(refused(plus), ScramError::Protocol(_)));
}

#[test]
fn binding_is_offered_under_tls_alone() {
    let certificate = rcgen::generate_simple_self_signed(vec!["localhost".into()]);
    let certificate = certificate.expect("a certificate").cert;
    let end_point = EndPoint::of_certificate(certificate.der());
    assert!(end_point.is_some());
    let scram = Scram::new(end_point).expect("random bytes");
    assert_eq!(scram.mechanisms(true), [MECHANISM_PLUS, MECHANISM]);
    assert_eq!(scram.mechanisms(false), [MECHANISM]);
    let bound = initial(MECHANISM_PLUS, "p=tls-server-end-point,,n=,r=x");
    assert!(scram.first(&bound, "ann", true, None).is_ok());
    assert!(scram.first(&bound, "ann", false, None).is_err());
}

#[test]
fn a_decoy_keeps_its_salt() {
    let scram = scram();
    assert_eq!(scram.decoy_of("ann"), scram.decoy_of("ann"));
    assert_ne!(scram.decoy_of("ann").salt, scram.decoy_of("bob").salt);
}

#[test]
fn no_nonce_comes_twice() {
    let scram = scram();
    let body = initial(MECHANISM, "n,,n=,r=x");
    let once = || {
        scram
            .first(&body, "ann", false, None)
            .ok()
            .map(|(text, _)| text)
    };
    assert_ne!(once().expect("an answer"), once().expect("an answer"));
}

proptest! {
    #[test]
    fn random_answers_never_panic(body in prop::collection::vec(any::<u8>(), 0..80), text in ".{0,60}", attributes in "[a-z=,+/A-Z]{0,60}") {
        let scram = scram();
        let _ = scram.first(&body, "ann", false, None);
        let _ = scram.first(&initial(MECHANISM, &text), "ann", false, None);
        let _ = scram.first(&initial(MECHANISM, &attributes), "ann", false, None);
        let good = initial(MECHANISM, "n,,n=a,r=xy");
        let (_, exchange) = scram.first(&good, "ann", false, None).expect("a first message");
        for last in [&body[..], text.as_bytes(), attributes.as_bytes()] {
            prop_assert!(exchange.last(last).is_err());
        }
    }
}

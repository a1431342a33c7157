//! The client's first message, before pgwire reads it.
//!
//! pgwire does not know which mechanism the client chose and has one error for all refusals. So
//! this checks that the channel-binding flag fits the mechanism (AUTH-2), and refuses with the
//! SQLSTATE and the text of PostgreSQL.

use super::{ScramError, malformed, text};

/// The channel binding that the client's mechanism and the server agree on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Binding {
    /// SCRAM-SHA-256-PLUS.
    Bound,
    /// SCRAM-SHA-256, where SCRAM-SHA-256-PLUS was offered as well.
    Declined,
    /// SCRAM-SHA-256, the only mechanism that was offered.
    Unavailable,
}

/// The number of bytes of a client's text that an error quotes, as in PostgreSQL.
const QUOTED_BYTES_MAX: usize = 30;

/// Checks `gs2-cbind-flag "," [authzid] "," [m=…,] n=… "," r=… [, extensions]` (RFC 5802,
/// section 7). The name is ignored: the start-up packet has the role.
pub(super) fn check(message: &[u8], binding: Binding) -> Result<(), ScramError> {
    let mut pieces = text(message)?.split(',');
    let mut next = || pieces.next().ok_or_else(malformed);
    check_flag(next()?, binding)?;
    let authorization = next()?;
    if authorization.starts_with('a') {
        let message = "client uses authorization identity, but it is not supported";
        return Err(ScramError::Unsupported(message));
    }
    if !authorization.is_empty() {
        return Err(malformed());
    }
    if next()?.starts_with('m') {
        let message = "client requires an unsupported SCRAM extension";
        return Err(ScramError::Unsupported(message));
    }
    let nonce = next()?.strip_prefix("r=").ok_or_else(malformed)?;
    if nonce.is_empty() || !nonce.bytes().all(|byte| byte.is_ascii_graphic()) {
        let message = "non-printable characters in SCRAM nonce";
        return Err(ScramError::Protocol(message.into()));
    }
    Ok(())
}

fn check_flag(flag: &str, binding: Binding) -> Result<(), ScramError> {
    match (flag, binding) {
        ("n", Binding::Declined | Binding::Unavailable) | ("y", Binding::Unavailable) => Ok(()),
        // The client supports binding, and was told that the server does not.
        ("y", Binding::Declined) => Err(ScramError::Binding(
            "SCRAM channel binding negotiation error",
        )),
        ("p=tls-server-end-point", Binding::Bound) => Ok(()),
        (flag, Binding::Bound) => Err(unsupported_type(flag)),
        _ => Err(malformed()),
    }
}

fn unsupported_type(flag: &str) -> ScramError {
    let Some(name) = flag.strip_prefix("p=") else {
        return malformed();
    };
    let quoted = name.bytes().take(QUOTED_BYTES_MAX).map(|byte| match byte {
        0x21..=0x7e => char::from(byte),
        _ => '?',
    });
    let quoted: String = quoted.collect();
    ScramError::Protocol(format!(
        "unsupported SCRAM channel-binding type \"{quoted}\""
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flag_must_fit_the_mechanism() {
        let checked = |flag: &str, binding| check(format!("{flag},,n=,r=x").as_bytes(), binding);
        for (flag, binding) in [
            ("n", Binding::Declined),
            ("n", Binding::Unavailable),
            ("y", Binding::Unavailable),
            ("p=tls-server-end-point", Binding::Bound),
        ] {
            assert_eq!(checked(flag, binding), Ok(()), "{flag} {binding:?}");
        }
        for (flag, binding) in [
            ("n", Binding::Bound),
            ("y", Binding::Bound),
            ("p=tls-server-end-point", Binding::Declined),
            ("p=tls-server-end-point", Binding::Unavailable),
            ("x", Binding::Declined),
            ("", Binding::Bound),
        ] {
            let refused = checked(flag, binding);
            assert_eq!(refused, Err(malformed()), "{flag} {binding:?}");
        }
        let downgrade = checked("y", Binding::Declined);
        assert!(matches!(downgrade, Err(ScramError::Binding(_))));
        let quoted = checked("p=tls\u{1}\u{e9}", Binding::Bound);
        let expected = "unsupported SCRAM channel-binding type \"tls???\"";
        assert_eq!(quoted, Err(ScramError::Protocol(expected.into())));
    }

    #[test]
    fn malformed_first_message_is_refused() {
        for message in ["n,a=bob,n=,r=x", "n,,m=1,n=,r=x"] {
            let refused = check(message.as_bytes(), Binding::Unavailable);
            assert!(
                matches!(refused, Err(ScramError::Unsupported(_))),
                "{message}"
            );
        }
        for message in [
            "",
            "n",
            "n,",
            "n,,",
            "n,,n=",
            "n,,n=,",
            "n,,n=,r=",
            "n,,n=,r=\u{7f}",
            "n,b,n=,r=x",
            "n,,r=x,n=",
            "x,,n=,r=x",
            "n,,n=\0,r=x",
        ] {
            let refused = check(message.as_bytes(), Binding::Unavailable);
            assert!(
                matches!(refused, Err(ScramError::Protocol(_))),
                "{message:?}"
            );
        }
        assert_eq!(
            check(b"n,,n=\xff,r=x", Binding::Unavailable),
            Err(malformed())
        );
    }
}

//! The messages to the lock manager and their byte format.
//!
//! ```text
//! request  kind: ask, mark or unmark (1) | session (4) | kind of key (1) | database (4)
//!          | key (8) | mode (1)
//! verdict  kind (1) | session (4)
//! locks    session (4) | kind of key (1) | database (4) | key (8) | mode (1) | granted (1), each
//! ```

use fencepost_sql::advisory::{LockKey, LockMode, LockState};

use super::own::Lock;
use super::table::{Owner, Verdict};

/// The kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestKind {
    /// Take the lock without waiting.
    Try,
    /// Take the lock, and wait for it if necessary.
    Wait,
    /// Release the lock.
    Release,
    /// Cancel the request, and release the lock if it was granted.
    Abandon,
    /// Release everything: the session has ended.
    End,
    /// Change nothing: the reply proves that all earlier messages have been applied.
    Settle,
    /// Add the lock without checks. The session noted it before another session requested a
    /// conflicting one.
    Put,
}

/// A request about a lock of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LockRequest {
    pub what: RequestKind,
    pub owner: Owner,
    pub key: LockKey,
    pub mode: LockMode,
}

/// A message from another machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Request {
    Ask(LockRequest),
    /// Ask for the locks of this machine's sessions; the peer is the new lock manager.
    Holdings,
    /// Ask for all locks.
    All,
    /// Set a mark: a session requests a lock that conflicts with statements. Reply after the lock
    /// manager knows the statement locks of this machine.
    Mark(Owner, Lock),
    /// Remove the mark: the session no longer holds or requests the lock.
    Unmark(Owner, Lock),
}

const HOLDINGS: u8 = 10;
const ALL: u8 = 11;
const REQUEST_BYTES: usize = 19;
const STATE_BYTES: usize = 19;
const VERDICT_BYTES: usize = 5;
const MARK: u8 = 12;
const UNMARK: u8 = 13;
const WHATS: [RequestKind; 7] = [
    RequestKind::Try,
    RequestKind::Wait,
    RequestKind::Release,
    RequestKind::Abandon,
    RequestKind::End,
    RequestKind::Settle,
    RequestKind::Put,
];

fn push_key(key: LockKey, mode: LockMode, out: &mut Vec<u8>) {
    let (kind, number) = match key {
        LockKey::One(_, number) => (1, number),
        LockKey::NotifyCommit => (3, 0),
        LockKey::Table(_, table) => (4, i64::from(table)),
        LockKey::Two(_, class, object) => (2, i64::from(class) << 32 | i64::from(object as u32)),
    };
    out.push(kind);
    out.extend_from_slice(&key.database().to_le_bytes());
    out.extend_from_slice(&number.to_le_bytes());
    out.push(mode.number());
}

fn key_of(bytes: &[u8]) -> Option<(LockKey, LockMode)> {
    let [kind, rest @ .., mode] = bytes else {
        return None;
    };
    let (database, number) = rest.split_first_chunk()?;
    let database = u32::from_le_bytes(*database);
    let number = i64::from_le_bytes(number.try_into().ok()?);
    let key = match kind {
        1 => LockKey::One(database, number),
        2 => LockKey::Two(database, (number >> 32) as i32, number as i32),
        3 => LockKey::NotifyCommit,
        4 => LockKey::Table(database, u32::try_from(number).ok()?),
        _ => return None,
    };
    Some((key, LockMode::of_number(*mode)?))
}

fn owner_of(bytes: &[u8]) -> Option<Owner> {
    Some(i32::from_le_bytes(bytes.try_into().ok()?))
}

impl Request {
    pub fn encode(&self) -> Vec<u8> {
        let (code, owner, (key, mode)) = match self {
            Request::Holdings => return vec![HOLDINGS],
            Request::All => return vec![ALL],
            Request::Mark(owner, lock) => (MARK, owner, *lock),
            Request::Unmark(owner, lock) => (UNMARK, owner, *lock),
            Request::Ask(ask) => {
                let code = WHATS.iter().position(|what| *what == ask.what);
                (code.unwrap_or(0) as u8, &ask.owner, (ask.key, ask.mode))
            }
        };
        let mut out = Vec::with_capacity(REQUEST_BYTES);
        out.push(code);
        out.extend_from_slice(&owner.to_le_bytes());
        push_key(key, mode, &mut out);
        out
    }

    pub fn decode(bytes: &[u8]) -> Option<Request> {
        match bytes {
            [ALL] => Some(Request::All),
            [HOLDINGS] => Some(Request::Holdings),
            [code, rest @ ..] if bytes.len() == REQUEST_BYTES => {
                let owner = owner_of(&rest[..4])?;
                let (key, mode) = key_of(&rest[4..])?;
                match *code {
                    MARK => Some(Request::Mark(owner, (key, mode))),
                    UNMARK => Some(Request::Unmark(owner, (key, mode))),
                    what => Some(Request::Ask(LockRequest {
                        what: *WHATS.get(usize::from(what))?,
                        owner,
                        key,
                        mode,
                    })),
                }
            }
            _ => None,
        }
    }
}

pub(super) fn encode_verdict(verdict: Verdict) -> Vec<u8> {
    let (how, owner): (u8, Owner) = match verdict {
        Verdict::Granted => (0, 0),
        Verdict::Refused => (1, 0),
        Verdict::Deadlock(other) => (2, other),
    };
    let mut out = Vec::with_capacity(VERDICT_BYTES);
    out.push(how);
    out.extend_from_slice(&owner.to_le_bytes());
    out
}

pub(super) fn decode_verdict(bytes: &[u8]) -> Option<Verdict> {
    let (how, owner) = bytes.split_first()?;
    let owner = owner_of(owner)?;
    match how {
        0 => Some(Verdict::Granted),
        1 => Some(Verdict::Refused),
        2 => Some(Verdict::Deadlock(owner)),
        _ => None,
    }
}

pub(super) fn encode_states(states: &[LockState]) -> Vec<u8> {
    let mut out = Vec::with_capacity(states.len() * STATE_BYTES);
    for state in states {
        out.extend_from_slice(&state.session.to_le_bytes());
        push_key(state.key, state.mode, &mut out);
        out.push(u8::from(state.granted));
    }
    out
}

pub(super) fn decode_states(bytes: &[u8]) -> Option<Vec<LockState>> {
    let (states, rest) = bytes.as_chunks::<STATE_BYTES>();
    let state = |bytes: &[u8; STATE_BYTES]| {
        let (key, mode) = key_of(&bytes[4..STATE_BYTES - 1])?;
        Some(LockState {
            key,
            mode,
            session: owner_of(&bytes[..4])?,
            granted: bytes[STATE_BYTES - 1] != 0,
        })
    };
    rest.is_empty()
        .then(|| states.iter().map(state).collect())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_round_trip_and_other_bytes_are_refused() {
        let keys = [
            LockKey::One(5, i64::MIN),
            LockKey::One(u32::MAX, -1),
            LockKey::Two(5, -1, 1),
            LockKey::Two(1, i32::MAX, i32::MIN),
            LockKey::NotifyCommit,
            LockKey::Table(5, u32::MAX),
        ];
        let mut states = Vec::new();
        for (key, what) in keys.into_iter().zip(WHATS.into_iter().cycle().skip(1)) {
            for mode in [LockMode::Exclusive, LockMode::Share] {
                let ask = LockRequest {
                    what,
                    owner: -7,
                    key,
                    mode,
                };
                let lock = (key, mode);
                for request in [
                    Request::Ask(ask),
                    Request::Mark(-7, lock),
                    Request::Unmark(9, lock),
                ] {
                    assert_eq!(Request::decode(&request.encode()), Some(request));
                }
                states.push(LockState {
                    key,
                    mode,
                    session: 1 << 20,
                    granted: mode == LockMode::Share,
                });
            }
        }
        assert_eq!(decode_states(&encode_states(&states)), Some(states));
        for request in [Request::All, Request::Holdings] {
            assert_eq!(Request::decode(&request.encode()), Some(request));
        }
        for verdict in [Verdict::Granted, Verdict::Refused, Verdict::Deadlock(-3)] {
            assert_eq!(decode_verdict(&encode_verdict(verdict)), Some(verdict));
        }
        for bytes in [&[][..], &[9], &[3, 0, 0, 0, 0], &[0; 18], &[7; 19]] {
            assert_eq!(Request::decode(bytes), None);
            assert_eq!(decode_verdict(bytes), None);
        }
        assert_eq!(decode_states(&[0; 20]), None);
    }
}

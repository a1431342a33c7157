//! The messages between machines about sessions, and their byte format.
//!
//! ```text
//! request   kind (1) | session (4) | asked by a superuser (1) | role
//! sessions  for each: session (4) | four times | activity (1) | texts, each with its length
//!           | coordinator (4) | tables, with their number: oid (4), changed (1)
//! queues    for each row: row (8) | number of places
//!           | for each place: machine (4), coordinator (4), place (1)
//! place     1 if it is its turn, 2 more if it shares the row
//! ```

use std::net::SocketAddr;

use fencepost_sql::sessions::{Activity, SessionState, Signal, SignalOutcome};
use fencepost_txn::Strength;

/// A request about the sessions of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Request {
    All,
    /// Asks for the row-lock queues of the machine's rows.
    RowQueues,
    IsThere(i32),
    /// Signals a session for a role of this name; the flag says whether the role is a superuser.
    Signal(i32, Signal, String, bool),
}

const ALL: u8 = 1;
const IS_THERE: u8 = 2;
const CANCEL: u8 = 3;
const TERMINATE: u8 = 4;
const ROW_QUEUES: u8 = 5;
const CAME: [SignalOutcome; 4] = [
    SignalOutcome::Sent,
    SignalOutcome::NoSession,
    SignalOutcome::OfOthers,
    SignalOutcome::OfSuperuser,
];
/// Stands for a missing time.
const NEVER: i64 = i64::MIN;

impl Request {
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Request::All => vec![ALL],
            Request::RowQueues => vec![ROW_QUEUES],
            Request::IsThere(session) => [&[IS_THERE][..], &session.to_le_bytes()].concat(),
            Request::Signal(session, signal, user, superuser) => {
                let what = match signal {
                    Signal::Cancel => CANCEL,
                    Signal::Terminate => TERMINATE,
                };
                let mut out = vec![what];
                out.extend_from_slice(&session.to_le_bytes());
                out.push(u8::from(*superuser));
                out.extend_from_slice(user.as_bytes());
                out
            }
        }
    }

    pub fn decode(bytes: &[u8]) -> Option<Request> {
        let (what, rest) = bytes.split_first()?;
        if *what == ALL && rest.is_empty() {
            return Some(Request::All);
        }
        if *what == ROW_QUEUES && rest.is_empty() {
            return Some(Request::RowQueues);
        }
        let (session, rest) = rest.split_first_chunk()?;
        let session = i32::from_le_bytes(*session);
        let signal = match *what {
            IS_THERE if rest.is_empty() => return Some(Request::IsThere(session)),
            CANCEL => Signal::Cancel,
            TERMINATE => Signal::Terminate,
            _ => return None,
        };
        let (superuser, user) = rest.split_first()?;
        let user = String::from_utf8(user.to_vec()).ok()?;
        Some(Request::Signal(session, signal, user, *superuser != 0))
    }
}

pub(super) fn code(came: SignalOutcome) -> u8 {
    CAME.iter().position(|other| *other == came).unwrap_or(1) as u8
}

pub(super) fn came_of(answer: &[u8]) -> Option<SignalOutcome> {
    let [code] = answer else { return None };
    CAME.get(usize::from(*code)).copied()
}

pub(super) fn encode_states(states: &[SessionState]) -> Vec<u8> {
    let mut out = Vec::new();
    for state in states {
        out.extend_from_slice(&state.session.to_le_bytes());
        let times = [
            state.opened,
            state.since,
            state.transaction.unwrap_or(NEVER),
            state.statement.unwrap_or(NEVER),
        ];
        times
            .iter()
            .for_each(|time| out.extend_from_slice(&time.to_le_bytes()));
        let activity = Activity::ALL.iter().position(|of| *of == state.activity);
        out.push(activity.unwrap_or(0) as u8);
        let client = state.client.map_or_else(String::new, |at| at.to_string());
        let texts = [
            &state.user,
            &state.database,
            &state.application,
            &client,
            &state.text,
        ];
        for text in texts {
            out.extend_from_slice(&(text.len() as u32).to_le_bytes());
            out.extend_from_slice(text.as_bytes());
        }
        out.extend_from_slice(&state.coordinator.to_le_bytes());
        out.extend_from_slice(&(state.tables.len() as u32).to_le_bytes());
        for (table, changed) in &state.tables {
            out.extend_from_slice(&table.to_le_bytes());
            out.push(u8::from(*changed));
        }
    }
    out
}

/// A place in the lock queue of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RowQueueSlot {
    /// The machine and the coordinator number of the transaction.
    pub of: (u32, u32),
    pub strength: Strength,
    pub granted: bool,
}

/// Rows with their lock queues.
pub(super) type RowQueues = Vec<(u64, Vec<RowQueueSlot>)>;

/// The bit of a place that holds the lock. The bits above it contain the lock strength.
const GRANTED: u8 = 1;

pub(super) fn encode_row_queues(queues: &RowQueues) -> Vec<u8> {
    let mut out = Vec::new();
    for (row, queue) in queues {
        out.extend_from_slice(&row.to_le_bytes());
        out.extend_from_slice(&(queue.len() as u32).to_le_bytes());
        for place in queue {
            let (machine, coordinator) = place.of;
            out.extend_from_slice(&machine.to_le_bytes());
            out.extend_from_slice(&coordinator.to_le_bytes());
            let granted = GRANTED * u8::from(place.granted);
            out.push(granted | place.strength.code() << 1);
        }
    }
    out
}

pub(super) fn decode_row_queues(mut bytes: &[u8]) -> Option<RowQueues> {
    let mut queues = Vec::new();
    while !bytes.is_empty() {
        let row = u64::from_le_bytes(*chunk(&mut bytes)?);
        let count = u32::from_le_bytes(*chunk(&mut bytes)?);
        let mut queue = Vec::new();
        for _ in 0..count {
            let machine = u32::from_le_bytes(*chunk(&mut bytes)?);
            let coordinator = u32::from_le_bytes(*chunk(&mut bytes)?);
            let [place] = *chunk(&mut bytes)?;
            queue.push(RowQueueSlot {
                of: (machine, coordinator),
                strength: Strength::of_code(u64::from(place >> 1))?,
                granted: place & GRANTED != 0,
            });
        }
        queues.push((row, queue));
    }
    Some(queues)
}

pub(super) fn decode_states(mut bytes: &[u8]) -> Option<Vec<SessionState>> {
    let mut states = Vec::new();
    while !bytes.is_empty() {
        states.push(state(&mut bytes)?);
    }
    Some(states)
}

fn state(bytes: &mut &[u8]) -> Option<SessionState> {
    let session = i32::from_le_bytes(*chunk(bytes)?);
    let mut times = [0; 4];
    for time in &mut times {
        *time = i64::from_le_bytes(*chunk(bytes)?);
    }
    let [opened, since, transaction, statement] = times;
    let [activity] = *chunk(bytes)?;
    let mut texts: [String; 5] = Default::default();
    for text in &mut texts {
        let length = u32::from_le_bytes(*chunk(bytes)?) as usize;
        let (head, rest) = bytes.split_at_checked(length)?;
        *bytes = rest;
        *text = String::from_utf8(head.to_vec()).ok()?;
    }
    let [user, database, application, client, text] = texts;
    let coordinator = u32::from_le_bytes(*chunk(bytes)?);
    let count = u32::from_le_bytes(*chunk(bytes)?);
    let mut tables = Vec::new();
    for _ in 0..count {
        let table = u32::from_le_bytes(*chunk(bytes)?);
        let [changed] = *chunk(bytes)?;
        tables.push((table, changed != 0));
    }
    let time = |time: i64| (time != NEVER).then_some(time);
    Some(SessionState {
        coordinator,
        tables,
        session,
        user,
        database,
        application,
        client: client.parse::<SocketAddr>().ok(),
        opened,
        transaction: time(transaction),
        statement: time(statement),
        since,
        activity: *Activity::ALL.get(usize::from(activity))?,
        text,
    })
}

fn chunk<'a, const N: usize>(bytes: &mut &'a [u8]) -> Option<&'a [u8; N]> {
    let (head, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(head)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_round_trip_and_other_bytes_are_refused() {
        let requests = [
            Request::All,
            Request::RowQueues,
            Request::IsThere(-5),
            Request::Signal(1 << 20, Signal::Cancel, "ada".into(), false),
            Request::Signal(7, Signal::Terminate, "postgres".into(), true),
        ];
        for request in requests {
            assert_eq!(Request::decode(&request.encode()), Some(request));
        }
        for came in CAME {
            assert_eq!(came_of(&[code(came)]), Some(came));
        }
        for bytes in [&[][..], &[1, 1], &[2, 0, 0], &[3, 0, 0, 0, 0], &[9; 9]] {
            assert_eq!(Request::decode(bytes), None);
        }
        let mut state = SessionState {
            session: 3,
            user: "ada".into(),
            database: "postgres".into(),
            application: "ä".into(),
            client: Some(([127, 0, 0, 1], 5432).into()),
            opened: 1,
            transaction: None,
            statement: Some(-1),
            since: 2,
            activity: Activity::IdleInFailed,
            text: "SELECT 1".into(),
            coordinator: 8,
            tables: vec![(16384, true), (1259, false)],
        };
        let first = state.clone();
        (state.client, state.transaction) = (None, Some(9));
        let states = vec![first, state];
        let bytes = encode_states(&states);
        assert_eq!(decode_states(&bytes), Some(states));
        assert_eq!(decode_states(&bytes[..bytes.len() - 1]), None);
        let place = |of, strength, granted| RowQueueSlot {
            of,
            strength,
            granted,
        };
        let shared = place((1, 2), Strength::Share, true);
        let waits = place((3, 4), Strength::Update, false);
        let has = place((0, 9), Strength::Update, true);
        let queues = vec![(7, vec![shared, waits]), (1 << 40, vec![has])];
        let bytes = encode_row_queues(&queues);
        assert_eq!(decode_row_queues(&bytes[..bytes.len() - 1]), None);
        assert_eq!(decode_row_queues(&bytes), Some(queues));
    }
}

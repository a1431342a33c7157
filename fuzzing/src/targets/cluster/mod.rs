//! Messages of other machines.
//!
//! ```text
//! input   form (1) | ...
//! form 0  kind (1) | the bytes of a message of this kind, which is decoded
//! form 1  edits of the records that two machines write into each other's rings ([`pair`])
//! form 2  service (1) | a request that a machine sends to another one ([`calls`])
//! ```

mod calls;
mod pair;

use fencepost_cluster::allocation::{AllocationError, RegionMessage};
use fencepost_cluster::join::{JoinMessage, JoinRequest};
use fencepost_cluster::lease::LeaseMessage;
use fencepost_cluster::reconfiguration::{ReconfigurationMessage, RestartState, SavedRegions};
use fencepost_cluster::{Configuration, ConfigurationId, DecodeError, MachineId, Mapping, Wire};
use fencepost_fabric::SegmentId;
use fencepost_fabric::tcp;
use fencepost_sql::row::RowLayout;
use fencepost_sql::types::{Type, TypeKind};
use fencepost_sql::value::Value;
use fencepost_txn::network;
use fencepost_txn::recovery::RecoveryMessage;

use super::bytes::Bytes;

/// The number of message kinds of form 0.
const KINDS: usize = 14;

/// Runs one input.
///
/// # Panics
/// If a message changes when it is encoded and decoded again. If a machine does not reply to a
/// request, or replies with an internal error.
pub fn run(input: &[u8]) {
    let mut rest = Bytes(input);
    match rest.below(3) {
        0 => {
            let kind = rest.below(KINDS);
            decode(kind, rest.0);
        }
        1 => pair::run(rest),
        _ => {
            let service = rest.byte();
            calls::run(service, rest.0);
        }
    }
}

/// Decodes a message of a kind, and encodes the result.
fn decode(kind: usize, bytes: &[u8]) {
    match kind {
        0 => again::<ReconfigurationMessage>(bytes),
        1 => again::<JoinMessage>(bytes),
        2 => again::<JoinRequest>(bytes),
        3 => again::<RegionMessage>(bytes),
        4 => again::<AllocationError>(bytes),
        5 => again::<Configuration>(bytes),
        6 => again::<Mapping>(bytes),
        7 => {
            if let Ok(message) = LeaseMessage::from_bytes(bytes) {
                assert_eq!(LeaseMessage::from_bytes(&message.to_bytes()), Ok(message));
            }
        }
        8 => drop(Configuration::unseal(bytes)),
        9 => drop(SavedRegions::unseal(bytes)),
        10 => drop(RestartState::unseal(bytes)),
        11 => drop(tcp::count_frames(bytes)),
        12 => {
            let words = words(bytes);
            if let Ok(message) = RecoveryMessage::decode(&words) {
                let again = RecoveryMessage::decode(&message.words());
                assert_eq!(again, Ok(message), "a message of recovery");
            }
            for lane in 0..3 {
                let segment = SegmentId::new(SegmentId::RING, lane, 1);
                drop(network::steps(segment, &words));
            }
        }
        _ => rows(bytes),
    }
}

/// Decodes a message. Its encoding must decode to the same message.
fn again<T: Wire + PartialEq + std::fmt::Debug>(bytes: &[u8]) {
    let decoded: Result<T, DecodeError> = T::decode(bytes);
    if let Ok(message) = decoded {
        let again = T::decode(&message.encode());
        assert_eq!(again, Ok(message));
    }
}

fn words(bytes: &[u8]) -> Vec<u64> {
    bytes
        .chunks_exact(8)
        .map(|word| Bytes(word).long())
        .collect()
}

/// Decodes the words of a row of a shipped result.
fn rows(bytes: &[u8]) {
    let mut rest = Bytes(bytes);
    let kinds: Vec<TypeKind> = (0..rest.below(9))
        .filter_map(|_| TypeKind::from_oid(u32::from(rest.short())))
        .collect();
    let layout = RowLayout::of_types(kinds.iter().copied());
    let mut row = vec![Value::Null; layout.width()];
    drop(layout.decode(&words(rest.0), &mut row));
}

/// Returns messages of all forms.
pub fn seeds() -> Vec<Vec<u8>> {
    let configuration = Configuration::of_process(3);
    let configuration = configuration.unwrap_or_else(|error| panic!("{error}"));
    let messages = [
        ReconfigurationMessage::Suspect {
            configuration: ConfigurationId(1),
        },
        ReconfigurationMessage::Probe {
            base: configuration.clone(),
            attempt: 1,
        },
        ReconfigurationMessage::Newer {
            configuration: configuration.clone(),
        },
        ReconfigurationMessage::Severed {
            configuration: ConfigurationId(2),
            machine: MachineId(3),
        },
    ];
    let mut seeds: Vec<Vec<u8>> = Vec::new();
    let mut add = |kind: u8, bytes: &[u8]| seeds.push([&[0, kind], bytes].concat());
    messages
        .iter()
        .for_each(|message| add(0, &message.encode()));
    add(5, &configuration.encode());
    for kind in 0..KINDS as u8 {
        for first in 0..12 {
            add(kind, &[&[first], &[1; 40][..]].concat());
        }
    }
    add(11, &frame(1, &[0; 24]));
    add(
        11,
        &[frame(4, &[]), frame(2, &[1; 40]), frame(8, &[1])].concat(),
    );
    for kind in 1..12 {
        let message: Vec<u8> = [5, kind, 1, 2, 3, 1, 1, 0].map(u64::to_le_bytes).concat();
        add(12, &message);
    }
    let types = [Type::INT4, Type::TEXT, Type::NUMERIC];
    let layout = RowLayout::of_types(types.iter().map(|ty| ty.kind));
    let mut row = Vec::new();
    let values = [Value::Int4(5), Value::text("zwölf"), Value::Null];
    if layout.encode(&values, &mut row).is_ok() {
        let oids = types.iter().flat_map(|ty| (ty.oid() as u16).to_le_bytes());
        let oids: Vec<u8> = oids.collect();
        let row: Vec<u8> = row.iter().flat_map(|word| word.to_le_bytes()).collect();
        add(13, &[&[3], &oids[..], &row].concat());
    }
    seeds.extend(
        pair::seeds()
            .into_iter()
            .map(|seed| [vec![1], seed].concat()),
    );
    seeds.extend(
        calls::seeds()
            .into_iter()
            .map(|seed| [vec![2], seed].concat()),
    );
    seeds
}

/// Returns a frame of the `tcp` fabric.
fn frame(kind: u8, body: &[u8]) -> Vec<u8> {
    let length = body.len() as u32 + 1;
    [&length.to_le_bytes()[..], &[kind], body].concat()
}

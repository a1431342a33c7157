//! The messages between machines about counters, and their byte format.
//!
//! ```text
//! request    database (4) | kind (1) | for a reset of some relations their oids (4 each)
//! totals     time of the reset (8) | oid (4) and cells (8 each) of each relation
//! conflicts  for each: table (4) | met, reported, last (8 each) | 3 texts, each with its length
//! ```

use fencepost_sql::counts::{CELLS, ConflictCount, ConflictKey, Sums, Totals};

/// A request about the counters of a database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Request {
    Totals,
    Conflicts,
    /// Resets the counters of some relations, or all counters.
    Reset(Option<Vec<u32>>),
}

const TOTALS: u8 = 1;
const CONFLICTS: u8 = 2;
const RESET: u8 = 3;
const RESET_SOME: u8 = 4;
/// Stands for a missing time.
const NEVER: i64 = i64::MIN;

impl Request {
    /// Encodes the request for a database.
    pub fn encode(&self, database: u32) -> Vec<u8> {
        let mut out = database.to_le_bytes().to_vec();
        out.push(match self {
            Request::Totals => TOTALS,
            Request::Conflicts => CONFLICTS,
            Request::Reset(None) => RESET,
            Request::Reset(Some(_)) => RESET_SOME,
        });
        if let Request::Reset(Some(relations)) = self {
            for id in relations {
                out.extend_from_slice(&id.to_le_bytes());
            }
        }
        out
    }

    pub fn decode(bytes: &[u8]) -> Option<(u32, Request)> {
        let (database, rest) = bytes.split_first_chunk()?;
        let (what, rest) = rest.split_first()?;
        let request = match (*what, rest) {
            (TOTALS, []) => Some(Request::Totals),
            (CONFLICTS, []) => Some(Request::Conflicts),
            (RESET, []) => Some(Request::Reset(None)),
            (RESET_SOME, ids) => {
                let (ids, []) = ids.as_chunks() else {
                    return None;
                };
                let ids = ids.iter().map(|id| u32::from_le_bytes(*id));
                Some(Request::Reset(Some(ids.collect())))
            }
            _ => None,
        };
        Some((u32::from_le_bytes(*database), request?))
    }
}

pub(super) fn encode_totals(totals: &Totals) -> Vec<u8> {
    let mut out = totals.reset.unwrap_or(NEVER).to_le_bytes().to_vec();
    for (id, cells) in &totals.counts {
        out.extend_from_slice(&id.to_le_bytes());
        for cell in cells {
            out.extend_from_slice(&cell.to_le_bytes());
        }
    }
    out
}

pub(super) fn decode_totals(mut bytes: &[u8]) -> Option<Totals> {
    let reset = i64::from_le_bytes(*chunk(&mut bytes)?);
    let mut counts = Sums::default();
    while !bytes.is_empty() {
        let id = u32::from_le_bytes(*chunk(&mut bytes)?);
        let mut cells = [0; CELLS];
        for cell in &mut cells {
            *cell = u64::from_le_bytes(*chunk(&mut bytes)?);
        }
        counts.insert(id, cells);
    }
    Some(Totals {
        counts,
        reset: (reset != NEVER).then_some(reset),
    })
}

pub(super) fn encode_conflicts(all: &[(ConflictKey, ConflictCount)]) -> Vec<u8> {
    let mut out = Vec::new();
    for (key, count) in all {
        out.extend_from_slice(&key.table.to_le_bytes());
        out.extend_from_slice(&count.met.to_le_bytes());
        out.extend_from_slice(&count.reported.to_le_bytes());
        out.extend_from_slice(&count.last.to_le_bytes());
        for text in [&key.kind, &key.statement, &key.winner] {
            out.extend_from_slice(&(text.len() as u32).to_le_bytes());
            out.extend_from_slice(text.as_bytes());
        }
    }
    out
}

pub(super) fn decode_conflicts(mut bytes: &[u8]) -> Option<Vec<(ConflictKey, ConflictCount)>> {
    let mut all = Vec::new();
    while !bytes.is_empty() {
        let table = u32::from_le_bytes(*chunk(&mut bytes)?);
        let count = ConflictCount {
            met: u64::from_le_bytes(*chunk(&mut bytes)?),
            reported: u64::from_le_bytes(*chunk(&mut bytes)?),
            last: i64::from_le_bytes(*chunk(&mut bytes)?),
        };
        let mut texts: [String; 3] = Default::default();
        for text in &mut texts {
            let length = u32::from_le_bytes(*chunk(&mut bytes)?) as usize;
            let (head, rest) = bytes.split_at_checked(length)?;
            bytes = rest;
            *text = String::from_utf8(head.to_vec()).ok()?;
        }
        let [kind, statement, winner] = texts;
        let key = ConflictKey {
            table,
            kind,
            statement,
            winner,
        };
        all.push((key, count));
    }
    Some(all)
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
            Request::Totals,
            Request::Conflicts,
            Request::Reset(None),
            Request::Reset(Some(vec![1, 1 << 30])),
        ];
        for request in requests {
            let bytes = request.encode(1 << 20);
            assert_eq!(Request::decode(&bytes), Some((1 << 20, request)));
        }
        let others: [&[u8]; 5] = [
            &[],
            &[1, 0, 0, 0],
            &[1, 0, 0, 0, 1, 1],
            &[1, 0, 0, 0, 9],
            &[1, 0, 0, 0, 4, 1, 2],
        ];
        for bytes in others {
            assert_eq!(Request::decode(bytes), None);
        }
        let mut totals = Totals::default();
        totals.counts.insert(3, [7; CELLS]);
        totals.reset = Some(-4);
        let bytes = encode_totals(&totals);
        let back = decode_totals(&bytes).expect("they are whole");
        assert_eq!((back.counts, back.reset), (totals.counts, totals.reset));
        assert!(decode_totals(&bytes[..bytes.len() - 1]).is_none());
        let key = ConflictKey {
            table: 1,
            kind: "write".into(),
            statement: "ä".into(),
            winner: String::new(),
        };
        let count = ConflictCount {
            met: 3,
            reported: 1,
            last: -1,
        };
        let all = vec![(key, count)];
        let bytes = encode_conflicts(&all);
        assert_eq!(decode_conflicts(&bytes), Some(all));
        assert_eq!(decode_conflicts(&bytes[..bytes.len() - 1]), None);
    }
}

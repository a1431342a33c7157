//! The protocol steps of a write to a peer's ring, by their names in the papers. Used by tests that
//! stop a machine at a step, and not in production.

use fencepost_cluster::Wire;
use fencepost_cluster::reconfiguration::ReconfigurationMessage;
use fencepost_fabric::{SegmentId, ring};

use super::driver::{RECONFIGURE, RECOVER, bytes_of};
use super::headers::{VALIDATE, VALIDATED};
use super::message::LOCK_REPLY;
use super::peer_sender::{LOG, MESSAGES};
use crate::record;
use crate::recovery::RecoveryMessage;

/// Returns the steps in order; empty if the write is neither to a log nor to a message queue.
pub fn steps(segment: SegmentId, written: &[u64]) -> Vec<&'static str> {
    if segment.kind() != SegmentId::RING {
        return Vec::new();
    }
    let records = ring::records(written);
    match segment.lane() {
        LOG => records.filter_map(|(tag, _)| of_record(tag)).collect(),
        MESSAGES => records
            .filter_map(|(tag, words)| of_message(tag, words))
            .collect(),
        _ => Vec::new(),
    }
}

fn of_record(tag: u8) -> Option<&'static str> {
    Some(match tag {
        record::LOCK | record::LOCK_OF_PARTS => "LOCK",
        record::LOCK_MOVED => "LOCK-MOVED",
        record::COMMIT_BACKUP | record::COMMIT_BACKUP_PART | record::COMMIT_BACKUP_LAST => {
            "COMMIT-BACKUP"
        }
        record::COMMIT_PRIMARY => "COMMIT-PRIMARY",
        record::ABORT => "ABORT",
        record::TRUNCATE => "TRUNCATE",
        record::CONFIGURATION => "CONFIGURATION",
        _ => return None,
    })
}

fn of_message(tag: u8, words: &[u64]) -> Option<&'static str> {
    match tag {
        LOCK_REPLY => Some("LOCK-REPLY"),
        VALIDATE => Some("VALIDATE"),
        VALIDATED => Some("VALIDATED"),
        RECONFIGURE => {
            let bytes = bytes_of(first_part(words)?).ok()?;
            let message = ReconfigurationMessage::decode(bytes).ok()?;
            Some(message.name())
        }
        RECOVER => RecoveryMessage::name_of(first_part(words)?),
        _ => None,
    }
}

/// Returns the first part of a message that is sent in parts; a message of one part is complete.
fn first_part(words: &[u64]) -> Option<&[u64]> {
    match words {
        [_, 0, part @ ..] => Some(part),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use fencepost_cluster::ConfigurationId;
    use fencepost_fabric::ring::record_words;

    use super::*;
    use crate::record::TxnId;
    use crate::recovery::Body;

    fn written(records: &[(u8, &[u64])]) -> Vec<u64> {
        let mut written = Vec::new();
        for (tag, words) in records {
            written.push(u64::from(*tag) << 56 | record_words(words.len()) as u64);
            written.extend_from_slice(words);
        }
        written
    }

    #[test]
    fn write_names_its_commit_steps_in_order() {
        let log = SegmentId::new(SegmentId::RING, LOG, 1);
        let both = written(&[(record::TRUNCATE, &[1, 2]), (record::LOCK, &[3])]);
        assert_eq!(steps(log, &both), ["TRUNCATE", "LOCK"]);
        let pad = written(&[(ring::PAD, &[0, 0]), (record::COMMIT_PRIMARY, &[])]);
        assert_eq!(steps(log, &pad), ["COMMIT-PRIMARY"]);
        let head = SegmentId::new(SegmentId::HEAD, LOG, 1);
        assert!(steps(head, &both).is_empty());
        assert!(steps(log, &[u64::MAX, 0]).is_empty());
    }

    #[test]
    fn messages_of_recovery_are_told_apart() {
        let messages = SegmentId::new(SegmentId::RING, MESSAGES, 1);
        let id = TxnId {
            configuration: 1,
            machine: 2,
            thread: 3,
            local: 4,
        };
        let message = RecoveryMessage {
            configuration: ConfigurationId(2),
            body: Body::TruncateRecovery { id },
        };
        let words = message.words();
        let whole = [&[words.len() as u64, 0], &words[..]].concat();
        let later = [&[words.len() as u64, 1], &words[1..]].concat();
        let both = written(&[(RECOVER, &whole), (RECOVER, &later), (LOCK_REPLY, &[1])]);
        assert_eq!(steps(messages, &both), ["TRUNCATE-RECOVERY", "LOCK-REPLY"]);
    }
}

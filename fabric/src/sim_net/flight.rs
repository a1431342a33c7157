//! Operations, bells and answers in flight between two machines.

use super::connection::{Channel, LinkDirection};
use crate::direct;
use crate::fabric::FabricError;
use crate::machine::MachineId;
use crate::memory::Memory;
use crate::registry::Registry;
use crate::segment::Place;
use crate::waiting::Answer;

/// An item on the connection over which `from` posts to `to`.
#[derive(Debug)]
pub(super) struct InFlightItem {
    pub(super) from: MachineId,
    pub(super) to: MachineId,
    /// The number of the connection to which the item belongs.
    pub(super) epoch: u64,
    pub(super) channel: Channel,
    pub(super) load: Load,
}

/// The content of an item in flight.
#[derive(Debug)]
pub(super) enum Load {
    /// An operation, which takes effect when it arrives.
    Operation {
        number: u64,
        at: Place,
        operation: Operation,
    },
    /// The ringing of the bell of the item's channel, at its arrival.
    Bell,
    /// The result of an operation.
    Answer { number: u64, answer: Answer },
}

/// The first part of a read that takes a while.
#[derive(Debug)]
pub(super) struct PartialRead {
    pub(super) number: u64,
    pub(super) at: Place,
    pub(super) words: usize,
}

/// The effect of an operation at its target.
#[derive(Debug)]
pub(super) enum Operation {
    Read(usize),
    Write(Box<[u64]>),
    Swap { expected: u64, new: u64 },
}

impl InFlightItem {
    /// Returns the first part of a read of several words.
    pub(super) fn glimpse(&self) -> Option<PartialRead> {
        let Load::Operation {
            number,
            at,
            operation: Operation::Read(words),
        } = &self.load
        else {
            return None;
        };
        (*words > 1).then_some(PartialRead {
            number: *number,
            at: *at,
            words: *words,
        })
    }

    /// Returns the direction of the item.
    pub(super) fn way(&self) -> LinkDirection {
        match self.load {
            Load::Operation { .. } | Load::Bell => LinkDirection::There,
            Load::Answer { .. } => LinkDirection::Back,
        }
    }
}

impl Operation {
    /// Carries out the operation on the target's memory.
    pub(super) fn apply(self, registry: &Registry, from: MachineId, at: Place) -> Answer {
        let to_write = !matches!(self, Operation::Read(_));
        let done = registry
            .memory(at.segment, from, to_write)
            .and_then(|memory| self.apply_to(&memory, at.word));
        done.unwrap_or_else(Answer::Failed)
    }

    fn apply_to(self, memory: &Memory, word: usize) -> Result<Answer, FabricError> {
        match self {
            Operation::Read(words) => {
                direct::now(direct::read(memory, word, words)).map(Answer::Words)
            }
            Operation::Write(words) => {
                direct::now(direct::write(memory, word, &words)).map(|()| Answer::Written)
            }
            Operation::Swap { expected, new } => {
                direct::now(direct::cas(memory, word, expected, new)).map(Answer::Was)
            }
        }
    }

    /// Returns a digest of the operation for the trace.
    pub(super) fn digest(&self) -> u64 {
        let words: &[u64] = match self {
            Operation::Read(words) => &[*words as u64],
            Operation::Write(words) => words,
            Operation::Swap { expected, new } => &[*expected, *new],
        };
        let add = |sum: u64, word: &u64| sum.wrapping_mul(31).wrapping_add(*word);
        words.iter().fold(1, add)
    }
}

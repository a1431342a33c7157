//! Who waits for the answer of an operation that is under way, whatever the operation is.

use crate::completion::Completer;
use crate::fabric::FabricError;

/// The end of an operation that the fabric keeps. Dropped, it answers [`FabricError::Lost`].
#[derive(Debug)]
pub(crate) enum Waiting {
    Write(Completer<()>),
    /// With the number of words.
    Read(Completer<Box<[u64]>>, usize),
    Swap(Completer<u64>),
}

/// What an operation came to.
#[derive(Debug)]
pub(crate) enum Answer {
    Written,
    Words(Box<[u64]>),
    Was(u64),
    Failed(FabricError),
}

/// The answer is that of another operation.
#[derive(Debug)]
pub(crate) struct Mismatch;

impl Waiting {
    /// Words that a read has asked for.
    pub(crate) fn asked(&self) -> usize {
        match self {
            Waiting::Read(_, words) => *words,
            Waiting::Write(_) | Waiting::Swap(_) => 0,
        }
    }

    /// Answers; with [`FabricError::Lost`] where the answer is not one of this operation.
    ///
    /// # Errors
    /// [`Mismatch`].
    pub(crate) fn answer(self, answer: Answer) -> Result<(), Mismatch> {
        match (self, answer) {
            (Waiting::Write(completer), Answer::Written) => completer.complete(Ok(())),
            (Waiting::Read(completer, asked), Answer::Words(words)) if words.len() == asked => {
                completer.complete(Ok(words));
            }
            (Waiting::Swap(completer), Answer::Was(was)) => completer.complete(Ok(was)),
            (Waiting::Write(completer), Answer::Failed(error)) => completer.complete(Err(error)),
            (Waiting::Read(completer, _), Answer::Failed(error)) => completer.complete(Err(error)),
            (Waiting::Swap(completer), Answer::Failed(error)) => completer.complete(Err(error)),
            _ => return Err(Mismatch),
        }
        Ok(())
    }
}

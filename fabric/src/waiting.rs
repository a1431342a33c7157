//! The completers of operations in progress, for all kinds of operations.

use crate::completion::Completer;
use crate::fabric::FabricError;

/// The fabric's side of an operation in progress. When dropped, it answers [`FabricError::Lost`].
#[derive(Debug)]
pub(crate) enum PendingOperation {
    Write(Completer<()>),
    /// The completer, and the number of words to read.
    Read(Completer<Box<[u64]>>, usize),
    Swap(Completer<u64>),
}

/// The result of an operation.
#[derive(Debug)]
pub(crate) enum Answer {
    Written,
    Words(Box<[u64]>),
    Was(u64),
    Failed(FabricError),
}

/// The error for an answer to another kind of operation.
#[derive(Debug)]
pub(crate) struct Mismatch;

impl PendingOperation {
    /// Returns the number of words that a read has asked for; 0 for other operations.
    pub(crate) fn asked(&self) -> usize {
        match self {
            PendingOperation::Read(_, words) => *words,
            PendingOperation::Write(_) | PendingOperation::Swap(_) => 0,
        }
    }

    /// Passes the answer on; [`FabricError::Lost`] if it is for another kind of operation.
    ///
    /// # Errors
    /// [`Mismatch`] in that case.
    pub(crate) fn answer(self, answer: Answer) -> Result<(), Mismatch> {
        match (self, answer) {
            (PendingOperation::Write(completer), Answer::Written) => completer.complete(Ok(())),
            (PendingOperation::Read(completer, asked), Answer::Words(words))
                if words.len() == asked =>
            {
                completer.complete(Ok(words));
            }
            (PendingOperation::Swap(completer), Answer::Was(was)) => completer.complete(Ok(was)),
            (PendingOperation::Write(completer), Answer::Failed(error)) => {
                completer.complete(Err(error))
            }
            (PendingOperation::Read(completer, _), Answer::Failed(error)) => {
                completer.complete(Err(error))
            }
            (PendingOperation::Swap(completer), Answer::Failed(error)) => {
                completer.complete(Err(error))
            }
            _ => return Err(Mismatch),
        }
        Ok(())
    }
}

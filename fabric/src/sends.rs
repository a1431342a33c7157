//! BatchSender on many sockets with one system call.
//!
//! ```text
//!   Outgoing, Outgoing, …  ──send_all──> one io_uring_enter ──> an outcome for each
//! ```
//! A client that shares the processor wakes at its first reply, and runs before the second reply is
//! sent. With one call all replies have arrived when the client runs. It takes them all at once,
//! and so does the server with the client's next requests.
//!
//! # Invariants
//! * SENDS-1: the kernel reads bytes only within [`BatchSender::send_all`]. If it may still read
//!   them after that, they are leaked.
//! * SENDS-2: no send waits. The caller must send bytes later that a socket does not accept now.
//!
//! # Failure
//! If the kernel lacks io_uring or forbids it, each send is one call, with the same outcomes.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};

use io_uring::{IoUring, Probe, opcode, types};
use rustix::net::SendFlags;

/// The number of times that a call is repeated that the kernel refuses.
const REFUSALS_MAX: u32 = 100;

/// Bytes to send on a socket.
#[derive(Debug)]
pub struct Outgoing {
    socket: RawFd,
    bytes: Vec<u8>,
    outcome: io::Result<usize>,
}

impl Outgoing {
    /// Returns bytes for a stream socket, which must stay open until they are sent: the number of a
    /// closed socket may by then belong to another one.
    pub fn new(socket: &impl AsRawFd, bytes: Vec<u8>) -> Outgoing {
        Outgoing {
            socket: socket.as_raw_fd(),
            bytes,
            outcome: Ok(0),
        }
    }

    /// Returns the number of bytes sent, and the bytes.
    ///
    /// # Errors
    /// The system's error: [`io::ErrorKind::WouldBlock`] if the socket accepts no bytes now. After
    /// any other error the connection is unusable, because the number of bytes sent is unknown.
    pub fn into_outcome(self) -> (io::Result<usize>, Vec<u8>) {
        (self.outcome, self.bytes)
    }

    fn flags() -> SendFlags {
        SendFlags::NOSIGNAL | SendFlags::DONTWAIT
    }

    fn send_alone(&mut self) {
        // SAFETY: the number is used within this call alone. For a closed number the system returns
        // an error.
        let socket = unsafe { BorrowedFd::borrow_raw(self.socket) };
        self.outcome = rustix::net::send(socket, &self.bytes, Self::flags()).map_err(Into::into);
    }
}

/// A sender on many sockets with one system call, used by one thread.
///
/// ```
/// use std::io::Read;
/// use std::os::unix::net::UnixStream;
/// use fencepost_fabric::sends::{Outgoing, BatchSender};
///
/// let (here, mut there) = UnixStream::pair().expect("a pair");
/// let mut batch = [Outgoing::new(&here, b"hello".to_vec())];
/// BatchSender::new(8).send_all(&mut batch);
/// let mut heard = [0; 5];
/// there.read_exact(&mut heard).expect("sent");
/// assert_eq!(&heard, b"hello");
/// ```
pub struct BatchSender {
    ring: Option<IoUring>,
    depth: usize,
}

impl BatchSender {
    /// Returns a sender with at most `depth` sends per call.
    pub fn new(depth: u16) -> BatchSender {
        let depth = depth.max(1);
        BatchSender {
            ring: open(depth.into()).ok().flatten(),
            depth: depth.into(),
        }
    }

    /// Returns whether the kernel accepts several sends in one call.
    pub fn is_one_call(&self) -> bool {
        self.ring.is_some()
    }

    /// Tries each send of `batch` once, in their order, and records its outcome for
    /// [`Outgoing::into_outcome`]. Does not wait for a socket (SENDS-2).
    pub fn send_all(&mut self, batch: &mut [Outgoing]) {
        for batch in batch.chunks_mut(self.depth) {
            match &mut self.ring {
                Some(ring) if batch.len() > 1 => {
                    if send_together(ring, batch).is_err() {
                        self.ring = None;
                    }
                }
                _ => batch.iter_mut().for_each(Outgoing::send_alone),
            }
        }
    }
}

/// Returns a ring, if the kernel supports sends with it.
fn open(depth: u32) -> io::Result<Option<IoUring>> {
    let ring = IoUring::new(depth)?;
    let mut probe = Probe::new();
    ring.submitter().register_probe(&mut probe)?;
    Ok(probe.is_supported(opcode::Send::CODE).then_some(ring))
}

/// Sends `batch`, which must fit the ring, with one call. After an error the ring must not be
/// used again.
fn send_together(ring: &mut IoUring, batch: &mut [Outgoing]) -> io::Result<()> {
    let flags = i32::try_from(Outgoing::flags().bits()).map_err(io::Error::other)?;
    for (index, outgoing) in batch.iter_mut().enumerate() {
        let bytes = outgoing.bytes.as_slice();
        let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        outgoing.outcome = Err(io::ErrorKind::Other.into());
        let send = opcode::Send::new(types::Fd(outgoing.socket), bytes.as_ptr(), length)
            .flags(flags)
            .build()
            .user_data(index as u64);
        // SAFETY: the bytes stay in place until the kernel has reported the outcome, or are leaked
        // (SENDS-1): `batch` is borrowed until then, and none of its buffers is changed.
        let pushed = unsafe { ring.submission().push(&send) };
        if let Err(full) = pushed {
            leak(batch, |_| true);
            return Err(io::Error::other(full));
        }
    }
    let mut ended = vec![false; batch.len()];
    let mut left = batch.len();
    let mut refusals = 0;
    while left > 0 {
        let submitted = ring.submit_and_wait(left);
        for end in ring.completion() {
            let index = usize::try_from(end.user_data()).unwrap_or(usize::MAX);
            let (Some(ended), Some(outgoing)) = (ended.get_mut(index), batch.get_mut(index)) else {
                continue;
            };
            outgoing.outcome = match usize::try_from(end.result()) {
                Ok(count) => Ok(count),
                Err(_) => Err(io::Error::from_raw_os_error(-end.result())),
            };
            left -= usize::from(!std::mem::replace(ended, true));
        }
        if let Err(error) = submitted {
            refusals += 1;
            if refusals > REFUSALS_MAX {
                leak(batch, |index| !ended[index]);
                return Err(error);
            }
        }
    }
    Ok(())
}

/// Leaks bytes that the kernel may still read.
#[cold]
fn leak(batch: &mut [Outgoing], of: impl Fn(usize) -> bool) {
    for (index, outgoing) in batch.iter_mut().enumerate() {
        if of(index) {
            std::mem::forget(std::mem::take(&mut outgoing.bytes));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    /// Runs a test with the ring, if there is one, and without.
    fn both(test: impl Fn(BatchSender)) {
        test(BatchSender::new(4));
        test(BatchSender {
            ring: None,
            depth: 4,
        });
    }

    fn heard(mut stream: &UnixStream, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        stream.read_exact(&mut bytes).expect("sent");
        bytes
    }

    #[test]
    fn more_than_fit_one_call_all_arrive() {
        both(|mut sends| {
            let pairs: Vec<_> = (0..11)
                .map(|_| UnixStream::pair().expect("a pair"))
                .collect();
            for round in 0..3u8 {
                let outgoing = |(at, (local, _)): (usize, &(UnixStream, UnixStream))| {
                    Outgoing::new(local, vec![round; at + 1])
                };
                let mut batch: Vec<_> = pairs.iter().enumerate().map(outgoing).collect();
                sends.send_all(&mut batch);
                for (at, (outgoing, (_, remote))) in batch.into_iter().zip(&pairs).enumerate() {
                    let (outcome, bytes) = outgoing.into_outcome();
                    assert_eq!(outcome.expect("sent"), bytes.len());
                    assert_eq!(heard(remote, at + 1), vec![round; at + 1]);
                }
            }
        });
    }

    #[test]
    fn each_send_has_its_own_outcome() {
        both(|mut sends| {
            let (local, remote) = UnixStream::pair().expect("a pair");
            let (full, full_end) = UnixStream::pair().expect("a pair");
            let (closed, closed_end) = UnixStream::pair().expect("a pair");
            drop(closed_end);
            let no_socket = tempfile::tempfile().expect("a file");
            let much = vec![7; 64 << 20];
            let mut batch = [
                Outgoing::new(&full, much.clone()),
                Outgoing::new(&closed, b"x".to_vec()),
                Outgoing::new(&no_socket, b"x".to_vec()),
                Outgoing::new(&local, b"y".to_vec()),
            ];
            sends.send_all(&mut batch);
            let outcomes = batch.map(|outgoing| outgoing.into_outcome().0);
            let sent = *outcomes[0].as_ref().expect("some of it");
            assert!(0 < sent && sent < much.len(), "{sent}");
            let kind = |at: usize| outcomes[at].as_ref().map_err(io::Error::kind);
            assert_eq!(kind(1), Err(io::ErrorKind::BrokenPipe));
            let bad = outcomes[2].as_ref().expect_err("no socket");
            let expected = rustix::io::Errno::NOTSOCK.raw_os_error();
            assert_eq!(bad.raw_os_error(), Some(expected));
            assert_eq!(kind(3), Ok(&1));
            assert_eq!(heard(&remote, 1), b"y");

            let again = || Outgoing::new(&full, much.clone());
            let mut batch = [again(), again()];
            sends.send_all(&mut batch);
            for outgoing in batch {
                let outcome = outgoing.into_outcome().0.map_err(|error| error.kind());
                assert_eq!(outcome, Err(io::ErrorKind::WouldBlock));
            }
            assert_eq!(heard(&full_end, sent), much[..sent]);
        });
    }
}

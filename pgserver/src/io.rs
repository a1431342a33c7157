//! The two buffers of a connection and the socket between them.
//!
//! Invariants
//! - IO-1: a connection that waits for its client holds no buffer, unless input is partly read or
//!   output is unsent. Both buffers go back to the worker's pool.
//! - IO-2: the input grows only with bytes that have arrived, never by the value of a length field.
//! - IO-3: bytes are sent in the order of the replies. A posted reply ([`crate::outbox`]) is
//!   completed before more is written.
//! - IO-4: a connection waits for its client only after every byte that it has read was handled.
//!   Bytes are also read while a statement waits, so [`Io::put_back`] reports whether any arrived.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use fencepost_fabric::sends::Outgoing;

use crate::log::{Client, Peer};
use crate::outbox::UnsentReply;
use crate::socket::Socket;
use crate::worker::{TaskEntry, Worker};

/// The size of a new input buffer, in bytes.
pub(crate) const READ_BYTES: usize = 32 << 10;
/// The size of replies, in bytes, above which they are sent before more are produced.
pub(crate) const SEND_BYTES: usize = 64 << 10;
/// The size, in bytes, above which a buffer is not kept.
const KEEP_BYTES_MAX: usize = 256 << 10;
/// The number of buffers of each kind that a worker keeps.
const KEEP_COUNT_MAX: usize = 64;

/// The spare buffers of a worker.
#[derive(Default)]
pub(crate) struct Pool {
    inputs: RefCell<Vec<Vec<u8>>>,
    outputs: RefCell<Vec<Vec<u8>>>,
}

impl Pool {
    fn input(&self) -> Vec<u8> {
        self.inputs
            .borrow_mut()
            .pop()
            .unwrap_or_else(|| vec![0; READ_BYTES])
    }

    fn keep_input(&self, buffer: Vec<u8>) {
        let mut inputs = self.inputs.borrow_mut();
        if buffer.len() == READ_BYTES && inputs.len() < KEEP_COUNT_MAX {
            inputs.push(buffer);
        }
    }

    fn output(&self) -> Vec<u8> {
        self.outputs.borrow_mut().pop().unwrap_or_default()
    }

    pub(crate) fn keep_output(&self, mut buffer: Vec<u8>) {
        let mut outputs = self.outputs.borrow_mut();
        if (1..=KEEP_BYTES_MAX).contains(&buffer.capacity()) && outputs.len() < KEEP_COUNT_MAX {
            buffer.clear();
            outputs.push(buffer);
        }
    }
}

/// Bytes of the client that are not handled yet.
#[derive(Default)]
pub(crate) struct Input {
    buffer: Vec<u8>,
    start: usize,
    end: usize,
}

impl Input {
    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    #[inline]
    pub(crate) fn consume(&mut self, count: usize) {
        self.start += count;
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.start == self.end
    }

    fn len(&self) -> usize {
        self.end - self.start
    }

    /// Returns space for more bytes after the current ones.
    fn free_space(&mut self, pool: &Pool) -> &mut [u8] {
        if self.buffer.is_empty() {
            self.buffer = pool.input();
        }
        if self.is_empty() {
            (self.start, self.end) = (0, 0);
        }
        if self.buffer.len() - self.end < READ_BYTES / 4 {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
            if self.buffer.len() - self.end < READ_BYTES / 4 {
                self.buffer.resize(self.buffer.len() * 2, 0);
            }
        }
        &mut self.buffer[self.end..]
    }

    /// Gives an empty buffer back to the pool.
    fn relax(&mut self, pool: &Pool) {
        if self.is_empty() && !self.buffer.is_empty() {
            pool.keep_input(std::mem::take(&mut self.buffer));
            (self.start, self.end) = (0, 0);
        }
    }

    /// Appends the bytes of `later`.
    fn append(&mut self, later: &Input, pool: &Pool) {
        let mut rest = later.bytes();
        while !rest.is_empty() {
            let free = self.free_space(pool);
            let count = rest.len().min(free.len());
            free[..count].copy_from_slice(&rest[..count]);
            self.end += count;
            rest = &rest[count..];
        }
    }
}

/// A connection's socket and buffers.
pub(crate) struct Io {
    pub(crate) socket: Socket,
    /// The client of the connection.
    pub(crate) client: Box<Client>,
    /// Unsent replies; those in `finished` precede them.
    pub(crate) out: Vec<u8>,
    /// Replies of finished requests, which may be sent while a later request waits.
    finished: Vec<u8>,
    /// The number of bytes of `finished` that were sent.
    finished_sent: usize,
    input: Input,
    worker: Rc<Worker>,
    /// The number of the connection in its worker.
    number: u64,
    /// The outbox's flush count when a reply was last posted.
    posted: Option<u64>,
    /// The rest of a posted reply that the outbox could not send.
    left: Option<UnsentReply>,
}

impl Io {
    pub(crate) fn new(socket: Socket, client: Box<Client>, place: &TaskEntry) -> Io {
        Io {
            socket,
            client,
            out: Vec::new(),
            finished: Vec::new(),
            finished_sent: 0,
            input: Input::default(),
            worker: place.worker.clone(),
            number: place.number(),
            posted: None,
            left: None,
        }
    }

    /// Takes the input while its frames are handled; [`Io::put_back`] returns it.
    #[inline]
    pub(crate) fn take_input(&mut self) -> Input {
        std::mem::take(&mut self.input)
    }

    /// Returns the unhandled rest of the input and appends the bytes that arrived meanwhile.
    /// Returns whether any arrived: the caller handles them before it waits for more (IO-4).
    #[inline]
    pub(crate) fn put_back(&mut self, input: Input) -> bool {
        let mut later = std::mem::replace(&mut self.input, input);
        let has_arrived = !later.is_empty();
        if has_arrived {
            self.input.append(&later, &self.worker.pool);
            later.consume(later.len());
        }
        later.relax(&self.worker.pool);
        has_arrived
    }

    pub(crate) fn input(&mut self) -> &mut Input {
        &mut self.input
    }

    /// Makes sure that the output has a buffer.
    #[inline]
    pub(crate) fn prepare_out(&mut self) {
        if self.out.capacity() == 0 {
            self.out = self.worker.pool.output();
        }
    }

    /// Allows the replies so far to be sent while a later request waits ([`Io::poll_finished`]).
    pub(crate) fn finish_replies(&mut self) {
        if self.finished.is_empty() {
            std::mem::swap(&mut self.finished, &mut self.out);
        } else {
            self.finished.extend_from_slice(&self.out);
            self.out.clear();
        }
        self.prepare_out();
    }

    /// Returns whether there are replies of finished requests.
    pub(crate) fn has_finished(&self) -> bool {
        !self.finished.is_empty()
    }

    /// Returns the size of the unsent replies in bytes.
    #[inline]
    pub(crate) fn reply_bytes(&self) -> usize {
        self.finished.len() + self.out.len()
    }

    /// Sends the replies of finished requests.
    pub(crate) fn poll_finished(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.finished.is_empty() {
            return Poll::Ready(Ok(()));
        }
        let mut finished = std::mem::take(&mut self.finished);
        let mut at = self.finished_sent;
        let sent = self.poll_drain(cx, &mut finished, &mut at);
        (self.finished, self.finished_sent) = (finished, at);
        sent
    }

    /// Puts the replies of finished requests back before the others.
    #[inline]
    fn join_replies(&mut self) {
        if self.finished.is_empty() {
            return;
        }
        self.finished
            .drain(..std::mem::take(&mut self.finished_sent));
        self.finished.extend_from_slice(&self.out);
        std::mem::swap(&mut self.finished, &mut self.out);
        self.worker
            .pool
            .keep_output(std::mem::take(&mut self.finished));
    }

    /// Appends bytes from the socket to the input; 0 means the end of the stream. If no bytes are
    /// ready, idle buffers are given back.
    #[inline]
    pub(crate) fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let read = self
            .socket
            .poll_read(cx, self.input.free_space(&self.worker.pool));
        match read {
            Poll::Ready(Ok(count)) => {
                self.input.end += count;
                Poll::Ready(Ok(count))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => {
                self.input.relax(&self.worker.pool);
                if self.out.is_empty() && self.out.capacity() > 0 {
                    self.worker.pool.keep_output(std::mem::take(&mut self.out));
                }
                Poll::Pending
            }
        }
    }

    /// Returns whether no input is partly read and no output is unsent.
    pub(crate) fn rests(&self) -> bool {
        self.input.is_empty() && self.reply_bytes() == 0
    }

    /// Returns whether more may be read ahead while a statement runs.
    pub(crate) fn may_read_ahead(&self) -> bool {
        self.input.len() < SEND_BYTES
    }

    /// Posts all replies to the worker's outbox. The rest that it cannot send is sent by
    /// [`Io::poll_left`], or before the next reply.
    #[inline]
    pub(crate) async fn post(&mut self) -> io::Result<()> {
        self.join_replies();
        if self.out.is_empty() || self.socket.is_tls() || !self.worker.outbox.takes() {
            return self.send().await;
        }
        if self.posted.is_some() {
            poll_fn(|cx| self.poll_settle(cx)).await?;
        }
        let Some(socket) = self.socket.plain() else {
            return Err(io::ErrorKind::NotConnected.into());
        };
        let reply = Outgoing::new(&socket, std::mem::take(&mut self.out));
        self.posted = Some(self.worker.outbox.flushes());
        self.worker.post(self.number, reply);
        Ok(())
    }

    /// Returns whether the outbox still has the posted reply.
    fn is_posted(&self) -> bool {
        self.posted == Some(self.worker.outbox.flushes())
    }

    /// Completes the posted reply.
    fn poll_settle(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.is_posted() {
            self.worker.flush();
        }
        self.poll_left(cx)
    }

    /// Sends the rest of a posted reply that the outbox could not send.
    #[inline]
    pub(crate) fn poll_left(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.left.is_none() {
            self.left = self.worker.outbox.take_left(self.number)?;
        }
        while let Some(UnsentReply { bytes, sent }) = &mut self.left {
            if *sent == bytes.len() {
                self.left = None;
                break;
            }
            match ready!(self.socket.poll_write(cx, &bytes[*sent..])) {
                Ok(0) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Ok(count) => *sent += count,
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Sends `bytes` from `at` on.
    fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        bytes: &[u8],
        at: &mut usize,
    ) -> Poll<io::Result<()>> {
        if self.posted.is_some() {
            ready!(self.poll_settle(cx))?;
            self.posted = None;
        }
        while *at < bytes.len() {
            match ready!(self.socket.poll_write(cx, &bytes[*at..])) {
                Ok(0) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Ok(count) => *at += count,
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        self.socket.poll_flush(cx)
    }

    /// Sends everything in `bytes` from `at` on, then empties it.
    pub(crate) fn poll_drain(
        &mut self,
        cx: &mut Context<'_>,
        bytes: &mut Vec<u8>,
        at: &mut usize,
    ) -> Poll<io::Result<()>> {
        let sent = ready!(self.poll_send(cx, bytes, at));
        bytes.clear();
        *at = 0;
        Poll::Ready(sent)
    }

    /// Sends all replies, including a posted one.
    #[inline]
    pub(crate) async fn send(&mut self) -> io::Result<()> {
        self.join_replies();
        if self.out.is_empty() && self.posted.is_none() {
            return Ok(());
        }
        let mut out = std::mem::take(&mut self.out);
        let mut at = 0;
        let sent = poll_fn(|cx| self.poll_drain(cx, &mut out, &mut at)).await;
        match out.capacity() > KEEP_BYTES_MAX {
            true => drop(out),
            false => self.out = out,
        }
        sent
    }

    /// Returns the socket and the client of a connection that has sent everything.
    pub(crate) fn into_parts(mut self) -> (Socket, Box<Client>) {
        let socket = std::mem::replace(&mut self.socket, Socket::Taken);
        let none = Box::new(Client::new(Peer::Local));
        (socket, std::mem::replace(&mut self.client, none))
    }

    /// Closes the connection. If a socket is closed with unread bytes, the peer may lose the final
    /// error. So this reads and discards bytes until the peer closes, for as long as the caller
    /// waits.
    pub(crate) async fn close(&mut self) -> io::Result<()> {
        poll_fn(|cx| self.socket.poll_shutdown(cx)).await?;
        let mut ignored = [0; 512];
        while poll_fn(|cx| self.socket.poll_read(cx, &mut ignored)).await? > 0 {}
        Ok(())
    }
}

impl Drop for Io {
    /// Completes a posted reply (OUT-2).
    fn drop(&mut self) {
        if self.is_posted() {
            self.worker.flush();
        }
        if self.posted.is_some() {
            // The connection is gone, so the rest of its reply is dropped.
            let _ = self.worker.outbox.take_left(self.number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(pool: &Pool, bytes: &[u8]) -> Input {
        let mut input = Input::default();
        for piece in bytes.chunks(READ_BYTES / 4) {
            input.free_space(pool)[..piece.len()].copy_from_slice(piece);
            input.end += piece.len();
        }
        input
    }

    #[test]
    fn input_keeps_its_bytes_while_it_moves_and_grows() {
        let pool = Pool::default();
        let bytes: Vec<u8> = (0..100_000u32).map(|n| n as u8).collect();
        let mut input = filled(&pool, &bytes);
        assert_eq!(input.bytes(), bytes);
        input.consume(99_990);
        let later = filled(&pool, b"later");
        input.append(&later, &pool);
        assert_eq!(input.bytes(), [&bytes[99_990..], b"later"].concat());
        input.consume(15);
        input.relax(&pool);
        assert_eq!(input.buffer.capacity(), 0);
        assert!(
            pool.inputs.borrow().is_empty(),
            "a grown buffer is not kept"
        );
    }

    #[test]
    fn empty_buffers_go_back_to_the_pool() {
        let pool = Pool::default();
        let mut input = filled(&pool, b"x");
        input.relax(&pool);
        assert!(pool.inputs.borrow().is_empty(), "half-read input stays");
        input.consume(1);
        input.relax(&pool);
        assert_eq!(pool.inputs.borrow().len(), 1);
    }
}

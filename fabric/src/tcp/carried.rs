//! A connection as a port of its card: read requests are applied, read replies complete operations,
//! and accumulated data is written.
//!
//! # Failure
//! The port ends with the connection: when it is closed or breaks, or when the peer sends invalid
//! data.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use super::agent::Agent;
use super::connection::Connection;
use super::frame::{Frame, Inbox};
use super::one_sided_agent::{Port, PortInterest};
use super::tls::{self, Session};

/// The largest number of reads in one turn.
const READS: usize = 16;
/// The size to which an idle connection shrinks its buffers.
const RETAINED_BYTES: usize = 256 << 10;

/// A connection on a card.
pub(super) struct AgentConnection<F> {
    connection: Arc<Connection>,
    session: Option<Session>,
    inbox: Inbox,
    agent: Agent,
    /// Whether more data may be readable than the stream reports.
    more: bool,
    /// The bytes being written, and the number of them that are written.
    batch: Vec<u8>,
    sent: usize,
    ended: F,
}

/// The incoming bytes of a stream, decrypted if it uses TLS.
struct Source<'a>(&'a TcpStream, Option<&'a mut Session>);

impl Read for Source<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        match &mut self.1 {
            None => (&*self.0).read(out),
            Some(session) => tls::read(session, self.0, out),
        }
    }
}

impl<F: Fn(&Arc<Connection>) + Send> AgentConnection<F> {
    /// Returns the port of a connection. `agent` applies the peer's requests; `ended` is called
    /// once, after the connection was closed.
    pub(super) fn new(connection: &Arc<Connection>, agent: Agent, ended: F) -> Self {
        AgentConnection {
            connection: Arc::clone(connection),
            session: connection.take_session(),
            inbox: Inbox::new(),
            agent,
            more: false,
            batch: Vec::new(),
            sent: 0,
            ended,
        }
    }

    /// Reads once; returns whether there may be more data that no event reports.
    fn receive(&mut self) -> io::Result<bool> {
        let mut source = Source(self.connection.stream(), self.session.as_mut());
        if !self.inbox.fill(&mut source)? {
            return Ok(false);
        }
        let (mut gate, mut answered) = (None, false);
        while let Some(frame) = self.inbox.next()? {
            match Frame::of(frame)? {
                Frame::Request(request) => {
                    let open = gate.get_or_insert_with(|| self.connection.gate());
                    if !**open {
                        return Err(io::ErrorKind::ConnectionAborted.into());
                    }
                    self.agent.apply(request);
                }
                Frame::Reply(reply) => {
                    // A woken task may close the connection, which takes the gate.
                    gate = None;
                    answered = true;
                    self.connection.reply(reply)?;
                }
            }
        }
        drop(gate);
        if answered {
            self.connection.answered();
        }
        self.agent.arrived()?;
        Ok(self.session.is_some())
    }

    /// Returns whether all taken bytes have been written.
    fn is_sent(&self) -> bool {
        let session = self.session.as_ref();
        self.sent == self.batch.len() && !session.is_some_and(|session| session.wants_write())
    }

    /// Writes as far as there is space: the rest of the last batch, or else replies and posted
    /// operations.
    fn send(&mut self) -> io::Result<()> {
        if self.is_sent() {
            self.batch.clear();
            self.batch.shrink_to(RETAINED_BYTES);
            self.sent = 0;
            self.agent.take_replies(&mut self.batch);
            self.connection.take_posted(&mut self.batch)?;
        }
        let stream = self.connection.stream();
        match &mut self.session {
            None => write_some(stream, &self.batch, &mut self.sent),
            Some(session) => tls::write(session, stream, &self.batch, &mut self.sent),
        }
    }
}

impl<F: Fn(&Arc<Connection>) + Send> Port for AgentConnection<F> {
    fn stream(&self) -> &TcpStream {
        self.connection.stream()
    }

    fn do_io(&mut self, readable: bool) -> io::Result<PortInterest> {
        if readable || self.more {
            self.more = (0..READS).try_fold(true, |more, _| match more {
                true => self.receive(),
                false => Ok(false),
            })?;
        }
        // Acknowledgements leave together with the operations that the attendant posts next.
        let waits = readable && self.is_sent() && self.agent.may_wait();
        if !waits || self.connection.has_posted() {
            self.send()?;
        }
        // A port with more to read gets another turn before it waits for space to write.
        Ok(if self.more || self.is_sent() {
            PortInterest::Read
        } else {
            PortInterest::ReadAndWrite
        })
    }

    fn has_work(&self) -> bool {
        self.more || self.agent.has_replies() || self.connection.has_posted()
    }

    fn end(&mut self) {
        self.connection.close();
        (self.ended)(&self.connection);
    }
}

/// Writes `bytes` from `sent` on, as far as there is space.
fn write_some(mut stream: &TcpStream, bytes: &[u8], sent: &mut usize) -> io::Result<()> {
    while *sent < bytes.len() {
        match stream.write(&bytes[*sent..]) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => *sent += written,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

use super::*;
use crate::bell::Bell;
use crate::completion::Completion;
use crate::fabric::{ArrivalHandler, FabricError};
use crate::machine::MachineId;
use crate::memory::Memory;
use crate::registry::Registry;
use crate::segment::{SegmentId, Writer};
use crate::tcp::agent::Agent;
use crate::tcp::carried::AgentConnection;
use crate::tcp::frame::{Frame, Inbox, LONGEST, Request, Target};
use std::io::Write;
use std::net::TcpListener;

const TARGET: Target = Target {
    segment: SegmentId::new(1, 0, 0),
    word: 0,
};

/// Returns a connection and the peer's end of it.
fn pair() -> (Arc<Connection>, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("bound");
    let local = TcpStream::connect(address).expect("listens");
    local.set_nonblocking(true).expect("a socket");
    let (remote, _) = listener.accept().expect("connected");
    let bell = Bell::new(Arc::new(Memory::anonymous(1).expect("memory")), 0);
    let agent = OneSidedAgent::new(&bell).expect("descriptors");
    (Connection::new(local, None, &agent), remote)
}

/// Serves a connection until it has ended; the peer may use the segment of [`TARGET`] in this
/// machine's memory.
fn carry(connection: &Arc<Connection>) {
    let card = Arc::clone(&connection.lane_agent);
    let registry = Arc::new(Registry::new(MachineId(1)));
    let memory = registry.provide(TARGET.segment, LONGEST, Writer::Peer(MachineId(2)));
    memory.expect("memory");
    let agent = Agent::new(&registry, &card, MachineId(2));
    let ended = |ended: &Arc<Connection>| ended.lane_agent.stop();
    card.plug(Box::new(AgentConnection::new(connection, agent, ended)));
    card.run();
}

fn post_write(connection: &Connection, words: &[u64]) -> Completion<()> {
    let (completer, completion) = Completion::pending();
    connection.post(
        |out| frame::put_write(out, TARGET, words),
        PendingOperation::Write(completer),
        false,
    );
    completion
}

#[test]
fn unread_connection_blocks_poster_with_bounded_memory() {
    let (connection, remote) = pair();
    let words = vec![0; 1 << 13];
    std::thread::scope(|scope| {
        scope.spawn(|| carry(&connection));
        let (full, is_full) = std::sync::mpsc::channel();
        let poster = scope.spawn(|| {
            // The poster ends because the connection does.
            let (full, mut posted) = (full, Vec::new());
            loop {
                posted.push(post_write(&connection, &words));
                let state = connection.posted.lock();
                assert!(state.out.len() <= OUT_BYTES + words.len() * 8 + 64);
                if state.closed {
                    return posted;
                }
                if state.out.len() > OUT_BYTES {
                    full.send(()).expect("the test receives the message");
                }
            }
        });
        is_full.recv().expect("the peer does not read");
        // Enough time to post more if the limit did not stop the poster.
        (0..1000).for_each(|_| std::thread::yield_now());
        connection.close();
        for mut completion in poster.join().expect("no panic") {
            assert_eq!(completion.take(), Some(Err(FabricError::Lost)));
        }
    });
    drop(remote);
}

#[test]
fn operations_posted_meanwhile_are_sent_together() {
    let (connection, mut remote) = pair();
    let writes: Vec<_> = (0..10).map(|n| post_write(&connection, &[n])).collect();
    connection.bell();
    connection.bell();
    connection.bell();
    std::thread::scope(|scope| {
        scope.spawn(|| carry(&connection));
        let (mut inbox, mut frames) = (Inbox::new(), 0);
        inbox.fill(&mut remote).expect("connected");
        while inbox.next().expect("well-formed").is_some() {
            frames += 1;
        }
        assert_eq!(frames, 11, "one read, and one bell for all");
        let mut replies = Vec::new();
        frame::put_done(&mut replies, &mut 10);
        remote.write_all(&replies).expect("connected");
        for mut write in writes {
            let answer = loop {
                match write.take() {
                    Some(answer) => break answer,
                    None => std::thread::yield_now(),
                }
            };
            assert_eq!(answer, Ok(()));
        }
        connection.close();
    });
}

#[test]
fn acks_are_sent_with_posts_of_the_handler() {
    struct PostingHandler(Arc<Connection>);
    impl ArrivalHandler for PostingHandler {
        fn attend(&self) -> bool {
            drop(post_write(&self.0, &[5]));
            false
        }
    }
    let (connection, mut remote) = pair();
    let posts = Box::new(PostingHandler(Arc::clone(&connection)));
    assert!(connection.lane_agent.set_attendant(posts));
    let mut requests = Vec::new();
    frame::put_write(&mut requests, TARGET, &[7]);
    frame::put_bell(&mut requests);
    remote.write_all(&requests).expect("connected");
    std::thread::scope(|scope| {
        scope.spawn(|| carry(&connection));
        let mut inbox = Inbox::new();
        let read = inbox.fill(&mut remote);
        // The card must end whatever was read.
        connection.close();
        assert!(read.expect("connected"));
        let first = inbox.next().expect("well-formed").expect("in one read");
        assert!(matches!(Frame::of(first), Ok(Frame::Reply(Reply::Done(1)))));
        let second = inbox.next().expect("well-formed").expect("in the same");
        let second = Frame::of(second).expect("well-formed");
        assert!(matches!(second, Frame::Request(Request::Write(..))));
    });
}

#[test]
fn replies_to_nothing_and_to_something_else_end_the_connection() {
    type EncodeFn = fn(&mut Vec<u8>);
    let wrong: [EncodeFn; 3] = [
        |out| frame::put_done(out, &mut 2),
        |out| frame::put_was(out, 1),
        |out| frame::put_words(out, &[1]),
    ];
    for put in wrong {
        let (connection, mut remote) = pair();
        let mut write = post_write(&connection, &[1]);
        let mut reply = Vec::new();
        put(&mut reply);
        remote.write_all(&reply).expect("connected");
        carry(&connection);
        assert_eq!(write.take(), Some(Err(FabricError::Lost)));
    }
}

#[test]
fn replies_leave_with_requests() {
    let (connection, mut remote) = pair();
    let _posted = post_write(&connection, &[1]);
    let mut request = Vec::new();
    frame::put_swap(&mut request, TARGET, 0, 7);
    remote.write_all(&request).expect("connected");
    // The request has arrived before the card looks for the first time.
    let mut arrived = [0; 1];
    while connection.stream.peek(&mut arrived).is_err() {
        std::thread::yield_now();
    }
    std::thread::scope(|scope| {
        scope.spawn(|| carry(&connection));
        let mut inbox = Inbox::new();
        inbox.fill(&mut remote).expect("connected");
        let frame = inbox.next().expect("well-formed").expect("a frame");
        assert_eq!(Frame::of(frame), Ok(Frame::Reply(Reply::Was(0))));
        let frame = inbox.next().expect("well-formed").expect("of one write");
        let frame = Frame::of(frame).expect("well-formed");
        assert!(matches!(frame, Frame::Request(Request::Write(TARGET, _))));
        connection.close();
    });
}

#[test]
fn peer_above_request_limit_is_disconnected() {
    let (connection, mut remote) = pair();
    let mut reads = Vec::new();
    (0..8).for_each(|_| frame::put_read(&mut reads, TARGET, LONGEST));
    remote.write_all(&reads).expect("fits");
    // The connection ends although the peer reads nothing.
    carry(&connection);
    assert!(connection.posted.lock().closed);
}

#[test]
fn reader_above_reply_limit_waits() {
    let (connection, remote) = pair();
    let read = || {
        let (completer, completion) = Completion::pending();
        let waiting = PendingOperation::Read(completer, LONGEST);
        connection.post(|out| frame::put_read(out, TARGET, LONGEST), waiting, false);
        completion
    };
    let mut first = [read(), read()];
    std::thread::scope(|scope| {
        let third = scope.spawn(read);
        // Enough time to post if the limit did not stop the thread.
        (0..1000).for_each(|_| std::thread::yield_now());
        assert_eq!(connection.posted.lock().waiting.len(), 2);
        connection.close();
        let mut third = third.join().expect("no panic");
        assert_eq!(third.take(), Some(Err(FabricError::Lost)));
    });
    for read in &mut first {
        assert_eq!(read.take(), Some(Err(FabricError::Lost)));
    }
    drop(remote);
}

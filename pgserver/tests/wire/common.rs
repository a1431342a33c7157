//! A server on a database in memory, and a client that writes protocol messages by hand.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use fencepost::Database;
use fencepost_pgserver::{ListenOptions, Server, listen};

/// Starts a server.
pub fn server() -> Server {
    server_with(ListenOptions::new("127.0.0.1:0"))
}

/// Starts a server with these options.
pub fn server_with(options: ListenOptions) -> Server {
    let database = Database::in_memory().expect("a database in memory");
    listen(&database, options).expect("a free port")
}

/// A message of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    pub tag: char,
    pub body: Vec<u8>,
}

impl Message {
    /// Returns a field of an ErrorResponse or NoticeResponse.
    pub fn field(&self, code: u8) -> Option<String> {
        self.body
            .split(|byte| *byte == 0)
            .find(|field| field.first() == Some(&code))
            .map(|field| String::from_utf8_lossy(&field[1..]).into_owned())
    }

    /// Returns the columns of a DataRow, as text.
    pub fn columns(&self) -> Vec<Option<String>> {
        assert_eq!(self.tag, 'D');
        let mut rest = &self.body[2..];
        let mut columns = Vec::new();
        while let Some((length, tail)) = rest.split_first_chunk::<4>() {
            let length = i32::from_be_bytes(*length);
            let size = usize::try_from(length).unwrap_or(0);
            let text = String::from_utf8_lossy(&tail[..size]).into_owned();
            columns.push((length >= 0).then_some(text));
            rest = &tail[size..];
        }
        columns
    }

    /// Returns the text of a CommandComplete.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body)
            .trim_end_matches('\0')
            .to_owned()
    }
}

/// Returns a message of the client.
pub fn frame(tag: u8, body: &[u8]) -> Vec<u8> {
    let mut out = vec![tag];
    out.extend_from_slice(&(body.len() as u32 + 4).to_be_bytes());
    out.extend_from_slice(body);
    out
}

/// Returns a Query.
pub fn query(sql: &str) -> Vec<u8> {
    frame(b'Q', format!("{sql}\0").as_bytes())
}

/// Returns a Parse without parameter types.
pub fn parse(name: &str, sql: &str) -> Vec<u8> {
    frame(b'P', format!("{name}\0{sql}\0\0\0").as_bytes())
}

/// Returns a Bind with parameters and results in text.
pub fn bind(portal: &str, statement: &str, parameters: &[Option<&str>]) -> Vec<u8> {
    let mut body = format!("{portal}\0{statement}\0\0\0").into_bytes();
    body.extend_from_slice(&(parameters.len() as u16).to_be_bytes());
    for parameter in parameters {
        match parameter {
            Some(text) => {
                body.extend_from_slice(&(text.len() as u32).to_be_bytes());
                body.extend_from_slice(text.as_bytes());
            }
            None => body.extend_from_slice(&(-1i32).to_be_bytes()),
        }
    }
    body.extend_from_slice(&[0, 0]);
    frame(b'B', &body)
}

/// Returns a Describe or Close (`tag`) of a statement or portal (`target`).
pub fn named(tag: u8, target: char, name: &str) -> Vec<u8> {
    frame(tag, format!("{target}{name}\0").as_bytes())
}

/// Returns an Execute.
pub fn execute(portal: &str, rows_max: i32) -> Vec<u8> {
    let mut body = format!("{portal}\0").into_bytes();
    body.extend_from_slice(&rows_max.to_be_bytes());
    frame(b'E', &body)
}

/// Returns a Sync.
pub fn sync() -> Vec<u8> {
    frame(b'S', b"")
}

/// Returns a Flush.
pub fn flush() -> Vec<u8> {
    frame(b'H', b"")
}

/// Returns a packet without a type.
pub fn packet(code: u32, rest: &[u8]) -> Vec<u8> {
    let mut out = (rest.len() as u32 + 8).to_be_bytes().to_vec();
    out.extend_from_slice(&code.to_be_bytes());
    out.extend_from_slice(rest);
    out
}

/// Returns the start-up packet of the superuser, with more parameters.
pub fn startup(more: &str) -> Vec<u8> {
    packet(3 << 16, format!("user\0postgres\0{more}\0").as_bytes())
}

/// Reads the next message of `stream`; `None` at the end of the connection.
pub fn read_message(stream: &mut impl Read) -> Option<Message> {
    let mut head = [0; 5];
    match stream.read_exact(&mut head) {
        Ok(()) => {}
        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
            panic!("no answer in time")
        }
        Err(_) => return None,
    }
    let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
    let mut body = vec![0; length - 4];
    stream.read_exact(&mut body).expect("a whole message");
    Some(Message {
        tag: char::from(head[0]),
        body,
    })
}

/// Returns the tags of messages, in order.
pub fn tags(messages: &[Message]) -> String {
    messages.iter().map(|message| message.tag).collect()
}

/// A client.
pub struct Client {
    pub stream: TcpStream,
    pub pid: i32,
    pub secret: i32,
}

impl Client {
    /// Connects without sending anything.
    pub fn connect(address: SocketAddr) -> Client {
        let stream = TcpStream::connect(address).expect("a server that listens");
        stream
            .set_read_timeout(Some(Duration::from_secs(20)))
            .expect("a timeout");
        stream.set_nodelay(true).expect("no delay");
        Client {
            stream,
            pid: 0,
            secret: 0,
        }
    }

    /// Connects and waits for the first ReadyForQuery.
    pub fn start(address: SocketAddr) -> Client {
        let mut client = Client::connect(address);
        client.send(&startup(""));
        let welcome = client.until('Z');
        let key = welcome
            .iter()
            .find(|message| message.tag == 'K')
            .expect("a key");
        let (pid, secret) = key.body.split_at(4);
        client.pid = i32::from_be_bytes(pid.try_into().expect("four bytes"));
        client.secret = i32::from_be_bytes(secret.try_into().expect("four bytes"));
        client
    }

    /// Sends bytes.
    pub fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("a server that reads");
    }

    /// Sends messages in one piece.
    pub fn send_all(&mut self, messages: &[Vec<u8>]) {
        self.send(&messages.concat());
    }

    /// Returns the next message; `None` at the end of the connection.
    pub fn read(&mut self) -> Option<Message> {
        read_message(&mut self.stream)
    }

    /// Returns the messages up to the first with `tag`.
    pub fn until(&mut self, tag: char) -> Vec<Message> {
        let mut messages = Vec::new();
        loop {
            let message = self
                .read()
                .unwrap_or_else(|| panic!("{tag} after {messages:?}"));
            let done = message.tag == tag;
            messages.push(message);
            if done {
                return messages;
            }
        }
    }

    /// Returns the messages up to the end of the connection.
    pub fn rest(&mut self) -> Vec<Message> {
        std::iter::from_fn(|| self.read()).collect()
    }

    /// Runs a simple query that must not fail.
    pub fn run(&mut self, sql: &str) -> Vec<Message> {
        self.send(&query(sql));
        let messages = self.until('Z');
        assert!(
            !tags(&messages).contains('E'),
            "{sql}: {:?}",
            error(&messages)
        );
        messages
    }

    /// Returns the first column of the first row of a simple query.
    pub fn value(&mut self, sql: &str) -> String {
        let messages = self.run(sql);
        let row = messages
            .iter()
            .find(|message| message.tag == 'D')
            .expect("a row");
        row.columns()[0].clone().expect("a value")
    }

    /// Runs a simple query that must fail. Returns its SQLSTATE.
    pub fn fails(&mut self, sql: &str) -> String {
        self.send(&query(sql));
        error(&self.until('Z')).0
    }

    /// Asks the server to cancel this session's statement.
    pub fn cancel(&self) {
        let address = self.stream.peer_addr().expect("connected");
        let mut other = Client::connect(address);
        let body = [self.pid.to_be_bytes(), self.secret.to_be_bytes()].concat();
        other.send(&packet(80_877_102, &body));
        assert_eq!(other.rest(), [], "a cancel request has no answer");
    }

    /// Disconnects without a message.
    pub fn vanish(self) {
        self.stream.shutdown(Shutdown::Both).expect("connected");
    }
}

/// Returns SQLSTATE and message of the first error.
pub fn error(messages: &[Message]) -> (String, String) {
    let error = messages.iter().find(|message| message.tag == 'E');
    let field = |code| {
        error
            .and_then(|message| message.field(code))
            .unwrap_or_default()
    };
    (field(b'C'), field(b'M'))
}

/// Waits until `done` holds.
pub fn eventually(what: &str, mut done: impl FnMut() -> bool) {
    for _ in 0..400 {
        if done() {
            return;
        }
        std::thread::sleep(Duration::from_millis(25));
    }
    panic!("not in ten seconds: {what}");
}

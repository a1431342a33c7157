//! A connection to the server. It implements the protocol itself, so that no library hides a reply.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// The longest wait for bytes, after which the caller checks the server.
const POLL: Duration = Duration::from_millis(100);

/// The settings of each session.
const LIMITS: &str = "-c statement_timeout=5s -c lock_timeout=150ms";

/// The size up to which a reply is read, in bytes.
const MESSAGE_MAX: usize = 256 << 20;

/// A statement and the messages that carry it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Statements in one Query message.
    Simple(String),
    /// Parse, Bind, Describe, Execute, Execute and Sync.
    Extended {
        /// The statement.
        sql: String,
        /// The parameter values; `None` is NULL.
        parameters: Vec<Option<Vec<u8>>>,
        /// The format of all parameters and results: 0 is text, 1 is binary.
        format: u16,
        /// The row limit of the first Execute; 0 means all rows.
        rows: u32,
    },
    /// Messages of the extended protocol, followed by Execute and Sync.
    Pipeline(Vec<Message>),
}

/// A message of the extended protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// A Parse message.
    Parse {
        /// The name of the statement.
        name: String,
        /// The statement.
        sql: String,
    },
    /// A Bind message.
    Bind {
        /// The name of the portal.
        portal: String,
        /// The name of the statement.
        name: String,
        /// The parameter values; `None` is NULL.
        parameters: Vec<Option<Vec<u8>>>,
        /// The format of all parameters and results.
        format: u16,
    },
    /// A Describe message for a statement (`S`) or a portal (`P`).
    Describe(u8, String),
    /// An Execute message.
    Execute {
        /// The name of the portal.
        portal: String,
        /// The row limit; 0 means all rows.
        rows: u32,
    },
    /// A Close message for a statement (`S`) or a portal (`P`).
    Close(u8, String),
}

/// The reply to a request.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    /// The SQLSTATE and text of each error.
    pub errors: Vec<(String, String)>,
    /// Whether the connection has ended.
    pub is_lost: bool,
    /// Whether the session is in a failed transaction.
    pub has_failed: bool,
}

/// A connection, with the key for cancel requests.
pub struct Connection {
    stream: TcpStream,
    addr: SocketAddr,
    bytes: Vec<u8>,
    pid: u32,
    key: u32,
}

impl Request {
    /// Returns the text of the statements.
    pub fn sql(&self) -> String {
        match self {
            Request::Simple(sql) | Request::Extended { sql, .. } => sql.clone(),
            Request::Pipeline(messages) => {
                let texts = messages.iter().filter_map(|message| match message {
                    Message::Parse { sql, .. } => Some(&**sql),
                    _ => None,
                });
                texts.collect::<Vec<&str>>().join("; ")
            }
        }
    }

    fn bytes(&self) -> Vec<u8> {
        match self {
            Request::Simple(sql) => framed(b'Q', &text(sql)),
            Request::Extended {
                sql,
                parameters,
                format,
                rows,
            } => {
                let parse = [&b"\0"[..], &text(sql), &[0, 0]].concat();
                let bind = bind("", "", parameters, *format);
                let execute = [&b"\0"[..], &rows.to_be_bytes()].concat();
                [
                    framed(b'P', &parse),
                    framed(b'D', b"S\0"),
                    framed(b'B', &bind),
                    framed(b'D', b"P\0"),
                    framed(b'E', &execute),
                    framed(b'E', &[0; 5]),
                    framed(b'S', b""),
                ]
                .concat()
            }
            Request::Pipeline(messages) => {
                let mut bytes: Vec<u8> = messages.iter().flat_map(Message::bytes).collect();
                // COPY FROM STDIN ignores a Sync, but not an Execute.
                bytes.extend(framed(b'E', &[0; 5]));
                bytes.extend(framed(b'S', b""));
                bytes
            }
        }
    }
}

impl Message {
    fn bytes(&self) -> Vec<u8> {
        match self {
            Message::Parse { name, sql } => {
                framed(b'P', &[text(name), text(sql), vec![0, 0]].concat())
            }
            Message::Bind {
                portal,
                name,
                parameters,
                format,
            } => framed(b'B', &bind(portal, name, parameters, *format)),
            Message::Describe(kind, name) => framed(b'D', &[vec![*kind], text(name)].concat()),
            Message::Execute { portal, rows } => {
                framed(b'E', &[&text(portal)[..], &rows.to_be_bytes()].concat())
            }
            Message::Close(kind, name) => framed(b'C', &[vec![*kind], text(name)].concat()),
        }
    }
}

/// Returns the body of a Bind message.
fn bind(portal: &str, name: &str, parameters: &[Option<Vec<u8>>], format: u16) -> Vec<u8> {
    let mut bind = [text(portal), text(name), vec![0, 1]].concat();
    bind.extend_from_slice(&format.to_be_bytes());
    bind.extend_from_slice(&(parameters.len() as u16).to_be_bytes());
    for parameter in parameters {
        let length = parameter.as_ref().map_or(-1, |bytes| bytes.len() as i32);
        bind.extend_from_slice(&length.to_be_bytes());
        bind.extend_from_slice(parameter.as_deref().unwrap_or_default());
    }
    bind.extend_from_slice(&1u16.to_be_bytes());
    bind.extend_from_slice(&format.to_be_bytes());
    bind
}

fn text(sql: &str) -> Vec<u8> {
    let mut bytes = sql.replace('\0', " ").into_bytes();
    bytes.push(0);
    bytes
}

fn framed(tag: u8, body: &[u8]) -> Vec<u8> {
    let length = (body.len() as u32 + 4).to_be_bytes();
    [&[tag][..], &length, body].concat()
}

impl Connection {
    /// Connects as the superuser. Waits at most `patience`.
    ///
    /// # Errors
    /// An error of the network, or a reply that violates the protocol.
    pub fn open(addr: SocketAddr, patience: Duration) -> Result<Connection, String> {
        let failed = |error: std::io::Error| error.to_string();
        let stream = TcpStream::connect_timeout(&addr, patience).map_err(failed)?;
        stream.set_nodelay(true).map_err(failed)?;
        stream.set_read_timeout(Some(POLL)).map_err(failed)?;
        stream.set_write_timeout(Some(patience)).map_err(failed)?;
        let mut connection = Connection {
            stream,
            addr,
            bytes: Vec::new(),
            pid: 0,
            key: 0,
        };
        let options = format!(
            "user\0postgres\0database\0postgres\0client_encoding\0UTF8\0options\0{LIMITS}\0\0"
        );
        let mut body = 196_608u32.to_be_bytes().to_vec();
        body.extend_from_slice(options.as_bytes());
        let length = (body.len() as u32 + 4).to_be_bytes();
        let sent = connection.stream.write_all(&[&length[..], &body].concat());
        sent.map_err(failed)?;
        let mut answer = Answer::default();
        let began = Instant::now();
        while !connection.poll(&mut answer, "")? {
            if began.elapsed() > patience {
                return Err("no answer to the startup message".into());
            }
        }
        match answer.errors.first() {
            Some((state, text)) => Err(format!("{state} {text}")),
            None if answer.is_lost => Err("the connection ended".into()),
            None => Ok(connection),
        }
    }

    /// Sends a request.
    ///
    /// # Errors
    /// An error of the network.
    pub fn send(&mut self, request: &Request) -> Result<(), String> {
        let sent = self.stream.write_all(&request.bytes());
        sent.map_err(|error| error.to_string())
    }

    /// Sends a cancel request for the running statement.
    pub fn cancel(&self) {
        let words = [16, 80_877_102, self.pid, self.key];
        let message: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
        if let Ok(mut stream) = TcpStream::connect_timeout(&self.addr, Duration::from_secs(5)) {
            let _ = stream.set_read_timeout(Some(Duration::from_secs(5)));
            let _ = stream.write_all(&message);
            let _ = stream.read(&mut [0]);
        }
    }

    /// Waits up to `POLL` for messages, and adds them to the answer. Returns true at the end of the
    /// answer. COPY FROM STDIN gets the data `copy`, or CopyFail if `copy` is empty.
    ///
    /// # Errors
    /// An invalid message.
    pub fn poll(&mut self, answer: &mut Answer, copy: &str) -> Result<bool, String> {
        let mut buffer = [0; 1 << 16];
        match self.stream.read(&mut buffer) {
            Ok(0) => answer.is_lost = true,
            Ok(count) => self.bytes.extend_from_slice(&buffer[..count]),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => answer.is_lost = true,
        }
        let mut at = 0;
        let mut is_done = false;
        while let Some(head) = self.bytes[at..].first_chunk::<5>() {
            let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
            if !(4..MESSAGE_MAX).contains(&length) {
                return Err(format!("a message {:?} of {length} bytes", head[0] as char));
            }
            let Some(body) = self.bytes.get(at + 5..at + 1 + length) else {
                break;
            };
            match head[0] {
                b'E' => answer.errors.push((field(body, b'C'), field(body, b'M'))),
                b'Z' => (is_done, answer.has_failed) = (true, body == b"E"),
                b'K' => (self.pid, self.key) = (number_at(body, 0), number_at(body, 4)),
                b'G' => {
                    let data = framed(b'd', copy.as_bytes());
                    let end = match copy {
                        "" => framed(b'f', b"no rows\0"),
                        _ => framed(b'c', b""),
                    };
                    answer.is_lost |= self.stream.write_all(&[data, end].concat()).is_err();
                }
                b'1' | b'2' | b'3' | b'A' | b'C' | b'D' | b'H' | b'I' | b'N' | b'R' | b'S'
                | b'T' | b'c' | b'd' | b'n' | b's' | b't' => {}
                other => return Err(format!("a message {:?}", other as char)),
            }
            at += 1 + length;
        }
        self.bytes.drain(..at);
        Ok(is_done || answer.is_lost)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let _ = self.stream.write_all(&framed(b'X', b""));
    }
}

fn number_at(body: &[u8], at: usize) -> u32 {
    let bytes = body.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
    bytes.map_or(0, u32::from_be_bytes)
}

/// Returns a field of an error message.
fn field(body: &[u8], code: u8) -> String {
    let mut fields = body.split(|byte| *byte == 0);
    let found = fields.find(|field| field.first() == Some(&code));
    found.map_or_else(String::new, |field| {
        String::from_utf8_lossy(&field[1..]).into_owned()
    })
}

//! Manually driven connections: the messages of all servers arrive as events in one queue.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc::Sender;
use std::thread;

/// A message of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The names of columns.
    Columns(Vec<String>),
    /// A row, in text.
    Row(Vec<Option<String>>),
    /// A statement is complete.
    Complete,
    /// An error: severity, SQLSTATE and text.
    Error(String, String, String),
    /// A notice: severity and text.
    Notice(String, String),
    /// A notification: the sender's process, channel and payload.
    Notify(i32, String, String),
    /// The server waits for the next query; the flag says whether no transaction is open.
    Ready(bool),
    /// The connection has ended.
    Lost(String),
}

/// A connection.
pub struct Connection {
    stream: TcpStream,
    /// The server process of the connection.
    pub pid: i32,
    key: i32,
}

impl Connection {
    /// Connects; events come with `number`. Returns when the server is ready.
    ///
    /// # Errors
    /// The message of the server or the network.
    pub fn open(
        addr: SocketAddr,
        database: &str,
        number: usize,
        events: Sender<(usize, Event)>,
    ) -> Result<Connection, String> {
        let failed = |error: std::io::Error| error.to_string();
        let mut stream = TcpStream::connect(addr).map_err(failed)?;
        stream.set_nodelay(true).map_err(failed)?;
        let options = format!(
            "user\0postgres\0database\0{database}\0application_name\0isolation\0\
             client_encoding\0UTF8\0\0"
        );
        let mut body = 196_608u32.to_be_bytes().to_vec();
        body.extend_from_slice(options.as_bytes());
        let length = (body.len() as u32 + 4).to_be_bytes();
        stream
            .write_all(&[&length[..], &body].concat())
            .map_err(failed)?;
        let (mut pid, mut key) = (0, 0);
        loop {
            let (tag, body) = message(&mut stream).map_err(failed)?;
            match tag {
                b'K' => (pid, key) = (number_at(&body, 0), number_at(&body, 4)),
                b'Z' => break,
                b'E' => return Err(field(&body, b'M')),
                _ => {}
            }
        }
        let mut reader = stream.try_clone().map_err(failed)?;
        thread::spawn(move || {
            loop {
                let event = match message(&mut reader) {
                    Ok((tag, body)) => event(&mut reader, tag, &body),
                    Err(error) => Some(Event::Lost(error.to_string())),
                };
                let is_last = matches!(event, Some(Event::Lost(_)));
                let is_heard = event.is_none_or(|event| events.send((number, event)).is_ok());
                if is_last || !is_heard {
                    return;
                }
            }
        });
        Ok(Connection { stream, pid, key })
    }

    /// Sends statements as one simple query.
    ///
    /// # Errors
    /// The reason why the connection has ended.
    pub fn send(&mut self, sql: &str) -> Result<(), String> {
        let length = (sql.len() as u32 + 5).to_be_bytes();
        let message = [&b"Q"[..], &length, sql.as_bytes(), b"\0"].concat();
        let sent = self.stream.write_all(&message);
        sent.map_err(|error| error.to_string())
    }

    /// Asks the server to cancel the query that it runs for this connection.
    pub fn cancel(&self) {
        let Ok(addr) = self.stream.peer_addr() else {
            return;
        };
        let words = [16u32, 80_877_102, self.pid as u32, self.key as u32];
        let message: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
        if let Ok(mut stream) = TcpStream::connect(addr) {
            let _ = stream.write_all(&message);
            let _ = stream.read(&mut [0]);
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let _ = self.stream.write_all(b"X\0\0\0\x04");
        let _ = self.stream.shutdown(std::net::Shutdown::Both);
    }
}

fn message(stream: &mut TcpStream) -> std::io::Result<(u8, Vec<u8>)> {
    let mut head = [0; 5];
    stream.read_exact(&mut head)?;
    let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]);
    let mut body = vec![0; (length as usize).saturating_sub(4)];
    stream.read_exact(&mut body)?;
    Ok((head[0], body))
}

fn event(stream: &mut TcpStream, tag: u8, body: &[u8]) -> Option<Event> {
    Some(match tag {
        b'T' => Event::Columns(columns(body)),
        b'D' => Event::Row(cells(body)),
        b'C' | b'I' => Event::Complete,
        b'E' => Event::Error(field(body, b'S'), field(body, b'C'), field(body, b'M')),
        b'N' => Event::Notice(field(body, b'S'), field(body, b'M')),
        b'A' => {
            let (channel, rest) = text(&body[4..]);
            Event::Notify(number_at(body, 0), channel, text(rest).0)
        }
        b'Z' => Event::Ready(body == b"I"),
        b'G' => {
            // COPY FROM STDIN gets no data.
            let _ = stream.write_all(b"f\0\0\0\x05\0");
            return None;
        }
        _ => return None,
    })
}

fn number_at(body: &[u8], at: usize) -> i32 {
    let bytes = body.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
    bytes.map_or(0, i32::from_be_bytes)
}

/// Splits a zero-terminated text from the bytes after it.
fn text(body: &[u8]) -> (String, &[u8]) {
    let end = body
        .iter()
        .position(|byte| *byte == 0)
        .unwrap_or(body.len());
    let text = String::from_utf8_lossy(&body[..end]).into_owned();
    (text, body.get(end + 1..).unwrap_or(&[]))
}

/// Returns a field of an error or a notice.
fn field(body: &[u8], code: u8) -> String {
    let mut fields = body.split(|byte| *byte == 0);
    let found = fields.find(|field| field.first() == Some(&code));
    found.map_or_else(String::new, |field| {
        String::from_utf8_lossy(&field[1..]).into_owned()
    })
}

fn columns(body: &[u8]) -> Vec<String> {
    let (mut rest, mut names) = (body.get(2..).unwrap_or(&[]), Vec::new());
    while !rest.is_empty() {
        let (name, after) = text(rest);
        names.push(name);
        rest = after.get(18..).unwrap_or(&[]);
    }
    names
}

fn cells(body: &[u8]) -> Vec<Option<String>> {
    let (mut rest, mut cells) = (body.get(2..).unwrap_or(&[]), Vec::new());
    while let Some((length, tail)) = rest.split_first_chunk::<4>() {
        let length = i32::from_be_bytes(*length);
        let size = usize::try_from(length).unwrap_or(0).min(tail.len());
        let text = String::from_utf8_lossy(&tail[..size]).into_owned();
        cells.push((length >= 0).then_some(text));
        rest = &tail[size..];
    }
    cells
}

//! A server that does nothing: it parses frames and replies with constants.
//!
//! It measures the cost of the protocol alone, so that benchmarks of the real server can be
//! compared with it. It uses one thread for each connection and blocking sockets. This is the
//! fastest simple design, with a reply, a wake-up and a thread switch for each statement. A server
//! that sends several replies at once can be faster.
//!
//! Every statement returns one row with one `int4` column, even `BEGIN` and `COMMIT`. So it is only
//! useful for scripts that do not read results. An invalid frame ends its connection.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};

const TLS_CODE: u32 = 80_877_103;
const GSS_CODE: u32 = 80_877_104;
const CANCEL_CODE: u32 = 80_877_102;
const INPUT_BYTES: usize = 64 << 10;

/// AuthenticationOk, the settings that libpq needs, BackendKeyData, ReadyForQuery.
const WELCOME: &[u8] = b"R\0\0\0\x08\0\0\0\0\
    S\0\0\0\x18server_version\x0015.0\0\
    S\0\0\0\x19client_encoding\0UTF8\0\
    K\0\0\0\x0c\0\0\0\x01\0\0\0\x01\
    Z\0\0\0\x05I";
const ROW_DESCRIPTION: &[u8] =
    b"T\0\0\0\x1d\0\x01abal\0\0\0\0\0\0\0\0\0\0\x17\0\x04\xff\xff\xff\xff\0\0";
const ROW: &[u8] = b"D\0\0\0\x0b\0\x01\0\0\0\x011";
const COMPLETE: &[u8] = b"C\0\0\0\x0dSELECT 1\0";
const READY: &[u8] = b"Z\0\0\0\x05I";
const PARSE_COMPLETE: &[u8] = b"1\0\0\0\x04";
const BIND_COMPLETE: &[u8] = b"2\0\0\0\x04";
const CLOSE_COMPLETE: &[u8] = b"3\0\0\0\x04";
/// One parameter of type int4.
const PARAMETERS: &[u8] = b"t\0\0\0\x0a\0\x01\0\0\0\x17";

/// Serves every client of `listener` until it fails, with a thread each.
pub fn serve(listener: TcpListener) -> io::Result<()> {
    loop {
        let (stream, _) = listener.accept()?;
        std::thread::Builder::new()
            .name("null-server".into())
            .spawn(move || {
                // A client that disconnects or sends invalid data ends only its own connection.
                let _ = talk(stream);
            })?;
    }
}

fn talk(mut stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    if !open(&mut stream)? {
        return Ok(());
    }
    let mut input = vec![0; INPUT_BYTES];
    let (mut start, mut end) = (0, 0);
    let mut out = Vec::with_capacity(INPUT_BYTES);
    loop {
        while let Some((tag, size)) = frame(&input[start..end])? {
            if tag == b'X' {
                return Ok(());
            }
            answer(tag, input.get(start + 5), &mut out);
            start += size;
        }
        if !out.is_empty() {
            stream.write_all(&out)?;
            out.clear();
        }
        input.copy_within(start..end, 0);
        (start, end) = (0, end - start);
        if end == input.len() {
            input.resize(end * 2, 0);
        }
        match stream.read(&mut input[end..])? {
            0 => return Ok(()),
            count => end += count,
        }
    }
}

/// Returns the type and size of the first frame, once it is complete.
fn frame(input: &[u8]) -> io::Result<Option<(u8, usize)>> {
    let Some((&tag, rest)) = input.split_first() else {
        return Ok(None);
    };
    let Some(length) = rest.first_chunk::<4>() else {
        return Ok(None);
    };
    match u32::from_be_bytes(*length) as usize {
        length if !(4..1 << 30).contains(&length) => Err(io::ErrorKind::InvalidData.into()),
        length if rest.len() < length => Ok(None),
        length => Ok(Some((tag, length + 1))),
    }
}

/// Appends the reply to a message; `subtype` is the first byte of its body.
fn answer(tag: u8, subtype: Option<&u8>, out: &mut Vec<u8>) {
    let parts: &[&[u8]] = match tag {
        b'Q' => &[ROW_DESCRIPTION, ROW, COMPLETE, READY],
        b'P' => &[PARSE_COMPLETE],
        b'B' => &[BIND_COMPLETE],
        b'D' if subtype == Some(&b'S') => &[PARAMETERS, ROW_DESCRIPTION],
        b'D' => &[ROW_DESCRIPTION],
        b'E' => &[ROW, COMPLETE],
        b'S' => &[READY],
        b'C' => &[CLOSE_COMPLETE],
        _ => &[],
    };
    parts.iter().for_each(|part| out.extend_from_slice(part));
}

/// Replies to the packets before the first query. Returns false if the client only sent a cancel
/// request.
fn open(stream: &mut TcpStream) -> io::Result<bool> {
    loop {
        let mut head = [0; 8];
        stream.read_exact(&mut head)?;
        let [a, b, c, d, e, f, g, h] = head;
        let length = u32::from_be_bytes([a, b, c, d]) as usize;
        let code = u32::from_be_bytes([e, f, g, h]);
        if !(8..=10_000).contains(&length) {
            return Err(io::ErrorKind::InvalidData.into());
        }
        stream.read_exact(&mut vec![0; length - 8])?;
        match code {
            TLS_CODE | GSS_CODE => stream.write_all(b"N")?,
            CANCEL_CODE => return Ok(false),
            _ => {
                stream.write_all(WELCOME)?;
                return Ok(true);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(mut bytes: &[u8]) -> Vec<u8> {
        let mut tags = Vec::new();
        while let Some((tag, size)) = frame(bytes).expect("well formed") {
            tags.push(tag);
            bytes = &bytes[size..];
        }
        assert!(bytes.is_empty(), "lengths fit");
        tags
    }

    #[test]
    fn constants_are_complete_messages() {
        assert_eq!(split(WELCOME), b"RSSKZ");
        let mut out = Vec::new();
        answer(b'Q', None, &mut out);
        assert_eq!(split(&out), b"TDCZ");
        out.clear();
        for tag in b"PDBES" {
            answer(*tag, Some(&b'S'), &mut out);
        }
        assert_eq!(split(&out), b"1tT2DCZ");
    }

    #[test]
    fn client_gets_answer_to_each_statement() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("bound");
        std::thread::spawn(move || serve(listener));
        let mut client = TcpStream::connect(address).expect("served");
        client
            .write_all(b"\0\0\0\x09\0\x03\0\0\0")
            .expect("written");
        let mut welcome = vec![0; WELCOME.len()];
        client.read_exact(&mut welcome).expect("a welcome");
        client.write_all(b"Q\0\0\0\x0dselect 1\0").expect("written");
        let mut reply = vec![0; ROW_DESCRIPTION.len() + ROW.len() + COMPLETE.len() + READY.len()];
        client.read_exact(&mut reply).expect("a reply");
        assert_eq!(split(&reply), b"TDCZ");
    }
}

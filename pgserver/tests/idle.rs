//! The cost of idle clients. In a process of its own, because it reads the process's memory and
//! CPU.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use fencepost::Database;
use fencepost_pgserver::listen;

const CLIENTS: usize = 1000;
/// The memory limit for both ends of a socket and the server's state of a session.
const CLIENT_BYTES_MAX: usize = 40 << 10;
const READY: &[u8] = b"Z\0\0\0\x05I";

fn read_until_ready(stream: &mut TcpStream) -> Vec<u8> {
    let mut text = Vec::new();
    while !text.ends_with(READY) {
        let mut piece = [0; 1024];
        let count = stream.read(&mut piece).expect("readable");
        assert!(
            count > 0,
            "the end came early: {}",
            String::from_utf8_lossy(&text)
        );
        text.extend_from_slice(&piece[..count]);
    }
    text
}

fn start(address: SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(address).expect("a server");
    stream
        .write_all(b"\0\0\0\x17\0\x03\0\0user\0postgres\0\0")
        .expect("written");
    read_until_ready(&mut stream);
    stream
}

fn select(stream: &mut TcpStream) {
    stream
        .write_all(b"Q\0\0\0\x15SELECT id FROM t\0")
        .expect("written");
    let reply = read_until_ready(stream);
    assert!(
        reply.windows(6).any(|w| w == b"\0\0\0\x011C"),
        "{}",
        String::from_utf8_lossy(&reply)
    );
}

/// Returns the memory of this process, in bytes.
fn resident_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/statm").expect("Linux");
    let pages = status
        .split(' ')
        .nth(1)
        .and_then(|pages| pages.parse::<usize>().ok());
    pages.expect("a number") * 4096
}

/// Returns the CPU time of this process, in hundredths of a second.
fn cpu_ticks() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("Linux");
    let (_, fields) = stat.rsplit_once(") ").expect("a name");
    let fields: Vec<u64> = fields
        .split(' ')
        .map(|field| field.parse().unwrap_or(0))
        .collect();
    fields[11] + fields[12]
}

#[test]
fn thousand_idle_clients_use_little_memory_and_no_cpu() {
    let database = Database::in_memory().expect("a database");
    let server = listen(&database, "127.0.0.1:0").expect("a free port");
    let mut first = start(server.local_addr());
    let sql = b"CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (1)\0";
    let length = (sql.len() as u32 + 4).to_be_bytes();
    first
        .write_all(&[b"Q", &length[..], sql].concat())
        .expect("written");
    read_until_ready(&mut first);
    select(&mut first);
    let before = resident_bytes();
    let mut clients: Vec<TcpStream> = (0..CLIENTS).map(|_| start(server.local_addr())).collect();
    clients.iter_mut().for_each(select);
    let each = resident_bytes().saturating_sub(before) / CLIENTS;
    println!("{each} bytes a client");
    assert!(each < CLIENT_BYTES_MAX, "{each} bytes a client");
    let ticks = cpu_ticks();
    std::thread::sleep(Duration::from_secs(2));
    assert!(cpu_ticks() - ticks <= 5, "idle clients use CPU");
    select(&mut clients[CLIENTS / 2]);
}

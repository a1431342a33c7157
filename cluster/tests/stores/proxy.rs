//! A proxy between a client and a server that can cut the connection after a request.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Forwards connections to a server.
pub struct Proxy {
    /// The address to which clients connect.
    pub address: SocketAddr,
    state: Arc<AtomicUsize>,
}

const WHOLE: usize = 0;
const ARMED: usize = 1;
const SEEN: usize = 2;
const CUT: usize = 3;

impl Proxy {
    pub fn new(server: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let state = Arc::new(AtomicUsize::new(WHOLE));
        let of_connections = Arc::clone(&state);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let Ok(server) = TcpStream::connect(server) else {
                    continue;
                };
                if let (Ok(c), Ok(s)) = (client.try_clone(), server.try_clone()) {
                    let state = Arc::clone(&of_connections);
                    thread::spawn(move || forward_requests(c, s, &state));
                    let state = Arc::clone(&of_connections);
                    thread::spawn(move || forward_answers(server, client, &state));
                }
            }
        });
        Ok(Self { address, state })
    }

    /// Arms the proxy: the next request with a configuration reaches the server, and its answer is
    /// lost with the connection.
    pub fn cut_after_the_next_write(&self) {
        self.state.store(ARMED, Ordering::SeqCst);
    }

    pub fn has_cut(&self) -> bool {
        self.state.load(Ordering::SeqCst) == CUT
    }
}

fn forward_requests(mut client: TcpStream, mut server: TcpStream, state: &AtomicUsize) {
    let mut bytes = [0; 1 << 16];
    while let Ok(n @ 1..) = client.read(&mut bytes) {
        if bytes[..n].windows(4).any(|window| window == b"FpCf") {
            let _ = state.compare_exchange(ARMED, SEEN, Ordering::SeqCst, Ordering::SeqCst);
        }
        if server.write_all(&bytes[..n]).is_err() {
            break;
        }
    }
    let _ = server.shutdown(Shutdown::Both);
}

fn forward_answers(mut server: TcpStream, mut client: TcpStream, state: &AtomicUsize) {
    let mut bytes = [0; 1 << 16];
    while let Ok(n @ 1..) = server.read(&mut bytes) {
        let cut = state.compare_exchange(SEEN, CUT, Ordering::SeqCst, Ordering::SeqCst);
        if cut.is_ok() || client.write_all(&bytes[..n]).is_err() {
            break;
        }
    }
    let _ = client.shutdown(Shutdown::Both);
    let _ = server.shutdown(Shutdown::Both);
}

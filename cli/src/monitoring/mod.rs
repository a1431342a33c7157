//! `--metrics-listen`: metrics for Prometheus, and the liveness and readiness of the server.
//!
//! ```text
//!   GET /metrics   the current counters of the machine, its sessions and the process
//!   GET /healthz   200 while the process answers
//!   GET /readyz    200 while clients are served; 503 before, after, and without a lease
//! ```
//! One thread answers requests one after the other, and reads the counters for each. Clients are
//! not authenticated, so the default address is one of this host.

mod health;
mod render;

use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::sync::Arc;
use std::thread::JoinHandle;

use tiny_http::{Header, Method, Request, Response, Server};

use crate::failure::Failure;
pub use health::{Health, ServerParts};

/// The subject of errors.
const WHAT: &str = "metrics";
const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The HTTP server and its thread, which ends when this is dropped.
pub struct Monitoring {
    server: Arc<Server>,
    address: SocketAddr,
    thread: Option<JoinHandle<()>>,
}

impl Monitoring {
    /// Listens on `address`: HOST:PORT, or a port of the loopback address.
    pub fn start(address: &str, health: Arc<Health>) -> Result<Monitoring, Failure> {
        let address = match address.parse::<u16>() {
            Ok(port) => format!("127.0.0.1:{port}"),
            Err(_) => address.to_owned(),
        };
        let failed = || Failure::io(format!("{WHAT}: could not listen on {address}"));
        let addresses: Vec<SocketAddr> = address.to_socket_addrs().map_err(failed())?.collect();
        let listener = TcpListener::bind(&addresses[..]).map_err(failed())?;
        let bound = listener.local_addr().map_err(failed())?;
        let server = Server::from_listener(listener, None)
            .map_err(|error| Failure::Broken(format!("{WHAT}: {error}")))?;
        let server = Arc::new(server);
        let serving = Arc::clone(&server);
        let thread = std::thread::Builder::new()
            .name("fencepost-metrics".to_owned())
            .spawn(move || {
                for request in serving.incoming_requests() {
                    answer(request, &health);
                }
            })
            .map_err(Failure::io(WHAT))?;
        Ok(Monitoring {
            server,
            address: bound,
            thread: Some(thread),
        })
    }

    /// Returns the listening address, with its real port.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Monitoring {
    fn drop(&mut self) {
        self.server.unblock();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been reported by its own message.
            let _ = thread.join();
        }
    }
}

fn answer(request: Request, health: &Health) {
    let (status, body) = match (request.method(), request.url()) {
        (Method::Get | Method::Head, "/metrics") => match health.metrics() {
            Some(text) => (200, text),
            None => (503, "the database is not open\n".to_owned()),
        },
        (Method::Get | Method::Head, "/healthz") => (200, "ok\n".to_owned()),
        (Method::Get | Method::Head, "/readyz") => match health.unready() {
            None => (200, "ready\n".to_owned()),
            Some(why) => (503, format!("{why}\n")),
        },
        (Method::Get | Method::Head, _) => (404, "not found\n".to_owned()),
        _ => (405, "method not allowed\n".to_owned()),
    };
    let mut response = Response::from_string(body).with_status_code(status);
    if let Ok(kind) = Header::from_bytes("Content-Type", TEXT) {
        response.add_header(kind);
    }
    // The client may have closed the connection.
    let _ = request.respond(response);
}

//! `listen`: bind an address, start the workers, hand each new client to the least busy one.
//!
//! ```text
//!   acceptor (on worker 0) ──stream──> worker k (fewest connections)
//!   Server::shutdown ──Drain──> every worker ──> threads end
//! ```
//!
//! Failure: an address that cannot be bound or a bad certificate is an error of `listen`; a failed
//! `accept` (no file descriptors left) is tried again after a pause.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use fencepost::{CancelHook, Database};
use socket2::{Domain, Protocol, Socket, Type};
use thiserror::Error;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;

use crate::auth::Scram;
use crate::cancel::CancelMap;
use crate::options::ListenOptions;
use crate::tls::Tls;
use crate::worker::{self, Command};

/// The stack of a worker: functions of users may call each other deep. What nobody uses takes no memory.
pub(crate) const WORKER_STACK: usize = 16 << 20;

/// The length of the kernel's queue of new connections.
const BACKLOG: i32 = 1024;
/// The pause after a failed accept.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Why a server could not be started.
#[derive(Debug, Error)]
pub enum ListenError {
    /// The address cannot be resolved.
    #[error("could not resolve {address}: {source}")]
    Address {
        /// As it was given.
        address: String,
        /// Why.
        source: io::Error,
    },
    /// The address cannot be listened on.
    #[error("could not listen on {address}: {source}")]
    Bind {
        /// As it was given.
        address: String,
        /// Why.
        source: io::Error,
    },
    /// The certificate or key cannot be used.
    #[error("could not set up TLS: {0}")]
    Tls(String),
    /// The system gives no random bytes, which passwords are checked with.
    #[error("could not generate random bytes")]
    Random,
    /// A thread could not be started.
    #[error("could not start a worker: {0}")]
    Worker(io::Error),
}

/// What all workers of a server share.
pub(crate) struct Shared {
    pub(crate) database: Database,
    pub(crate) options: ListenOptions,
    pub(crate) tls: Option<Tls>,
    pub(crate) scram: Scram,
    pub(crate) cancels: Arc<CancelMap>,
    pub(crate) sessions: AtomicUsize,
}

/// A running server. Dropping it ends it at once; [`Server::shutdown`] lets statements finish.
pub struct Server {
    address: SocketAddr,
    workers: Vec<Handle>,
    _cancels: CancelHook,
}

struct Handle {
    commands: UnboundedSender<Command>,
    ended: Option<oneshot::Receiver<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Where the acceptor sends clients.
struct Lane {
    commands: UnboundedSender<Command>,
    load: Arc<AtomicUsize>,
}

/// Serves PostgreSQL clients of `database` at an address or with [`ListenOptions`].
pub fn listen(
    database: &Database,
    options: impl Into<ListenOptions>,
) -> Result<Server, ListenError> {
    listen_as(database, options.into())
}

/// Not generic, so that serving is compiled here and not with each program that listens.
fn listen_as(database: &Database, options: ListenOptions) -> Result<Server, ListenError> {
    let listener = bind(&options)?;
    let address = listener.local_addr().map_err(|source| ListenError::Bind {
        address: options.address.clone(),
        source,
    })?;
    let tls = options.tls.as_ref().map(Tls::load).transpose()?;
    let scram = Scram::new(tls.as_ref().and_then(|tls| tls.end_point.clone()));
    let scram = scram.map_err(|_| ListenError::Random)?;
    let count = options.worker_count();
    let cancels: Arc<CancelMap> = Arc::default();
    let sessions = Arc::clone(&cancels);
    let hook = database.on_cancel(move |pid, secret| sessions.cancel(pid, secret));
    let shared = Arc::new(Shared {
        database: database.clone(),
        options,
        tls,
        scram,
        cancels,
        sessions: AtomicUsize::new(0),
    });
    let mut lanes = Vec::with_capacity(count);
    let mut receivers = Vec::with_capacity(count);
    for _ in 0..count {
        let (commands, receiver) = unbounded_channel();
        lanes.push(Lane {
            commands,
            load: Arc::default(),
        });
        receivers.push(receiver);
    }
    let mut server = Server {
        address,
        workers: Vec::with_capacity(count),
        _cancels: hook,
    };
    let loads: Vec<_> = lanes
        .iter()
        .map(|lane| (lane.commands.clone(), lane.load.clone()))
        .collect();
    let mut acceptor = Some((listener, lanes));
    for (index, ((commands, load), receiver)) in loads.into_iter().zip(receivers).enumerate() {
        let (end, ended) = oneshot::channel();
        let shared = shared.clone();
        let accept = acceptor.take();
        let thread = std::thread::Builder::new()
            .name(format!("fencepost-wire-{index}"))
            .stack_size(WORKER_STACK)
            .spawn(move || {
                let _end = end;
                run_worker(accept, worker::run(shared, load, receiver));
            })
            .map_err(ListenError::Worker)?;
        server.workers.push(Handle {
            commands,
            ended: Some(ended),
            thread: Some(thread),
        });
    }
    Ok(server)
}

fn bind(options: &ListenOptions) -> Result<TcpListener, ListenError> {
    let error = |source| ListenError::Bind {
        address: options.address.clone(),
        source,
    };
    let mut failure = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for address in options.resolve()? {
        match bind_one(address) {
            Ok(listener) => return Ok(listener),
            Err(error) => failure = error,
        }
    }
    Err(error(failure))
}

fn bind_one(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// The thread of a worker; the first one also accepts.
fn run_worker(accept: Option<(TcpListener, Vec<Lane>)>, work: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    // Without a runtime the channel closes, and the acceptor leaves this worker out.
    let Ok(runtime) = runtime else { return };
    runtime.block_on(async move {
        let acceptor = accept.map(|(listener, lanes)| tokio::spawn(accept_all(listener, lanes)));
        work.await;
        if let Some(acceptor) = acceptor {
            acceptor.abort();
        }
    });
}

async fn accept_all(listener: TcpListener, mut lanes: Vec<Lane>) {
    let Ok(listener) = tokio::net::TcpListener::from_std(listener) else {
        return;
    };
    while !lanes.is_empty() {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream.into_std(),
            Err(error) => Err(error),
        };
        match stream {
            Ok(stream) => hand_over(stream, &mut lanes),
            Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }
}

fn hand_over(stream: std::net::TcpStream, lanes: &mut Vec<Lane>) {
    let fewest = lanes
        .iter()
        .enumerate()
        .min_by_key(|(_, lane)| lane.load.load(Ordering::Relaxed));
    let Some((index, lane)) = fewest else { return };
    lane.load.fetch_add(1, Ordering::Relaxed);
    if lane.commands.send(Command::Serve(stream)).is_err() {
        lanes.swap_remove(index);
    }
}

impl Server {
    /// The address listened on, with its real port.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Ends idle sessions (57P01) and accepts no new ones; statements that run may finish for up
    /// to `limit` and are cancelled then.
    pub async fn shutdown(mut self, limit: Duration) {
        self.drain(limit);
        for worker in &mut self.workers {
            if let Some(ended) = worker.ended.take() {
                // The sender is dropped when the worker ends: an error is the good news.
                let _ = ended.await;
            }
        }
    }

    fn drain(&self, limit: Duration) {
        for worker in &self.workers {
            // A worker that has ended already needs no telling.
            let _ = worker.commands.send(Command::Drain(limit));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.drain(Duration::ZERO);
        for worker in &mut self.workers {
            if let Some(thread) = worker.thread.take() {
                // A worker that panicked has nothing left to end.
                let _ = thread.join();
            }
        }
    }
}

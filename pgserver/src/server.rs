//! `listen`: binds an address, starts the workers, and assigns each new client to the least busy
//! one.
//!
//! ```text
//!   acceptor (on worker 0) ──stream──> worker k (fewest connections)
//!   Server::shutdown ──Drain──> every worker ──> threads end
//! ```
//!
//! Failure: an address that cannot be bound or a bad certificate is an error of `listen`. A failed
//! `accept` (no file descriptors left) is retried after a pause.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use fencepost::{CancelHook, Database, Metric};
use fencepost_fabric::processors;
use socket2::{Domain, Protocol, Socket, Type};
use thiserror::Error;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;

use crate::auth::Scram;
use crate::cancel::CancelMap;
use crate::lanes::{self, WorkerHandle};
use crate::local::LocalSocket;
use crate::metrics::{self, Counts, Histogram};
use crate::options::ListenOptions;
use crate::socket::AcceptedStream;
use crate::tls::Tls;
use crate::worker::{self, Command};

/// The stack size of a worker: users' functions may nest deeply. Unused stack takes no memory.
pub(crate) const WORKER_STACK: usize = 16 << 20;

/// The length of the kernel's queue of new connections.
const BACKLOG: i32 = 1024;
/// The pause after a failed accept.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// The reason why a server could not be started. Nothing listens then.
#[derive(Debug, Error)]
pub enum ListenError {
    /// The address is not `host:port`, or its host is unknown.
    #[error("could not resolve {address}: {source}")]
    Address {
        /// The given address.
        address: String,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The address cannot be listened on, for example because another server uses it. Also for the
    /// Unix socket.
    #[error("could not listen on {address}: {source}")]
    Bind {
        /// The given address.
        address: String,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A file of the certificates or the key cannot be read or used. The text names the file.
    #[error("could not set up TLS: {0}")]
    Tls(String),
    /// The system has no random bytes, which password checks need.
    #[error("could not generate random bytes")]
    Random,
    /// A thread could not be started.
    #[error("could not start a worker: {0}")]
    Worker(io::Error),
}

/// The state that all workers of a server share.
pub(crate) struct Shared {
    pub(crate) database: Database,
    pub(crate) options: ListenOptions,
    pub(crate) tls: Option<Tls>,
    pub(crate) scram: Scram,
    pub(crate) cancels: Arc<CancelMap>,
    pub(crate) sessions: AtomicUsize,
    pub(crate) lanes: Vec<WorkerHandle>,
    logs_connections: Arc<AtomicBool>,
    /// The counts of each worker.
    pub(crate) counts: Vec<Arc<Counts>>,
}

impl Shared {
    /// Returns whether `log_connections` of the server is on.
    pub(crate) fn logs_connections(&self) -> bool {
        self.logs_connections.load(Ordering::Relaxed)
    }
}

/// A running server, from [`listen`]. It keeps the database open.
///
/// [`Server::shutdown`] lets statements finish. Dropping the server cancels them at once, and
/// blocks until its threads have ended: for about half a second if statements do not end.
pub struct Server {
    address: SocketAddr,
    shared: Arc<Shared>,
    workers: Vec<Handle>,
    local: Option<LocalSocket>,
    _cancels: CancelHook,
}

struct Handle {
    commands: UnboundedSender<Command>,
    ended: Option<oneshot::Receiver<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Serves PostgreSQL clients of `database` at an address or with [`ListenOptions`]. Returns once
/// the address is bound; clients are served by threads of the server. Blocks while the address is
/// resolved and the files of TLS are read.
///
/// # Errors
/// - [`ListenError::Address`], [`ListenError::Bind`]: the address or the Unix socket.
/// - [`ListenError::Tls`]: the files of TLS.
/// - [`ListenError::Random`], [`ListenError::Worker`]: the operating system lacks random bytes or
///   threads.
pub fn listen(
    database: &Database,
    options: impl Into<ListenOptions>,
) -> Result<Server, ListenError> {
    listen_as(database, options.into())
}

/// Starts the server. Not generic, so that the code is compiled in this crate and not in each
/// program.
fn listen_as(database: &Database, options: ListenOptions) -> Result<Server, ListenError> {
    let listener = bind(&options)?;
    let address = listener.local_addr().map_err(|source| ListenError::Bind {
        address: options.address.clone(),
        source,
    })?;
    let (local, local_listener) = listen_locally(&options, address.port())?.unzip();
    let tls = options.tls.as_ref().map(Tls::load).transpose()?;
    let scram = Scram::new(tls.as_ref().map(|tls| &*tls.certificate));
    let scram = scram.map_err(|_| ListenError::Random)?;
    let cancels: Arc<CancelMap> = Arc::default();
    let sessions = Arc::clone(&cancels);
    let hook = database.on_cancel(move |pid, secret| sessions.cancel(pid, secret));
    let logs_connections: Arc<AtomicBool> = Arc::default();
    let is_logged = Arc::clone(&logs_connections);
    database.on_reload(move |settings| {
        let is_on = settings
            .get("log_connections")
            .is_some_and(|value| value == "on");
        is_logged.store(is_on, Ordering::Relaxed);
    });
    let lane = |processor: Option<usize>| {
        let (commands, receiver) = unbounded_channel();
        let lane = WorkerHandle {
            commands,
            load: Arc::default(),
            processor,
        };
        (lane, receiver)
    };
    let (lanes, receivers): (Vec<WorkerHandle>, Vec<_>) =
        lanes::processors_of(options.worker_count())
            .into_iter()
            .map(lane)
            .unzip();
    let counts = lanes.iter().map(|_| Arc::default()).collect();
    let shared = Arc::new(Shared {
        database: database.clone(),
        options,
        tls,
        scram,
        cancels,
        sessions: AtomicUsize::new(0),
        lanes,
        logs_connections,
        counts,
    });
    let mut server = Server {
        address,
        shared: Arc::clone(&shared),
        workers: Vec::with_capacity(receivers.len()),
        local,
        _cancels: hook,
    };
    server.start_workers((listener, local_listener), &shared, receivers)?;
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

/// The sockets of the acceptor.
type Listeners = (TcpListener, Option<UnixListener>);

/// Listens on the Unix socket, if the options have one.
fn listen_locally(
    options: &ListenOptions,
    port: u16,
) -> Result<Option<(LocalSocket, UnixListener)>, ListenError> {
    let Some(local) = &options.local else {
        return Ok(None);
    };
    let listening = LocalSocket::listen(&local.directory, port, local.permissions);
    let listening = listening.map_err(|source| ListenError::Bind {
        address: format!(
            "Unix socket of port {port} in {}",
            local.directory.display()
        ),
        source,
    })?;
    Ok(Some(listening))
}

/// Runs the thread of a worker; the first one also accepts.
fn run_worker(accept: Option<(Listeners, Arc<Shared>)>, work: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    // Without a runtime the channel closes, and the acceptor skips this worker.
    let Ok(runtime) = runtime else { return };
    runtime.block_on(async move {
        let acceptor = accept.map(|((tcp, local), shared)| {
            if let Some(local) = local {
                // The task ends with the runtime of its worker.
                tokio::spawn(accept_local(local, Arc::clone(&shared)));
            }
            tokio::spawn(accept_all(tcp, shared))
        });
        work.await;
        if let Some(acceptor) = acceptor {
            acceptor.abort();
        }
    });
}

async fn accept_all(listener: TcpListener, shared: Arc<Shared>) {
    let Ok(listener) = tokio::net::TcpListener::from_std(listener) else {
        return;
    };
    loop {
        let accepted = match listener.accept().await {
            Ok((stream, _)) => stream.into_std().map(AcceptedStream::Tcp),
            Err(error) => Err(error),
        };
        if !take_in(accepted, &shared.lanes).await {
            return;
        }
    }
}

async fn accept_local(listener: UnixListener, shared: Arc<Shared>) {
    let Ok(listener) = tokio::net::UnixListener::from_std(listener) else {
        return;
    };
    loop {
        let accepted = match listener.accept().await {
            Ok((stream, _)) => stream.into_std().map(AcceptedStream::Unix),
            Err(error) => Err(error),
        };
        if !take_in(accepted, &shared.lanes).await {
            return;
        }
    }
}

/// Assigns a new client, or waits after a failed accept. Returns false if all workers have ended.
async fn take_in(accepted: io::Result<AcceptedStream>, lanes: &[WorkerHandle]) -> bool {
    match accepted {
        Ok(accepted) => assign_to_worker(accepted, lanes),
        Err(error) => {
            tracing::warn!("could not accept new connection: {error}");
            tokio::time::sleep(ACCEPT_PAUSE).await;
            true
        }
    }
}

/// Assigns a new client to a worker. Returns false if all workers have ended.
fn assign_to_worker(accepted: AcceptedStream, lanes: &[WorkerHandle]) -> bool {
    let processor = accepted.comes_in_at();
    let Some(lane) = lanes::for_new_client(lanes, processor) else {
        return false;
    };
    lane.load.fetch_add(1, Ordering::Relaxed);
    if lane.commands.send(Command::Serve(accepted)).is_err() {
        lane.load.fetch_sub(1, Ordering::Relaxed);
    }
    true
}

impl Server {
    /// Starts a thread for each worker; the first one also accepts.
    fn start_workers(
        &mut self,
        listeners: Listeners,
        shared: &Arc<Shared>,
        receivers: Vec<UnboundedReceiver<Command>>,
    ) -> Result<(), ListenError> {
        let mut acceptor = Some(listeners);
        for (index, (lane, receiver)) in shared.lanes.iter().zip(receivers).enumerate() {
            let (processor, load) = (lane.processor, lane.load.clone());
            let (end, ended) = oneshot::channel();
            let accept = acceptor.take().map(|listeners| (listeners, shared.clone()));
            let shared = shared.clone();
            let thread = std::thread::Builder::new()
                .name(format!("fencepost-wire-{index}"))
                .stack_size(WORKER_STACK)
                .spawn(move || {
                    let _end = end;
                    if let Some(processor) = processor {
                        // Without pinning, the worker still serves clients.
                        let _ = processors::pin(processor);
                    }
                    run_worker(accept, worker::run(shared, index, load, receiver));
                })
                .map_err(ListenError::Worker)?;
            self.workers.push(Handle {
                commands: lane.commands.clone(),
                ended: Some(ended),
                thread: Some(thread),
            });
        }
        Ok(())
    }

    /// Returns the listening address, with its actual port where the options had port 0.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Returns the path of the Unix socket, if there is one.
    pub fn local_socket(&self) -> Option<&Path> {
        self.local.as_ref().map(LocalSocket::path)
    }

    /// Returns the counts of the server, which can be read while it runs and afterwards. They count
    /// from its start.
    pub fn counts(&self) -> ServerCounts {
        ServerCounts(Arc::clone(&self.shared))
    }

    /// Ends idle sessions (57P01) and accepts no new ones. Running statements may finish for up to
    /// `limit`, and are cancelled then; half a second later the last sessions are dropped. Open
    /// transactions are rolled back. A session ends after its statement, also in a block.
    ///
    /// Returns once all sessions have ended. The future needs no particular runtime. Dropping it
    /// stops the server at once.
    pub async fn shutdown(mut self, limit: Duration) {
        self.drain(limit);
        for worker in &mut self.workers {
            if let Some(ended) = worker.ended.take() {
                // The sender is dropped when the worker ends, so an error means that it has ended.
                let _ = ended.await;
            }
        }
    }

    fn drain(&self, limit: Duration) {
        for worker in &self.workers {
            // A worker that has ended already needs no command.
            let _ = worker.commands.send(Command::Drain(limit));
        }
    }
}

/// The counts of a server, from [`Server::counts`]. Clones share them. They keep the database open:
/// drop them before it is to be closed.
#[derive(Clone)]
pub struct ServerCounts(Arc<Shared>);

impl ServerCounts {
    /// Returns the durations of successful statements, by kind and with their commits. Kinds
    /// without statements are left out.
    pub fn durations(&self) -> Vec<Histogram> {
        metrics::durations(&self.0.counts)
    }

    /// Returns the counts of errors and connections: `fencepost_errors_total` by SQLSTATE,
    /// `fencepost_connections` and `fencepost_connections_max`.
    pub fn metrics(&self) -> Vec<Metric> {
        let clients = self.0.sessions.load(Ordering::Relaxed);
        let most = self.0.options.connections_max;
        vec![
            metrics::errors(&self.0.counts),
            Metric::gauge(
                "fencepost_connections",
                "Clients that are logged in, or prove who they are.",
                clients as f64,
            ),
            Metric::gauge(
                "fencepost_connections_max",
                "The most sessions at a time.",
                most as f64,
            ),
        ]
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.drain(Duration::ZERO);
        for worker in &mut self.workers {
            if let Some(thread) = worker.thread.take() {
                // A worker that panicked needs no further cleanup.
                let _ = thread.join();
            }
        }
    }
}

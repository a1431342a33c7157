//! The start of a connection: from the first packet to the first ReadyForQuery.
//!
//! ```text
//!   SSLRequest -> S, handshake | N      GSSENCRequest -> N      CancelRequest -> cancel, close
//!   start-up -> (SCRAM) -> session -> ParameterStatus…, BackendKeyData, ReadyForQuery
//! ```
//!
//! Invariant OPEN-1: bytes that arrived before a TLS handshake are never treated as bytes that
//! arrived under TLS: any data after an SSLRequest ends the connection.
//!
//! Failure: an error of the client here is FATAL. A client that exceeds the authentication timeout
//! is disconnected without a message.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;

use pgwire::error::SEVERITY_FATAL;
use pgwire::messages::response::{GssEncResponse, SslResponse};
use pgwire::messages::startup::{Authentication, BackendKeyData, SecretKey};
use tokio::time::timeout;

use super::{CloseReason, broken, encoding, logging, report};
use crate::access::{AccessMethod, ConnectionProperties};
use crate::auth::{self, ScramError};
use crate::cancel::CancelKey;
use crate::engine::{self, Session};
use crate::io::Io;
use crate::log::{self, Entry, LogStyle, emit};
use crate::options::AuthMode;
use crate::proto::backend::{self, append};
use crate::proto::frame;
use crate::proto::startup::{self, FirstPacket, Startup};
use crate::proto::{ProtoError, encode};
use crate::random::NoRandom;
use crate::server::Shared;
use crate::socket::Socket;
use crate::worker::{Stage, TaskEntry};

/// A session that has started.
pub(super) struct StartedSession {
    pub(super) session: Session,
    pub(super) key: CancelKey,
    pub(super) slot: SessionSlot,
}

/// A session slot: counts one session against the server's limit.
pub(super) struct SessionSlot(Arc<Shared>);

impl SessionSlot {
    fn take(shared: &Arc<Shared>) -> Option<SessionSlot> {
        let sessions: &AtomicUsize = &shared.sessions;
        let before = sessions.fetch_add(1, Ordering::Relaxed);
        let slot = SessionSlot(shared.clone());
        (before < shared.options.connections_max).then_some(slot)
    }
}

impl Drop for SessionSlot {
    fn drop(&mut self) {
        self.0.sessions.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Handles a connection up to its first ReadyForQuery.
pub(super) async fn open(io: &mut Io, place: &TaskEntry) -> Result<StartedSession, CloseReason> {
    let shared = place.worker.shared.clone();
    match timeout(
        shared.options.authentication_timeout,
        log_in(io, place, &shared),
    )
    .await
    {
        Ok(Ok((startup, slot))) => begin(io, startup, slot, &shared),
        Ok(Err(ending)) => Err(ending),
        Err(_) => {
            let message = "canceling authentication due to timeout";
            let entry = Entry::new(log::Severity::Fatal, "57014", message);
            emit(&io.client, &entry);
            Err(CloseReason::ClientLost)
        }
    }
}

async fn log_in(
    io: &mut Io,
    place: &TaskEntry,
    shared: &Arc<Shared>,
) -> Result<(Startup, SessionSlot), CloseReason> {
    let startup = first_packet(io, place, shared).await?;
    io.prepare_out();
    io.client.user.clone_from(&startup.user);
    io.client.database.clone_from(&startup.database);
    if startup.minor > 0 || !startup.unknown_options.is_empty() {
        let options = startup.unknown_options.clone();
        append(&mut io.out, &backend::negotiate_protocol_version(options));
    }
    if startup.user.is_empty() {
        return Err(fatal(
            io,
            "28000",
            "no PostgreSQL user name specified in startup packet",
        ));
    }
    let peer = io.client.peer;
    let remote = peer.is_remote();
    if remote && !io.socket.is_tls() && shared.tls.as_ref().is_some_and(|tls| tls.required) {
        let message = format!(
            "no encryption for host \"{}\", user \"{}\"",
            peer.host(),
            startup.user
        );
        return Err(fatal(io, "28000", &message));
    }
    let Some(slot) = SessionSlot::take(shared) else {
        return Err(fatal(io, "53300", "sorry, too many clients already"));
    };
    let method = method(io, shared)?;
    if method == AccessMethod::Cert {
        check_certificate(io)?;
    }
    if method == AccessMethod::ScramSha256 {
        prove_password(io, &startup.user, place, shared).await?;
        if shared.logs_connections() {
            let message = format!(
                "connection authenticated: identity=\"{}\" method=scram-sha-256",
                startup.user
            );
            emit(&io.client, &Entry::log(&message));
        }
    }
    append(&mut io.out, &Authentication::Ok);
    Ok((startup, slot))
}

/// Returns the authentication method of the client, from the access rules or the server's mode.
/// Refuses a client that no rule admits.
fn method(io: &mut Io, shared: &Shared) -> Result<AccessMethod, CloseReason> {
    let client = &io.client;
    let decided = shared.options.rules.decide(&ConnectionProperties {
        peer: client.peer,
        is_tls: io.socket.is_tls(),
        user: &client.user,
        database: &client.database,
    });
    match decided {
        Some(Ok(method)) => Ok(method),
        Some(Err(why)) => Err(fatal(io, "28000", &why)),
        None => Ok(match shared.options.auth {
            AuthMode::TrustLoopback if client.peer.is_remote() => AccessMethod::ScramSha256,
            AuthMode::Trust | AuthMode::TrustLoopback => AccessMethod::Trust,
            AuthMode::Scram => AccessMethod::ScramSha256,
        }),
    }
}

/// Refuses a client that has not shown a certificate of its role.
fn check_certificate(io: &mut Io) -> Result<(), CloseReason> {
    let Some(certificate) = io.socket.client_certificate() else {
        let message = "connection requires a valid client certificate";
        return Err(fatal(io, "28000", message));
    };
    let name = auth::common_name(certificate)
        .unwrap_or_default()
        .to_owned();
    let user = io.client.user.clone();
    if name == user {
        return Ok(());
    }
    let mismatch =
        format!("provided user name ({user}) and authenticated user name ({name}) do not match");
    emit(&io.client, &Entry::log(&mismatch));
    let message = format!("certificate authentication failed for user \"{user}\"");
    Err(fatal(io, "28000", &message))
}

#[cold]
fn fatal(io: &mut Io, sqlstate: &str, message: &str) -> CloseReason {
    report::fatal(io, sqlstate, message);
    CloseReason::FinalError
}

/// Waits for bytes of a client that is not logged in yet.
async fn fill(io: &mut Io, place: &TaskEntry) -> Result<(), CloseReason> {
    let read = poll_fn(|cx| {
        place.watch(cx.waker());
        match place.worker.stage() {
            Stage::Running => io.poll_fill(cx),
            _ => Poll::Ready(Ok(0)),
        }
    });
    match read.await? {
        0 => Err(CloseReason::ClientLost),
        _ => Ok(()),
    }
}

/// Answers encryption and cancel requests. Returns the start-up packet.
async fn first_packet(
    io: &mut Io,
    place: &TaskEntry,
    shared: &Arc<Shared>,
) -> Result<Startup, CloseReason> {
    let (mut tls_asked, mut gss_asked) = (false, false);
    loop {
        let split = startup::split(io.input().bytes()).map_err(|e| broken(io, &e))?;
        let Some((opening, size)) = split else {
            fill(io, place).await?;
            continue;
        };
        io.input().consume(size);
        match opening {
            FirstPacket::Startup(startup) => return Ok(startup),
            FirstPacket::Cancel { pid, secret } => {
                engine::cancel(&shared.database, pid, secret).await;
                return Err(CloseReason::ClientLost);
            }
            FirstPacket::Tls if !std::mem::replace(&mut tls_asked, true) => {
                refuse_injected(io, "received unencrypted data after SSL request")?;
                answer_tls(io, shared).await?;
            }
            FirstPacket::Gss if !std::mem::replace(&mut gss_asked, true) => {
                refuse_injected(
                    io,
                    "received unencrypted data after GSSAPI encryption request",
                )?;
                append(&mut io.out, &GssEncResponse::Refuse);
                io.send().await?;
            }
            FirstPacket::Tls | FirstPacket::Gss => {
                let error = ProtoError::Startup("encryption was asked for twice".into());
                return Err(broken(io, &error));
            }
        }
    }
}

fn refuse_injected(io: &mut Io, message: &str) -> Result<(), CloseReason> {
    match io.input().is_empty() {
        true => Ok(()),
        false => Err(broken(io, &ProtoError::Startup(message.into()))),
    }
}

async fn answer_tls(io: &mut Io, shared: &Shared) -> Result<(), CloseReason> {
    let tls = shared.tls.as_ref();
    let Some(tls) = tls.filter(|_| matches!(io.socket, Socket::Plain(_))) else {
        append(&mut io.out, &SslResponse::Refuse);
        return Ok(io.send().await?);
    };
    append(&mut io.out, &SslResponse::Accept);
    io.send().await?;
    if let Socket::Plain(stream) = std::mem::replace(&mut io.socket, Socket::Taken) {
        let accepted = tls.acceptor.accept(stream).await;
        let stream = accepted.inspect_err(|error| {
            let message = format!("could not accept SSL connection: {error}");
            emit(&io.client, &Entry::log(&message));
        })?;
        io.socket = Socket::Tls(Box::new(stream));
    }
    Ok(())
}

/// Runs SCRAM-SHA-256 with the client.
async fn prove_password(
    io: &mut Io,
    user: &str,
    place: &TaskEntry,
    shared: &Shared,
) -> Result<(), CloseReason> {
    let tls = io.socket.is_tls();
    let mechanisms = shared.scram.mechanisms(tls).iter();
    let offer = Authentication::SASL(mechanisms.map(|name| (*name).to_owned()).collect());
    append(&mut io.out, &offer);
    let verifier = engine::verifier(&shared.database, user);
    let first = password_message(io, place).await?;
    let (text, exchange) = match shared.scram.first(&first, user, tls, verifier) {
        Ok(answer) => answer,
        Err(error) => return Err(scram_failed(io, user, error)),
    };
    append(&mut io.out, &Authentication::SASLContinue(text.into()));
    let last = password_message(io, place).await?;
    match exchange.last(&last) {
        Ok(text) => {
            append(&mut io.out, &Authentication::SASLFinal(text.into()));
            Ok(())
        }
        Err(error) => Err(scram_failed(io, user, error)),
    }
}

fn scram_failed(io: &mut Io, user: &str, error: ScramError) -> CloseReason {
    match error {
        ScramError::Password => fatal(
            io,
            "28P01",
            &format!("password authentication failed for user \"{user}\""),
        ),
        ScramError::Protocol(message) => fatal(io, "08P01", &message),
        ScramError::Unsupported(message) => fatal(io, "0A000", message),
        ScramError::Binding(message) => fatal(io, "28000", message),
    }
}

fn no_random(io: &mut Io) -> CloseReason {
    fatal(io, "XX000", &NoRandom.to_string())
}

/// Sends the authentication request and waits for the body of the response.
async fn password_message(io: &mut Io, place: &TaskEntry) -> Result<Vec<u8>, CloseReason> {
    io.send().await?;
    loop {
        match frame::split(io.input().bytes(), startup::STARTUP_BYTES_MAX) {
            Ok(Some(frame)) if frame.tag == b'p' => {
                let (body, size) = (frame.body.to_vec(), frame.size());
                io.input().consume(size);
                return Ok(body);
            }
            Ok(Some(frame)) if frame.tag == b'X' => return Err(CloseReason::ClientLost),
            Ok(Some(frame)) => {
                let message = format!("expected SASL response, got message type {}", frame.tag);
                return Err(fatal(io, "08P01", &message));
            }
            Ok(None) => fill(io, place).await?,
            Err(error) => return Err(broken(io, &error)),
        }
    }
}

/// Opens the engine's session and sends the client its parameters and key.
fn begin(
    io: &mut Io,
    startup: Startup,
    slot: SessionSlot,
    shared: &Arc<Shared>,
) -> Result<StartedSession, CloseReason> {
    let pid = shared.cancels.free(|| engine::number(&shared.database));
    io.client.pid = pid;
    let address = io.client.peer.address();
    let mut session = match engine::open(&shared.database, startup, pid, address) {
        Ok(session) => session,
        Err(error) => {
            let style = LogStyle::default();
            logging::error(&io.client, &style, log::Severity::Fatal, &error, None);
            report::error(&mut io.out, SEVERITY_FATAL, &error);
            return Err(CloseReason::FinalError);
        }
    };
    for (name, value) in engine::reported(&session) {
        let start = io.out.len();
        append(&mut io.out, &backend::parameter_status(name, &value));
        if let Some(of) = engine::encoding_of(session.settings()) {
            encoding::encode_strings(of, &mut io.out, start, 0);
        }
    }
    // The settings of the start-up packet have been reported.
    session.take_parameter_changes();
    let entered = shared.cancels.enter(pid, session.cancel_token());
    let key = entered.map_err(|_| no_random(io))?;
    tell_authorized(io, &session);
    let secret = SecretKey::I32(key.secret);
    append(&mut io.out, &BackendKeyData::new(key.pid, secret));
    encode::ready_for_query(&mut io.out, engine::ready(&session));
    Ok(StartedSession { session, key, slot })
}

/// Logs the authorized connection, if the settings include that.
fn tell_authorized(io: &mut Io, session: &Session) {
    let style = LogStyle::of(session.settings());
    let application = session.settings().get("application_name");
    io.client.application = application.unwrap_or_default().into_owned();
    io.client.tells_end = style.disconnections;
    if style.connections {
        let message = io.client.authorized(io.socket.tls_protocol());
        emit(&io.client, &Entry::log(&message));
    }
}

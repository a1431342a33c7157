//! The run of a script on a server, and the detection of faults.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};

use super::client::{Answer, Connection, Request};
use super::script::{SESSIONS, Step};
use super::server::Process;

/// The longest time for opening a connection.
const CONNECT: Duration = Duration::from_secs(30);

/// Internal errors that PostgreSQL reports, too.
const EXPECTED_INTERNAL: [&str; 2] = [
    "unrecognized objtype abbreviation",
    "unsupported jsonb version number",
];

/// The number of statements in a failed transaction after which it is rolled back.
const FAILED_MAX: usize = 2;

/// The limits beyond which a statement is a fault.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// The longest time for a statement with a timeout of five seconds.
    pub statement: Duration,
    /// The longest time until a cancel request takes effect.
    pub cancel: Duration,
    /// The memory limit of the server, in bytes.
    pub memory_bytes: u64,
}

impl Default for Bounds {
    fn default() -> Bounds {
        Bounds {
            statement: Duration::from_secs(15),
            cancel: Duration::from_secs(15),
            memory_bytes: 2 << 30,
        }
    }
}

/// A fault of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Its kind: `crash`, `panic`, `hang`, `timeout`, `internal`, `lost`, `memory` or `protocol`.
    pub kind: &'static str,
    /// The message of the server, or its exit status.
    pub text: String,
    /// The number of steps that had been sent.
    pub step: usize,
}

impl Fault {
    /// Returns the kind and the text without digits, which identify equal faults.
    pub fn signature(&self) -> String {
        let text: String = self.text.chars().filter(|c| !c.is_ascii_digit()).collect();
        format!(
            "{}: {}",
            self.kind,
            text.chars().take(120).collect::<String>()
        )
    }
}

/// The result of a script.
#[derive(Debug, Default)]
pub struct Outcome {
    /// The faults, in order.
    pub faults: Vec<Fault>,
    /// Whether each step that was sent succeeded.
    pub succeeded: Vec<bool>,
    /// The number of occurrences of each SQLSTATE.
    pub states: BTreeMap<String, usize>,
}

/// Runs a script on a new server until its end, or until the server cannot continue.
///
/// # Errors
/// Failure to start the server.
pub fn run(program: &Path, steps: &[Step], bounds: &Bounds) -> Result<Outcome, String> {
    let server = Process::start(program)?;
    let mut run = Run {
        server,
        bounds: *bounds,
        sessions: (0..SESSIONS).map(|_| None).collect(),
        failed: [0; SESSIONS],
        outcome: Outcome::default(),
        panics: 0,
        raises_internal: false,
    };
    for step in steps {
        if !run.step(step) {
            break;
        }
    }
    run.look_at_log();
    Ok(run.outcome)
}

struct Run {
    server: Process,
    bounds: Bounds,
    sessions: Vec<Option<Connection>>,
    /// For each session, the number of consecutive statements that ended in a failed transaction.
    failed: [usize; SESSIONS],
    outcome: Outcome,
    /// The number of log lines about panics that are already reported.
    panics: usize,
    /// Whether a statement raises SQLSTATE XX000 itself.
    raises_internal: bool,
}

impl Run {
    fn fault(&mut self, kind: &'static str, text: impl Into<String>) {
        let step = self.outcome.succeeded.len();
        let text = text.into();
        self.outcome.faults.push(Fault { kind, text, step });
    }

    /// Runs a step. Returns false if the server cannot continue.
    fn step(&mut self, step: &Step) -> bool {
        let sql = step.request.sql().to_lowercase();
        self.raises_internal |= sql.contains("xx000") || sql.contains("internal_error");
        self.outcome.succeeded.push(false);
        if self.sessions[step.session].is_none() {
            match self.connect() {
                Some(connection) => self.sessions[step.session] = Some(connection),
                None => return false,
            }
        }
        let Some(mut connection) = self.sessions[step.session].take() else {
            return false;
        };
        let Some(answer) = self.exchange(&mut connection, &step.request, &step.copy) else {
            return false;
        };
        self.judge(&answer);
        if let Some(last) = self.outcome.succeeded.last_mut() {
            *last = answer.errors.is_empty() && !answer.is_lost;
        }
        if answer.is_lost {
            return self.is_alive(&answer);
        }
        self.failed[step.session] += 1;
        if !answer.has_failed {
            self.failed[step.session] = 0;
        } else if self.failed[step.session] >= FAILED_MAX {
            let rollback = Request::Simple("ROLLBACK".into());
            if self.exchange(&mut connection, &rollback, "").is_none() {
                return false;
            }
        }
        self.sessions[step.session] = Some(connection);
        self.look_at_log();
        true
    }

    fn connect(&mut self) -> Option<Connection> {
        let connection = match Connection::open(self.server.addr, CONNECT) {
            Ok(connection) => connection,
            Err(why) => {
                let kind = if self.server.end().is_some() {
                    "crash"
                } else {
                    "lost"
                };
                self.fault(kind, format!("no new connection: {why}"));
                return None;
            }
        };
        Some(connection)
    }

    /// Sends a request and waits for the end of the answer; `None` if it does not end.
    fn exchange(
        &mut self,
        connection: &mut Connection,
        request: &Request,
        copy: &str,
    ) -> Option<Answer> {
        let mut answer = Answer {
            is_lost: connection.send(request).is_err(),
            ..Answer::default()
        };
        let began = Instant::now();
        let mut canceled: Option<Instant> = None;
        while !answer.is_lost {
            match connection.poll(&mut answer, copy) {
                Ok(true) => break,
                Ok(false) => {}
                Err(why) => {
                    self.fault("protocol", why);
                    return None;
                }
            }
            let memory = self.server.memory_bytes();
            if memory > self.bounds.memory_bytes {
                self.fault("memory", format!("{} MB in use", memory >> 20));
                return None;
            }
            match canceled {
                None if began.elapsed() > self.bounds.statement => {
                    connection.cancel();
                    canceled = Some(Instant::now());
                }
                Some(since) if since.elapsed() > self.bounds.cancel => {
                    self.fault("hang", "neither timeout nor cancel is honoured");
                    return None;
                }
                _ => {}
            }
        }
        if canceled.is_some() && !answer.is_lost {
            let taken = began.elapsed().as_secs();
            self.fault("timeout", format!("the statement took {taken} s"));
        }
        Some(answer)
    }

    fn judge(&mut self, answer: &Answer) {
        for (state, text) in &answer.errors {
            *self.outcome.states.entry(state.clone()).or_default() += 1;
            let is_expected = EXPECTED_INTERNAL
                .iter()
                .any(|known| text.starts_with(known));
            let is_internal = state.starts_with("XX") && !self.raises_internal && !is_expected;
            if is_internal || text.to_lowercase().contains("internal error") {
                self.fault("internal", format!("{state} {text}"));
            }
        }
    }

    /// Checks the server after the end of a connection. Returns false if the server has ended.
    fn is_alive(&mut self, answer: &Answer) -> bool {
        let mut end = self.server.end();
        let began = Instant::now();
        // A connection may end shortly before its process.
        while end.is_none() && began.elapsed() < Duration::from_millis(500) {
            std::thread::sleep(Duration::from_millis(20));
            end = self.server.end();
        }
        self.look_at_log();
        match end {
            Some(end) => {
                let log = self.server.log();
                let lines: BTreeSet<&str> = log.lines().collect();
                let lines: Vec<&str> = lines.into_iter().take(4).collect();
                self.fault("crash", format!("{end}: {}", lines.join(" / ")));
                false
            }
            None => {
                if answer.errors.is_empty() {
                    self.fault("lost", "the connection ended without an error");
                }
                true
            }
        }
    }

    fn look_at_log(&mut self) {
        let log = self.server.log();
        let lines: Vec<&str> = log.lines().collect();
        let is_panic = |at: &usize| lines[*at].contains("panicked at");
        let found: Vec<usize> = (0..lines.len()).filter(is_panic).collect();
        for at in found.iter().skip(self.panics) {
            let place = lines[*at]
                .split_once("panicked at")
                .map_or("", |(_, place)| place);
            let text = lines.get(at + 1).copied().unwrap_or("");
            self.fault("panic", format!("{place} {text}"));
        }
        self.panics = self.panics.max(found.len());
    }
}

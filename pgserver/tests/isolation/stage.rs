//! One server's side of a specification: its sessions, and the permutations that run there.
//!
//! A launched step is either done, or counts as waiting: the server reports that its session is
//! blocked, or there is no reply for long. Then the next step is launched, as in `isolationtester`.
//! A permutation is recorded step by step, so that the records of two servers can be compared.

use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use crate::client::{Connection, Event};
use crate::spec::{Marker, Move, Spec, statements};
use crate::variable;

/// The interval between two checks whether a session is blocked.
const POLL: Duration = Duration::from_millis(10);
/// Longer than any step that does not wait for another session, on a server that reports blocked
/// sessions.
const LIMIT: Duration = Duration::from_secs(10);
/// The same limit if waiting is detected by time. A permutation that waits forever is a difference,
/// and is cancelled early.
const SHORT_LIMIT: Duration = Duration::from_secs(4);

/// The way to detect that a session is blocked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blocked {
    /// PostgreSQL's function for isolation tests, which is exact.
    ByFunction,
    /// `pg_blocking_pids`, several times in a row; or no reply for this duration.
    ByTime(Duration),
}

/// The number of consecutive checks that must see a session blocked, because each may be too early.
const LOOKS: u32 = 4;

/// A line of output of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OutputLine {
    /// A line of a result: its columns, a row or its number of rows.
    Result(String),
    /// An error: SQLSTATE and text.
    Error(String, String),
    /// A notice or a notification.
    Notice(String),
}

/// The record of a launched step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepRecord {
    /// The name of the step.
    pub step: String,
    /// Whether it waited.
    pub waited: bool,
    /// The number of launched steps when it was reported as done; `None` if it never was.
    pub reported: Option<usize>,
    /// The lines that arrived before the report.
    pub lines: Vec<OutputLine>,
}

/// The record of a permutation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// The lines of the setup.
    pub setup: Vec<OutputLine>,
    /// The steps in the order of their launch.
    pub steps: Vec<StepRecord>,
    /// The lines of the teardown.
    pub teardown: Vec<OutputLine>,
    /// The same as a text, similar to the output of `isolationtester`.
    pub text: String,
    /// Whether a step took too long and was cancelled.
    pub is_canceled: bool,
    /// Whether the permutation may have left data that affects the next one.
    pub is_dirty: bool,
    /// Whether steps never ended, or a connection was lost.
    pub is_stuck: bool,
}

impl Record {
    /// Returns the record of a permutation without a connection.
    pub fn failed(why: &str) -> Record {
        Record {
            text: format!("{why}\n"),
            setup: vec![OutputLine::Error("lost".into(), why.into())],
            is_stuck: true,
            is_dirty: true,
            ..Record::default()
        }
    }
}

/// A session and its current step.
struct Session {
    connection: Connection,
    /// The index of the launched step that is not reported as done.
    active: Option<usize>,
    is_ready: bool,
    /// Whether no transaction is open.
    is_idle: bool,
    lines: Vec<OutputLine>,
    /// The index of the first line of the result in progress, if there is one.
    result: Option<usize>,
    notices: usize,
}

impl Session {
    fn end_result(&mut self) {
        let Some(first) = self.result.take() else {
            return;
        };
        let is_row = |line: &&OutputLine| matches!(line, OutputLine::Result(_));
        let count = match self.lines[first + 1..].iter().filter(is_row).count() {
            1 => "(1 row)".into(),
            rows => format!("({rows} rows)"),
        };
        self.lines.push(OutputLine::Result(count));
    }

    /// Removes the lines of a result that an error ends.
    fn drop_result(&mut self) {
        if let Some(first) = self.result.take() {
            let begun = self.lines.split_off(first);
            let others = begun
                .into_iter()
                .filter(|line| !matches!(line, OutputLine::Result(_)));
            self.lines.extend(others);
        }
    }
}

/// A server with the sessions of a specification.
pub struct Stage {
    sessions: Vec<Session>,
    names: Vec<String>,
    events: Receiver<(usize, Event)>,
    blocked: Blocked,
    is_lost: bool,
}

/// The session for setup, teardown, and checks for blocked sessions.
const CONTROL: usize = 0;

/// A permutation in progress.
struct Run<'a> {
    spec: &'a Spec,
    moves: &'a [Move],
    record: Record,
    /// The awaited notices: launched step, session, and number of notices.
    targets: Vec<(usize, usize, usize)>,
    waiting: Vec<usize>,
}

impl Run<'_> {
    /// Returns the connection number of a launched step.
    fn session(&self, at: usize) -> usize {
        self.spec.steps[self.moves[at].step].session + 1
    }

    fn note(&mut self, lines: &[OutputLine]) {
        for line in lines {
            let (OutputLine::Result(text) | OutputLine::Error(_, text) | OutputLine::Notice(text)) =
                line;
            self.record.text += &format!("{text}\n");
        }
    }

    fn waits(&mut self, at: usize) {
        let step = &self.spec.steps[self.moves[at].step];
        self.record.steps[at].waited = true;
        self.record.text += &format!("step {}: {} <waiting ...>\n", step.name, step.sql);
    }

    fn complete(&mut self, at: usize, first: bool, lines: Vec<OutputLine>) {
        let step = &self.spec.steps[self.moves[at].step];
        let what = if first { &*step.sql } else { "<... completed>" };
        self.record.text += &format!("step {}: {what}\n", step.name);
        self.note(&lines);
        self.record.steps[at].reported = Some(self.record.steps.len());
        self.record.steps[at].lines = lines;
    }
}

impl Stage {
    /// Connects all sessions to a database; the addresses in `ways` are used in turn.
    ///
    /// # Errors
    /// The message of the server or the network.
    pub fn open(
        ways: &[SocketAddr],
        database: &str,
        spec: &Spec,
        blocked: Blocked,
    ) -> Result<Stage, String> {
        let (sender, events): (Sender<(usize, Event)>, _) = channel();
        let mut sessions = Vec::new();
        for (number, way) in (0..=spec.sessions.len()).zip(ways.iter().cycle()) {
            let connection = Connection::open(*way, database, number, sender.clone())?;
            sessions.push(Session {
                connection,
                active: None,
                is_ready: true,
                is_idle: true,
                lines: Vec::new(),
                result: None,
                notices: 0,
            });
        }
        let names = spec.sessions.iter().map(|session| session.name.clone());
        Ok(Stage {
            sessions,
            names: [String::from("control")].into_iter().chain(names).collect(),
            events,
            blocked,
            is_lost: false,
        })
    }

    /// Runs a statement on the control connection; it must not fail.
    pub fn administrate(&mut self, sql: &str) {
        let lines = self.query(CONTROL, sql);
        let fails = lines
            .iter()
            .any(|line| matches!(line, OutputLine::Error(..)));
        assert!(!fails, "{sql}: {lines:?}");
    }

    /// Runs a permutation.
    pub fn run(&mut self, spec: &Spec, moves: &[Move]) -> Record {
        let mut run = Run {
            spec,
            moves,
            record: Record::default(),
            targets: Vec::new(),
            waiting: Vec::new(),
        };
        let title = spec.title(moves);
        run.record.text = format!("starting permutation: {title}\n");
        for sql in &spec.setup {
            run.record.setup.extend(self.set_up(CONTROL, sql));
        }
        for (at, session) in spec.sessions.iter().enumerate() {
            if let Some(sql) = &session.setup {
                run.record.setup.extend(self.set_up(at + 1, sql));
            }
        }
        let setup = run.record.setup.clone();
        run.note(&setup);
        let done = self.launch_all(&mut run);
        run.record.is_stuck = !done || self.is_lost;
        if run.record.is_stuck {
            run.record.text += "the permutation did not come to its end\n";
            return run.record;
        }
        for (at, session) in spec.sessions.iter().enumerate() {
            if let Some(sql) = &session.teardown {
                run.record.teardown.extend(self.query(at + 1, sql));
            }
        }
        if let Some(sql) = &spec.teardown {
            run.record.teardown.extend(self.query(CONTROL, sql));
        }
        let teardown = run.record.teardown.clone();
        run.note(&teardown);
        run.record.is_stuck |= self.is_lost;
        let mut around = run.record.setup.iter().chain(&run.record.teardown);
        let has_failed = around.any(|line| matches!(line, OutputLine::Error(..)));
        let is_idle = self.sessions.iter().all(|session| session.is_idle);
        run.record.is_dirty = has_failed || !is_idle;
        run.record
    }

    /// Launches all steps of a permutation and waits until they end. Returns false if one does not
    /// end.
    fn launch_all(&mut self, run: &mut Run<'_>) -> bool {
        for at in 0..run.moves.len() {
            let session = run.session(at);
            let began = Instant::now();
            while self.sessions[session].active.is_some() {
                let before = run.waiting.len();
                let old = self.sessions[session].active;
                run.waiting.retain(|other| Some(*other) != old);
                let old = old.unwrap_or(at);
                if self.try_complete(run, old, false, false) {
                    run.waiting.push(old);
                }
                self.try_waiting(run, true);
                let is_over = began.elapsed() > self.limit() * 2;
                if is_over || self.is_lost && before == run.waiting.len() {
                    return false;
                }
            }
            self.launch(run, at);
            let must_wait = self.try_complete(run, at, true, true);
            self.try_waiting(run, true);
            if must_wait {
                run.waiting.push(at);
            }
            if self.is_lost {
                return false;
            }
        }
        self.try_waiting(run, false);
        run.waiting.is_empty()
    }

    fn launch(&mut self, run: &mut Run<'_>, at: usize) {
        let step = &run.spec.steps[run.moves[at].step];
        let session = run.session(at);
        run.record.steps.push(StepRecord {
            step: step.name.clone(),
            waited: false,
            reported: None,
            lines: Vec::new(),
        });
        for marker in &run.moves[at].markers {
            if let Marker::Notices(other, count) = marker {
                let other = run.spec.steps[*other].session + 1;
                let target = self.sessions[other].notices + count;
                run.targets.push((at, other, target));
            }
        }
        self.sessions[session].active = Some(at);
        self.send(session, &step.sql);
    }

    /// Checks which of the waiting steps are done, and repeats that while anything changes.
    fn try_waiting(&mut self, run: &mut Run<'_>, nonblock: bool) {
        loop {
            let before = run.waiting.len();
            let notices: usize = self.sessions.iter().map(|session| session.notices).sum();
            let mut has_marker = false;
            for at in std::mem::take(&mut run.waiting) {
                if self.try_complete(run, at, false, nonblock) {
                    has_marker |= !run.moves[at].markers.is_empty();
                    run.waiting.push(at);
                }
            }
            let now: usize = self.sessions.iter().map(|session| session.notices).sum();
            if !has_marker || run.waiting.len() == before && now == notices {
                return;
            }
        }
    }

    /// Waits until a launched step is done, or counts as waiting. Returns true if it waits.
    fn try_complete(&mut self, run: &mut Run<'_>, at: usize, first: bool, nonblock: bool) -> bool {
        let session = run.session(at);
        if first && run.moves[at].markers.contains(&Marker::Once) {
            run.waits(at);
            return true;
        }
        let (began, mut looks, mut canceled) = (Instant::now(), 0, false);
        while !self.sessions[session].is_ready && !self.is_lost {
            if self.pump(POLL) {
                continue;
            }
            if nonblock && self.is_blocked(session, began, &mut looks) {
                self.drain();
                if self.sessions[session].is_ready {
                    break;
                }
                if first {
                    run.waits(at);
                }
                return true;
            }
            if began.elapsed() > self.limit() && !canceled {
                let name = &run.record.steps[at].step;
                run.record.text += &format!("the step {name} was canceled\n");
                run.record.is_canceled = true;
                self.sessions[session].connection.cancel();
                canceled = true;
            }
            if began.elapsed() > self.limit() * 2 {
                self.is_lost = true;
            }
        }
        if self.is_lost || self.has_blocker(run, at) {
            if first {
                run.waits(at);
            }
            return true;
        }
        run.complete(at, first, std::mem::take(&mut self.sessions[session].lines));
        self.sessions[session].active = None;
        false
    }

    fn has_blocker(&self, run: &Run<'_>, at: usize) -> bool {
        run.moves[at].markers.iter().any(|marker| match marker {
            Marker::Once => false,
            Marker::Step(other) => {
                let session = run.spec.steps[*other].session + 1;
                let active = self.sessions[session].active;
                active.is_some_and(|active| run.moves[active].step == *other)
            }
            Marker::Notices(..) => {
                let mut targets = run.targets.iter().filter(|(of, ..)| *of == at);
                targets.any(|(_, session, count)| self.sessions[*session].notices < *count)
            }
        })
    }

    fn is_blocked(&mut self, session: usize, began: Instant, looks: &mut u32) -> bool {
        let pid = self.sessions[session].connection.pid;
        match self.blocked {
            Blocked::ByFunction => {
                let pids = self.sessions[1..].iter();
                let pids: Vec<_> = pids.map(|one| one.connection.pid.to_string()).collect();
                let pids = pids.join(",");
                self.is_true(&format!(
                    "SELECT pg_catalog.pg_isolation_test_session_is_blocked({pid}, '{{{pids}}}')"
                ))
            }
            Blocked::ByTime(long) => {
                let sql = format!("SELECT cardinality(pg_blocking_pids({pid})) > 0");
                *looks = if self.is_true(&sql) { *looks + 1 } else { 0 };
                *looks >= LOOKS || began.elapsed() > long
            }
        }
    }

    fn is_true(&mut self, sql: &str) -> bool {
        let lines = self.query(CONTROL, sql);
        lines.contains(&OutputLine::Result("t".into()))
    }

    /// Runs statements of a setup. In lenient mode they run one by one, and failing ones have no
    /// effect.
    fn set_up(&mut self, session: usize, sql: &str) -> Vec<OutputLine> {
        if variable("ISOLATION_LENIENT").is_none() {
            return self.query(session, sql);
        }
        let mut lines = Vec::new();
        for statement in statements(sql) {
            let left = self.query(session, &statement);
            let fails = left
                .iter()
                .any(|line| matches!(line, OutputLine::Error(..)));
            lines.extend(left.into_iter().filter(|_| !fails));
        }
        lines
    }

    /// Runs statements to their end and returns their lines.
    fn query(&mut self, session: usize, sql: &str) -> Vec<OutputLine> {
        let began = Instant::now();
        self.send(session, sql);
        while !self.sessions[session].is_ready && !self.is_lost {
            self.pump(POLL);
            self.is_lost |= began.elapsed() > self.limit() * 2;
        }
        std::mem::take(&mut self.sessions[session].lines)
    }

    fn send(&mut self, session: usize, sql: &str) {
        self.sessions[session].is_ready = false;
        self.is_lost |= self.sessions[session].connection.send(sql).is_err();
    }

    fn limit(&self) -> Duration {
        match self.blocked {
            Blocked::ByFunction => LIMIT,
            Blocked::ByTime(_) => SHORT_LIMIT,
        }
    }

    /// Handles all events that have arrived.
    fn drain(&mut self) {
        while self.pump(Duration::ZERO) {}
    }

    /// Handles one event. Returns false if none arrives in time.
    fn pump(&mut self, patience: Duration) -> bool {
        match self.events.recv_timeout(patience) {
            Ok((session, event)) => {
                self.take(session, event);
                true
            }
            Err(RecvTimeoutError::Timeout) => false,
            Err(RecvTimeoutError::Disconnected) => {
                self.is_lost = true;
                false
            }
        }
    }

    fn take(&mut self, number: usize, event: Event) {
        let sender = |pid: i32| {
            let mut sessions = self.sessions.iter().zip(&self.names);
            let found = sessions.find(|(session, _)| session.connection.pid == pid);
            found.map_or_else(|| "another session".into(), |(_, name)| name.clone())
        };
        let (line, name) = (|text| OutputLine::Notice(text), &self.names[number]);
        let notified = match &event {
            Event::Notify(pid, channel, payload) => {
                let from = sender(*pid);
                format!("{name}: NOTIFY \"{channel}\" with payload \"{payload}\" from {from}")
            }
            Event::Notice(severity, text) => format!("{name}: {severity}:  {text}"),
            _ => String::new(),
        };
        let session = &mut self.sessions[number];
        match event {
            Event::Columns(names) => {
                session.result = Some(session.lines.len());
                session.lines.push(OutputLine::Result(names.join("|")));
            }
            Event::Row(cells) => {
                let cells = cells.into_iter().map(Option::unwrap_or_default);
                let cells: Vec<String> = cells.collect();
                session.lines.push(OutputLine::Result(cells.join("|")));
            }
            Event::Complete => session.end_result(),
            Event::Error(severity, state, text) => {
                session.drop_result();
                let text = format!("{severity}:  {text}");
                session.lines.push(OutputLine::Error(state, text));
            }
            Event::Notice(..) => {
                session.notices += 1;
                session.lines.push(line(notified));
            }
            Event::Notify(..) => session.lines.push(line(notified)),
            Event::Ready(is_idle) => (session.is_ready, session.is_idle) = (true, is_idle),
            Event::Lost(why) => {
                session.lines.push(OutputLine::Error("lost".into(), why));
                session.is_ready = true;
                self.is_lost = true;
            }
        }
    }
}

//! The session's side of shipping: sends statements and receives their reply.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::Instant;

use fencepost_fabric::MachineId;
use fencepost_planner::{CancelFlag, RowSink, Tag};
use fencepost_sql::error::{SqlError, SqlState};
use fencepost_sql::row::RowLayout;
use fencepost_sql::settings::ShipMode;
use fencepost_sql::stop::StatementStop;
use fencepost_sql::value::Value;
use fencepost_txn::Machine;
use fencepost_txn::network::call::{Call, CallError};

use super::reply::{Reply, StatementResult, for_each_row};
use super::request::{
    EndReason, Request, STATEMENTS_MAX, Statement, encode_end, encode_settings, shape,
};
use super::{Ship, home_of};
use crate::prepared::{Body, PlannedStatement, Portal};
use crate::services;
use crate::session::Session;

/// A request in progress on its home machine. Dropping it before the reply asks that machine to end
/// it.
pub(super) struct RequestInProgress {
    pub machine: Arc<Machine>,
    pub home: MachineId,
    pub number: u64,
    pub over: bool,
}

impl RequestInProgress {
    fn end(&self, why: EndReason) -> Call {
        let request = encode_end(self.number, why);
        self.machine
            .call(self.home, services::END_STATEMENT, &request)
    }
}

impl Drop for RequestInProgress {
    fn drop(&mut self) {
        if !self.over {
            drop(self.end(EndReason::Cancelled));
        }
    }
}

/// Waits for the reply. After a cancel or timeout here, asks the home machine to end the
/// statements. `leaves` says not to wait for the reply in that case.
async fn replied(
    under_way: &mut RequestInProgress,
    call: Call,
    cancel: &CancelFlag,
    deadline: Option<Instant>,
    leaves: bool,
) -> Result<Result<Vec<u8>, CallError>, SqlError> {
    let mut call = pin!(call);
    let mut end: Option<Pin<Box<Call>>> = None;
    let reply = poll_fn(|cx| {
        if let Poll::Ready(reply) = call.as_mut().poll(cx) {
            return Poll::Ready(Ok(reply));
        }
        let late = deadline.is_some_and(|deadline| Instant::now() >= deadline);
        if late {
            cancel.time_out();
        }
        if end.is_none()
            && let Err(error) = cancel.check()
        {
            let why = match late {
                true => EndReason::TimedOut,
                false => EndReason::Cancelled,
            };
            end = Some(Box::pin(under_way.end(why)));
            if leaves {
                return Poll::Ready(Err(error));
            }
        }
        if let Some(end) = &mut end {
            // Poll only so that the request is sent once there is space.
            let _ = end.as_mut().poll(cx);
        }
        Poll::Pending
    })
    .await;
    under_way.over = true;
    reply
}

/// The results of statements that ran as a whole on another machine, from
/// [`Session::ship_batch`].
pub struct ShippedResults {
    /// The statements that succeeded, from the first on.
    ended: Vec<(Arc<PlannedStatement>, StatementResult)>,
    error: Option<SqlError>,
}

impl ShippedResults {
    /// Returns `None` if the reply does not fit these statements.
    fn of(
        plans: &[Arc<PlannedStatement>],
        done: Vec<StatementResult>,
        error: Option<SqlError>,
    ) -> Option<Self> {
        let expected = plans.len() - usize::from(error.is_some());
        let fits = match error {
            None => done.len() == expected,
            Some(_) => done.len() <= expected,
        };
        let ended = plans.iter().map(Arc::clone).zip(done);
        fits.then(|| ShippedResults {
            ended: ended.collect(),
            error,
        })
    }

    /// Sends the rows of statement `at` to a client, and returns its tag. Returns `None` if the
    /// results end before it.
    ///
    /// # Errors
    /// The error of the statement. It has rolled back the whole transaction; later statements have
    /// no result.
    pub async fn give(
        &mut self,
        at: usize,
        sink: &mut dyn RowSink,
    ) -> Option<Result<Tag, SqlError>> {
        match self.ended.get(at) {
            Some((planned, done)) => Some(give(planned, done, sink).await),
            None => self.error.take().map(Err),
        }
    }
}

/// Sends the rows of a statement to the client.
async fn give(
    planned: &PlannedStatement,
    done: &StatementResult,
    sink: &mut dyn RowSink,
) -> Result<Tag, SqlError> {
    let Body::Plan(plan, _) = &planned.body else {
        return Err(SqlError::internal("a statement without a plan was shipped"));
    };
    let columns = planned.columns.iter().flat_map(|columns| columns.iter());
    let layout = RowLayout::of_types(columns.map(|column| column.ty.kind));
    let given = for_each_row(&done.rows, &layout, |row| sink.row(row));
    given.unwrap_or_else(|| {
        let what = format!("the rows of a shipped {} are none", plan.command());
        Err(SqlError::internal(what))
    })?;
    if sink.should_flush() {
        sink.flush().await?;
    }
    Ok(plan.tag(done.count))
}

impl Session {
    /// Returns the machine to which a portal's statement would be shipped now.
    pub(crate) fn home_of(&self, planned: &PlannedStatement, portal: &Portal) -> Option<MachineId> {
        let shipping = self.settings().shipping;
        if shipping == ShipMode::Off || planned.is_volatile || !self.may_ship(portal) {
            return None;
        }
        if planned.is_bound_here {
            return None;
        }
        let Body::Plan(plan, _) = &planned.body else {
            return None;
        };
        home_of(plan, &portal.params, shipping, self.machine())
    }

    /// Returns whether [`Session::ship_batch`] may run statements: shipping is on, and no shipped
    /// statement is in progress here.
    #[inline]
    pub fn may_ship_batch(&self) -> bool {
        self.ships()
            && match self.settings().shipping {
                ShipMode::Off => false,
                ShipMode::Auto => !self.machine().maps_peers(),
                ShipMode::Always => true,
            }
    }

    /// Ships statements that form a whole transaction, with a Sync after the last, to the one
    /// machine that has their data. The home machine runs them at once, and retries them
    /// transparently after conflicts. Returns `None` if they have to run here, one after the other.
    ///
    /// # Errors
    /// 08007 if the outcome of the statements is unknown; 57014 or 57P01 if the session did not
    /// wait for it. Errors of the statements are among the results.
    pub async fn ship_batch(
        &mut self,
        portals: &mut [Portal],
    ) -> Result<Option<ShippedResults>, SqlError> {
        let home = |portal: &Portal| self.home_of(&portal.prepared.current(), portal);
        let mut homes = portals.iter().map(home);
        let Some(home) = homes.next().flatten() else {
            return Ok(None);
        };
        if portals.len() > STATEMENTS_MAX || !homes.all(|other| other == Some(home)) {
            return Ok(None);
        }
        let Some(ship) = self.shipper() else {
            return Ok(None);
        };
        self.start_statement();
        match Box::pin(self.ship(&ship, home, portals)).await {
            Ok(results) => Ok(results),
            Err(halt) => Err(self.fail_with(halt).await),
        }
    }

    /// Lets `home` run the statements of portals. Returns `None` if they have to run here.
    pub(crate) async fn ship(
        &mut self,
        ship: &Arc<Ship>,
        home: MachineId,
        portals: &mut [Portal],
    ) -> Result<Option<ShippedResults>, StatementStop> {
        let plans: Vec<_> = portals
            .iter()
            .map(|portal| portal.prepared.current())
            .collect();
        let settings = encode_settings(self.settings());
        let number = ship.last_number.fetch_add(1, Ordering::Relaxed);
        let both = plans.iter().zip(portals.iter());
        let request = Request {
            number,
            pid: self.backend_pid(),
            user: self.who().0,
            database: self.who().1,
            settings: &settings,
            statements: both
                .map(|(plan, portal)| statement(plan, &portal.params))
                .collect(),
            part: None,
        };
        let Some(request) = request.encode() else {
            return Ok(None);
        };
        let count = portals.len() as u64;
        ship.sent.fetch_add(count, Ordering::Relaxed);
        let machine = Arc::clone(self.machine());
        let call = machine.call(home, services::STATEMENT, &request);
        let mut under_way = RequestInProgress {
            machine,
            home,
            number,
            over: false,
        };
        let is_write = plans.iter().any(|planned| is_write(planned));
        let (cancel, deadline) = self.limits();
        let reply = replied(&mut under_way, call, cancel, deadline, !is_write).await?;
        let results = match reply.map(|reply| Reply::decode(&reply)) {
            Ok(Some(Reply::Ran(done, error))) => {
                // The cancel request came from this machine, which knows its reason.
                let asked = |error: &SqlError| error.sqlstate() == SqlState::QUERY_CANCELED;
                let why = |error| match cancel.check() {
                    Err(why) if asked(&error) => why,
                    _ => error,
                };
                ShippedResults::of(&plans, done, error.map(why))
            }
            Ok(Some(Reply::RunItYourself))
            | Err(CallError::Unreachable | CallError::TooLong | CallError::NoService) => {
                ship.returned.fetch_add(count, Ordering::Relaxed);
                return Ok(None);
            }
            Ok(None) | Err(CallError::Lost | CallError::AnswerTooLong | CallError::NotAnswered) => {
                None
            }
        };
        match results {
            None if is_write => Err(unresolved(home).into()),
            None => {
                ship.returned.fetch_add(count, Ordering::Relaxed);
                Ok(None)
            }
            Some(results) => {
                self.close_shipped(portals);
                Ok(Some(results))
            }
        }
    }
}

pub(super) fn statement<'a>(planned: &'a PlannedStatement, params: &[Value]) -> Statement<'a> {
    Statement {
        shape: shape(planned.columns.as_deref()),
        text: &planned.text,
        types: planned.params.clone(),
        params: params.to_vec(),
    }
}

fn is_write(planned: &PlannedStatement) -> bool {
    matches!(&planned.body, Body::Plan(plan, _) if plan.is_write())
}

/// Returns the error 08007: the outcome of the statement is unknown.
fn unresolved(home: MachineId) -> SqlError {
    SqlError::new(
        SqlState::TRANSACTION_RESOLUTION_UNKNOWN,
        format!("the connection to machine {home} was lost while it ran the statement"),
    )
    .detail("Whether the statement has taken effect is not known.")
    .hint("Look at the rows before running it again.")
}

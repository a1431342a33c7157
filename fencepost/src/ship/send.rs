//! The session's side: a statement goes out, its reply comes back.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::Instant;

use fencepost_fabric::MachineId;
use fencepost_planner::{CancelFlag, Plan, RowSink};
use fencepost_sql::error::{SqlError, SqlState};
use fencepost_sql::row::RowLayout;
use fencepost_sql::settings::Shipping;
use fencepost_sql::stop::Halt;
use fencepost_txn::Machine;
use fencepost_txn::network::call::{Call, CallError};

use super::message::{Reply, Statement, Why, encode_end, encode_settings, for_each_row, shape};
use super::{Ship, home_of};
use crate::prepared::{Body, Planned, Portal};
use crate::services;
use crate::session::{Completion, Session};

/// A statement under way at its home; dropped before its reply is there, it asks for its end.
struct UnderWay<'a> {
    machine: &'a Machine,
    home: MachineId,
    number: u64,
    over: bool,
}

impl UnderWay<'_> {
    fn end(&self, why: Why) -> Call {
        let request = encode_end(self.number, why);
        self.machine
            .call(self.home, services::END_STATEMENT, &request)
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        if !self.over {
            drop(self.end(Why::Cancelled));
        }
    }
}

/// Waits for the reply. Where the statement is cancelled here, or its time is over, it is asked to end there;
/// `leaves` says that it is not waited for then.
async fn replied(
    under_way: &mut UnderWay<'_>,
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
                true => Why::TimedOut,
                false => Why::Cancelled,
            };
            end = Some(Box::pin(under_way.end(why)));
            if leaves {
                return Poll::Ready(Err(error));
            }
        }
        if let Some(end) = &mut end {
            // Only so that it is sent once there is room.
            let _ = end.as_mut().poll(cx);
        }
        Poll::Pending
    })
    .await;
    under_way.over = true;
    reply
}

impl Session {
    /// The machine that a portal's statement would be shipped to now.
    pub(crate) fn home_of(&self, planned: &Planned, portal: &Portal) -> Option<MachineId> {
        let shipping = self.settings().shipping;
        if shipping == Shipping::Off || planned.is_volatile || !self.may_ship(portal) {
            return None;
        }
        let Body::Plan(plan, _) = &planned.body else {
            return None;
        };
        home_of(plan, &portal.params, shipping, self.machine())
    }

    /// Has `home` run a portal's statement; `None` where it is to run here.
    pub(crate) async fn ship(
        &mut self,
        ship: &Arc<Ship>,
        home: MachineId,
        portal: &mut Portal,
        sink: &mut dyn RowSink,
    ) -> Result<Option<Completion>, Halt> {
        let planned = portal.prepared.current();
        let Body::Plan(plan, _) = &planned.body else {
            return Ok(None);
        };
        let number = ship.last_number.fetch_add(1, Ordering::Relaxed);
        let settings = encode_settings(self.settings());
        let statement = Statement {
            number,
            shape: shape(planned.columns.as_deref()),
            pid: self.backend_pid(),
            user: self.user(),
            settings: &settings,
            text: &planned.text,
            types: planned.params.clone(),
            params: portal.params.clone(),
        };
        let Some(request) = statement.encode() else {
            return Ok(None);
        };
        ship.sent.fetch_add(1, Ordering::Relaxed);
        let machine = Arc::clone(self.machine());
        let call = machine.call(home, services::STATEMENT, &request);
        let mut under_way = UnderWay {
            machine: &machine,
            home,
            number,
            over: false,
        };
        let (cancel, deadline) = self.limits();
        let leaves = !plan.is_write();
        let reply = replied(&mut under_way, call, cancel, deadline, leaves).await?;
        let reply = reply.as_deref().map_err(|error| *error);
        let completion = match reply.map(Reply::decode) {
            Ok(Some(Reply::Done(count, rows))) => {
                let given = give(&planned, plan, rows, sink).await;
                given.map(|()| Completion::Complete(plan.tag(count)))
            }
            Ok(Some(Reply::Error(error))) => {
                // What ended it there was asked for here, where the reason is known.
                let asked = error.sqlstate() == SqlState::QUERY_CANCELED;
                let why = cancel.check().err().filter(|_| asked);
                Err(why.unwrap_or(error))
            }
            Ok(Some(Reply::RunItYourself))
            | Err(CallError::Unreachable | CallError::TooLong | CallError::NoService) => {
                ship.returned.fetch_add(1, Ordering::Relaxed);
                return Ok(None);
            }
            Ok(None) | Err(CallError::Lost | CallError::AnswerTooLong | CallError::NotAnswered)
                if plan.is_write() =>
            {
                Err(unresolved(home))
            }
            Ok(None) | Err(CallError::Lost | CallError::AnswerTooLong | CallError::NotAnswered) => {
                ship.returned.fetch_add(1, Ordering::Relaxed);
                return Ok(None);
            }
        };
        self.close_shipped(portal);
        Ok(Some(completion?))
    }
}

/// Gives the rows of a reply to the client.
async fn give(
    planned: &Planned,
    plan: &Plan,
    rows: &[u8],
    sink: &mut dyn RowSink,
) -> Result<(), SqlError> {
    let columns = planned.columns.iter().flat_map(|columns| columns.iter());
    let layout = RowLayout::of_types(columns.map(|column| column.ty.kind));
    let given = for_each_row(rows, &layout, |row| sink.row(row));
    given.unwrap_or_else(|| {
        let what = format!("the rows of a shipped {} are none", plan.command());
        Err(SqlError::internal(what))
    })?;
    if sink.should_flush() {
        sink.flush().await?;
    }
    Ok(())
}

/// 08007
fn unresolved(home: MachineId) -> SqlError {
    SqlError::new(
        SqlState::TRANSACTION_RESOLUTION_UNKNOWN,
        format!("the connection to machine {home} was lost while it ran the statement"),
    )
    .detail("Whether the statement has taken effect is not known.")
    .hint("Look at the rows before running it again.")
}

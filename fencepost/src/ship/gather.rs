//! The session's side of a split statement: sends parts to other machines and collects their
//! results.
//!
//! Replies are processed in the order of the machines. So results that depend on the order, such as
//! the last digits of a sum of floats, are the same each time.
//!
//! # Failure
//! If another machine does not complete its part, that part runs here: it has had no effect there.
//! An error of the statement itself goes to the client. Dropping a gathering ends the parts in
//! progress.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use fencepost_fabric::MachineId;
use fencepost_planner::{
    CancelFlag, NextPartResult, PartResult as Gathered, PartStatistics, RemoteParts,
};
use fencepost_sql::error::{SqlError, SqlState};
use fencepost_sql::row::RowLayout;
use fencepost_sql::types::TypeKind;
use fencepost_sql::value::Value;
use fencepost_txn::Machine;
use fencepost_txn::network::call::{Call, CallError};

use super::reply::{Reply, StatementResult, for_each_row};
use super::request::{Part, Request, encode_settings};
use super::send::{RequestInProgress, statement};
use super::{PartitionsByMachine, Ship};
use crate::prepared::PlannedStatement;
use crate::services;
use crate::session::Session;

/// The parts of a statement that other machines run.
pub(crate) struct ShippedParts {
    ship: Arc<Ship>,
    machine: Arc<Machine>,
    cancel: CancelFlag,
    own: Vec<u32>,
    parts: Vec<RemotePart>,
    /// The index of the next part to collect.
    next: usize,
    kinds: Vec<TypeKind>,
    came: Vec<PartStatistics>,
}

/// A part, and its request until it is sent.
struct RemotePart {
    home: MachineId,
    number: u64,
    partitions: Vec<u32>,
    request: Vec<u8>,
    under_way: Option<(RequestInProgress, Pin<Box<Call>>)>,
}

impl ShippedParts {
    /// Returns the parts of a statement of `session`, or `None` if it cannot be sent. `part`
    /// describes all of them except their partitions.
    pub fn of(
        ship: Arc<Ship>,
        session: &Session,
        (planned, params, kinds): (&PlannedStatement, &[Value], &[TypeKind]),
        (spread, part): (PartitionsByMachine, &Part),
    ) -> Option<ShippedParts> {
        let settings = encode_settings(session.settings());
        let asked = |(home, partitions): (u32, Vec<u32>)| {
            let number = ship.last_number.fetch_add(1, Ordering::Relaxed);
            let request = Request {
                number,
                pid: session.backend_pid(),
                user: session.who().0,
                database: session.who().1,
                settings: &settings,
                statements: vec![statement(planned, params)],
                part: Some(Part {
                    partitions: partitions.clone(),
                    ..part.clone()
                }),
            };
            Some(RemotePart {
                home: MachineId(home),
                number,
                partitions,
                request: request.encode()?,
                under_way: None,
            })
        };
        let parts = spread.others.into_iter().map(asked);
        Some(ShippedParts {
            parts: parts.collect::<Option<_>>()?,
            ship,
            machine: Arc::clone(session.machine()),
            cancel: session.limits().0.clone(),
            own: spread.own,
            next: 0,
            kinds: kinds.to_vec(),
            came: Vec::new(),
        })
    }

    /// Decodes a reply. Returns `None` if the part has to run here.
    fn read(
        &self,
        reply: Result<Vec<u8>, CallError>,
    ) -> Result<Option<(Vec<Value>, PartStatistics)>, SqlError> {
        let done = match reply.map(|reply| Reply::decode(&reply)) {
            Ok(Some(Reply::Ran(done, None))) => done,
            Ok(Some(Reply::Ran(_, Some(error)))) => {
                // The cancel request came from this machine, which knows its reason.
                if error.sqlstate() == SqlState::QUERY_CANCELED {
                    self.cancel.check()?;
                }
                return Err(error);
            }
            Ok(Some(Reply::RunItYourself) | None) | Err(_) => return Ok(None),
        };
        let [StatementResult { count, rows }] = &done[..] else {
            return Ok(None);
        };
        let layout = RowLayout::of_types(self.kinds.iter().copied());
        let mut values = Vec::new();
        let read = for_each_row(rows, &layout, |row| {
            values.extend_from_slice(row);
            Ok::<(), SqlError>(())
        });
        let whole = read.is_some() && values.len() as u64 == count * self.kinds.len() as u64;
        let came = PartStatistics {
            machine: 0,
            rows: Some((*count, rows.len() as u64)),
        };
        Ok(whole.then_some((values, came)))
    }
}

impl RemoteParts for ShippedParts {
    fn own(&self) -> Vec<u32> {
        self.own.clone()
    }

    fn ask(&mut self) -> u32 {
        for part in &mut self.parts {
            let request = std::mem::take(&mut part.request);
            let call = self.machine.call(part.home, services::STATEMENT, &request);
            let under_way = RequestInProgress {
                machine: Arc::clone(&self.machine),
                home: part.home,
                number: part.number,
                over: false,
            };
            part.under_way = Some((under_way, Box::pin(call)));
        }
        let count = self.parts.len();
        self.ship
            .parts_sent
            .fetch_add(count as u64, Ordering::Relaxed);
        count as u32
    }

    fn next(&mut self) -> NextPartResult<'_> {
        Box::pin(async {
            let Some(part) = self.parts.get_mut(self.next) else {
                return Ok(None);
            };
            let (machine, partitions) = (part.home.0, part.partitions.clone());
            let reply = match &mut part.under_way {
                Some((under_way, call)) => {
                    let reply = call.await;
                    under_way.over = true;
                    reply
                }
                None => Err(CallError::Unreachable),
            };
            part.under_way = None;
            self.next += 1;
            match self.read(reply)? {
                Some((values, came)) => {
                    self.came.push(PartStatistics { machine, ..came });
                    Ok(Some(Gathered::Rows(values)))
                }
                None => {
                    self.ship.parts_returned.fetch_add(1, Ordering::Relaxed);
                    self.came.push(PartStatistics {
                        machine,
                        rows: None,
                    });
                    Ok(Some(Gathered::Undone(partitions)))
                }
            }
        })
    }

    fn came(&self) -> Vec<PartStatistics> {
        self.came.clone()
    }
}

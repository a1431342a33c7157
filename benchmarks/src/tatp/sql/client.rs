//! The seven transactions as prepared statements.

use std::sync::atomic::Ordering;

use fencepost_fabric::random::Random;

use super::{Forwardings, TatpSql};
use crate::error::BenchError;
use crate::harness::{Attempt, Client};
use crate::sql::{Arg, SqlFailure, SqlSession, StatementHandle};
use crate::tatp::mix::{Mix, Request};
use crate::tatp::population::number;
use crate::tatp::{DUPLICATE, NO_ROW};

/// The prepared statements of a session.
struct Statements {
    subscriber: StatementHandle,
    destination: StatementHandle,
    access: StatementHandle,
    update_bit: StatementHandle,
    update_data: StatementHandle,
    update_location: StatementHandle,
    id_of_number: StatementHandle,
    facilities: StatementHandle,
    insert: StatementHandle,
    delete: StatementHandle,
}

impl Statements {
    fn prepare(session: &mut dyn SqlSession) -> Result<Statements, SqlFailure> {
        Ok(Statements {
            subscriber: session.prepare("SELECT * FROM subscriber WHERE s_id = $1")?,
            destination: session.prepare(
                "SELECT cf.numberx FROM special_facility sf, call_forwarding cf \
                 WHERE sf.s_id = $1 AND sf.sf_type = $2 AND sf.is_active = 1 \
                 AND cf.s_id = sf.s_id AND cf.sf_type = sf.sf_type \
                 AND cf.start_time <= $3 AND $4 < cf.end_time",
            )?,
            access: session.prepare(
                "SELECT data1, data2, data3, data4 FROM access_info \
                 WHERE s_id = $1 AND ai_type = $2",
            )?,
            update_bit: session.prepare("UPDATE subscriber SET bit_1 = $1 WHERE s_id = $2")?,
            update_data: session.prepare(
                "UPDATE special_facility SET data_a = $1 WHERE s_id = $2 AND sf_type = $3",
            )?,
            update_location: session
                .prepare("UPDATE subscriber SET vlr_location = $1 WHERE sub_nbr = $2")?,
            id_of_number: session.prepare("SELECT s_id FROM subscriber WHERE sub_nbr = $1")?,
            facilities: session.prepare("SELECT sf_type FROM special_facility WHERE s_id = $1")?,
            insert: session.prepare("INSERT INTO call_forwarding VALUES ($1, $2, $3, $4, $5)")?,
            delete: session.prepare(
                "DELETE FROM call_forwarding WHERE s_id = $1 AND sf_type = $2 AND start_time = $3",
            )?,
        })
    }
}

/// The session of one client.
pub struct TatpClient<'a> {
    session: Box<dyn SqlSession>,
    statements: Statements,
    mix: Mix,
    forwardings: &'a Forwardings,
}

impl<'a> TatpClient<'a> {
    pub(super) fn new(
        mut session: Box<dyn SqlSession>,
        of: &'a TatpSql,
    ) -> Result<TatpClient<'a>, BenchError> {
        let statements = Statements::prepare(session.as_mut())?;
        let mix = Mix::new(of.population.subscribers);
        Ok(TatpClient {
            session,
            statements,
            mix,
            forwardings: &of.forwardings,
        })
    }

    /// Runs a request once. Returns `None` if the data refuses it.
    fn try_once(&mut self, request: &Request) -> Result<Option<()>, SqlFailure> {
        let (session, statements) = (self.session.as_mut(), &self.statements);
        match *request {
            Request::GetSubscriberData { s_id } => {
                let rows = session.query(statements.subscriber, &[id(s_id)])?;
                Ok((!rows.is_empty()).then_some(()))
            }
            Request::GetNewDestination {
                s_id,
                sf_type,
                start_time,
                end_time,
            } => {
                let args = [id(s_id), small(sf_type), small(start_time), small(end_time)];
                let rows = session.query(statements.destination, &args)?;
                Ok((!rows.is_empty()).then_some(()))
            }
            Request::GetAccessData { s_id, ai_type } => {
                let rows = session.query(statements.access, &[id(s_id), small(ai_type)])?;
                Ok((!rows.is_empty()).then_some(()))
            }
            Request::UpdateSubscriberData {
                s_id,
                bit,
                sf_type,
                data_a,
            } => session.in_block(|session| {
                session.execute(statements.update_bit, &[small(bit), id(s_id)])?;
                let args = [small(data_a), id(s_id), small(sf_type)];
                let count = session.execute(statements.update_data, &args)?;
                Ok((count == 1).then_some(()))
            }),
            Request::UpdateLocation { s_id, location } => {
                let number = number(s_id);
                let args = [id(location), Arg::Text(&number)];
                let count = session.execute(statements.update_location, &args)?;
                Ok((count == 1).then_some(()))
            }
            Request::InsertCallForwarding {
                s_id,
                sf_type,
                start_time,
                end_time,
                to,
            } => {
                let to = number(to);
                let row = [
                    small(sf_type),
                    small(start_time),
                    small(end_time),
                    Arg::Text(&to),
                ];
                let done = session.in_block(|session| insert(session, statements, s_id, row));
                self.count_forwardings(1, done)
            }
            Request::DeleteCallForwarding {
                s_id,
                sf_type,
                start_time,
            } => {
                let done = session.in_block(|session| {
                    let Some(found) = id_of_number(session, statements, s_id)? else {
                        return Ok(None);
                    };
                    let args = [found, small(sf_type), small(start_time)];
                    let count = session.execute(statements.delete, &args)?;
                    Ok((count == 1).then_some(()))
                });
                self.count_forwardings(-1, done)
            }
        }
    }

    fn count_forwardings(
        &self,
        by: i64,
        done: Result<Option<()>, SqlFailure>,
    ) -> Result<Option<()>, SqlFailure> {
        let count = match &done {
            Ok(Some(())) => Some((&self.forwardings.more, by)),
            Err(failure) if failure.is_in_doubt() => match by > 0 {
                true => Some((&self.forwardings.may_be_more, 1)),
                false => Some((&self.forwardings.may_be_less, 1)),
            },
            _ => None,
        };
        if let Some((count, by)) = count {
            count.fetch_add(by, Ordering::Relaxed);
        }
        done
    }
}

fn id(s_id: u32) -> Arg<'static> {
    Arg::Int4(s_id as i32)
}

fn small(value: u8) -> Arg<'static> {
    Arg::Int2(value.into())
}

fn id_of_number(
    session: &mut dyn SqlSession,
    statements: &Statements,
    s_id: u32,
) -> Result<Option<Arg<'static>>, SqlFailure> {
    let rows = session.query(statements.id_of_number, &[Arg::Text(&number(s_id))])?;
    let found = rows.first().and_then(|row| row.first()?.int());
    Ok(found.map(|found| Arg::Int4(found as i32)))
}

fn insert(
    session: &mut dyn SqlSession,
    statements: &Statements,
    s_id: u32,
    [sf_type, start_time, end_time, to]: [Arg<'_>; 4],
) -> Result<Option<()>, SqlFailure> {
    let Some(found) = id_of_number(session, statements, s_id)? else {
        return Ok(None);
    };
    let types = session.query(statements.facilities, &[found])?;
    let Arg::Int2(wanted) = sf_type else {
        return Ok(None);
    };
    let wanted = Some(i64::from(wanted));
    if !types
        .iter()
        .any(|row| row.first().and_then(|cell| cell.int()) == wanted)
    {
        return Ok(None);
    }
    session.execute(
        statements.insert,
        &[found, sf_type, start_time, end_time, to],
    )?;
    Ok(Some(()))
}

impl Client for TatpClient<'_> {
    type Request = Request;

    fn generate(&mut self, random: &mut Random) -> Request {
        self.mix.draw(random)
    }

    async fn execute(&mut self, request: &Request) -> Result<Attempt, BenchError> {
        match self.try_once(request) {
            Ok(Some(())) => Ok(Attempt::Committed),
            Ok(None) => Ok(Attempt::Failed(NO_ROW)),
            Err(failure) if failure.is_duplicate() => Ok(Attempt::Failed(DUPLICATE)),
            Err(failure) => failure.into_attempt(),
        }
    }
}

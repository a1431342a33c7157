//! `pg_blocking_pids`: whom a session waits for, on any machine.

use super::library::{stable, waiting};
use super::{ScalarFunction, Waited};
use crate::advisory::LockMode;
use crate::context::EvalContext;
use crate::types::{Element, TypeKind};
use crate::value::{Array, Value};

const INT4S: TypeKind = TypeKind::Array(Element::INT4);

#[rustfmt::skip]
pub(super) static FUNCTIONS: &[ScalarFunction] = &[
    waiting("pg_blocking_pids", &[TypeKind::Int4], INT4S, blocking),
    // No snapshot waits for another.
    stable("pg_safe_snapshot_blocking_pids", &[TypeKind::Int4], INT4S, |_, _| Ok(Array::default().into())),
];

fn blocking<'a>(args: &[Value], cx: &'a EvalContext) -> Waited<'a> {
    let session = match args {
        [Value::Int4(session)] => *session,
        _ => 0,
    };
    Box::pin(async move {
        let mut all = Vec::new();
        if let Some(sessions) = &cx.sessions {
            let turns = sessions.row_turns().await?;
            // Of a row those come first whose turn is earlier.
            for (at, turn) in turns.iter().enumerate() {
                if turn.session == Some(session) && !turn.granted {
                    let before = turns[..at].iter().filter(|other| other.row == turn.row);
                    all.extend(before.filter_map(|other| other.session));
                }
            }
        }
        if let Some(advisory) = &cx.advisory {
            let locks = advisory.all().await?;
            for lock in locks.iter().filter(|lock| !lock.granted) {
                if lock.session != session {
                    continue;
                }
                let in_the_way = locks.iter().filter(|other| {
                    let exclusive = [lock.mode, other.mode].contains(&LockMode::Exclusive);
                    other.granted && other.key == lock.key && exclusive
                });
                all.extend(in_the_way.map(|other| other.session));
            }
        }
        all.sort_unstable();
        all.dedup();
        all.retain(|other| *other != session);
        let all = all.into_iter().map(Value::Int4).collect();
        Ok(Array::of(all).into())
    })
}

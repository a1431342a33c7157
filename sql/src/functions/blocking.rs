//! `pg_blocking_pids`: the sessions for which a session waits, on any machine.

use super::library::{stable, waiting};
use super::{ScalarFunction, ValueFuture};
use crate::advisory;
use crate::context::EvalContext;
use crate::sessions;
use crate::types::{Element, TypeKind};
use crate::value::{Array, Value};

const INT4S: TypeKind = TypeKind::Array(Element::INT4);

#[rustfmt::skip]
pub(super) static FUNCTIONS: &[ScalarFunction] = &[
    waiting("pg_blocking_pids", &[TypeKind::Int4], INT4S, blocking),
    // Safe snapshots never wait here.
    stable("pg_safe_snapshot_blocking_pids", &[TypeKind::Int4], INT4S,
        |_, _| Ok(Array::default().into())),
];

fn blocking<'a>(args: &[Value], cx: &'a EvalContext) -> ValueFuture<'a> {
    let session = match args {
        [Value::Int4(session)] => *session,
        _ => 0,
    };
    Box::pin(async move {
        let mut all = Vec::new();
        if let Some(all_sessions) = &cx.sessions {
            all.extend(sessions::waited_for(
                &all_sessions.row_queue_entries().await?,
                session,
            ));
        }
        if let Some(locks) = &cx.advisory {
            all.extend(advisory::waited_for(&locks.all().await?, session));
        }
        all.sort_unstable();
        all.dedup();
        all.retain(|other| *other != session);
        let all = all.into_iter().map(Value::Int4).collect();
        Ok(Array::of(all).into())
    })
}

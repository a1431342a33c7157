//! `pg_cancel_backend`, `pg_terminate_backend`, `pg_sleep` and related functions.

use super::library::waiting;
use super::{ScalarFunction, ValueFuture, mismatch};
use crate::catalog::CatalogView;
use crate::context::EvalContext;
use crate::error::{SqlError, SqlState};
use crate::sessions::{Sessions, Signal, SignalOutcome};
use crate::types::TypeKind::{Bool, Float8, Int4, Int8, Interval, TimestampTz, Void};
use crate::value::Value;

#[rustfmt::skip]
pub(super) static FUNCTIONS: &[ScalarFunction] = &[
    waiting("pg_cancel_backend", &[Int4], Bool, |a, cx| signal(a, cx, Signal::Cancel)),
    waiting("pg_terminate_backend", &[Int4], Bool, |a, cx| signal(a, cx, Signal::Terminate)),
    waiting("pg_terminate_backend", &[Int4, Int8], Bool, |a, cx| signal(a, cx, Signal::Terminate)),
    waiting("pg_sleep", &[Float8], Void, |a, cx| match a {
        [Value::Float8(seconds)] => sleep(seconds * 1e6, cx),
        _ => Box::pin(async { Err(mismatch("pg_sleep")) }),
    }),
    waiting("pg_sleep_for", &[Interval], Void, |a, cx| match a {
        [Value::Interval(span)] => sleep(span.span() as f64, cx),
        _ => Box::pin(async { Err(mismatch("pg_sleep_for")) }),
    }),
    waiting("pg_sleep_until", &[TimestampTz], Void, |a, cx| match a {
        [Value::TimestampTz(at)] => sleep(at.saturating_sub(cx.clock_now()) as f64, cx),
        _ => Box::pin(async { Err(mismatch("pg_sleep_until")) }),
    }),
];

/// Waits for `us` microseconds; returns at once for a negative number or NaN.
fn sleep(us: f64, cx: &EvalContext) -> ValueFuture<'_> {
    Box::pin(async move {
        if us > 0.0 {
            sessions(cx)?.sleep(us as u64).await?;
        }
        Ok(Value::text(""))
    })
}

fn sessions(cx: &EvalContext) -> Result<&dyn Sessions, SqlError> {
    let none = || SqlError::unsupported("functions that wait outside a session");
    cx.sessions.as_deref().ok_or_else(none)
}

fn signal<'a>(args: &[Value], cx: &'a EvalContext, signal: Signal) -> ValueFuture<'a> {
    let args = match args {
        [Value::Int4(session)] => Ok((*session, 0)),
        [Value::Int4(session), Value::Int8(within)] => Ok((*session, *within)),
        _ => Err(mismatch("pg_terminate_backend")),
    };
    Box::pin(async move {
        let (session, within) = args?;
        let Ok(within_ms) = u64::try_from(within) else {
            return Err(SqlError::new(
                SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
                "\"timeout\" must not be negative",
            ));
        };
        let sessions = sessions(cx)?;
        let role = cx.catalog().role(&cx.current_user())?;
        let superuser = role.is_some_and(|role| role.superuser);
        match sessions
            .signal(session, signal, (&cx.current_user(), superuser))
            .await?
        {
            SignalOutcome::Sent => {}
            SignalOutcome::NoSession => {
                cx.warn(format!("PID {session} is not a PostgreSQL backend process"));
                return Ok(Value::Bool(false));
            }
            SignalOutcome::OfOthers => return Err(denied(signal, false)),
            SignalOutcome::OfSuperuser => return Err(denied(signal, true)),
        }
        if within_ms > 0 && !sessions.has_ended(session, within_ms).await? {
            cx.warn(format!(
                "backend with PID {session} did not terminate within {within_ms} milliseconds"
            ));
            return Ok(Value::Bool(false));
        }
        Ok(Value::Bool(true))
    })
}

/// Returns error 42501 for a signal to another role's session.
fn denied(signal: Signal, superuser: bool) -> SqlError {
    let message = match (signal, superuser) {
        (Signal::Cancel, true) => "must be a superuser to cancel superuser query",
        (Signal::Terminate, true) => "must be a superuser to terminate superuser process",
        (Signal::Cancel, false) => {
            "must be a member of the role whose query is being canceled or member of \
             pg_signal_backend"
        }
        (Signal::Terminate, false) => {
            "must be a member of the role whose process is being terminated or member of \
             pg_signal_backend"
        }
    };
    SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message)
}

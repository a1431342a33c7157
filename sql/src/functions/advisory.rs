//! `pg_advisory_lock` and the other functions of advisory locks.

use super::library::waiting;
use super::{ScalarFunction, mismatch};
use crate::advisory::{AdvisoryLocks, LockFuture, LockKey, LockMode, LockScope};
use crate::context::EvalContext;
use crate::error::SqlError;
use crate::types::TypeKind::{Bool, Int4, Int8, Void};
use crate::value::Value;

use LockMode::{Exclusive, Share};
use LockScope::{Session, Transaction};

type Answer<'a> = LockFuture<'a, Value>;

#[rustfmt::skip]
pub(super) static FUNCTIONS: &[ScalarFunction] = &[
    waiting("pg_advisory_lock", &[Int8], Void, |a, cx| take(a, cx, Exclusive, Session)),
    waiting("pg_advisory_lock", &[Int4, Int4], Void, |a, cx| take(a, cx, Exclusive, Session)),
    waiting("pg_advisory_lock_shared", &[Int8], Void, |a, cx| take(a, cx, Share, Session)),
    waiting("pg_advisory_lock_shared", &[Int4, Int4], Void, |a, cx| take(a, cx, Share, Session)),
    waiting("pg_advisory_xact_lock", &[Int8], Void, |a, cx| take(a, cx, Exclusive, Transaction)),
    waiting("pg_advisory_xact_lock", &[Int4, Int4], Void,
        |a, cx| take(a, cx, Exclusive, Transaction)),
    waiting("pg_advisory_xact_lock_shared", &[Int8], Void, |a, cx| take(a, cx, Share, Transaction)),
    waiting("pg_advisory_xact_lock_shared", &[Int4, Int4], Void,
        |a, cx| take(a, cx, Share, Transaction)),
    waiting("pg_try_advisory_lock", &[Int8], Bool, |a, cx| attempt(a, cx, Exclusive, Session)),
    waiting("pg_try_advisory_lock", &[Int4, Int4], Bool,
        |a, cx| attempt(a, cx, Exclusive, Session)),
    waiting("pg_try_advisory_lock_shared", &[Int8], Bool, |a, cx| attempt(a, cx, Share, Session)),
    waiting("pg_try_advisory_lock_shared", &[Int4, Int4], Bool,
        |a, cx| attempt(a, cx, Share, Session)),
    waiting("pg_try_advisory_xact_lock", &[Int8], Bool,
        |a, cx| attempt(a, cx, Exclusive, Transaction)),
    waiting("pg_try_advisory_xact_lock", &[Int4, Int4], Bool,
        |a, cx| attempt(a, cx, Exclusive, Transaction)),
    waiting("pg_try_advisory_xact_lock_shared", &[Int8], Bool,
        |a, cx| attempt(a, cx, Share, Transaction)),
    waiting("pg_try_advisory_xact_lock_shared", &[Int4, Int4], Bool,
        |a, cx| attempt(a, cx, Share, Transaction)),
    waiting("pg_advisory_unlock", &[Int8], Bool, |a, cx| give_back(a, cx, Exclusive)),
    waiting("pg_advisory_unlock", &[Int4, Int4], Bool, |a, cx| give_back(a, cx, Exclusive)),
    waiting("pg_advisory_unlock_shared", &[Int8], Bool, |a, cx| give_back(a, cx, Share)),
    waiting("pg_advisory_unlock_shared", &[Int4, Int4], Bool, |a, cx| give_back(a, cx, Share)),
    waiting("pg_advisory_unlock_all", &[], Void, |_, cx| Box::pin(async {
        locks(cx)?.unlock_all().await?;
        Ok(Value::text(""))
    })),
];

fn locks(cx: &EvalContext) -> Result<&dyn AdvisoryLocks, SqlError> {
    cx.advisory
        .as_deref()
        .ok_or_else(|| SqlError::unsupported("advisory locks outside a session"))
}

fn key(args: &[Value], cx: &EvalContext) -> Result<LockKey, SqlError> {
    let database = cx.database_oid();
    match args {
        [Value::Int8(key)] => Ok(LockKey::One(database, *key)),
        [Value::Int4(class), Value::Int4(object)] => Ok(LockKey::Two(database, *class, *object)),
        _ => Err(mismatch("an advisory lock")),
    }
}

fn take<'a>(args: &[Value], cx: &'a EvalContext, mode: LockMode, scope: LockScope) -> Answer<'a> {
    let key = key(args, cx);
    Box::pin(async move {
        locks(cx)?.lock(key?, mode, scope, true).await?;
        Ok(Value::text(""))
    })
}

fn attempt<'a>(
    args: &[Value],
    cx: &'a EvalContext,
    mode: LockMode,
    scope: LockScope,
) -> Answer<'a> {
    let key = key(args, cx);
    Box::pin(async move {
        let had = locks(cx)?.lock(key?, mode, scope, false).await?;
        Ok(Value::Bool(had))
    })
}

fn give_back<'a>(args: &[Value], cx: &'a EvalContext, mode: LockMode) -> Answer<'a> {
    let key = key(args, cx);
    Box::pin(async move {
        let had = locks(cx)?.unlock(key?, mode).await?;
        if !had {
            cx.warn(format!("you don't own a lock of type {}", mode.name()));
        }
        Ok(Value::Bool(had))
    })
}

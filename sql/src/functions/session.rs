//! Functions about the session and the server, and a few that clients call for their side effects.

use std::sync::atomic::Ordering;

use super::library::{pure, stable, volatile};
use super::{ScalarFunction, mismatch};
use crate::catalog::CatalogView;
use crate::context::EvalContext;
use crate::error::{SqlError, SqlState};
use crate::settings::SERVER_VERSION;
use crate::types::TypeKind::{Bool, Int4, Int8, Name, Text, Uuid, Void};
use crate::value::Value;

type Outcome = Result<Value, SqlError>;

#[rustfmt::skip]
pub(super) static FUNCTIONS: &[ScalarFunction] = &[
    stable("version", &[], Text, |_, _| Ok(Value::Text(
        format!("PostgreSQL {SERVER_VERSION} (Fencepost {})", env!("CARGO_PKG_VERSION")).into(),
    ))),
    stable("current_user", &[], Name, |_, cx| Ok(Value::text(cx.current_user()))),
    stable("session_user", &[], Name, |_, cx| Ok(Value::text(&cx.session_user))),
    stable("user", &[], Name, |_, cx| Ok(Value::text(cx.current_user()))),
    stable("current_role", &[], Name, |_, cx| Ok(Value::text(cx.current_user()))),
    stable("current_database", &[], Name, |_, cx| Ok(Value::text(&cx.database))),
    stable("current_catalog", &[], Name, |_, cx| Ok(Value::text(&cx.database))),
    stable("pg_trigger_depth", &[], Int4, |_, cx| {
        Ok(Value::Int4(cx.trigger_depth.load(Ordering::Relaxed) as i32))
    }),
    stable("pg_backend_pid", &[], Int4, |_, cx| Ok(Value::Int4(cx.backend_pid))),
    stable("txid_current", &[], Int8, |_, cx| Ok(Value::Int8(cx.transaction_number()))),
    stable("txid_current_if_assigned", &[], Int8, |_, cx| {
        Ok(cx.drawn_number().map_or(Value::Null, Value::Int8))
    }),
    stable("pg_is_in_recovery", &[], Bool, |_, _| Ok(Value::Bool(false))),
    stable("current_setting", &[Text], Text, |a, cx| current_setting(a, cx, false)),
    ScalarFunction {
        strict: false,
        ..stable("current_setting", &[Text, Bool], Text, |a, cx| {
            let missing_ok = a.get(1).and_then(Value::as_bool) == Some(true);
            current_setting(a, cx, missing_ok)
        })
    },
    ScalarFunction {
        strict: false,
        ..volatile("set_config", &[Text, Text, Bool], Text, set_config)
    },
    volatile("gen_random_uuid", &[], Uuid, |_, cx| Ok(Value::Uuid(random_uuid(cx)))),
    volatile("pg_stat_statements_reset", &[], Void, |_, cx| {
        let known = cx.catalog().role(&cx.current_user())?;
        if !known.is_some_and(|role| role.superuser) {
            return Err(SqlError::new(
                SqlState::INSUFFICIENT_PRIVILEGE,
                "permission denied for function pg_stat_statements_reset",
            ));
        }
        if let Some(statements) = &cx.statements {
            statements.reset();
        }
        Ok(Value::text(""))
    }),
    stable("pg_client_encoding", &[], Name, |_, cx| {
        let name = cx.setting("client_encoding");
        Ok(Value::text(name.as_deref().unwrap_or("UTF8")))
    }),
    pure("pg_encoding_to_char", &[Int4], Name, |a, _| Ok(Value::text(match a {
        [Value::Int4(6)] => "UTF8",
        _ => "",
    }))),
];

fn current_setting(args: &[Value], cx: &EvalContext, missing_ok: bool) -> Outcome {
    let Some(name) = args.first().and_then(Value::as_text) else {
        return Ok(Value::Null);
    };
    match cx.setting(name) {
        Some(value) => Ok(Value::text(value)),
        None if missing_ok => Ok(Value::Null),
        None => Err(SqlError::new(
            SqlState::UNDEFINED_OBJECT,
            format!("unrecognized configuration parameter \"{name}\""),
        )),
    }
}

fn set_config(args: &[Value], cx: &EvalContext) -> Outcome {
    let [name, value, local] = args else {
        return Err(mismatch("set_config"));
    };
    let name = name.as_text().ok_or_else(|| {
        SqlError::new(
            SqlState::NULL_VALUE_NOT_ALLOWED,
            "SET requires parameter name",
        )
    })?;
    let local = local.as_bool() == Some(true);
    let set = cx.change_setting(name, value.as_text().unwrap_or(""), local)?;
    Ok(Value::text(set))
}

/// Returns a random UUID of version 4, variant 1.
fn random_uuid(cx: &EvalContext) -> [u8; 16] {
    let mut bytes = [0u8; 16];
    bytes[..8].copy_from_slice(&cx.random_bits().to_be_bytes());
    bytes[8..].copy_from_slice(&cx.random_bits().to_be_bytes());
    uuid::Builder::from_random_bytes(bytes)
        .into_uuid()
        .into_bytes()
}

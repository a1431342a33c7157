//! `pg_notify`, and the channels that a session listens on.

use super::library::{stable, volatile};
use super::rows::RowsFunction;
use super::{ScalarFunction, mismatch};
use crate::types::TypeKind::{Float8, Text, Void};
use crate::value::{Array, Value};

#[rustfmt::skip]
pub(super) static FUNCTIONS: &[ScalarFunction] = &[
    ScalarFunction {
        strict: false,
        ..volatile("pg_notify", &[Text, Text], Void, |a, cx| {
            let [channel, payload] = a else {
                return Err(mismatch("pg_notify"));
            };
            let text = |value: &Value| value.as_text().unwrap_or("").to_owned();
            cx.notifications.notify(&text(channel), &text(payload))?;
            Ok(Value::text(""))
        })
    },
    // Pending notifications are kept in the memory of the receiving session, so there is no shared
    // queue.
    volatile("pg_notification_queue_usage", &[], Float8, |_, _| Ok(Value::Float8(0.0))),
];

pub(super) static ROWS: &[RowsFunction] = &[RowsFunction {
    function: stable("pg_listening_channels", &[], Text, |_, cx| {
        let channels = cx.notifications.channels();
        Ok(Array::of(channels.iter().map(Value::text).collect()).into())
    }),
    columns: &[("", Text)],
}];

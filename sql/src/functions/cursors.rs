//! The function that returns the position of a session's cursor.

use super::library::volatile;
use super::{ScalarFunction, mismatch};
use crate::cursors::{CURRENT_OF, current_of};
use crate::types::TypeKind::{Int8, Text, Uuid};

#[rustfmt::skip]
pub(super) static FUNCTIONS: &[ScalarFunction] = &[
    volatile(CURRENT_OF, &[Text, Text, Int8], Uuid, |a, cx| {
        let [cursor, table, oid] = a else {
            return Err(mismatch(CURRENT_OF));
        };
        let oid = oid.as_int().and_then(|oid| u32::try_from(oid).ok());
        let (Some(cursor), Some(table), Some(oid)) = (cursor.as_text(), table.as_text(), oid) else {
            return Err(mismatch(CURRENT_OF));
        };
        current_of(&cx.cursors, cursor, (table, oid))
    }),
];

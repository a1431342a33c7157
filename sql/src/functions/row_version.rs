//! The `xmin` of a row: a fingerprint of its values.
//!
//! It is the CRC-32C of the row in binary form. A change of up to 32 adjacent bits in a row, such
//! as another integer, therefore always gives another fingerprint. Any other change does so except
//! with probability 1 in 2³².

use super::ScalarFunction;
use super::library::pure;
use crate::types::TypeKind::{Any, Xid};
use crate::types::{Type, TypeKind, binary_out};
use crate::value::Value;

/// PostgreSQL reserves smaller numbers for rows that are older than all transactions.
const FIRST_NORMAL: u32 = 3;

/// Returns the fingerprint of a row.
pub static ROW_VERSION: ScalarFunction = pure("row_version", &[Any], Xid, |args, _| {
    let mut bytes = Vec::new();
    if let Some(row) = args.first() {
        binary_out(row, &Type::of(TypeKind::Record), &mut bytes);
    }
    let fingerprint = crc32c::crc32c(&bytes);
    Ok(Value::Oid(fingerprint.max(FIRST_NORMAL)))
});

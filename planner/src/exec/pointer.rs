//! Fat pointers of rows as slot values.

use fencepost_sql::value::Value;
use fencepost_storage::{Addr, FatPtr};

/// Encodes a fat pointer as a slot value: its two words as 16 bytes.
pub fn pointer_value(row: FatPtr) -> Value {
    let [a, b] = row.to_words();
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&a.to_le_bytes());
    bytes[8..].copy_from_slice(&b.to_le_bytes());
    Value::Uuid(bytes)
}

/// Returns the address of the row whose fat pointer is in a slot.
pub fn row_address(place: &Value) -> Option<Addr> {
    pointer_of(place).map(|pointer| pointer.addr)
}

/// Decodes a fat pointer that [`pointer_value`] encoded.
pub fn pointer_of(value: &Value) -> Option<FatPtr> {
    let Value::Uuid(bytes) = value else {
        return None;
    };
    let word = |at: usize| bytes[at..at + 8].try_into().map(u64::from_le_bytes).ok();
    Some(FatPtr::from_words([word(0)?, word(8)?]))
}

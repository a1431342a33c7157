//! The binary form of extensions. They are stored in the tables tree.

use super::bytes::{Reader, Writer};
use super::corrupt;
use crate::catalog::ExtensionDef;
use crate::error::SqlError;

/// The format of extensions.
pub(super) const EXTENSION_FORMAT: u8 = 0x4b;

/// Returns the binary form of an extension's definition.
pub fn encode_extension(extension: &ExtensionDef) -> Vec<u8> {
    let mut out = Writer(vec![EXTENSION_FORMAT]);
    out.u32(extension.id);
    out.text(&extension.name);
    out.text(&extension.schema);
    out.text(&extension.version);
    out.u32(extension.members.len() as u32);
    for (class, id) in &extension.members {
        out.u32(*class);
        out.u32(*id);
    }
    out.0
}

/// Returns whether the bytes are an extension's definition.
pub fn is_extension(bytes: &[u8]) -> bool {
    bytes.first() == Some(&EXTENSION_FORMAT)
}

/// Decodes an extension's definition.
pub fn decode_extension(bytes: &[u8]) -> Result<ExtensionDef, SqlError> {
    read_extension(&mut Reader(bytes)).ok_or_else(corrupt)
}

fn read_extension(input: &mut Reader<'_>) -> Option<ExtensionDef> {
    if input.u8()? != EXTENSION_FORMAT {
        return None;
    }
    let mut extension = ExtensionDef {
        id: input.u32()?,
        name: input.text()?,
        schema: input.text()?,
        version: input.text()?,
        members: Vec::new(),
    };
    for _ in 0..input.u32()? {
        extension.members.push((input.u32()?, input.u32()?));
    }
    input.0.is_empty().then_some(extension)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pg_catalog::class;

    #[test]
    fn extension_round_trips() {
        let extension = ExtensionDef {
            id: 16400,
            name: "uuid-ossp".into(),
            schema: "s".into(),
            version: "1.1".into(),
            members: vec![(class::ROUTINE, 16401), (class::TYPE, 16402)],
        };
        let bytes = encode_extension(&extension);
        assert!(is_extension(&bytes));
        assert_eq!(decode_extension(&bytes).expect("it decodes"), extension);
        for cut in 0..bytes.len() {
            assert!(decode_extension(&bytes[..cut]).is_err());
        }
    }
}

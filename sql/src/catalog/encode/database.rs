//! The binary form of databases. They are stored in the roles tree.

use super::bytes::{Reader, Writer};
use super::corrupt;
use crate::catalog::DatabaseDef;
use crate::error::SqlError;

/// The format of databases.
pub(super) const DATABASE_FORMAT: u8 = 0x50;

/// Returns the binary form of a database's definition.
pub fn encode_database(database: &DatabaseDef) -> Vec<u8> {
    let mut out = Writer(vec![DATABASE_FORMAT]);
    out.u32(database.id);
    out.text(&database.name);
    out.u64(database.definitions);
    out.flag(database.is_template);
    out.flag(database.connects);
    out.u32(database.connections as u32);
    out.text(&database.collate);
    out.text(&database.ctype);
    out.u32(database.settings.len() as u32);
    for (name, value) in &database.settings {
        out.text(name);
        out.text(value);
    }
    out.0
}

/// Returns whether the bytes are a database's definition.
pub fn is_database(bytes: &[u8]) -> bool {
    bytes.first() == Some(&DATABASE_FORMAT)
}

/// Decodes a database's definition.
pub fn decode_database(bytes: &[u8]) -> Result<DatabaseDef, SqlError> {
    read_database(&mut Reader(bytes)).ok_or_else(corrupt)
}

fn read_database(input: &mut Reader<'_>) -> Option<DatabaseDef> {
    if input.u8()? != DATABASE_FORMAT {
        return None;
    }
    let mut database = DatabaseDef {
        id: input.u32()?,
        name: input.text()?,
        definitions: Some(input.u64()?).filter(|root| *root != 0)?,
        is_template: input.flag()?,
        connects: input.flag()?,
        connections: input.u32()? as i32,
        collate: input.text()?,
        ctype: input.text()?,
        settings: Vec::new(),
    };
    for _ in 0..input.u32()? {
        database.settings.push((input.text()?, input.text()?));
    }
    input.0.is_empty().then_some(database)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn databases_come_back_and_other_bytes_are_none() {
        let database = DatabaseDef {
            definitions: 77,
            connections: -1,
            settings: vec![("work_mem".into(), "1MB".into())],
            ..DatabaseDef::new(16_384, "größe")
        };
        let bytes = encode_database(&database);
        assert!(is_database(&bytes));
        assert_eq!(decode_database(&bytes), Ok(database));
        for cut in 0..bytes.len() {
            assert!(decode_database(&bytes[..cut]).is_err());
        }
        let longer = [&bytes[..], &[0]].concat();
        assert!(decode_database(&longer).is_err());
    }
}

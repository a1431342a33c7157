//! The binary form of owners, privileges and comments. The rows are in the tables tree.

use super::bytes::{Reader, Writer};
use super::corrupt;
use crate::catalog::acl::{Acl, AclItem, Privileges};
use crate::catalog::{DefaultAcl, ObjectAttributes, ObjectKind};
use crate::error::SqlError;

/// The format of an object's owner, privileges and comments.
pub(super) const ABOUT_FORMAT: u8 = 0x46;
/// The format of default privileges.
pub(super) const DEFAULT_FORMAT: u8 = 0x47;

/// The object kinds with default privileges, in the order of their stored numbers.
const KINDS: [ObjectKind; 5] = [
    ObjectKind::Table,
    ObjectKind::Sequence,
    ObjectKind::Function,
    ObjectKind::Type,
    ObjectKind::Schema,
];

fn write_acl(out: &mut Writer, acl: &Acl) {
    out.u32(acl.len() as u32);
    for item in acl {
        out.u32(item.grantee);
        out.u32(item.grantor);
        let bits = u32::from(item.privileges.0) | u32::from(item.options.0) << 16;
        out.u32(bits);
    }
}

fn read_acl(input: &mut Reader<'_>) -> Option<Acl> {
    let mut acl = Vec::new();
    for _ in 0..input.u32()? {
        let (grantee, grantor, bits) = (input.u32()?, input.u32()?, input.u32()?);
        acl.push(AclItem {
            grantee,
            grantor,
            privileges: Privileges(bits as u16),
            options: Privileges((bits >> 16) as u16),
        });
    }
    Some(acl)
}

/// Returns the binary form of an object's owner, privileges and comments.
pub fn encode_about(about: &ObjectAttributes) -> Vec<u8> {
    let mut out = Writer(vec![ABOUT_FORMAT]);
    out.u32(about.class);
    out.u32(about.id);
    out.u32(about.owner.unwrap_or(0));
    out.flag(about.acl.is_some());
    if let Some(acl) = &about.acl {
        write_acl(&mut out, acl);
    }
    out.u32(about.columns.len() as u32);
    for (column, acl) in &about.columns {
        out.u32(u32::from(column.unsigned_abs()));
        write_acl(&mut out, acl);
    }
    out.u32(about.comments.len() as u32);
    for (column, text) in &about.comments {
        out.u32(u32::from(column.unsigned_abs()));
        out.text(text);
    }
    out.0
}

/// Returns whether the bytes are an object's owner, privileges and comments.
pub fn is_about(bytes: &[u8]) -> bool {
    bytes.first() == Some(&ABOUT_FORMAT)
}

/// Decodes an object's owner, privileges and comments.
pub fn decode_about(bytes: &[u8]) -> Result<ObjectAttributes, SqlError> {
    read_about(&mut Reader(bytes)).ok_or_else(corrupt)
}

fn read_about(input: &mut Reader<'_>) -> Option<ObjectAttributes> {
    if input.u8()? != ABOUT_FORMAT {
        return None;
    }
    let mut about = ObjectAttributes {
        class: input.u32()?,
        id: input.u32()?,
        owner: Some(input.u32()?).filter(|owner| *owner != 0),
        ..ObjectAttributes::default()
    };
    if input.flag()? {
        about.acl = Some(read_acl(input)?);
    }
    for _ in 0..input.u32()? {
        let column = i16::try_from(input.u32()?).ok()?;
        about.columns.push((column, read_acl(input)?));
    }
    for _ in 0..input.u32()? {
        let column = i16::try_from(input.u32()?).ok()?;
        about.comments.push((column, input.text()?));
    }
    input.0.is_empty().then_some(about)
}

/// Returns the binary form of default privileges.
pub fn encode_default_acl(of: &DefaultAcl) -> Vec<u8> {
    let mut out = Writer(vec![DEFAULT_FORMAT]);
    out.u32(of.id);
    out.u32(of.role);
    out.u32(of.schema);
    let kind = KINDS.iter().position(|kind| *kind == of.kind);
    out.u32(kind.unwrap_or(0) as u32);
    write_acl(&mut out, &of.acl);
    out.0
}

/// Returns whether the bytes are default privileges.
pub fn is_default_acl(bytes: &[u8]) -> bool {
    bytes.first() == Some(&DEFAULT_FORMAT)
}

/// Decodes default privileges.
pub fn decode_default_acl(bytes: &[u8]) -> Result<DefaultAcl, SqlError> {
    read_default_acl(&mut Reader(bytes)).ok_or_else(corrupt)
}

fn read_default_acl(input: &mut Reader<'_>) -> Option<DefaultAcl> {
    if input.u8()? != DEFAULT_FORMAT {
        return None;
    }
    let of = DefaultAcl {
        id: input.u32()?,
        role: input.u32()?,
        schema: input.u32()?,
        kind: *KINDS.get(input.u32()? as usize)?,
        acl: read_acl(input)?,
    };
    input.0.is_empty().then_some(of)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::Object;
    use crate::catalog::acl::{default_acl, grant};

    #[test]
    fn object_attributes_round_trip() {
        let object = Object::new(ObjectKind::Table, 16400);
        let mut acl = default_acl(10, object.kind.defaults());
        grant(&mut acl, (10, 16500), Privileges::SELECT, true);
        let about = ObjectAttributes {
            owner: Some(16500),
            acl: Some(acl.clone()),
            columns: vec![(2, acl.clone()), (7, Vec::new())],
            comments: vec![(0, "it's".into()), (3, String::new())],
            ..ObjectAttributes::of(object)
        };
        let bytes = encode_about(&about);
        assert!(is_about(&bytes));
        assert_eq!(decode_about(&bytes).expect("it decodes"), about);
        for cut in 0..bytes.len() {
            assert!(decode_about(&bytes[..cut]).is_err());
        }
        for kind in KINDS {
            let of = DefaultAcl {
                id: 16600,
                role: 10,
                schema: 0,
                kind,
                acl: acl.clone(),
            };
            let bytes = encode_default_acl(&of);
            assert!(is_default_acl(&bytes));
            assert_eq!(decode_default_acl(&bytes).expect("it decodes"), of);
            for cut in 0..bytes.len() {
                assert!(decode_default_acl(&bytes[..cut]).is_err());
            }
        }
    }
}

//! The binary form of roles.

use super::bytes::{Reader, Writer};
use super::corrupt;
use crate::catalog::def::{Membership, RoleDef, RoleSettings};
use crate::error::SqlError;

const ROLE_FORMAT: u8 = 3;
/// The format of roles from versions without role settings.
const ROLE_FORMAT_NO_SETTINGS: u8 = 2;
/// The format of roles from versions without memberships.
const ROLE_FORMAT_ALONE: u8 = 1;

/// Returns the binary form of a role's definition.
pub fn encode_role(role: &RoleDef) -> Vec<u8> {
    let mut out = Writer(vec![ROLE_FORMAT]);
    out.u32(role.id);
    out.text(&role.name);
    out.flag(role.superuser);
    out.flag(role.login);
    out.optional(role.verifier.as_deref());
    for flag in [
        role.inherit,
        role.create_role,
        role.create_db,
        role.replication,
        role.bypass_rls,
    ] {
        out.flag(flag);
    }
    out.u32(role.connections as u32);
    out.flag(role.valid_until.is_some());
    out.u64(role.valid_until.unwrap_or(0) as u64);
    out.u32(role.member_of.len() as u32);
    for membership in &role.member_of {
        out.u32(membership.role);
        out.flag(membership.admin);
        out.u32(membership.grantor);
    }
    out.u32(role.settings.len() as u32);
    for of in &role.settings {
        out.u32(of.database);
        out.u32(of.settings.len() as u32);
        for (name, value) in &of.settings {
            out.text(name);
            out.text(value);
        }
    }
    out.0
}

/// Decodes a role's definition.
pub fn decode_role(bytes: &[u8]) -> Result<RoleDef, SqlError> {
    read_role(&mut Reader(bytes)).ok_or_else(corrupt)
}

fn read_role(input: &mut Reader<'_>) -> Option<RoleDef> {
    let format = input.u8()?;
    if !matches!(format, ROLE_FORMAT_ALONE..=ROLE_FORMAT) {
        return None;
    }
    let mut role = RoleDef::new(input.u32()?, input.text()?);
    role.superuser = input.flag()?;
    role.login = input.flag()?;
    role.verifier = input.optional()?;
    if format == ROLE_FORMAT_ALONE {
        role.create_role = role.superuser;
        role.create_db = role.superuser;
    } else {
        role.inherit = input.flag()?;
        role.create_role = input.flag()?;
        role.create_db = input.flag()?;
        role.replication = input.flag()?;
        role.bypass_rls = input.flag()?;
        role.connections = input.u32()? as i32;
        let limited = input.flag()?;
        role.valid_until = Some(input.u64()? as i64).filter(|_| limited);
        for _ in 0..input.u32()? {
            role.member_of.push(Membership {
                role: input.u32()?,
                admin: input.flag()?,
                grantor: input.u32()?,
            });
        }
    }
    if format > ROLE_FORMAT_NO_SETTINGS {
        for _ in 0..input.u32()? {
            let mut of = RoleSettings {
                database: input.u32()?,
                settings: Vec::new(),
            };
            for _ in 0..input.u32()? {
                of.settings.push((input.text()?, input.text()?));
            }
            role.settings.push(of);
        }
    }
    input.0.is_empty().then_some(role)
}

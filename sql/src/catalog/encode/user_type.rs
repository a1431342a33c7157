//! Types that users made, as bytes.

use super::bytes::{Reader, Writer};
use super::{GUARDS_MAX, corrupt};
use crate::catalog::TypeDef;
use crate::catalog::guard::Guards;
use crate::error::SqlError;
use crate::types::Enum;
use crate::types::enums::{EnumDef, Label};

/// Of types, which are among the tables.
const TYPE_FORMAT: u8 = 0x43;
/// An enum.
const ENUM: u8 = 1;

/// The bytes of a type's definition.
pub fn encode_type(ty: &TypeDef) -> Vec<u8> {
    let mut out = Writer(vec![TYPE_FORMAT]);
    out.u32(ty.id);
    out.text(&ty.schema);
    out.text(&ty.name);
    out.u64(ty.version);
    out.u32(ty.guards.raw().len() as u32);
    ty.guards.raw().iter().for_each(|guard| out.u64(*guard));
    out.0.push(ENUM);
    let definition = ty.of.definition();
    out.u32(definition.array_id);
    out.u32(definition.labels.len() as u32);
    for label in &definition.labels {
        out.u32(label.id);
        out.u64(label.place.to_bits());
        out.text(&label.name);
    }
    out.0
}

/// Are these bytes a type's definition?
pub fn is_type(bytes: &[u8]) -> bool {
    bytes.first() == Some(&TYPE_FORMAT)
}

/// The type's definition that `bytes` hold.
pub fn decode_type(bytes: &[u8]) -> Result<TypeDef, SqlError> {
    read_type(&mut Reader(bytes)).ok_or_else(corrupt)
}

fn read_type(input: &mut Reader<'_>) -> Option<TypeDef> {
    if input.u8()? != TYPE_FORMAT {
        return None;
    }
    let id = input.u32()?;
    let schema = input.text()?;
    let name = input.text()?;
    let version = input.u64()?;
    let guards = Some(input.u32()?).filter(|count| *count <= GUARDS_MAX)?;
    let guards: Option<Vec<u64>> = (0..guards).map(|_| input.u64()).collect();
    let guards = Guards::at(guards?)?;
    if input.u8()? != ENUM {
        return None;
    }
    let array_id = input.u32()?;
    let mut labels = Vec::new();
    for _ in 0..input.u32()? {
        labels.push(Label {
            id: input.u32()?,
            place: f64::from_bits(input.u64()?),
            name: input.text()?,
        });
    }
    let of = Enum::of(EnumDef::named(id, array_id, (&schema, &name), labels));
    input.0.is_empty().then_some(TypeDef {
        id,
        schema,
        name,
        of,
        version,
        guards,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_come_back() {
        let label = |id: u32, place: f64, name: &str| Label {
            id,
            place,
            name: name.to_owned(),
        };
        let labels = vec![label(3, 1.0, "a"), label(5, 1.5, "b"), label(4, 2.0, "")];
        let ty = TypeDef {
            id: 16400,
            schema: "s".into(),
            name: "Mood".into(),
            of: Enum::of(EnumDef::named(16400, 16401, ("s", "Mood"), labels)),
            version: 9,
            guards: Guards::at([88, 89]).expect("two"),
        };
        let bytes = encode_type(&ty);
        assert!(is_type(&bytes));
        let back = decode_type(&bytes).expect("it decodes");
        assert_eq!(back, ty);
        assert_eq!(back.of.definition(), ty.of.definition());
        assert_eq!(back.of.definition().array_shown, "s.\"Mood\"[]");
        for cut in 0..bytes.len() {
            assert!(decode_type(&bytes[..cut]).is_err());
        }
    }
}

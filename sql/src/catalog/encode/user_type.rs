//! The binary form of user-defined types.

use super::bytes::{Reader, Writer};
use super::{GUARDS_MAX, corrupt};
use crate::catalog::guard::Guards;
use crate::catalog::{TypeDef, TypeSet, UserType};
use crate::error::SqlError;
use crate::types::citext::CitextDef;
use crate::types::composites::{CompositeDef, Field};
use crate::types::domains::{DomainCheck, DomainDef};
use crate::types::enums::{EnumDef, Label};
use crate::types::{Citext, Composite, Domain, Enum, Type};

/// The format of types, which are stored in the tables tree.
pub(super) const TYPE_FORMAT: u8 = 0x43;
/// An enum.
const ENUM: u8 = 1;
/// A domain.
const DOMAIN: u8 = 2;
/// A composite type.
const COMPOSITE: u8 = 3;
/// citext.
const CITEXT: u8 = 4;

/// Returns the binary form of a type's definition.
pub fn encode_type(ty: &TypeDef) -> Vec<u8> {
    let mut out = Writer(vec![TYPE_FORMAT]);
    out.u32(ty.id);
    out.text(&ty.schema);
    out.text(&ty.name);
    out.u64(ty.version);
    out.u32(ty.guards.raw().len() as u32);
    ty.guards.raw().iter().for_each(|guard| out.u64(*guard));
    match ty.of {
        UserType::Enum(of) => encode_enum(of.definition(), &mut out),
        UserType::Domain(of) => encode_domain(of.definition(), &mut out),
        UserType::Composite(of) => encode_composite(of.definition(), &mut out),
        UserType::Citext(of) => {
            out.0.push(CITEXT);
            out.u32(of.definition().array_id);
        }
    }
    out.0
}

fn encode_enum(definition: &EnumDef, out: &mut Writer) {
    out.0.push(ENUM);
    out.u32(definition.array_id);
    out.u32(definition.labels.len() as u32);
    for label in &definition.labels {
        out.u32(label.id);
        out.u64(label.place.to_bits());
        out.text(&label.name);
    }
}

fn encode_domain(definition: &DomainDef, out: &mut Writer) {
    out.0.push(DOMAIN);
    out.u32(definition.base.oid());
    out.u32(definition.base.typmod as u32);
    out.flag(definition.not_null);
    out.optional(definition.default.as_deref());
    out.u32(definition.checks.len() as u32);
    for check in &definition.checks {
        out.u32(check.id);
        out.text(&check.name);
        out.text(&check.text);
        out.flag(check.validated);
    }
}

fn encode_composite(definition: &CompositeDef, out: &mut Writer) {
    out.0.push(COMPOSITE);
    out.u32(definition.array_id);
    out.u32(definition.relation);
    out.u32(u32::from(definition.places));
    out.u32(definition.fields.len() as u32);
    for field in &definition.fields {
        out.text(&field.name);
        out.u32(field.ty.oid());
        out.u32(field.ty.typmod as u32);
        out.u32(u32::from(field.place));
    }
}

/// Returns whether the bytes are a type's definition.
pub fn is_type(bytes: &[u8]) -> bool {
    bytes.first() == Some(&TYPE_FORMAT)
}

/// Decodes all types. A type usually comes after the types that it refers to, but before those that
/// were changed later.
pub fn decode_types(all: &[Vec<u8>]) -> Result<TypeSet, SqlError> {
    let mut types = TypeSet::default();
    let mut left: Vec<&[u8]> = all.iter().map(Vec::as_slice).collect();
    while !left.is_empty() {
        let before = left.len();
        left.retain(|bytes| match read_type(&mut Reader(bytes), &types) {
            Some(ty) => {
                types.add(ty);
                false
            }
            None => true,
        });
        if left.len() == before {
            return Err(corrupt());
        }
    }
    Ok(types)
}

fn read_type(input: &mut Reader<'_>, others: &TypeSet) -> Option<TypeDef> {
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
    let of = match input.u8()? {
        ENUM => UserType::Enum(read_enum(input, id, (&schema, &name))?),
        DOMAIN => UserType::Domain(read_domain(input, id, (&schema, &name), others)?),
        COMPOSITE => UserType::Composite(read_composite(input, id, (&schema, &name), others)?),
        CITEXT => {
            let name = (schema.as_str(), name.as_str());
            UserType::Citext(Citext::of(CitextDef::named(id, input.u32()?, name)))
        }
        _ => return None,
    };
    input.0.is_empty().then_some(TypeDef {
        id,
        schema,
        name,
        of,
        version,
        guards,
    })
}

fn read_enum(input: &mut Reader<'_>, id: u32, name: (&str, &str)) -> Option<Enum> {
    let array_id = input.u32()?;
    let mut labels = Vec::new();
    for _ in 0..input.u32()? {
        labels.push(Label {
            id: input.u32()?,
            place: f64::from_bits(input.u64()?),
            name: input.text()?,
        });
    }
    Some(Enum::of(EnumDef::named(id, array_id, name, labels)))
}

fn read_domain(
    input: &mut Reader<'_>,
    id: u32,
    name: (&str, &str),
    others: &TypeSet,
) -> Option<Domain> {
    let base = Type {
        kind: others.kind(input.u32()?)?,
        typmod: input.u32()? as i32,
    };
    let mut definition = DomainDef::named(id, name, base);
    definition.not_null = input.flag()?;
    definition.default = input.optional()?;
    for _ in 0..input.u32()? {
        definition.checks.push(DomainCheck {
            id: input.u32()?,
            name: input.text()?,
            text: input.text()?,
            validated: input.flag()?,
        });
    }
    Some(Domain::of(definition))
}

fn read_composite(
    input: &mut Reader<'_>,
    id: u32,
    name: (&str, &str),
    others: &TypeSet,
) -> Option<Composite> {
    let (array_id, relation) = (input.u32()?, input.u32()?);
    let places = u16::try_from(input.u32()?).ok()?;
    let mut fields: Vec<Field> = Vec::new();
    for _ in 0..input.u32()? {
        fields.push(Field {
            name: input.text()?,
            ty: Type {
                kind: others.kind(input.u32()?)?,
                typmod: input.u32()? as i32,
            },
            place: u16::try_from(input.u32()?).ok()?,
        });
    }
    if fields.iter().any(|field| field.place >= places) {
        return None;
    }
    let mut definition = CompositeDef::named((id, array_id, relation), name, fields);
    definition.places = places;
    Some(Composite::of(definition))
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
            of: UserType::Enum(Enum::of(EnumDef::named(
                16400,
                16401,
                ("s", "Mood"),
                labels,
            ))),
            version: 9,
            guards: Guards::at([88, 89]).expect("two"),
        };
        let bytes = encode_type(&ty);
        assert!(is_type(&bytes));
        let mut over = DomainDef::named(16390, ("public", "d"), Type::of(ty.kind()));
        over.not_null = true;
        over.default = Some("'a'".into());
        over.checks.push(DomainCheck {
            id: 16391,
            name: "c".into(),
            text: "VALUE <> 'b'".into(),
            validated: false,
        });
        let domain = TypeDef {
            id: 16390,
            schema: "public".into(),
            name: "d".into(),
            of: UserType::Domain(Domain::of(over.clone())),
            ..ty.clone()
        };
        let both = [encode_type(&domain), bytes];
        let back = decode_types(&both).expect("they decode");
        let (first, second) = (back.with_oid(16390), back.with_oid(16401));
        let first = first.and_then(|of| of.as_domain()).expect("a domain");
        assert_eq!(*first.definition(), over);
        let second = second.and_then(|of| of.as_enum()).expect("an enum");
        assert_eq!(
            Some(second.definition()),
            ty.as_enum().map(Enum::definition)
        );
        assert_eq!(second.definition().array_display_name, "s.\"Mood\"[]");
        for bytes in &both {
            for cut in 0..bytes.len() {
                let cut = [both[1].clone(), bytes[..cut].to_vec()];
                assert!(decode_types(&cut).is_err());
            }
        }
        assert!(decode_types(&both[..1]).is_err());
    }

    #[test]
    fn composite_type_round_trips_with_field_numbers() {
        let field = |name: &str, ty: Type, place: u16| Field {
            name: name.to_owned(),
            ty,
            place,
        };
        let fields = vec![field("a", Type::INT4, 0), field("c", Type::varchar(5), 2)];
        let mut definition = CompositeDef::named((16500, 16501, 16502), ("s", "Pair"), fields);
        definition.places = 4;
        let ty = TypeDef {
            id: 16500,
            schema: "s".into(),
            name: "Pair".into(),
            of: UserType::Composite(Composite::of(definition.clone())),
            version: 3,
            guards: Guards::at([77]).expect("one"),
        };
        let bytes = encode_type(&ty);
        let back = decode_types(std::slice::from_ref(&bytes)).expect("it decodes");
        let of = back.with_oid(16501).and_then(|of| of.as_composite());
        assert_eq!(*of.expect("a composite type").definition(), definition);
        for cut in 0..bytes.len() {
            assert!(decode_types(&[bytes[..cut].to_vec()]).is_err());
        }
    }
}

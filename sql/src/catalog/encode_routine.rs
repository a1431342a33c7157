//! The binary form of routines, like that of the definitions in `encode.rs`. They are stored in the
//! tables tree.

use super::encode::{Reader, Writer, corrupt};
use super::guard::Guards;
use super::routine::{
    ArgMode, Language, Parallel, Planning, RoutineArg, RoutineDef, RoutineKind, RoutineResult,
    columns_of_row,
};
use super::snapshot::Snapshot;
use crate::bound::Volatility;
use crate::error::SqlError;
use crate::types::{Type, TypeKind};

pub(super) const ROUTINE_FORMAT: u8 = 0x4a;
const GUARDS_MAX: u32 = 1024;

const MODES: [ArgMode; 5] = [
    ArgMode::In,
    ArgMode::Out,
    ArgMode::InOut,
    ArgMode::Variadic,
    ArgMode::Table,
];

const PARALLELS: [Parallel; 3] = [Parallel::Safe, Parallel::Restricted, Parallel::Unsafe];
const LANGUAGES: [Language; 3] = [Language::Sql, Language::PlPgSql, Language::C];

const VOLATILITIES: [Volatility; 3] = [
    Volatility::Immutable,
    Volatility::Stable,
    Volatility::Volatile,
];

fn byte_of<T: PartialEq>(all: &[T], value: &T) -> u8 {
    let mut all = (0..).zip(all);
    all.find(|(_, of)| *of == value).map_or(0, |(byte, _)| byte)
}

/// Returns the binary form of a routine's definition.
pub(super) fn encode_routine(routine: &RoutineDef) -> Vec<u8> {
    let mut out = Writer(vec![ROUTINE_FORMAT]);
    out.u32(routine.id);
    out.text(&routine.schema);
    out.text(&routine.name);
    out.u32(routine.owner);
    out.flag(routine.kind == RoutineKind::Procedure);
    out.0.push(byte_of(&LANGUAGES, &routine.language));
    out.u32(routine.args.len() as u32);
    for arg in &routine.args {
        out.text(&arg.name);
        out.0.push(byte_of(&MODES, &arg.mode));
        write_type(&mut out, &arg.ty);
        out.optional(arg.default.as_deref());
    }
    let result = &routine.result;
    write_type(&mut out, &result.ty);
    out.flag(result.set);
    out.flag(result.trigger);
    out.flag(result.record);
    // The columns of a composite result are not stored: they are those of its type when the routine
    // is read.
    let own = match columns_of_row(result.ty) {
        Some(_) => &[][..],
        None => &result.columns,
    };
    out.u32(own.len() as u32);
    for (name, ty) in own {
        out.text(name);
        write_type(&mut out, ty);
    }
    out.0.push(byte_of(&VOLATILITIES, &routine.volatility));
    out.flag(routine.strict);
    out.flag(routine.definer);
    let planning = &routine.planning;
    out.flag(planning.leakproof);
    out.0.push(byte_of(&PARALLELS, &planning.parallel));
    out.u32(planning.cost.to_bits());
    out.u32(planning.rows.to_bits());
    out.text(&routine.body);
    out.flag(routine.atomic);
    out.u32(routine.settings.len() as u32);
    for (name, value) in &routine.settings {
        out.text(name);
        out.text(value);
    }
    out.u64(routine.version);
    out.u32(routine.guards.raw().len() as u32);
    for guard in routine.guards.raw() {
        out.u64(*guard);
    }
    out.0
}

fn write_type(out: &mut Writer, ty: &Type) {
    out.u32(ty.kind.oid());
    out.u32(ty.typmod as u32);
}

fn read_type(input: &mut Reader<'_>, around: &Snapshot) -> Option<Type> {
    let oid = input.u32()?;
    // A result may have a type that no column can have, and polymorphic types are not in the type
    // set.
    let mut others = TypeKind::POLYMORPHIC.into_iter().chain([TypeKind::Void]);
    let other = others.find(|kind| kind.oid() == oid);
    Some(Type {
        kind: other.or_else(|| around.type_kind(oid))?,
        typmod: input.u32()? as i32,
    })
}

/// Returns whether the bytes are a routine's definition.
pub(super) fn is_routine(bytes: &[u8]) -> bool {
    bytes.first() == Some(&ROUTINE_FORMAT)
}

/// Decodes a routine's definition.
pub(super) fn decode_routine(bytes: &[u8], around: &Snapshot) -> Result<RoutineDef, SqlError> {
    read_routine(&mut Reader(bytes), around).ok_or_else(corrupt)
}

fn read_routine(input: &mut Reader<'_>, around: &Snapshot) -> Option<RoutineDef> {
    if input.u8()? != ROUTINE_FORMAT {
        return None;
    }
    let id = input.u32()?;
    let schema = input.text()?;
    let name = input.text()?;
    let owner = input.u32()?;
    let kind = match input.flag()? {
        true => RoutineKind::Procedure,
        false => RoutineKind::Function,
    };
    let language = *LANGUAGES.get(usize::from(input.u8()?))?;
    let mut args = Vec::new();
    for _ in 0..input.u32()? {
        args.push(RoutineArg {
            name: input.text()?,
            mode: *MODES.get(usize::from(input.u8()?))?,
            ty: read_type(input, around)?,
            default: input.optional()?,
        });
    }
    let mut result = RoutineResult {
        ty: read_type(input, around)?,
        set: input.flag()?,
        trigger: input.flag()?,
        record: input.flag()?,
        columns: Vec::new(),
    };
    for _ in 0..input.u32()? {
        result
            .columns
            .push((input.text()?, read_type(input, around)?));
    }
    if let Some(columns) = columns_of_row(result.ty) {
        result.columns = columns;
    }
    let volatility = *VOLATILITIES.get(usize::from(input.u8()?))?;
    let strict = input.flag()?;
    let definer = input.flag()?;
    let planning = Planning {
        leakproof: input.flag()?,
        parallel: *PARALLELS.get(usize::from(input.u8()?))?,
        cost: f32::from_bits(input.u32()?),
        rows: f32::from_bits(input.u32()?),
    };
    let body = input.text()?;
    let atomic = input.flag()?;
    let mut settings = Vec::new();
    for _ in 0..input.u32()? {
        settings.push((input.text()?, input.text()?));
    }
    let version = input.u64()?;
    let guards = Some(input.u32()?).filter(|count| *count <= GUARDS_MAX)?;
    let guards: Option<Vec<u64>> = (0..guards).map(|_| input.u64()).collect();
    let routine = RoutineDef {
        id,
        schema,
        name,
        owner,
        kind,
        language,
        args,
        result,
        volatility,
        strict,
        definer,
        planning,
        body,
        atomic,
        settings,
        version,
        guards: Guards::at(guards?)?,
        as_called: None,
    };
    input.0.is_empty().then_some(routine)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routine_round_trips() {
        let routine = RoutineDef {
            id: 16390,
            schema: "public".into(),
            name: "f".into(),
            owner: 10,
            kind: RoutineKind::Procedure,
            language: Language::PlPgSql,
            args: vec![
                RoutineArg {
                    name: "a".into(),
                    mode: ArgMode::InOut,
                    ty: Type::varchar(3),
                    default: Some("'x'".into()),
                },
                RoutineArg {
                    name: String::new(),
                    mode: ArgMode::Variadic,
                    ty: Type::of(TypeKind::AnyArray),
                    default: None,
                },
            ],
            result: RoutineResult {
                ty: Type::INT8,
                set: true,
                trigger: false,
                columns: vec![("c".into(), Type::TEXT)],
                record: false,
            },
            volatility: Volatility::Stable,
            strict: true,
            definer: true,
            planning: Planning {
                leakproof: true,
                parallel: Parallel::Restricted,
                cost: 0.5,
                rows: 7.0,
            },
            body: "begin end".into(),
            atomic: false,
            settings: vec![("search_path".into(), "public".into())],
            version: 7,
            guards: Guards::at([5]).expect("one"),
            as_called: None,
        };
        let bytes = encode_routine(&routine);
        assert!(is_routine(&bytes));
        assert_eq!(
            decode_routine(&bytes, &Snapshot::default()).expect("it decodes"),
            routine
        );
        for cut in 0..bytes.len() {
            assert!(decode_routine(&bytes[..cut], &Snapshot::default()).is_err());
        }
    }
}

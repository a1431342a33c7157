//! The resolution of type names.

use std::sync::Arc;

use sqlparser::ast::{ArrayElemTypeDef, CharacterLength, DataType, ExactNumberInfo, TimezoneInfo};

use super::domain::not_a_domain;
use super::interval::interval_type;
use super::path::PathView;
use super::{Binder, names, search_path};
use crate::catalog::acl::Privileges;
use crate::catalog::{CATALOG_SCHEMA, CatalogView, Object, ObjectKind, TypeDef, row_type};
use crate::context::EvalContext;
use crate::error::{SqlError, SqlState};
use crate::types::numeric::MAX_SCALE;
use crate::types::{Type, TypeKind};

const LENGTH_MAX: u64 = 10_485_760;
const PRECISION_MAX: u64 = 1000;

impl Binder<'_> {
    /// Returns the type of this name, and makes the plan depend on it.
    pub(super) fn type_of(&mut self, data_type: &DataType) -> Result<Type, SqlError> {
        let ty = type_of(data_type, self.catalog)?;
        self.note_type(ty);
        self.name_type(ty);
        Ok(ty)
    }

    /// Checks USAGE on a type for a role that uses it in a definition; 42501 without it.
    pub(super) fn check_type_usage(&self, ty: Type) -> Result<(), SqlError> {
        let (Some((role, security)), true) = (self.acting(), ty.kind.is_users()) else {
            return Ok(());
        };
        match self.catalog.user_type_by_id(ty.oid()) {
            Some(of) => {
                let object = Object::new(ObjectKind::Type, of.id);
                security.check(role, object, Privileges::USAGE, &of.name)
            }
            None => Ok(()),
        }
    }

    /// Makes the plan depend on the current version of the type if it is user-defined.
    pub(super) fn name_type(&mut self, ty: Type) {
        if ty.kind.is_users()
            && let Some(named) = self.catalog.user_type_by_id(ty.oid())
        {
            self.params.name_type(named);
        }
    }

    /// Returns the type that a type statement names; 42704 if it does not exist.
    pub(super) fn type_named(
        &self,
        schema: Option<&str>,
        name: &str,
    ) -> Result<Arc<TypeDef>, SqlError> {
        self.check_schema(schema, false)?;
        self.check_usage(schema)?;
        let found = self.catalog.user_type(schema, name);
        found.ok_or_else(|| match built_in(schema, name) {
            Some(kind) => SqlError::new(
                SqlState::WRONG_OBJECT_TYPE,
                format!("{kind} is not an enum"),
            ),
            None => no_type(&names::qualified_name(schema, name)),
        })
    }

    /// Checks DROP TYPE of a type that does not exist; an error unless it may be missing.
    pub(super) fn check_missing_type(
        &self,
        schema: Option<&str>,
        name: &str,
        (may_miss, is_domain): (bool, bool),
    ) -> Result<(), SqlError> {
        if is_domain && built_in(schema, name).is_some() {
            return Err(not_a_domain(&format!("\"{name}\"")));
        }
        match (built_in(schema, name), self.catalog.table(schema, name)?) {
            (Some(kind), _) => Err(SqlError::new(
                SqlState::DEPENDENT_OBJECTS,
                format!("cannot drop type {kind} because it is required by the database system"),
            )),
            (None, Some(table)) => {
                let name = &table.name;
                Err(SqlError::new(
                    SqlState::DEPENDENT_OBJECTS,
                    format!("cannot drop type {name} because table {name} requires it"),
                )
                .hint(format!("You can drop table {name} instead.")))
            }
            (None, None) if may_miss => Ok(()),
            (None, None) => Err(no_type(&names::qualified_name(schema, name))),
        }
    }
}

/// Returns the built-in type of this name.
fn built_in(schema: Option<&str>, name: &str) -> Option<TypeKind> {
    match schema {
        None | Some(CATALOG_SCHEMA) => TypeKind::from_catalog_name(name),
        Some(_) => None,
    }
}

/// Resolves a type name with the search path of these settings.
pub fn type_for(
    data_type: &DataType,
    catalog: &dyn CatalogView,
    cx: &EvalContext,
) -> Result<Type, SqlError> {
    let path = search_path(catalog, cx);
    let along = PathView {
        catalog,
        path: &path,
    };
    type_of(data_type, &along)
}

/// Resolves a type name in a catalog.
pub fn type_of(data_type: &DataType, catalog: &dyn CatalogView) -> Result<Type, SqlError> {
    use DataType as D;
    Ok(match data_type {
        D::Bool | D::Boolean => Type::BOOL,
        D::SmallInt(None) | D::Int2(None) => Type::INT2,
        D::Int(None) | D::Integer(None) | D::Int4(None) => Type::INT4,
        D::BigInt(None) | D::Int8(None) => Type::INT8,
        D::Real | D::Float4 => Type::FLOAT4,
        D::Double(_) | D::DoublePrecision | D::Float8 => Type::FLOAT8,
        D::Float(ExactNumberInfo::None) => Type::FLOAT8,
        D::Float(ExactNumberInfo::Precision(1..=24)) => Type::FLOAT4,
        D::Float(ExactNumberInfo::Precision(25..=53)) => Type::FLOAT8,
        D::Float(_) => {
            return Err(invalid(
                "precision for type float must be less than 54 bits",
            ));
        }
        D::Numeric(info) | D::Decimal(info) | D::Dec(info) => numeric(info)?,
        D::Text => Type::TEXT,
        D::Varchar(length) | D::CharVarying(length) | D::CharacterVarying(length) => {
            sized(TypeKind::VarChar, length.as_ref())?
        }
        D::Char(None) | D::Character(None) => Type::char(1),
        D::Char(length) | D::Character(length) => sized(TypeKind::BpChar, length.as_ref())?,
        D::Bytea => Type::BYTEA,
        D::Date => Type::DATE,
        D::Timestamp(precision, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone) => {
            timed(TypeKind::Timestamp, *precision)
        }
        D::Timestamp(precision, _) => timed(TypeKind::TimestampTz, *precision),
        D::Time(precision, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone) => {
            timed(TypeKind::Time, *precision)
        }
        D::Time(precision, _) => timed(TypeKind::TimeTz, *precision),
        D::Interval { fields, precision } => {
            let text = fields.as_ref().map(ToString::to_string).unwrap_or_default();
            let mut words = text.split(" TO ").filter(|w| !w.is_empty());
            interval_type(words.next(), words.next(), *precision)?
        }
        D::JSON => Type::JSON,
        D::JSONB => Type::JSONB,
        D::Array(ArrayElemTypeDef::SquareBracket(inner, _)) => {
            let element = type_of(inner, catalog)?;
            match element.kind.element() {
                // The number of dimensions is not part of the type.
                Some(_) => element,
                None => element
                    .array()
                    .ok_or_else(|| unsupported(&data_type.to_string()))?,
            }
        }
        D::Uuid => Type::UUID,
        D::Regclass => Type::of(TypeKind::RegClass),
        D::Custom(name, arguments) => return custom(name, arguments, catalog),
        other => return other_word(other, catalog),
    })
}

/// Resolves a word that is a type in other SQL dialects, such as `datetime`, as the name of a
/// user-defined type.
fn other_word(data_type: &DataType, catalog: &dyn CatalogView) -> Result<Type, SqlError> {
    let word = data_type.to_string().to_ascii_lowercase();
    if !word.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
        return Err(unsupported(&data_type.to_string()));
    }
    let name = sqlparser::ast::ObjectName::from(vec![sqlparser::ast::Ident::new(word)]);
    custom(&name, &[], catalog)
}

fn sized(kind: TypeKind, length: Option<&CharacterLength>) -> Result<Type, SqlError> {
    let Some(length) = length else {
        return Ok(Type::of(kind));
    };
    let name = match kind {
        TypeKind::VarChar => "varchar",
        _ => "char",
    };
    match length {
        CharacterLength::IntegerLength { length: 0, .. } => Err(invalid(&format!(
            "length for type {name} must be at least 1"
        ))),
        CharacterLength::IntegerLength { length, .. } if *length <= LENGTH_MAX => {
            Ok(Type::with(kind, *length as i32 + 4))
        }
        _ => Err(invalid(&format!(
            "length for type {name} cannot exceed {LENGTH_MAX}"
        ))),
    }
}

fn numeric(info: &ExactNumberInfo) -> Result<Type, SqlError> {
    let (precision, scale) = match info {
        ExactNumberInfo::None => return Ok(Type::NUMERIC),
        ExactNumberInfo::Precision(precision) => (*precision, 0),
        ExactNumberInfo::PrecisionAndScale(precision, scale) => (*precision, *scale),
    };
    if !(1..=PRECISION_MAX).contains(&precision) {
        return Err(invalid(&format!(
            "NUMERIC precision {precision} must be between 1 and {PRECISION_MAX}"
        )));
    }
    match u32::try_from(scale) {
        Ok(scale) if scale <= MAX_SCALE => Ok(Type::with(
            TypeKind::Numeric,
            ((precision as i32) << 16 | scale as i32) + 4,
        )),
        _ => Err(SqlError::unsupported(format!(
            "NUMERIC with a scale of {scale}"
        ))),
    }
}

fn timed(kind: TypeKind, precision: Option<u64>) -> Type {
    match precision {
        None => Type::of(kind),
        Some(digits) => Type::with(kind, digits.min(6) as i32),
    }
}

/// Resolves a type name that sqlparser does not know as a type of its own.
fn custom(
    name: &sqlparser::ast::ObjectName,
    arguments: &[String],
    catalog: &dyn CatalogView,
) -> Result<Type, SqlError> {
    let parts = names::parts(name)?;
    let Some(last) = parts.last() else {
        return Err(unsupported(""));
    };
    let (schema, folded) = names::table_name(name)?;
    let schema = schema.as_deref();
    // Unquoted `char` is SQL's type `character(1)`.
    let kind = match (folded.as_str(), last.quote_style) {
        ("char", None) => return Ok(Type::char(1)),
        _ => built_in(schema, &folded).or_else(|| {
            let of_user = catalog.user_type(schema, &folded);
            of_user.map(|ty| ty.kind())
        }),
    };
    // The name of a table or view is the type of its rows.
    let kind = match kind {
        None => row_type_named(schema, &folded, catalog)?,
        kind => kind,
    };
    match (kind, arguments) {
        (Some(kind), []) => Ok(Type::of(kind)),
        (Some(kind @ (TypeKind::VarChar | TypeKind::BpChar)), [length]) => match length.parse() {
            Ok(length) => sized(
                kind,
                Some(&CharacterLength::IntegerLength { length, unit: None }),
            ),
            Err(_) => Err(invalid(&format!("invalid length \"{length}\""))),
        },
        (
            Some(
                kind @ (TypeKind::Timestamp
                | TypeKind::TimestampTz
                | TypeKind::Time
                | TypeKind::TimeTz),
            ),
            [digits],
        ) => Ok(timed(kind, digits.parse().ok())),
        (Some(_), _) => Err(SqlError::new(
            SqlState::SYNTAX_ERROR,
            format!("type modifier is not allowed for type \"{folded}\""),
        )),
        (None, _) if is_postgres_type(&folded) => Err(unsupported(&folded)),
        (None, _) => match schema {
            Some(schema) if schema != CATALOG_SCHEMA && !catalog.schema_exists(schema) => {
                Err(SqlError::new(
                    SqlState::INVALID_SCHEMA_NAME,
                    format!("schema \"{schema}\" does not exist"),
                ))
            }
            _ => Err(no_type(&names::qualified_name(schema, &folded))),
        },
    }
}

/// Returns the row type of the table or view of this name.
fn row_type_named(
    schema: Option<&str>,
    name: &str,
    catalog: &dyn CatalogView,
) -> Result<Option<TypeKind>, SqlError> {
    if let Some(table) = catalog.table(schema, name)? {
        return Ok(Some(TypeKind::Composite(row_type(&table))));
    }
    let view = catalog.view(schema, name)?;
    Ok(view.map(|view| TypeKind::Composite(view.row_type())))
}

/// Returns the error 42704 for a type that does not exist.
fn no_type(name: &str) -> SqlError {
    SqlError::new(
        SqlState::UNDEFINED_OBJECT,
        format!("type \"{name}\" does not exist"),
    )
}

fn unsupported(name: &str) -> SqlError {
    SqlError::unsupported(format!("type {}", name.to_ascii_lowercase()))
}

fn invalid(message: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

fn is_postgres_type(name: &str) -> bool {
    const KNOWN: [&str; 52] = [
        "serial",
        "bigserial",
        "smallserial",
        "serial4",
        "serial8",
        "serial2",
        "xid8",
        "cid",
        "tid",
        "jsonpath",
        "xml",
        "money",
        "macaddr8",
        "point",
        "line",
        "lseg",
        "box",
        "path",
        "polygon",
        "circle",
        "bit",
        "varbit",
        "tsvector",
        "tsquery",
        "int4range",
        "int8range",
        "numrange",
        "tsrange",
        "tstzrange",
        "daterange",
        "int4multirange",
        "int8multirange",
        "nummultirange",
        "tsmultirange",
        "tstzmultirange",
        "datemultirange",
        "pg_lsn",
        "pg_snapshot",
        "txid_snapshot",
        "regprocedure",
        "regoper",
        "regoperator",
        "regcollation",
        "regconfig",
        "regdictionary",
        "int2vector",
        "anyrange",
        "anymultirange",
        "anycompatiblerange",
        "anycompatiblemultirange",
        "gtsvector",
        "oidvector",
    ];
    KNOWN.contains(&name)
}

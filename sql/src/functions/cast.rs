//! Casts between types, and the contexts in which they apply.

use rust_decimal::Decimal;

use super::domain::check_domain;
use super::{mismatch, objects, out_of_range, record};
use crate::bound::Volatility;
use crate::context::EvalContext;
use crate::error::{SqlError, SqlState};
use crate::types::calendar::DAY_US;
use crate::types::{self, Type, TypeCategory, TypeKind, calendar, numeric, zone};
use crate::value::{Interval, TimeTz, Value};

/// The context in which a cast applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CastContext {
    /// The cast applies in any expression.
    Implicit,
    /// The cast applies when a value is stored in a column.
    Assignment,
    /// The cast applies only if it is written.
    Explicit,
}

/// Returns the context of the cast from one type to another; `None` if there is no cast.
pub fn cast_context(from: TypeKind, to: TypeKind) -> Option<CastContext> {
    use CastContext::{Assignment, Explicit, Implicit};
    use TypeKind as T;
    let (from, to) = (Type::of(from).plain().kind, Type::of(to).plain().kind);
    if from == to || from == T::Unknown {
        return Some(Implicit);
    }
    match (from, to) {
        (T::Composite(_), T::Record) | (T::Record, T::Composite(_)) => return Some(Implicit),
        (T::Record, to) if to.is_string() => return Some(Assignment),
        _ => {}
    }
    if [from, to]
        .iter()
        .any(|k| k.category() == TypeCategory::Pseudo)
        || to == T::Unknown
    {
        return None;
    }
    if let (Some(from), Some(to)) = (from.element(), to.element()) {
        return cast_context(from, to);
    }
    let rank = |kind: T| match kind {
        T::Int2 => 1,
        T::Int4 => 2,
        T::Int8 => 3,
        T::Numeric => 4,
        T::Float4 => 5,
        T::Float8 => 6,
        _ => 0,
    };
    match (rank(from), rank(to)) {
        (a, b) if a > 0 && b > a => return Some(Implicit),
        (a, b) if a > 0 && b > 0 => return Some(Assignment),
        _ => {}
    }
    match (from, to) {
        (T::Bool, T::Int4) | (T::Int4, T::Bool) => Some(Explicit),
        (T::Citext(_), T::Text | T::VarChar) => Some(Implicit),
        (_, T::Citext(_)) => Some(Assignment),
        (T::Citext(_), b) if !b.is_string() => Some(Explicit),
        (T::Date, T::Timestamp | T::TimestampTz) | (T::Timestamp, T::TimestampTz) => Some(Implicit),
        (T::TimestampTz, T::Timestamp) | (T::Timestamp | T::TimestampTz, T::Date) => {
            Some(Assignment)
        }
        (T::Time, T::Interval | T::TimeTz) => Some(Implicit),
        (T::Interval | T::TimeTz | T::Timestamp | T::TimestampTz, T::Time) => Some(Assignment),
        (T::TimestampTz, T::TimeTz) => Some(Assignment),
        (T::Json, T::Jsonb) | (T::Jsonb, T::Json) => Some(Assignment),
        (T::Jsonb, T::Bool | T::Int2 | T::Int4 | T::Int8 | T::Float4 | T::Float8 | T::Numeric) => {
            Some(Explicit)
        }
        (T::Cidr, T::Inet) => Some(Implicit),
        (T::Inet, T::Cidr) => Some(Assignment),
        (T::Name, T::VarChar | T::BpChar) => Some(Assignment),
        (T::Text | T::VarChar, T::RegClass) => Some(Implicit),
        (T::Oid, b) if b.is_object() => Some(Implicit),
        (a, T::Oid) if a.is_object() => Some(Implicit),
        (a, b) if a.is_integer() && (b == T::Oid || b.is_object()) => Some(Implicit),
        (a, T::Int4 | T::Int8) if a == T::Oid || a.is_object() => Some(Assignment),
        (T::RegProc, T::RegProcedure)
        | (T::RegProcedure, T::RegProc)
        | (T::RegOper, T::RegOperator)
        | (T::RegOperator, T::RegOper) => Some(Implicit),
        (a, b) if a.is_object() && b.is_object() => None,
        (T::RefCursor | T::JsonPath, b) if b.is_string() => Some(Assignment),
        (a, T::RefCursor | T::JsonPath) => a.is_string().then_some(Explicit),
        (a, b) if a.is_string() && b.is_string() => Some(Implicit),
        // The remaining casts go through text.
        (_, b) if b.is_string() => Some(Assignment),
        (a, _) if a.is_string() => Some(Explicit),
        _ => None,
    }
}

/// Returns the volatility of the cast between two types. Casts between local and absolute times
/// read `TimeZone`.
pub fn cast_volatility(from: Type, to: Type) -> Volatility {
    if matches!(to.kind, TypeKind::Domain(_)) {
        // The constraints of a domain can change.
        return Volatility::Stable;
    }
    if from.kind.is_row() || to.kind.is_row() {
        // The fields are cast, and the constraints of their domains can change.
        return Volatility::Stable;
    }
    if from.element().is_some() && to.kind.is_string() {
        // The text form of elements depends on settings.
        return Volatility::Stable;
    }
    if from.element().or(to.element()).is_some() {
        // The cast is as volatile as that of the elements.
        let of = |t: Type| t.element().unwrap_or(Type::TEXT);
        return cast_volatility(of(from), of(to));
    }
    let zoned = |t: Type| t.kind == TypeKind::TimestampTz;
    let timed = |t: Type| {
        matches!(
            t.kind,
            TypeKind::Date
                | TypeKind::Timestamp
                | TypeKind::TimestampTz
                | TypeKind::Time
                | TypeKind::TimeTz
                | TypeKind::Interval
        )
    };
    // Objects and enum labels can be renamed.
    let names_objects =
        to.kind.is_object() || (matches!(from.kind, TypeKind::Enum(_)) && to.kind.is_string());
    let reads_settings = names_objects
        || zoned(from) != zoned(to)
        || (from.kind == TypeKind::Time && to.kind == TypeKind::TimeTz)
        || (from.kind.is_string() && timed(to))
        || (matches!(from.kind, TypeKind::Date | TypeKind::Timestamp) && to.kind.is_string())
        || (to.kind.is_string()
            && matches!(
                from.kind,
                TypeKind::Bytea | TypeKind::Float4 | TypeKind::Float8 | TypeKind::Interval
            ));
    if reads_settings {
        Volatility::Stable
    } else {
        Volatility::Immutable
    }
}

/// Converts a value for a column or parameter of type `to`: the assignment cast with its length
/// checks.
pub fn assign(value: Value, from: &Type, to: &Type, cx: &EvalContext) -> Result<Value, SqlError> {
    cast(value, from, to, false, cx)
}

/// Converts a value. `explicit` casts truncate text that is too long.
pub fn cast(
    value: Value,
    from: &Type,
    to: &Type,
    explicit: bool,
    cx: &EvalContext,
) -> Result<Value, SqlError> {
    if let TypeKind::Domain(domain) = to.kind {
        let value = cast(value, from, &domain.root(), false, cx)?;
        check_domain(domain, &value, cx)?;
        return Ok(value);
    }
    if value.is_null() {
        return Ok(value);
    }
    let from = &from.plain();
    let value = if from.kind == to.kind {
        value
    } else {
        convert(value, from, to, explicit, cx)?
    };
    match to.typmod {
        -1 => Ok(value),
        _ => types::apply_typmod(value, to, explicit),
    }
}

fn convert(
    value: Value,
    from: &Type,
    to: &Type,
    explicit: bool,
    cx: &EvalContext,
) -> Result<Value, SqlError> {
    use TypeKind as T;
    if let Value::Citext(text) = value {
        let from = Type::TEXT;
        return match to.kind {
            T::Citext(_) => Ok(Value::Citext(text)),
            _ => convert(Value::Text(text), &from, to, explicit, cx),
        };
    }
    if to.kind.is_citext() {
        let text = to_string(value, from, &Type::TEXT, cx)?;
        return Ok(match text {
            Value::Text(text) => Value::Citext(text),
            other => other,
        });
    }
    if to.kind == T::JsonPath {
        let text = to_string(value, from, &Type::TEXT, cx)?;
        let text = text.as_text().unwrap_or_default();
        return Ok(Value::text(types::jsonpath::normal(text)?));
    }
    if to.kind.is_string() {
        return to_string(value, from, to, cx);
    }
    if to.kind.is_object() {
        return objects::named(&value, to.kind, cx);
    }
    match (value, to.kind) {
        (Value::Text(text), _) => from_text(&text, from, to, cx),
        (Value::Record(row), T::Composite(of)) => record::converted(*row, of, explicit, cx),
        (value @ Value::Record(_), T::Record) => Ok(value),
        (Value::Array(mut array), T::Array(element)) => {
            let from = from.element().unwrap_or(Type::TEXT);
            let to = Type::with(element.kind(), to.typmod);
            for value in &mut array.values {
                *value = cast(std::mem::take(value), &from, &to, explicit, cx)?;
            }
            Ok(Value::Array(array))
        }
        // The value may be of an older version of the enum type.
        (Value::Enum(value), T::Enum(of)) => of.named(value.name()).map(Value::from),
        (value @ Value::Json(_), T::Jsonb) => super::json_make::converted(&value, true),
        (value @ Value::Jsonb(_), T::Json) => super::json_make::converted(&value, false),
        (Value::Jsonb(text), _) => from_jsonb(&text, to, cx),
        (Value::Bool(b), T::Int4) => Ok(Value::Int4(i32::from(b))),
        (Value::Int4(v), T::Bool) => Ok(Value::Bool(v != 0)),
        // An oid beyond int4 is the negative int4 with the same bits, and vice versa.
        (Value::Oid(oid), T::Int4) => Ok(Value::Int4(oid as i32)),
        (Value::Object(object), T::Int4) => Ok(Value::Int4(object.oid as i32)),
        (Value::Oid(oid), _) => from_int(i64::from(oid), to.kind),
        (Value::Object(object), _) => from_int(i64::from(object.oid), to.kind),
        (Value::Int4(v), T::Oid | T::Xid) => Ok(Value::Oid(v as u32)),
        (Value::Int2(v), T::Oid | T::Xid) => Ok(Value::Oid(i32::from(v) as u32)),
        (Value::Int2(v), _) => from_int(i64::from(v), to.kind),
        (Value::Int4(v), _) => from_int(i64::from(v), to.kind),
        (Value::Int8(v), _) => from_int(v, to.kind),
        (Value::Numeric(v), _) => from_numeric(&v, to.kind),
        (Value::Float4(v), T::Numeric) => numeric::from_f64(f64::from(v), 6).map(Value::Numeric),
        (Value::Float8(v), T::Numeric) => numeric::from_f64(v, 15).map(Value::Numeric),
        (Value::Float4(v), T::Float8) => Ok(Value::Float8(f64::from(v))),
        (Value::Float8(v), T::Float4) => to_float4(v),
        (Value::Float4(v), _) => from_float(f64::from(v), to.kind),
        (Value::Float8(v), _) => from_float(v, to.kind),
        (value @ Value::Inet(_), T::Inet) => Ok(value),
        (Value::Inet(inet), T::Cidr) => Ok(inet.network().into()),
        (value, _) => convert_time(value, to.kind, cx),
    }
}

/// Converts a text by the input function of the type.
fn from_text(text: &str, from: &Type, to: &Type, cx: &EvalContext) -> Result<Value, SqlError> {
    if from.kind == TypeKind::Char && to.kind == TypeKind::Int4 {
        return Ok(Value::Int4(types::code_of_char(text)));
    }
    // The fields of an interval's type modifier determine how a number without a unit is read.
    let plain = match to.kind {
        TypeKind::Interval => *to,
        kind => Type::of(kind),
    };
    let value = types::text_in_at(&plain, text, &cx.settings, Some(cx.transaction_start))?;
    if let Value::Record(row) = &value {
        record::check_fields(row, cx)?;
    }
    Ok(value)
}

/// Converts a JSON number or boolean.
fn from_jsonb(text: &str, to: &Type, cx: &EvalContext) -> Result<Value, SqlError> {
    let json = types::json::parse(text)?;
    match (&json.is, to.kind) {
        (types::json::Kind::Bool(b), TypeKind::Bool) => Ok(Value::Bool(*b)),
        (types::json::Kind::Number, kind) if kind != TypeKind::Bool => {
            let number = types::text_in(&Type::NUMERIC, text, &cx.settings)?;
            cast(number, &Type::NUMERIC, &Type::of(kind), true, cx)
        }
        (kind, _) => {
            let what = match kind {
                types::json::Kind::Null => "null",
                types::json::Kind::Bool(_) => "boolean",
                types::json::Kind::Number => "numeric",
                types::json::Kind::Text(_) => "string",
                types::json::Kind::Array(_) => "array",
                types::json::Kind::Object(_) => "object",
            };
            Err(SqlError::new(
                SqlState::INVALID_PARAMETER_VALUE,
                format!("cannot cast jsonb {what} to type {}", to.kind),
            ))
        }
    }
}

fn convert_time(value: Value, to: TypeKind, cx: &EvalContext) -> Result<Value, SqlError> {
    use TypeKind as T;
    let zone = &cx.settings.time_zone;
    match (value, to) {
        (Value::Date(days), T::Timestamp) => {
            calendar::timestamp_of_date(days).map(Value::Timestamp)
        }
        (Value::Date(days), T::TimestampTz) => {
            let local = calendar::timestamp_of_date(days)?;
            let us = calendar::check_timestamp(zone::to_absolute(zone, local));
            let refused = |_| {
                let what = "date out of range for timestamp";
                SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, what)
            };
            us.map(Value::TimestampTz).map_err(refused)
        }
        (Value::Timestamp(us), T::Date) => Ok(Value::Date(calendar::date_of_timestamp(us))),
        (Value::Timestamp(us), T::TimestampTz) => {
            calendar::check_timestamp(zone::to_absolute(zone, us)).map(Value::TimestampTz)
        }
        (Value::TimestampTz(us), T::Timestamp) => {
            calendar::check_timestamp(zone::to_local(zone, us)).map(Value::Timestamp)
        }
        (Value::TimestampTz(us), T::Date) => Ok(Value::Date(calendar::date_of_timestamp(
            zone::to_local(zone, us),
        ))),
        (value, _) => convert_clock(value, to, cx),
    }
}

/// Converts between types with a time of day.
fn convert_clock(value: Value, to: TypeKind, cx: &EvalContext) -> Result<Value, SqlError> {
    use TypeKind as T;
    let zone = &cx.settings.time_zone;
    let of_day = |us: i64| us.rem_euclid(DAY_US);
    let infinite = |us: i64| us == i64::MIN || us == i64::MAX;
    match (value, to) {
        (Value::Timestamp(us) | Value::TimestampTz(us), _) if infinite(us) => Ok(Value::Null),
        (Value::Timestamp(us), T::Time) => Ok(Value::Time(of_day(us))),
        (Value::TimestampTz(us), T::Time) => Ok(Value::Time(of_day(zone::to_local(zone, us)))),
        (Value::TimestampTz(us), T::TimeTz) => Ok(Value::TimeTz(TimeTz {
            us: of_day(zone::to_local(zone, us)),
            west: -zone::offset_at(zone, us),
        })),
        (Value::Interval(span), T::Time) => Ok(Value::Time(of_day(span.us))),
        (Value::TimeTz(time), T::Time) => Ok(Value::Time(time.us)),
        (Value::Time(us), T::Interval) => Ok(Value::Interval(Interval {
            us,
            ..Interval::default()
        })),
        (Value::Time(us), T::TimeTz) => {
            let day = zone::to_local(zone, cx.transaction_start).div_euclid(DAY_US) * DAY_US;
            Ok(Value::TimeTz(TimeTz {
                us,
                west: -zone::offset_at_local(zone, day + us),
            }))
        }
        _ => Err(mismatch("a cast")),
    }
}

fn to_string(value: Value, from: &Type, to: &Type, cx: &EvalContext) -> Result<Value, SqlError> {
    let text = match value {
        Value::Text(text) => text,
        Value::Int4(code) if to.kind == TypeKind::Char => {
            return types::char_of_code(code).map(Value::text);
        }
        Value::Bool(b) => return Ok(Value::text(if b { "true" } else { "false" })),
        // Unlike the output function, the cast always shows the netmask length.
        Value::Inet(inet) => inet.with_its_bits().into(),
        other => types::checked_text(&other, from, &cx.settings)?.into(),
    };
    Ok(match to.kind {
        TypeKind::BpChar if to.typmod == -1 => Value::text(text.trim_end_matches(' ')),
        TypeKind::Name | TypeKind::Char => {
            return types::text_in(&Type::of(to.kind), &text, &cx.settings);
        }
        _ => Value::Text(text),
    })
}

fn from_int(v: i64, to: TypeKind) -> Result<Value, SqlError> {
    match to {
        TypeKind::Int2 => i16::try_from(v)
            .map(Value::Int2)
            .map_err(|_| out_of_range("smallint")),
        TypeKind::Int4 => i32::try_from(v)
            .map(Value::Int4)
            .map_err(|_| out_of_range("integer")),
        TypeKind::Int8 => Ok(Value::Int8(v)),
        TypeKind::Oid => u32::try_from(v)
            .map(Value::Oid)
            .map_err(|_| out_of_range("OID")),
        TypeKind::Float4 => Ok(Value::Float4(v as f32)),
        TypeKind::Float8 => Ok(Value::Float8(v as f64)),
        TypeKind::Numeric => Ok(Value::Numeric(Decimal::from(v))),
        _ => Err(mismatch("a cast from an integer")),
    }
}

fn from_numeric(v: &Decimal, to: TypeKind) -> Result<Value, SqlError> {
    match to {
        TypeKind::Float8 => Ok(Value::Float8(numeric::to_f64(v))),
        // The number is rounded once, from its digits.
        TypeKind::Float4 => Ok(Value::Float4(v.to_string().parse().unwrap_or(0.0))),
        _ => match numeric::to_i64(v) {
            Some(whole) => from_int(whole, to),
            None => Err(out_of_range(to.name())),
        },
    }
}

/// Rounds half to even, as PostgreSQL's float casts do.
fn from_float(v: f64, to: TypeKind) -> Result<Value, SqlError> {
    let rounded = v.round_ties_even();
    // 2^63 is the smallest float above the range of bigint.
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    if rounded.is_nan() || !(-LIMIT..LIMIT).contains(&rounded) {
        return Err(out_of_range(to.name()));
    }
    from_int(rounded as i64, to)
}

fn to_float4(v: f64) -> Result<Value, SqlError> {
    let narrow = v as f32;
    super::arith::check_float(
        narrow.is_infinite() && v.is_finite(),
        narrow == 0.0 && v != 0.0,
    )?;
    Ok(Value::Float4(narrow))
}

/// Returns error 42846: there is no such cast.
#[cold]
pub(crate) fn no_cast(from: &Type, to: &Type) -> SqlError {
    SqlError::new(
        SqlState::CANNOT_COERCE,
        format!("cannot cast type {} to {}", from.kind, to.kind),
    )
}

//! Functions and operators of inet, cidr and macaddr.

use super::library::pure;
use super::{ScalarFunction, mismatch};
use crate::error::{SqlError, SqlState};
use crate::types::Inet;
use crate::types::TypeKind::{self, Bool, Cidr, Inet as I, Int4, Int8, MacAddr, Text};
use crate::value::Value;

/// A bitwise operator.
type Bits = fn(u8, u8) -> u8;

#[rustfmt::skip]
pub(super) static FUNCTIONS: &[ScalarFunction] = &[
    pure("<<", BOTH, Bool, |v, _| both(v, |a, b| a.bits() > b.bits() && a.agrees(b, b.bits()))),
    pure("<<=", BOTH, Bool, |v, _| both(v, |a, b| a.bits() >= b.bits() && a.agrees(b, b.bits()))),
    pure(">>", BOTH, Bool, |v, _| both(v, |a, b| b.bits() > a.bits() && a.agrees(b, a.bits()))),
    pure(">>=", BOTH, Bool, |v, _| both(v, |a, b| b.bits() >= a.bits() && a.agrees(b, a.bits()))),
    pure("&&", BOTH, Bool, |v, _| both(v, |a, b| a.agrees(b, a.bits().min(b.bits())))),
    pure("inet_same_family", BOTH, Bool, |v, _| both(v, |a, b| a.is_v6() == b.is_v6())),
    pure("&", &[I, I], I, |a, _| combined(a, "AND", |x, y| x & y)),
    pure("|", &[I, I], I, |a, _| combined(a, "OR", |x, y| x | y)),
    pure("~", &[I], I, |a, _| Ok(of(a)?.map(|_, byte| !byte).into())),
    pure("+", &[I, Int8], I, |a, _| moved(of(a)?, by(a, 1)?)),
    pure("+", &[Int8, I], I, |a, _| moved(of(&a[1..])?, by(a, 0)?)),
    pure("-", &[I, Int8], I, |a, _| moved(of(a)?, -by(a, 1)?)),
    pure("-", &[I, I], Int8, |a, _| distance(of(a)?, of(&a[1..])?)),
    pure("&", &[MacAddr, MacAddr], MacAddr, |a, _| macs(a, |x, y| x & y)),
    pure("|", &[MacAddr, MacAddr], MacAddr, |a, _| macs(a, |x, y| x | y)),
    pure("~", &[MacAddr], MacAddr, |a, _| Ok(Value::MacAddr(mac(a)?.map(|byte| !byte)))),
    pure("trunc", &[MacAddr], MacAddr, |a, _| {
        let [x, y, z, ..] = mac(a)?;
        Ok(Value::MacAddr([x, y, z, 0, 0, 0]))
    }),
    pure("host", &[I], Text, |a, _| Ok(Value::text(of(a)?.host()))),
    pure("text", &[I], Text, |a, _| Ok(Value::text(of(a)?.with_its_bits()))),
    pure("abbrev", &[I], Text, |a, _| {
        let inet = of(a)?;
        Ok(Value::text(match inet.bits() == inet.bits_max() {
            true => inet.host(),
            false => inet.with_its_bits(),
        }))
    }),
    pure("abbrev", &[Cidr], Text, |a, _| Ok(Value::text(of(a)?.abbreviated()))),
    pure("family", &[I], Int4, |a, _| Ok(Value::Int4(of(a)?.family()))),
    pure("masklen", &[I], Int4, |a, _| Ok(Value::Int4(i32::from(of(a)?.bits())))),
    pure("network", &[I], Cidr, |a, _| Ok(of(a)?.network().into())),
    pure("cidr", &[I], Cidr, |a, _| Ok(of(a)?.network().into())),
    pure("broadcast", &[I], I, |a, _| {
        let inet = of(a)?;
        Ok(inet.map(|at, byte| byte | !inet.mask(at)).into())
    }),
    pure("netmask", &[I], I, |a, _| {
        let inet = of(a)?;
        Ok(whole(inet.map(|at, _| inet.mask(at))))
    }),
    pure("hostmask", &[I], I, |a, _| {
        let inet = of(a)?;
        Ok(whole(inet.map(|at, _| !inet.mask(at))))
    }),
    pure("set_masklen", &[I, Int4], I, |a, _| Ok(with_length(a)?.into())),
    pure("set_masklen", &[Cidr, Int4], Cidr, |a, _| Ok(with_length(a)?.network().into())),
    pure("inet_merge", &[I, I], Cidr, |a, _| {
        let (x, y) = (of(a)?, of(&a[1..])?);
        if x.is_v6() != y.is_v6() {
            return Err(invalid("cannot merge addresses from different families"));
        }
        let bits = x.common_bits(&y).min(x.bits()).min(y.bits());
        let both = x.with_bits(bits).ok_or_else(|| mismatch("inet_merge"))?;
        Ok(both.network().into())
    }),
];

const BOTH: &[TypeKind] = &[I, I];

fn of(args: &[Value]) -> Result<Inet, SqlError> {
    match args {
        [Value::Inet(inet), ..] => Ok(*inet),
        _ => Err(mismatch("an address")),
    }
}

fn both(args: &[Value], holds: fn(&Inet, &Inet) -> bool) -> Result<Value, SqlError> {
    Ok(Value::Bool(holds(&of(args)?, &of(&args[1..])?)))
}

fn by(args: &[Value], at: usize) -> Result<i128, SqlError> {
    let number = args.get(at).and_then(Value::as_int);
    number.map(i128::from).ok_or_else(|| mismatch("an address"))
}

fn mac(args: &[Value]) -> Result<[u8; 6], SqlError> {
    match args {
        [Value::MacAddr(mac), ..] => Ok(*mac),
        _ => Err(mismatch("a macaddr")),
    }
}

fn macs(args: &[Value], bits: Bits) -> Result<Value, SqlError> {
    let (a, b) = (mac(args)?, mac(&args[1..])?);
    Ok(Value::MacAddr(std::array::from_fn(|at| bits(a[at], b[at]))))
}

/// Sets the netmask length to all bits of the address.
fn whole(inet: Inet) -> Value {
    inet.with_bits(inet.bits_max()).unwrap_or(inet).into()
}

fn combined(args: &[Value], name: &str, bits: Bits) -> Result<Value, SqlError> {
    let (a, b) = (of(args)?, of(&args[1..])?);
    if a.is_v6() != b.is_v6() {
        let message = format!("cannot {name} inet values of different sizes");
        return Err(invalid(&message));
    }
    let both = a.map(|at, byte| bits(byte, b.address()[at]));
    Ok(both
        .with_bits(a.bits().max(b.bits()))
        .unwrap_or(both)
        .into())
}

fn with_length(args: &[Value]) -> Result<Inet, SqlError> {
    let inet = of(args)?;
    let length = by(args, 1)?;
    let bits = match length {
        -1 => Some(inet.bits_max()),
        length => u8::try_from(length).ok(),
    };
    bits.and_then(|bits| inet.with_bits(bits))
        .ok_or_else(|| invalid(&format!("invalid mask length: {length}")))
}

/// Returns the address as a number.
fn number(inet: &Inet) -> u128 {
    let bytes = inet.address().iter();
    bytes.fold(0, |number, byte| number << 8 | u128::from(*byte))
}

fn moved(inet: Inet, by: i128) -> Result<Value, SqlError> {
    let max = u128::MAX >> (128 - u32::from(inet.bits_max()));
    let sum = number(&inet).checked_add_signed(by);
    let sum = sum.filter(|sum| *sum <= max).ok_or_else(out_of_range)?;
    let bytes = sum.to_be_bytes();
    let first = bytes.len() - inet.address().len();
    Ok(inet.map(|at, _| bytes[first + at]).into())
}

fn distance(a: Inet, b: Inet) -> Result<Value, SqlError> {
    if a.is_v6() != b.is_v6() {
        return Err(invalid("cannot subtract inet values of different sizes"));
    }
    let (a, b) = (number(&a), number(&b));
    let apart = i128::try_from(a.abs_diff(b)).map_err(|_| out_of_range())?;
    let apart = if a < b { -apart } else { apart };
    i64::try_from(apart)
        .map(Value::Int8)
        .map_err(|_| out_of_range())
}

fn invalid(message: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

fn out_of_range() -> SqlError {
    SqlError::new(
        SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
        "result is out of range",
    )
}

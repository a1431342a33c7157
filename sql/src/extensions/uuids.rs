//! `uuid-ossp`: UUIDs of the versions 1, 3, 4 and 5, and the name spaces of RFC 4122.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use ring::digest::{self, SHA1_FOR_LEGACY_USE_ONLY as SHA1};
use uuid::{Builder, Uuid};

use super::{ExtensionFunction, random, unnamed};
use crate::context::EvalContext;
use crate::error::SqlError;
use crate::functions::{md5, mismatch, pure, volatile};
use crate::types::TypeKind::{Text, Uuid as UuidKind};
use crate::value::Value;

type Outcome = Result<Value, SqlError>;

/// The time from 1582-10-15, the epoch of version 1, to 2000-01-01, in units of 100 ns.
const EPOCH: u64 = 131_659_776_000_000_000;
const TICKS_OF_MICROSECOND: u64 = 10;

const fn constant(
    name: &'static str,
    eval: fn(&[Value], &EvalContext) -> Outcome,
) -> ExtensionFunction {
    unnamed(name, pure(name, &[], UuidKind, eval))
}

const fn fresh(
    name: &'static str,
    eval: fn(&[Value], &EvalContext) -> Outcome,
) -> ExtensionFunction {
    unnamed(name, volatile(name, &[], UuidKind, eval))
}

const fn of_name(
    name: &'static str,
    eval: fn(&[Value], &EvalContext) -> Outcome,
) -> ExtensionFunction {
    ExtensionFunction {
        symbol: name,
        names: &["namespace", "name"],
        function: pure(name, &[UuidKind, Text], UuidKind, eval),
    }
}

pub(super) static FUNCTIONS: &[ExtensionFunction] = &[
    constant("uuid_nil", |_, _| to_value(Uuid::nil())),
    constant("uuid_ns_dns", |_, _| to_value(Uuid::NAMESPACE_DNS)),
    constant("uuid_ns_url", |_, _| to_value(Uuid::NAMESPACE_URL)),
    constant("uuid_ns_oid", |_, _| to_value(Uuid::NAMESPACE_OID)),
    constant("uuid_ns_x500", |_, _| to_value(Uuid::NAMESPACE_X500)),
    fresh("uuid_generate_v1", |_, cx| {
        /// The node of all version 1 UUIDs of this process.
        static NODE: OnceLock<[u8; 6]> = OnceLock::new();
        let mut node = [0; 6];
        random::fill(&mut node)?;
        of_time(cx, *NODE.get_or_init(|| node))
    }),
    fresh("uuid_generate_v1mc", |_, cx| {
        let mut node = [0; 6];
        random::fill(&mut node)?;
        of_time(cx, node)
    }),
    of_name("uuid_generate_v3", |args, _| {
        let name = named(args)?;
        to_value(Builder::from_md5_bytes(md5(&name)).into_uuid())
    }),
    fresh("uuid_generate_v4", |_, _| {
        let mut bytes = [0; 16];
        random::fill(&mut bytes)?;
        to_value(Builder::from_random_bytes(bytes).into_uuid())
    }),
    of_name("uuid_generate_v5", |args, _| {
        let hash = digest::digest(&SHA1, &named(args)?);
        let bytes = hash.as_ref().first_chunk::<16>();
        let bytes = bytes.ok_or_else(|| mismatch("uuid_generate_v5"))?;
        to_value(Builder::from_sha1_bytes(*bytes).into_uuid())
    }),
];

fn to_value(uuid: Uuid) -> Outcome {
    Ok(Value::Uuid(uuid.into_bytes()))
}

/// Returns the bytes that versions 3 and 5 hash.
fn named(args: &[Value]) -> Result<Vec<u8>, SqlError> {
    match args {
        [Value::Uuid(space), name] => {
            let name = name.as_text().unwrap_or_default();
            Ok([&space[..], name.as_bytes()].concat())
        }
        _ => Err(mismatch("a UUID of a name")),
    }
}

/// Creates a UUID of version 1. The node is random, which its multicast bit indicates; the hardware
/// address is not used.
fn of_time(cx: &EvalContext, mut node: [u8; 6]) -> Outcome {
    /// The time of the last UUID, in units of 100 ns. It makes the UUIDs of this process unique.
    static LAST: AtomicU64 = AtomicU64::new(0);
    node[0] |= 1;
    let now = u64::try_from(cx.clock_now()).unwrap_or(0);
    let now = now * TICKS_OF_MICROSECOND + EPOCH;
    let next = |last: u64| Some(now.max(last + 1));
    let last = LAST.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
    let ticks = now.max(last.unwrap_or(0) + 1);
    let mut sequence = [0; 2];
    random::fill(&mut sequence)?;
    let (low, middle, high) = (ticks as u32, (ticks >> 32) as u16, (ticks >> 48) as u16);
    let sequence = [sequence[0] & 0x3f | 0x80, sequence[1]];
    let last = [&sequence[..], &node[..]].concat();
    let last = last.first_chunk::<8>();
    let last = last.ok_or_else(|| mismatch("a UUID of a time"))?;
    to_value(Uuid::from_fields(low, middle, high & 0x0fff | 0x1000, last))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::extensions::function;

    fn call(name: &str, args: &[Value]) -> Uuid {
        // One second after 2000-01-01.
        let cx = EvalContext::new(Arc::default(), 1_000_000, 0);
        let kinds = [UuidKind, Text];
        let function = function(name, &kinds[..args.len()]).expect("it is there");
        match (function.eval)(args, &cx) {
            Ok(Value::Uuid(bytes)) => Uuid::from_bytes(bytes),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn times_are_extracted_and_never_repeat() {
        let mut before = call("uuid_generate_v1", &[]);
        for _ in 0..100 {
            let next = call("uuid_generate_v1mc", &[]);
            assert_eq!(next.get_version_num(), 1);
            let (low, middle, high, _) = next.as_fields();
            let ticks = u64::from(high & 0x0fff) << 48 | u64::from(middle) << 32 | u64::from(low);
            let since = ticks - EPOCH;
            assert!((10_000_000..20_000_000).contains(&since), "{since}");
            assert_ne!(next, before);
            before = next;
        }
    }
}

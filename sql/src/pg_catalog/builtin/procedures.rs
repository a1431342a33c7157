//! The functions of `pg_proc`.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use super::super::rows::{Rows, object, vector};
use super::super::server::INTERNAL_LANGUAGE;
use super::super::{PG_CATALOG_NAMESPACE, RowInputs};
use super::lines;
use crate::bound::Volatility;
use crate::catalog::{CATALOG_SCHEMA, SUPERUSER_OID};
use crate::functions::{ScalarFunction, library, quote_ident};
use crate::types::Type;
use crate::value::Value;

/// The oid of the first library function that PostgreSQL does not have; the others follow it.
const FIRST_OWN: u32 = 10_000;

/// A function of `pg_catalog`.
pub struct Procedure {
    /// The oid.
    pub oid: u32,
    /// The name.
    pub name: &'static str,
    /// The oids of the argument types.
    pub args: Vec<u32>,
    /// The function of the library that implements it; `None` if it cannot be called.
    pub function: Option<&'static ScalarFunction>,
    kind: &'static str,
    volatility: &'static str,
    is_strict: bool,
    returns_set: bool,
    result: u32,
    variadic: u32,
}

static PROCEDURES: LazyLock<Vec<Procedure>> = LazyLock::new(all);
static BY_NAME: LazyLock<HashMap<&str, Vec<usize>>> = LazyLock::new(|| {
    let mut named: HashMap<&str, Vec<usize>> = HashMap::new();
    for (at, of) in PROCEDURES.iter().enumerate() {
        named.entry(of.name).or_default().push(at);
    }
    named
});
static BY_OID: LazyLock<HashMap<u32, usize>> = LazyLock::new(|| {
    let all = PROCEDURES.iter().enumerate();
    all.map(|(at, procedure)| (procedure.oid, at)).collect()
});

fn all() -> Vec<Procedure> {
    let signature = |of: &ScalarFunction| of.args.iter().map(|kind| kind.oid()).collect();
    let library: Vec<(Vec<u32>, &ScalarFunction)> =
        library().map(|of| (signature(of), of)).collect();
    let mut callable: HashMap<(&str, &[u32]), &'static ScalarFunction> = HashMap::new();
    for (args, of) in &library {
        callable.entry((of.name, args)).or_insert(of);
    }
    let mut procedures: Vec<Procedure> = lines(include_str!("procedures.txt"), 9)
        .map(|row| {
            let args = row.0[8].split(',').filter_map(|oid| oid.parse().ok());
            let args: Vec<u32> = args.collect();
            Procedure {
                oid: row.number(0),
                name: row.0[1],
                function: callable.get(&(row.0[1], &*args)).copied(),
                args,
                kind: row.0[2],
                volatility: row.0[3],
                is_strict: row.flag(4),
                returns_set: row.flag(5),
                result: row.number(6),
                variadic: row.number(7),
            }
        })
        .collect();
    let known: HashSet<(&str, Vec<u32>)> = procedures
        .iter()
        .map(|of| (of.name, of.args.clone()))
        .collect();
    let own = library
        .into_iter()
        .filter(|(args, of)| is_identifier(of.name) && !known.contains(&(of.name, args.clone())));
    for (oid, (args, of)) in (FIRST_OWN..).zip(own) {
        procedures.push(Procedure::own(oid, args, of));
    }
    procedures
}

/// Returns whether a library function has an identifier as its name, and not an operator.
fn is_identifier(name: &str) -> bool {
    let mut all = name.bytes();
    all.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

impl Procedure {
    fn own(oid: u32, args: Vec<u32>, of: &'static ScalarFunction) -> Procedure {
        let volatility = match of.volatility {
            Volatility::Immutable => "i",
            Volatility::Stable => "s",
            Volatility::Volatile => "v",
        };
        Procedure {
            oid,
            name: of.name,
            args,
            function: Some(of),
            kind: "f",
            volatility,
            is_strict: of.strict,
            returns_set: false,
            result: Type::of(of.result).oid(),
            variadic: 0,
        }
    }

    /// Returns all functions.
    pub fn all() -> &'static [Procedure] {
        &PROCEDURES
    }

    /// Returns the function with an oid.
    pub fn of(oid: u32) -> Option<&'static Procedure> {
        BY_OID.get(&oid).map(|at| &PROCEDURES[*at])
    }

    /// Returns the functions with a name.
    pub fn named(name: &str) -> impl Iterator<Item = &'static Procedure> {
        let named = BY_NAME.get(name).into_iter().flatten();
        named.map(|at| &PROCEDURES[*at])
    }

    /// Returns the name as regproc shows it: qualified if the name is ambiguous.
    pub fn display_name(&self) -> String {
        let name = quote_ident(self.name);
        match Procedure::named(self.name).nth(1) {
            None => name,
            Some(_) => format!("{CATALOG_SCHEMA}.{name}"),
        }
    }

    /// Returns the regproc value for an oid.
    pub fn value(oid: u32) -> Value {
        match Procedure::of(oid) {
            Some(of) => object(oid, &of.display_name()),
            None => object(oid, "-"),
        }
    }

    /// Returns the oid of the result type.
    pub fn result(&self) -> u32 {
        self.result
    }

    /// Returns whether it is a set-returning function.
    pub fn returns_set(&self) -> bool {
        self.returns_set
    }

    /// Returns whether its last argument can be given any number of times.
    pub fn is_variadic(&self) -> bool {
        self.variadic != 0 || self.function.is_some_and(|of| of.variadic)
    }
}

/// Adds the rows of `pg_proc` for the functions of `pg_catalog`.
pub fn functions(rows: &mut Rows, _: &RowInputs<'_>) {
    for of in Procedure::all() {
        let types = vector(of.args.iter().map(|oid| Value::Oid(*oid)));
        rows.add([
            ("oid", Value::Oid(of.oid)),
            ("proname", Value::text(of.name)),
            ("pronamespace", Value::Oid(PG_CATALOG_NAMESPACE)),
            ("proowner", Value::Oid(SUPERUSER_OID)),
            ("prolang", Value::Oid(INTERNAL_LANGUAGE)),
            ("procost", Value::Float4(1.0)),
            (
                "prorows",
                Value::Float4(if of.returns_set { 1000.0 } else { 0.0 }),
            ),
            ("provariadic", Value::Oid(of.variadic)),
            ("prokind", Value::text(of.kind)),
            ("proisstrict", Value::Bool(of.is_strict)),
            ("proretset", Value::Bool(of.returns_set)),
            ("provolatile", Value::text(of.volatility)),
            ("proparallel", Value::text("s")),
            ("pronargs", Value::Int2(of.args.len() as i16)),
            ("prorettype", Value::Oid(of.result)),
            ("proargtypes", types),
            ("prosrc", Value::text(of.name)),
        ]);
    }
}

//! Extensions: what CREATE EXTENSION may name, and the functions that each brings along.
//!
//! ```text
//! CREATE EXTENSION ──▶ rows of the catalog: the extension, and a routine in LANGUAGE c for each of its functions
//! a call of one ─────▶ found, allowed and guarded as a user's function is ──▶ `function`: what it does
//! ```
//! So they are found only where the extension was created, and in its schema. A routine's body is the symbol by which its
//! function is known here, whatever it is called since.

mod crypt;
mod crypto;
mod random;
mod uuids;

use crate::functions::ScalarFunction;
use crate::types::TypeKind;

/// An extension that there is.
#[derive(Debug)]
pub struct Extension {
    /// Its name.
    pub name: &'static str,
    /// Its version.
    pub version: &'static str,
    /// What it is for.
    pub comment: &'static str,
    /// Whoever may create objects in the database may create it.
    pub is_trusted: bool,
    /// The one schema that it can be in.
    pub schema: Option<&'static str>,
    /// The types that it brings along: only citext there is.
    pub types: &'static [&'static str],
    /// The tables of its functions.
    pub functions: &'static [&'static [Provided]],
}

/// A function that an extension brings along.
#[derive(Debug)]
pub struct Provided {
    /// By which it is known, with the types of its arguments.
    pub symbol: &'static str,
    /// What its arguments are called; none where they have no names.
    pub names: &'static [&'static str],
    /// What it is called first, and what it does.
    pub function: ScalarFunction,
}

/// The extension that every database has from the start.
pub const PLPGSQL: &str = "plpgsql";

/// All extensions, by name.
pub static AVAILABLE: [Extension; 5] = [
    Extension {
        name: "citext",
        version: "1.6",
        comment: "data type for case-insensitive character strings",
        is_trusted: true,
        schema: None,
        types: &["citext"],
        functions: &[],
    },
    Extension {
        name: "pg_stat_statements",
        version: "1.10",
        comment: "track planning and execution statistics of all SQL statements executed",
        is_trusted: false,
        schema: None,
        types: &[],
        // The view and its function are the system's.
        functions: &[],
    },
    Extension {
        name: "pgcrypto",
        version: "1.3",
        comment: "cryptographic functions",
        is_trusted: true,
        schema: None,
        types: &[],
        functions: &[crypto::FUNCTIONS, crypto::REFUSED],
    },
    Extension {
        name: PLPGSQL,
        version: "1.0",
        comment: "PL/pgSQL procedural language",
        is_trusted: true,
        schema: Some(crate::catalog::CATALOG_SCHEMA),
        types: &[],
        functions: &[],
    },
    Extension {
        name: "uuid-ossp",
        version: "1.1",
        comment: "generate universally unique identifiers (UUIDs)",
        is_trusted: true,
        schema: None,
        types: &[],
        functions: &[uuids::FUNCTIONS],
    },
];

impl Extension {
    /// The extension of a name.
    pub fn named(name: &str) -> Option<&'static Extension> {
        AVAILABLE.iter().find(|of| of.name == name)
    }

    /// Its functions.
    pub fn provided(&self) -> impl Iterator<Item = &'static Provided> + use<> {
        self.functions.iter().flat_map(|table| table.iter())
    }

    /// Can it be moved to another schema?
    pub fn is_relocatable(&self) -> bool {
        self.schema.is_none()
    }
}

/// The function that is known by a symbol and takes these.
pub fn function(symbol: &str, kinds: &[TypeKind]) -> Option<&'static ScalarFunction> {
    let mut all = AVAILABLE.iter().flat_map(Extension::provided);
    let found = all.find(|of| of.symbol == symbol && of.function.args == kinds);
    found.map(|of| &of.function)
}

/// The extension whose functions a symbol is of.
pub fn of_symbol(symbol: &str) -> Option<&'static Extension> {
    AVAILABLE
        .iter()
        .find(|of| of.provided().any(|provided| provided.symbol == symbol))
}

/// A function without names for its arguments.
const fn unnamed(symbol: &'static str, function: ScalarFunction) -> Provided {
    Provided {
        symbol,
        names: &[],
        function,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_function_is_found_by_its_symbol_and_its_types() {
        for extension in &AVAILABLE {
            for of in extension.provided() {
                let found = function(of.symbol, of.function.args).expect("it is there");
                assert!(std::ptr::eq(found, &of.function), "{}", of.symbol);
                assert_eq!(of_symbol(of.symbol).expect("one").name, extension.name);
                let names = of.names.len();
                assert!(names == 0 || names == of.function.args.len());
            }
        }
    }
}

//! Extensions: the names for CREATE EXTENSION, and the functions of each extension.
//!
//! ```text
//! CREATE EXTENSION ───▶ rows of the catalog: the extension, and for each function a routine in
//!                       LANGUAGE c
//! call of a function ─▶ resolved and checked like a user-defined function ──▶ `function`: its code
//! ```
//! The functions are therefore visible only where the extension was created, and in its schema. The
//! body of such a routine is a symbol that identifies the function here, even after the routine is
//! renamed.

mod crypt;
mod crypto;
mod random;
mod uuids;

use crate::functions::ScalarFunction;
use crate::types::TypeKind;

/// An available extension.
#[derive(Debug)]
pub struct Extension {
    /// The name.
    pub name: &'static str,
    /// The version.
    pub version: &'static str,
    /// The description.
    pub comment: &'static str,
    /// Whether every user who can create objects in the database can create it.
    pub is_trusted: bool,
    /// The only schema that it can be in; `None` for any schema.
    pub schema: Option<&'static str>,
    /// The names of its types; only citext exists.
    pub types: &'static [&'static str],
    /// The tables of its functions.
    pub functions: &'static [&'static [ExtensionFunction]],
}

/// A function of an extension.
#[derive(Debug)]
pub struct ExtensionFunction {
    /// The symbol that identifies it, together with the argument types.
    pub symbol: &'static str,
    /// The argument names; empty if they have none.
    pub names: &'static [&'static str],
    /// The initial name and the implementation.
    pub function: ScalarFunction,
}

/// The built-in extension of every database.
pub const PLPGSQL: &str = "plpgsql";

/// All extensions, sorted by name.
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
        // The view and its function are built in.
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
    /// Returns the extension with a name.
    pub fn named(name: &str) -> Option<&'static Extension> {
        AVAILABLE.iter().find(|of| of.name == name)
    }

    /// Returns the functions of the extension.
    pub fn provided(&self) -> impl Iterator<Item = &'static ExtensionFunction> + use<> {
        self.functions.iter().flat_map(|table| table.iter())
    }

    /// Returns whether it can be moved to another schema.
    pub fn is_relocatable(&self) -> bool {
        self.schema.is_none()
    }
}

/// Returns the function with a symbol and argument types.
pub fn function(symbol: &str, kinds: &[TypeKind]) -> Option<&'static ScalarFunction> {
    let mut all = AVAILABLE.iter().flat_map(Extension::provided);
    let found = all.find(|of| of.symbol == symbol && of.function.args == kinds);
    found.map(|of| &of.function)
}

/// Returns the extension that has a function with this symbol.
pub fn of_symbol(symbol: &str) -> Option<&'static Extension> {
    AVAILABLE
        .iter()
        .find(|of| of.provided().any(|provided| provided.symbol == symbol))
}

/// Defines a function whose arguments have no names.
const fn unnamed(symbol: &'static str, function: ScalarFunction) -> ExtensionFunction {
    ExtensionFunction {
        symbol,
        names: &[],
        function,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn function_is_found_by_symbol_and_types() {
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

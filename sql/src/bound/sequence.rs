//! CREATE, ALTER and DROP SEQUENCE.

use crate::types::TypeKind;

/// What is said of a sequence; `None` where nothing is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SequenceOptions {
    /// SEQUENCE NAME, of an identity column.
    pub name: Option<String>,
    /// AS
    pub kind: Option<TypeKind>,
    /// INCREMENT
    pub increment: Option<i64>,
    /// MINVALUE; `Some(None)` is NO MINVALUE.
    pub min: Option<Option<i64>>,
    /// MAXVALUE; `Some(None)` is NO MAXVALUE.
    pub max: Option<Option<i64>>,
    /// START
    pub start: Option<i64>,
    /// CACHE
    pub cache: Option<i64>,
    /// CYCLE
    pub cycle: Option<bool>,
    /// OWNED BY schema, table and column; `Some(None)` is NONE.
    pub owner: Option<Option<(Option<String>, String, String)>>,
    /// RESTART; `Some(None)` is at its start.
    pub restart: Option<Option<i64>>,
}

/// CREATE SEQUENCE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateSequence {
    /// The schema, if given.
    pub schema: Option<String>,
    /// The name.
    pub name: String,
    /// Nothing happens where it exists.
    pub if_not_exists: bool,
    /// What it is to be.
    pub options: SequenceOptions,
}

/// ALTER SEQUENCE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlterSequence {
    /// The schema, if given.
    pub schema: Option<String>,
    /// The name.
    pub name: String,
    /// It may be missing.
    pub if_exists: bool,
    /// RENAME TO.
    pub rename: Option<String>,
    /// What it is to be.
    pub options: SequenceOptions,
    /// It was said of an identity column.
    pub of_column: bool,
}

impl AlterSequence {
    /// The command tag.
    pub fn tag(&self) -> &'static str {
        match self.of_column {
            true => "ALTER TABLE",
            false => "ALTER SEQUENCE",
        }
    }
}

/// DROP SEQUENCE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DropSequence {
    /// Schemas and names.
    pub names: Vec<(Option<String>, String)>,
    /// They may be missing.
    pub if_exists: bool,
    /// What depends on them goes, too.
    pub cascade: bool,
}

/// The sequence of a SERIAL or IDENTITY column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewSequence {
    /// The column, by position in the table.
    pub column: usize,
    /// What it is to be.
    pub options: SequenceOptions,
}

//! CREATE, ALTER and DROP SEQUENCE.

use crate::types::TypeKind;

/// The options of a sequence; `None` for those that the statement omits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SequenceOptions {
    /// SEQUENCE NAME of an identity column.
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
    /// RESTART; `Some(None)` restarts at the start value.
    pub restart: Option<Option<i64>>,
}

/// CREATE SEQUENCE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateSequence {
    /// The schema, if given.
    pub schema: Option<String>,
    /// The name of the new sequence.
    pub name: String,
    /// IF NOT EXISTS: an existing sequence is only a notice.
    pub if_not_exists: bool,
    /// The options of the statement.
    pub options: SequenceOptions,
}

/// ALTER SEQUENCE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlterSequence {
    /// The schema, if given.
    pub schema: Option<String>,
    /// The name of the sequence.
    pub name: String,
    /// IF EXISTS: a missing sequence is only a notice.
    pub if_exists: bool,
    /// RENAME TO.
    pub rename: Option<String>,
    /// The options to change.
    pub options: SequenceOptions,
    /// Whether the statement is an ALTER TABLE of an identity column.
    pub of_column: bool,
}

impl AlterSequence {
    /// Returns the command tag.
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
    /// The schemas, if given, and the names.
    pub names: Vec<(Option<String>, String)>,
    /// IF EXISTS: a missing sequence is only a notice.
    pub if_exists: bool,
    /// CASCADE: dependent objects are dropped, too.
    pub cascade: bool,
}

/// The sequence of a SERIAL or IDENTITY column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewSequence {
    /// The column, by position in the table.
    pub column: usize,
    /// The options of the new sequence.
    pub options: SequenceOptions,
}

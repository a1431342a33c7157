//! Statements that change the session: settings and transaction modes. Also EXPLAIN.

use super::statement::Statement;

/// The modes of BEGIN, START TRANSACTION and SET TRANSACTION. `None` keeps the default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TransactionModes {
    /// ISOLATION LEVEL
    pub isolation: Option<Isolation>,
    /// READ ONLY or READ WRITE
    pub read_only: Option<bool>,
    /// DEFERRABLE or NOT DEFERRABLE
    pub deferrable: Option<bool>,
}

/// An isolation level by its SQL name. All levels give strict serializability.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isolation {
    /// READ UNCOMMITTED
    ReadUncommitted,
    /// READ COMMITTED
    ReadCommitted,
    /// REPEATABLE READ
    RepeatableRead,
    /// SERIALIZABLE
    Serializable,
}

impl Isolation {
    /// Returns the name as `SHOW transaction_isolation` displays it.
    pub fn name(self) -> &'static str {
        match self {
            Isolation::ReadUncommitted => "read uncommitted",
            Isolation::ReadCommitted => "read committed",
            Isolation::RepeatableRead => "repeatable read",
            Isolation::Serializable => "serializable",
        }
    }
}

/// The duration of a SET.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetScope {
    /// The whole session; the change is undone if the transaction aborts.
    Session,
    /// The rest of the transaction (SET LOCAL).
    Local,
}

/// A SET.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetStatement {
    /// The setting's name in lower case.
    pub name: String,
    /// The duration of the change.
    pub scope: SetScope,
    /// The new value.
    pub value: SetValue,
}

/// The new value of a SET.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SetValue {
    /// The default value.
    Default,
    /// A value; the elements of a list are joined by `, `.
    Value(String),
}

/// A change of the server's settings.
#[derive(Clone, Debug, PartialEq)]
pub enum SystemChange {
    /// ALTER SYSTEM SET name TO value.
    Set(String, String),
    /// ALTER SYSTEM RESET name, and SET name TO DEFAULT.
    Reset(String),
    /// ALTER SYSTEM RESET ALL.
    ResetAll,
}

/// EXPLAIN.
#[derive(Clone, Debug, PartialEq)]
pub struct Explain {
    /// The options of the statement.
    pub options: ExplainOptions,
    /// The statement to explain.
    pub statement: Box<Statement>,
}

/// The options of EXPLAIN that have an effect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExplainOptions {
    /// ANALYZE: the statement is executed.
    pub analyze: bool,
    /// VERBOSE: the output columns of each node are displayed.
    pub verbose: bool,
    /// SUMMARY: the times are displayed; `None` has the value of ANALYZE.
    pub summary: Option<bool>,
    /// The output format.
    pub format: ExplainFormat,
}

/// The output format of EXPLAIN.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ExplainFormat {
    /// Lines of text.
    #[default]
    Text,
    /// JSON.
    Json,
    /// XML.
    Xml,
    /// YAML.
    Yaml,
}

/// The state that DISCARD resets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiscardKind {
    /// The whole session state.
    All,
    /// Cached plans.
    Plans,
    /// Sequence caches.
    Sequences,
    /// Temporary tables.
    Temp,
}

//! Bound statements that change the session: settings and transaction modes; and EXPLAIN.

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

/// An isolation level by its SQL name. All of them give strict serializability.
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
    /// As `SHOW transaction_isolation` writes it.
    pub fn name(self) -> &'static str {
        match self {
            Isolation::ReadUncommitted => "read uncommitted",
            Isolation::ReadCommitted => "read committed",
            Isolation::RepeatableRead => "repeatable read",
            Isolation::Serializable => "serializable",
        }
    }
}

/// How long a SET holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetScope {
    /// For the session, undone if the transaction aborts.
    Session,
    /// Until the end of the transaction (SET LOCAL).
    Local,
}

/// A SET.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetStatement {
    /// The setting's name in lower case.
    pub name: String,
    /// How long it holds.
    pub scope: SetScope,
    /// The value.
    pub value: SetValue,
}

/// What a SET sets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SetValue {
    /// Back to the default.
    Default,
    /// A value, lists joined by `, `.
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
    /// How.
    pub options: ExplainOptions,
    /// The statement.
    pub statement: Box<Statement>,
}

/// The options of EXPLAIN that make a difference here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExplainOptions {
    /// Run the statement too.
    pub analyze: bool,
    /// Tell what each node gives.
    pub verbose: bool,
    /// Tell how long it took; as ANALYZE unless said.
    pub summary: Option<bool>,
    /// In what form it is told.
    pub format: ExplainFormat,
}

/// In what form EXPLAIN tells.
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

/// What DISCARD forgets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiscardKind {
    /// Everything.
    All,
    /// Cached plans.
    Plans,
    /// Sequence caches.
    Sequences,
    /// Temporary tables.
    Temp,
}

//! The error type of all SQL crates: a SQLSTATE, a message and the optional fields of an error
//! report.
//!
//! The fields are behind one pointer, so the success path of a `Result<_, SqlError>` stays small.

use std::backtrace::Backtrace;
use std::fmt;
use std::sync::Arc;

/// A five-character SQLSTATE.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct SqlState([u8; 5]);

impl SqlState {
    /// Creates a state from its five ASCII characters.
    pub const fn new(code: &[u8; 5]) -> SqlState {
        SqlState(*code)
    }

    /// Returns the five characters.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or("XX000")
    }

    /// Returns the two-character class of the state.
    pub fn class(&self) -> &str {
        &self.as_str()[..2]
    }
}

impl fmt::Debug for SqlState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for SqlState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

macro_rules! states {
    ($($name:ident = $code:literal, $doc:literal;)*) => {
        impl SqlState {
            $(#[doc = $doc] pub const $name: SqlState = SqlState::new($code);)*
        }
    };
}

states! {
    SUCCESSFUL_COMPLETION = b"00000", "No error.";
    WARNING = b"01000", "A warning.";
    PROTOCOL_VIOLATION = b"08P01", "The client broke the wire protocol.";
    CONNECTION_FAILURE = b"08006", "The connection failed.";
    TRANSACTION_RESOLUTION_UNKNOWN = b"08007", "Whether it has taken effect is not known.";
    FEATURE_NOT_SUPPORTED = b"0A000", "Not supported here.";
    CARDINALITY_VIOLATION = b"21000", "More rows than one.";
    STRING_DATA_RIGHT_TRUNCATION = b"22001", "Value too long for its type.";
    NUMERIC_VALUE_OUT_OF_RANGE = b"22003", "A number out of its type's range.";
    NULL_VALUE_NOT_ALLOWED = b"22004", "NULL where a value is required.";
    INVALID_DATETIME_FORMAT = b"22007", "A date or time that cannot be read.";
    DATETIME_FIELD_OVERFLOW = b"22008", "A date or time out of range.";
    SUBSTRING_ERROR = b"22011", "A negative substring length.";
    DIVISION_BY_ZERO = b"22012", "Division by zero.";
    INVALID_ARGUMENT_FOR_LOG = b"2201E", "The logarithm of zero or less.";
    INVALID_ARGUMENT_FOR_POWER = b"2201F", "A power that is not a real number.";
    INVALID_ROW_COUNT_IN_LIMIT = b"2201W", "A negative LIMIT.";
    INVALID_ROW_COUNT_IN_OFFSET = b"2201X", "A negative OFFSET.";
    CHARACTER_NOT_IN_REPERTOIRE = b"22021", "Bytes that are not the encoding's.";
    INVALID_PARAMETER_VALUE = b"22023", "A parameter value that is not allowed.";
    INVALID_ESCAPE_SEQUENCE = b"22025", "A LIKE pattern that ends with its escape.";
    INVALID_ESCAPE_CHARACTER = b"22019", "An escape that is not one character.";
    ARRAY_SUBSCRIPT_ERROR = b"2202E", "A subscript out of range.";
    INVALID_REGULAR_EXPRESSION = b"2201B", "A regular expression that cannot be read.";
    INVALID_TEXT_REPRESENTATION = b"22P02", "Text that is not of the type.";
    INVALID_BINARY_REPRESENTATION = b"22P03", "Binary data that is not of the type.";
    BAD_COPY_FILE_FORMAT = b"22P04", "COPY data that cannot be read.";
    UNTRANSLATABLE_CHARACTER = b"22P05", "A character the encoding has not.";
    NOT_NULL_VIOLATION = b"23502", "NULL in a NOT NULL column.";
    FOREIGN_KEY_VIOLATION = b"23503", "A reference to a missing row.";
    UNIQUE_VIOLATION = b"23505", "A second row with a unique key.";
    CHECK_VIOLATION = b"23514", "A row a CHECK rejects.";
    INVALID_CURSOR_STATE = b"24000", "The cursor is not where the command needs it.";
    ACTIVE_SQL_TRANSACTION = b"25001", "Not inside a transaction block.";
    READ_ONLY_SQL_TRANSACTION = b"25006", "A write in a read-only transaction.";
    NO_ACTIVE_SQL_TRANSACTION = b"25P01", "Only inside a transaction block.";
    IN_FAILED_SQL_TRANSACTION = b"25P02", "The transaction block has failed.";
    INVALID_SQL_STATEMENT_NAME = b"26000", "No such prepared statement.";
    INVALID_AUTHORIZATION = b"28000", "This role may not log in.";
    INVALID_PASSWORD = b"28P01", "The password is wrong.";
    DEPENDENT_OBJECTS = b"2BP01", "Other objects depend on it.";
    INVALID_CURSOR_NAME = b"34000", "No such cursor.";
    INVALID_SAVEPOINT = b"3B001", "No such savepoint.";
    INVALID_CATALOG_NAME = b"3D000", "No such database.";
    INVALID_SCHEMA_NAME = b"3F000", "No such schema.";
    SERIALIZATION_FAILURE = b"40001", "A conflict: try the transaction again.";
    DEADLOCK_DETECTED = b"40P01", "A deadlock: try the transaction again.";
    SYNTAX_ERROR = b"42601", "The text is not SQL.";
    INSUFFICIENT_PRIVILEGE = b"42501", "Not allowed for this role.";
    WINDOWING_ERROR = b"42P20", "A window function where or as it must not be.";
    INVALID_FRAME_OFFSET = b"22013", "A negative offset of a window's frame.";
    INVALID_ARGUMENT_FOR_NTILE = b"22014", "Zero or fewer buckets.";
    INVALID_ARGUMENT_FOR_NTH_VALUE = b"22016", "A row before the first.";
    INVALID_NAME = b"42602", "A name that is not allowed.";
    INVALID_RECURSION = b"42P19", "A recursive query that is not of the form it must have.";
    NAME_TOO_LONG = b"42622", "A name too long.";
    DUPLICATE_COLUMN = b"42701", "A column twice.";
    AMBIGUOUS_COLUMN = b"42702", "A column name that fits several.";
    UNDEFINED_COLUMN = b"42703", "No such column.";
    UNDEFINED_OBJECT = b"42704", "No such type, role, setting or index.";
    DUPLICATE_OBJECT = b"42710", "An object of that name exists.";
    DUPLICATE_ALIAS = b"42712", "A table name twice in one FROM.";
    AMBIGUOUS_FUNCTION = b"42725", "A call that fits several functions.";
    GROUPING_ERROR = b"42803", "A column outside GROUP BY and aggregates.";
    DATATYPE_MISMATCH = b"42804", "An expression of the wrong type.";
    WRONG_OBJECT_TYPE = b"42809", "An object of another kind.";
    CANNOT_COERCE = b"42846", "No cast between these types.";
    UNDEFINED_FUNCTION = b"42883", "No such function or operator.";
    RESERVED_NAME = b"42939", "A name kept for the system.";
    UNDEFINED_TABLE = b"42P01", "No such table.";
    UNDEFINED_PARAMETER = b"42P02", "No such parameter.";
    DUPLICATE_CURSOR = b"42P03", "A cursor of that name exists.";
    DUPLICATE_PREPARED_STATEMENT = b"42P05", "A prepared statement of that name exists.";
    DUPLICATE_TABLE = b"42P07", "A relation of that name exists.";
    AMBIGUOUS_PARAMETER = b"42P08", "A parameter used with two types.";
    INVALID_COLUMN_REFERENCE = b"42P10", "A position that is not in the list.";
    INVALID_CURSOR_DEFINITION = b"42P11", "A cursor that cannot be.";
    INVALID_TABLE_DEFINITION = b"42P16", "A table that cannot be.";
    INVALID_OBJECT_DEFINITION = b"42P17", "An object that cannot be.";
    INDETERMINATE_DATATYPE = b"42P18", "A parameter whose type cannot be told.";
    OUT_OF_MEMORY = b"53200", "The memory limit is reached.";
    DISK_FULL = b"53100", "The disk is full.";
    CONFIGURATION_LIMIT_EXCEEDED = b"53400", "A limit that the configuration sets is exceeded.";
    TOO_MANY_CONNECTIONS = b"53300", "Too many connections.";
    PROGRAM_LIMIT_EXCEEDED = b"54000", "A stated limit is exceeded.";
    STATEMENT_TOO_COMPLEX = b"54001", "The statement is nested too deeply.";
    TOO_MANY_COLUMNS = b"54011", "Too many columns.";
    TOO_MANY_ARGUMENTS = b"54023", "Too many arguments.";
    OBJECT_NOT_IN_PREREQUISITE_STATE = b"55000", "The object is not ready for this.";
    OBJECT_IN_USE = b"55006", "The object is in use.";
    CANT_CHANGE_RUNTIME_PARAM = b"55P02", "The setting cannot be changed now.";
    LOCK_NOT_AVAILABLE = b"55P03", "The row is locked.";
    QUERY_CANCELED = b"57014", "The statement was cancelled.";
    ADMIN_SHUTDOWN = b"57P01", "The server shuts down.";
    CANNOT_CONNECT_NOW = b"57P03", "The server is not ready.";
    IO_ERROR = b"58030", "The storage failed.";
    INTERNAL_ERROR = b"XX000", "A bug.";
}

const PLAN_CHANGED: &str = "cached plan must not change result type";

/// An error with all fields of the protocol's ErrorResponse message.
#[derive(Clone, PartialEq)]
pub struct SqlError(Box<ErrorFields>);

/// The fields of an error report.
#[derive(Clone, Debug, PartialEq)]
pub struct ErrorFields {
    /// The SQLSTATE.
    pub sqlstate: SqlState,
    /// The primary message.
    pub message: String,
    /// DETAIL: further information.
    pub detail: Option<String>,
    /// HINT: a suggestion for the user.
    pub hint: Option<String>,
    /// The position in the statement, in characters from 1.
    pub position: Option<u32>,
    /// CONTEXT: the call stack of routines and similar information.
    pub context: Option<String>,
    /// The schema of the object concerned.
    pub schema: Option<String>,
    /// The table concerned.
    pub table: Option<String>,
    /// The column concerned.
    pub column: Option<String>,
    /// The data type concerned.
    pub data_type: Option<String>,
    /// The constraint concerned.
    pub constraint: Option<String>,
    /// The backtrace of an internal error; `None` if logging is disabled.
    pub origin: Option<Origin>,
}

/// The backtrace of an error. It takes no part in comparisons of errors.
#[derive(Clone)]
pub struct Origin(Arc<Backtrace>);

impl PartialEq for Origin {
    fn eq(&self, _: &Origin) -> bool {
        true
    }
}

impl fmt::Debug for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("backtrace")
    }
}

impl ErrorFields {
    /// Creates fields from a state and a message; all others are empty.
    pub fn new(sqlstate: SqlState, message: impl Into<String>) -> ErrorFields {
        ErrorFields {
            sqlstate,
            message: message.into(),
            detail: None,
            hint: None,
            position: None,
            context: None,
            schema: None,
            table: None,
            column: None,
            data_type: None,
            constraint: None,
            origin: None,
        }
    }
}

impl From<ErrorFields> for SqlError {
    #[cold]
    fn from(fields: ErrorFields) -> SqlError {
        SqlError(Box::new(fields))
    }
}

impl SqlError {
    /// Creates an error from a state and a message.
    #[cold]
    pub fn new(sqlstate: SqlState, message: impl Into<String>) -> SqlError {
        SqlError(Box::new(ErrorFields::new(sqlstate, message)))
    }

    /// Returns error 0A000: `what` is not supported.
    #[cold]
    pub fn unsupported(what: impl fmt::Display) -> SqlError {
        SqlError::new(
            SqlState::FEATURE_NOT_SUPPORTED,
            format!("{what} is not supported"),
        )
    }

    /// Returns error 0A000: the result columns have changed since the client parsed the statement.
    #[cold]
    pub fn plan_changed() -> SqlError {
        SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, PLAN_CHANGED)
    }

    /// Returns whether this is [`plan_changed`](Self::plan_changed). The client can then parse the
    /// statement again.
    pub fn is_plan_changed(&self) -> bool {
        self.0.sqlstate == SqlState::FEATURE_NOT_SUPPORTED && self.0.message == PLAN_CHANGED
    }

    /// Returns error 25006: `command` would write in a read-only transaction.
    #[cold]
    pub fn read_only(command: impl fmt::Display) -> SqlError {
        SqlError::new(
            SqlState::READ_ONLY_SQL_TRANSACTION,
            format!("cannot execute {command} in a read-only transaction"),
        )
    }

    /// Returns error XX000: an internal inconsistency.
    #[cold]
    pub fn internal(message: impl Into<String>) -> SqlError {
        let mut error = SqlError::new(SqlState::INTERNAL_ERROR, message);
        // The backtrace is used only by the log.
        if tracing::enabled!(tracing::Level::ERROR) {
            error.0.origin = Some(Origin(Arc::new(Backtrace::force_capture())));
        }
        error
    }

    /// Returns the backtrace of an internal error, if logging is enabled.
    pub fn backtrace(&self) -> Option<&Backtrace> {
        self.0.origin.as_ref().map(|origin| &*origin.0)
    }

    /// Returns the SQLSTATE.
    pub fn sqlstate(&self) -> SqlState {
        self.0.sqlstate
    }

    /// Returns the primary message.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Returns all fields.
    pub fn fields(&self) -> &ErrorFields {
        &self.0
    }

    /// Adds a DETAIL.
    pub fn detail(mut self, detail: impl Into<String>) -> SqlError {
        self.0.detail = Some(detail.into());
        self
    }

    /// Adds a HINT.
    pub fn hint(mut self, hint: impl Into<String>) -> SqlError {
        self.0.hint = Some(hint.into());
        self
    }

    /// Sets the position in the statement, in characters from 1.
    pub fn at(mut self, position: u32) -> SqlError {
        self.0.position = Some(position);
        self
    }

    /// Sets the position unless the error has one; 0 is no position.
    pub fn or_at(mut self, position: u32) -> SqlError {
        if self.0.position.is_none() && position > 0 {
            self.0.position = Some(position);
        }
        self
    }

    /// Sets the CONTEXT.
    pub fn context(mut self, context: impl Into<String>) -> SqlError {
        self.0.context = Some(context.into());
        self
    }

    /// Appends a line to the CONTEXT.
    pub fn within(mut self, place: &str) -> SqlError {
        match &mut self.0.context {
            Some(context) => {
                context.push('\n');
                context.push_str(place);
            }
            None => self.0.context = Some(place.to_owned()),
        }
        self
    }

    /// Removes the position, because it belongs to a text that the client did not send.
    pub fn without_position(mut self) -> SqlError {
        self.0.position = None;
        self
    }

    /// Sets the schema and table concerned.
    pub fn table(mut self, schema: impl Into<String>, table: impl Into<String>) -> SqlError {
        self.0.schema = Some(schema.into());
        self.0.table = Some(table.into());
        self
    }

    /// Sets the column concerned.
    pub fn column(mut self, column: impl Into<String>) -> SqlError {
        self.0.column = Some(column.into());
        self
    }

    /// Sets the constraint concerned.
    pub fn constraint(mut self, constraint: impl Into<String>) -> SqlError {
        self.0.constraint = Some(constraint.into());
        self
    }
}

impl fmt::Debug for SqlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl fmt::Display for SqlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (SQLSTATE {})", self.0.message, self.0.sqlstate)
    }
}

impl std::error::Error for SqlError {}

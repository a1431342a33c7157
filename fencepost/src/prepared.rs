//! Prepared statements: a plan that sessions share, and the values of one use of it.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use fencepost_planner::{Execution, MaterializedRows, Plan, UsedTables, ddl_command};
use fencepost_sql::bound::{self, CursorOptions, ExplainOptions, Expr};
use fencepost_sql::catalog::{ColumnDef, Dependencies};
use fencepost_sql::functions::quote_literal;
use fencepost_sql::settings::Settings;
use fencepost_sql::stack::{StackDepth, roomy};
use fencepost_sql::types::{Type, text_out};
use fencepost_sql::value::Value;
use parking_lot::RwLock;

use crate::statistics::Tally;

/// A column of a result.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// The name of the column.
    pub name: String,
    /// The type of the column.
    pub ty: Type,
    /// The oid of the table that the column comes from, or 0 for an expression.
    pub table_oid: u32,
    /// The number of the column in that table, from 1, or 0 for an expression.
    pub attnum: i16,
}

/// The length, in bytes, to which statement texts are cut for other sessions.
const SHOWN_BYTES: usize = 1023;

/// Returns a value as an SQL literal.
fn as_literal(value: &Value, ty: Type) -> String {
    let mut text = Vec::new();
    text_out(value, &ty, &Settings::new(), &mut text);
    let text = String::from_utf8_lossy(&text);
    match value {
        Value::Null => "NULL".to_owned(),
        Value::Int2(_)
        | Value::Int4(_)
        | Value::Int8(_)
        | Value::Float4(_)
        | Value::Float8(_)
        | Value::Numeric(_)
        | Value::Bool(_) => text.into_owned(),
        _ => quote_literal(&text),
    }
}

/// A bound and planned statement, shared by sessions.
pub(crate) struct PlannedStatement {
    /// The text, used to plan again after a table has changed.
    pub text: String,
    /// The types of all parameters.
    pub params: Vec<Type>,
    /// The columns of the result; `None` without rows.
    pub columns: Option<Arc<[Column]>>,
    /// The action of the statement.
    pub body: Body,
    /// The types and views that the statement depends on, besides its tables and routines.
    pub depends: Dependencies,
    /// The role that was allowed to run the statement (SEC-1), and the search path of its names.
    pub names: Arc<str>,
    /// True if the statement may only run on this machine. For example, it uses users' types, whose
    /// definitions are known only where they are guarded.
    pub is_bound_here: bool,
    /// True if the statement depends on the state of the session.
    pub is_volatile: bool,
    /// True if the statement does the same on the same data, given the same sequence values.
    pub is_repeatable: bool,
    /// The key in the plan cache; `None` if the plan may not be cached.
    pub key: Option<Box<str>>,
    /// The query identifier: a number computed from the text.
    pub number: i64,
    /// The execution statistics, once the statement has run.
    pub tally: OnceLock<Arc<Tally>>,
    /// Whether the statement needs a large stack.
    pub deep: StackDepth,
}

impl Drop for PlannedStatement {
    fn drop(&mut self) {
        if self.deep.is_deep() {
            let body = std::mem::replace(&mut self.body, Body::Empty);
            roomy(|| drop(body));
        }
    }
}

/// The action of a statement.
pub(crate) enum Body {
    /// An empty text.
    Empty,
    /// A plan over these tables.
    Plan(Box<Plan>, UsedTables),
    /// EXPLAIN.
    Explain {
        /// The explained statement, if it has a plan.
        planned: Option<Arc<PlannedStatement>>,
        /// The options of EXPLAIN.
        options: ExplainOptions,
    },
    /// EXPLAIN EXECUTE.
    ExplainExecute {
        /// The name of the prepared statement.
        name: String,
        /// The arguments.
        args: Vec<Expr>,
        /// The options of EXPLAIN.
        options: ExplainOptions,
    },
    /// DECLARE … CURSOR.
    Declare(Arc<DeclaredCursor>),
    /// A statement that changes the session or the catalog.
    Utility(Box<bound::Statement>),
}

/// The cursor that DECLARE defines.
pub(crate) struct DeclaredCursor {
    /// The name of the cursor.
    pub name: String,
    /// The declared options.
    pub options: CursorOptions,
    /// True if the cursor can be read backward even without SCROLL.
    pub goes_back: bool,
    /// The query of the cursor.
    pub planned: Arc<PlannedStatement>,
}

impl Body {
    /// Returns whether a table of the plan has columns of users' types.
    pub fn has_users_types(&self) -> bool {
        let is_users = |column: &ColumnDef| column.ty.kind.is_users();
        match self {
            Body::Plan(_, used) => {
                let mut tables = used.plans.iter();
                tables.any(|table| table.def.columns.iter().any(is_users))
            }
            Body::Empty
            | Body::Explain { .. }
            | Body::ExplainExecute { .. }
            | Body::Declare(_)
            | Body::Utility(_) => false,
        }
    }

    /// Returns whether the statement does the same on the same data, given the same sequence
    /// values.
    pub fn is_repeatable(&self) -> bool {
        matches!(self, Body::Plan(plan, _) if plan.is_repeatable())
    }

    /// Returns whether the statement depends on the state of the session.
    pub fn is_volatile(&self) -> bool {
        match self {
            Body::Plan(plan, _) => plan.is_volatile(),
            Body::Empty
            | Body::Explain { .. }
            | Body::ExplainExecute { .. }
            | Body::Declare(_)
            | Body::Utility(_) => true,
        }
    }
}

/// A prepared statement, from [`Session::parse`](crate::Session::parse), for servers of protocols.
/// Other callers use [`Statement`](crate::Statement).
pub struct PreparedStatement {
    pub(crate) planned: Arc<PlannedStatement>,
    /// The values of the parameters that were literals in the text.
    pub(crate) literals: Vec<Value>,
    /// True if `current` has a plan.
    replaced: AtomicBool,
    /// True if a session keeps the statement under a name.
    named: AtomicBool,
    /// The plan made after a table had changed; it has the same parameters and columns.
    current: RwLock<Option<Arc<PlannedStatement>>>,
}

impl PreparedStatement {
    pub(crate) fn new(
        planned: Arc<PlannedStatement>,
        literals: Vec<Value>,
    ) -> Arc<PreparedStatement> {
        Arc::new(PreparedStatement {
            planned,
            literals,
            replaced: AtomicBool::new(false),
            named: AtomicBool::new(false),
            current: RwLock::new(None),
        })
    }

    /// Returns the text with its original literals, cut to [`SHOWN_BYTES`].
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        let mut rest = self.planned.text.as_str();
        for (at, literal) in self.literals.iter().enumerate() {
            let sign = format!("${}", at + 1);
            if let Some((before, after)) = rest.split_once(&sign) {
                text.push_str(before);
                let ty = self.planned.params.get(at).copied();
                text.push_str(&as_literal(literal, ty.unwrap_or(Type::UNKNOWN)));
                rest = after;
            }
        }
        text.push_str(rest);
        let end = text.floor_char_boundary(SHOWN_BYTES);
        text.truncate(end);
        text
    }

    /// Returns the text that was prepared. In a text that had no parameters, `$n` may stand for
    /// literals.
    pub fn source(&self) -> &str {
        &self.planned.text
    }

    /// Returns the oids of the tables, and whether the statement changes each of them.
    pub(crate) fn tables(&self) -> Vec<(u32, bool)> {
        match &self.planned.body {
            Body::Plan(plan, used) => {
                let changed = plan.changed_table();
                let tables = used.plans.iter().map(|table| table.def.id);
                tables.map(|id| (id, changed == Some(id))).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Returns the plan to run.
    pub(crate) fn current(&self) -> Arc<PlannedStatement> {
        if !self.replaced.load(Relaxed) {
            return Arc::clone(&self.planned);
        }
        let current = self.current.read();
        Arc::clone(current.as_ref().unwrap_or(&self.planned))
    }

    /// Replaces the plan.
    pub(crate) fn replace(&self, planned: &Arc<PlannedStatement>) {
        *self.current.write() = Some(Arc::clone(planned));
        self.replaced.store(true, Relaxed);
    }

    /// Records that a session keeps the statement under a name.
    pub(crate) fn note_named(&self) {
        self.named.store(true, Relaxed);
    }

    /// Returns whether a session keeps the statement under a name. If so, its text may have another
    /// meaning by now.
    pub(crate) fn is_named(&self) -> bool {
        self.named.load(Relaxed)
    }

    /// Returns the types of the parameters that the client supplies.
    pub fn parameter_types(&self) -> &[Type] {
        let client = self.planned.params.len() - self.literals.len();
        &self.planned.params[..client]
    }

    /// Returns the columns of the result; `None` if the statement returns no rows.
    pub fn columns(&self) -> Option<&[Column]> {
        self.planned.columns.as_deref()
    }

    /// Returns the number of columns of a COPY TO STDOUT, and whether its format is binary.
    pub fn copy_out_columns(&self) -> Option<(usize, bool)> {
        match &self.planned.body {
            Body::Plan(plan, _) => plan.copied_columns(),
            _ => None,
        }
    }

    /// Returns whether a rollback of the transaction undoes all effects. That is so for plans and
    /// DDL.
    pub(crate) fn is_undone(&self) -> bool {
        match &self.planned.body {
            Body::Empty | Body::Plan(..) => true,
            Body::Utility(statement) => ddl_command(statement).is_some(),
            Body::Explain { .. } | Body::ExplainExecute { .. } | Body::Declare(_) => false,
        }
    }

    /// Returns whether the statement ends a transaction block, and so may run in a failed one.
    pub(crate) fn ends_block(&self) -> bool {
        matches!(&self.planned.body, Body::Utility(statement) if matches!(
            **statement,
            bound::Statement::Commit { .. }
                | bound::Statement::Rollback { .. }
                | bound::Statement::RollbackTo(_)
        ))
    }
}

/// A prepared statement with its parameters, and the progress of its execution, from
/// [`Session::bind`](crate::Session::bind). It is of one transaction: once that has ended, running
/// it fails with 34000.
pub struct Portal {
    pub(crate) prepared: Arc<PreparedStatement>,
    /// The client's parameters, then the literals.
    pub(crate) params: Vec<Value>,
    pub(crate) execution: Execution,
    /// The transaction of the portal; the portal is closed when it ends.
    pub(crate) transaction: Option<u64>,
    /// Rows produced in advance. A query that depends on the session's state runs to its end first,
    /// and can be retried until then.
    pub(crate) ahead: Option<Box<UnsentRows>>,
}

/// Rows that a portal has produced but not yet sent.
pub(crate) struct UnsentRows {
    pub rows: MaterializedRows,
    /// The number of rows that are sent.
    pub given: u64,
}

impl Drop for Portal {
    fn drop(&mut self) {
        self.restart();
    }
}

impl Portal {
    /// Returns a portal that has not started.
    pub(crate) fn new(prepared: Arc<PreparedStatement>, params: Vec<Value>) -> Portal {
        Portal {
            prepared,
            params,
            execution: Execution::default(),
            transaction: None,
            ahead: None,
        }
    }

    /// Resets the portal to its start.
    pub(crate) fn restart(&mut self) {
        let execution = std::mem::take(&mut self.execution);
        if self.prepared.current().deep.is_deep() {
            roomy(|| drop(execution));
        }
    }

    /// Returns the client's parameters as text, `None` for NULL.
    pub fn parameters(&self, settings: &Settings) -> Vec<Option<String>> {
        let types = self.prepared.parameter_types().iter();
        let texts = types.zip(&self.params).map(|(ty, value)| {
            let mut text = Vec::new();
            text_out(value, ty, settings, &mut text);
            (!value.is_null()).then(|| String::from_utf8_lossy(&text).into_owned())
        });
        texts.collect()
    }

    /// Returns whether the statement is a query that changes nothing.
    pub(crate) fn is_select(&self) -> bool {
        match &self.prepared.planned.body {
            Body::Plan(plan, _) => plan.is_query() && !plan.is_write(),
            _ => false,
        }
    }

    /// Returns whether the query must produce all rows before it sends one, because a retry may be
    /// necessary until then.
    pub(crate) fn is_made_ahead(&self) -> bool {
        self.prepared.planned.is_volatile && !self.execution.has_begun() && self.is_select()
    }

    /// Returns whether the statement reads tables for other purposes than to check constraints.
    pub(crate) fn needs_snapshot(&self) -> bool {
        matches!(&self.prepared.planned.body, Body::Plan(plan, _) if plan.needs_snapshot())
    }

    /// Returns whether the statement changes rows.
    pub(crate) fn is_write(&self) -> bool {
        matches!(&self.prepared.planned.body, Body::Plan(plan, _) if plan.is_write())
    }

    /// Returns the number of rows of VALUES of an INSERT; 0 for other statements.
    pub(crate) fn rows_of_values(&self) -> usize {
        match &self.prepared.planned.body {
            Body::Plan(plan, _) => plan.rows_of_values(),
            _ => 0,
        }
    }

    /// Returns the part of a produced row that the client gets.
    pub(crate) fn client_columns<'a>(&self, row: &'a [Value]) -> &'a [Value] {
        let columns = self.prepared.columns().map_or(0, <[Column]>::len);
        row.get(..columns).unwrap_or(row)
    }

    /// Returns the statement.
    pub fn prepared(&self) -> &Arc<PreparedStatement> {
        &self.prepared
    }
}

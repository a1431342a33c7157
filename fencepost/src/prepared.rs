//! Prepared statements: a plan that sessions share, and what one use of it adds.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use fencepost_planner::{Execution, Kept, Plan, UsedTables, ddl_command};
use fencepost_sql::bound::{self, CursorOptions, ExplainOptions, Expr};
use fencepost_sql::catalog::{ColumnDef, Dependencies};
use fencepost_sql::functions::quote_literal;
use fencepost_sql::settings::Settings;
use fencepost_sql::stack::{Deep, roomy};
use fencepost_sql::types::{Type, text_out};
use fencepost_sql::value::Value;
use parking_lot::RwLock;

use crate::statistics::Tally;

/// A column of a result.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// Its type.
    pub ty: Type,
    /// The oid of the table it comes from, or 0.
    pub table_oid: u32,
    /// Its number in that table, or 0.
    pub attnum: i16,
}

/// Bytes of a text that others are shown.
const SHOWN_BYTES: usize = 1023;

/// A value as it is written in SQL.
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

/// A statement bound and planned; sessions share it.
pub(crate) struct Planned {
    /// Its text, to plan it again when a table has changed.
    pub text: String,
    /// The types of all parameters.
    pub params: Vec<Type>,
    /// The columns of its result.
    pub columns: Option<Arc<[Column]>>,
    /// What it does.
    pub body: Body,
    /// The types and views that it depends on, besides its tables and routines.
    pub depends: Dependencies,
    /// The role that was allowed to run it (SEC-1), and where its names were looked for.
    pub names: Arc<str>,
    /// It has to do with types of users'. What they are is known where they are guarded, so it runs nowhere else.
    pub is_bound_here: bool,
    /// It has to do with the state of the session that runs it.
    pub is_volatile: bool,
    /// It does the same on the same data, if it gets the same values of sequences.
    pub is_repeatable: bool,
    /// Its key in the plan cache, if it may be there.
    pub key: Option<Box<str>>,
    /// The number of its text.
    pub number: i64,
    /// What its runs come to, once it has run.
    pub tally: OnceLock<Arc<Tally>>,
    /// It takes a roomy stack.
    pub deep: Deep,
}

impl Drop for Planned {
    fn drop(&mut self) {
        if self.deep.is_deep() {
            let body = std::mem::replace(&mut self.body, Body::Empty);
            roomy(|| drop(body));
        }
    }
}

/// What a statement does.
pub(crate) enum Body {
    /// Nothing: an empty text.
    Empty,
    /// It runs by a plan over these tables.
    Plan(Box<Plan>, UsedTables),
    /// EXPLAIN.
    Explain {
        /// What is explained, if it has a plan.
        planned: Option<Arc<Planned>>,
        /// How.
        options: ExplainOptions,
    },
    /// EXPLAIN EXECUTE.
    ExplainExecute {
        /// Which statement.
        name: String,
        /// Its arguments.
        args: Vec<Expr>,
        /// How.
        options: ExplainOptions,
    },
    /// DECLARE … CURSOR.
    Declare(Arc<Declared>),
    /// It is for the session or the catalog.
    Utility(Box<bound::Statement>),
}

/// What DECLARE declares.
pub(crate) struct Declared {
    /// The cursor's name.
    pub name: String,
    /// What was said of it.
    pub options: CursorOptions,
    /// It can be read backward without SCROLL, too.
    pub goes_back: bool,
    /// Its query.
    pub planned: Arc<Planned>,
}

impl Body {
    /// Has it tables with columns of types of users'?
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

    /// Does it do the same on the same data, if it gets the same values of sequences?
    pub fn is_repeatable(&self) -> bool {
        matches!(self, Body::Plan(plan, _) if plan.is_repeatable())
    }

    /// Has it to do with the state of the session that runs it?
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

/// A prepared statement of a session.
pub struct Prepared {
    pub(crate) planned: Arc<Planned>,
    /// Values of the parameters that were literals in the text.
    pub(crate) literals: Vec<Value>,
    /// There is one in `current`.
    replaced: AtomicBool,
    /// A session keeps it under a name.
    named: AtomicBool,
    /// The plan made when a table had changed; it has the same parameters and columns.
    current: RwLock<Option<Arc<Planned>>>,
}

impl Prepared {
    pub(crate) fn new(planned: Arc<Planned>, literals: Vec<Value>) -> Arc<Prepared> {
        Arc::new(Prepared {
            planned,
            literals,
            replaced: AtomicBool::new(false),
            named: AtomicBool::new(false),
            current: RwLock::new(None),
        })
    }

    /// Its text, with the literals that it was given with, cut to [`SHOWN_BYTES`].
    pub(crate) fn text(&self) -> String {
        let mut shown = String::new();
        let mut rest = self.planned.text.as_str();
        for (at, literal) in self.literals.iter().enumerate() {
            let sign = format!("${}", at + 1);
            if let Some((before, after)) = rest.split_once(&sign) {
                shown.push_str(before);
                let ty = self.planned.params.get(at).copied();
                shown.push_str(&as_literal(literal, ty.unwrap_or(Type::UNKNOWN)));
                rest = after;
            }
        }
        shown.push_str(rest);
        let end = shown.floor_char_boundary(SHOWN_BYTES);
        shown.truncate(end);
        shown
    }

    /// The text that it was prepared with; where that was a statement without parameters, literals may be `$n` in it.
    pub fn source(&self) -> &str {
        &self.planned.text
    }

    /// The oids of its tables, and whether it changes them.
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

    /// The plan to run.
    pub(crate) fn current(&self) -> Arc<Planned> {
        if !self.replaced.load(Relaxed) {
            return Arc::clone(&self.planned);
        }
        let current = self.current.read();
        Arc::clone(current.as_ref().unwrap_or(&self.planned))
    }

    /// Another plan takes over.
    pub(crate) fn replace(&self, planned: &Arc<Planned>) {
        *self.current.write() = Some(Arc::clone(planned));
        self.replaced.store(true, Relaxed);
    }

    /// Notes that a session keeps it under a name.
    pub(crate) fn note_named(&self) {
        self.named.store(true, Relaxed);
    }

    /// Does a session keep it under a name, so that it may be older than what its text means now?
    pub(crate) fn is_named(&self) -> bool {
        self.named.load(Relaxed)
    }

    /// The types of the parameters that a client gives.
    pub fn parameter_types(&self) -> &[Type] {
        let client = self.planned.params.len() - self.literals.len();
        &self.planned.params[..client]
    }

    /// The columns of the result; `None` where there are no rows.
    pub fn columns(&self) -> Option<&[Column]> {
        self.planned.columns.as_deref()
    }

    /// The number of columns of a COPY TO STDOUT, and whether it is in binary.
    pub fn copy_out_columns(&self) -> Option<(usize, bool)> {
        match &self.planned.body {
            Body::Plan(plan, _) => plan.copied_columns(),
            _ => None,
        }
    }

    /// Is nothing left of it when its transaction is rolled back? So it is with plans and DDL.
    pub(crate) fn is_undone(&self) -> bool {
        match &self.planned.body {
            Body::Empty | Body::Plan(..) => true,
            Body::Utility(statement) => ddl_command(statement).is_some(),
            Body::Explain { .. } | Body::ExplainExecute { .. } | Body::Declare(_) => false,
        }
    }

    /// Does it end a transaction block, and so run in a failed one?
    pub(crate) fn ends_block(&self) -> bool {
        matches!(&self.planned.body, Body::Utility(statement) if matches!(
            **statement,
            bound::Statement::Commit { .. }
                | bound::Statement::Rollback { .. }
                | bound::Statement::RollbackTo(_)
        ))
    }
}

/// A prepared statement with its parameters, perhaps on its way.
pub struct Portal {
    pub(crate) prepared: Arc<Prepared>,
    /// The parameters of the client, then the literals.
    pub(crate) params: Vec<Value>,
    pub(crate) execution: Execution,
    /// The transaction it runs in; it is closed with that.
    pub(crate) transaction: Option<u64>,
    /// Rows made ahead: where it has to do with the session's state it runs to its end at once, and can be run again
    /// until then.
    pub(crate) ahead: Option<Box<Ahead>>,
}

/// Rows that a portal has made and not given yet.
pub(crate) struct Ahead {
    pub rows: Kept,
    /// How many are given.
    pub given: u64,
}

impl Drop for Portal {
    fn drop(&mut self) {
        self.restart();
    }
}

impl Portal {
    /// A portal that has not begun.
    pub(crate) fn new(prepared: Arc<Prepared>, params: Vec<Value>) -> Portal {
        Portal {
            prepared,
            params,
            execution: Execution::default(),
            transaction: None,
            ahead: None,
        }
    }

    /// Forgets how far it has come.
    pub(crate) fn restart(&mut self) {
        let execution = std::mem::take(&mut self.execution);
        if self.prepared.current().deep.is_deep() {
            roomy(|| drop(execution));
        }
    }

    /// The values of the client's parameters as text, `None` for NULL.
    pub fn parameters(&self, settings: &Settings) -> Vec<Option<String>> {
        let types = self.prepared.parameter_types().iter();
        let shown = types.zip(&self.params).map(|(ty, value)| {
            let mut text = Vec::new();
            text_out(value, ty, settings, &mut text);
            (!value.is_null()).then(|| String::from_utf8_lossy(&text).into_owned())
        });
        shown.collect()
    }

    /// Is it of a query that changes nothing?
    pub(crate) fn is_select(&self) -> bool {
        match &self.prepared.planned.body {
            Body::Plan(plan, _) => plan.is_query() && !plan.is_write(),
            _ => false,
        }
    }

    /// Is it a query that may have to be run again on its way, so that no row is to be given before its end?
    pub(crate) fn is_made_ahead(&self) -> bool {
        self.prepared.planned.is_volatile && !self.execution.has_begun() && self.is_select()
    }

    /// Returns whether it reads tables otherwise than to check constraints.
    pub(crate) fn needs_snapshot(&self) -> bool {
        matches!(&self.prepared.planned.body, Body::Plan(plan, _) if plan.needs_snapshot())
    }

    /// Does it change rows?
    pub(crate) fn is_write(&self) -> bool {
        matches!(&self.prepared.planned.body, Body::Plan(plan, _) if plan.is_write())
    }

    /// What of a row that it makes is for the client.
    pub(crate) fn shown<'a>(&self, row: &'a [Value]) -> &'a [Value] {
        let columns = self.prepared.columns().map_or(0, <[Column]>::len);
        row.get(..columns).unwrap_or(row)
    }

    /// The statement.
    pub fn prepared(&self) -> &Arc<Prepared> {
        &self.prepared
    }
}

//! Prepared statements: a plan that sessions share, and what one use of it adds.

use std::sync::Arc;

use fencepost_planner::{Execution, Plan, TablePlan};
use fencepost_sql::bound;
use fencepost_sql::types::Type;
use fencepost_sql::value::Value;
use parking_lot::RwLock;

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
    /// It has to do with the state of the session that runs it.
    pub is_volatile: bool,
    /// Its key in the plan cache, if it may be there.
    pub key: Option<Box<str>>,
}

/// What a statement does.
pub(crate) enum Body {
    /// Nothing: an empty text.
    Empty,
    /// It runs by a plan over these tables.
    Plan(Box<Plan>, Vec<Arc<TablePlan>>),
    /// EXPLAIN.
    Explain {
        /// What is explained, if it has a plan.
        planned: Option<Arc<Planned>>,
        /// It is run too.
        analyze: bool,
    },
    /// It is for the session or the catalog.
    Utility(Box<bound::Statement>),
}

impl Body {
    /// Has it to do with the state of the session that runs it?
    pub fn is_volatile(&self) -> bool {
        match self {
            Body::Plan(plan, _) => plan.is_volatile(),
            Body::Empty | Body::Explain { .. } | Body::Utility(_) => true,
        }
    }
}

/// A prepared statement of a session.
pub struct Prepared {
    pub(crate) planned: Arc<Planned>,
    /// Values of the parameters that were literals in the text.
    pub(crate) literals: Vec<Value>,
    /// The plan made when a table had changed; it has the same parameters and columns.
    current: RwLock<Option<Arc<Planned>>>,
}

impl Prepared {
    pub(crate) fn new(planned: Arc<Planned>, literals: Vec<Value>) -> Arc<Prepared> {
        Arc::new(Prepared {
            planned,
            literals,
            current: RwLock::new(None),
        })
    }

    /// The plan to run.
    pub(crate) fn current(&self) -> Arc<Planned> {
        let current = self.current.read();
        Arc::clone(current.as_ref().unwrap_or(&self.planned))
    }

    /// Another plan takes over.
    pub(crate) fn replace(&self, planned: &Arc<Planned>) {
        *self.current.write() = Some(Arc::clone(planned));
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

    /// The number of columns of a COPY TO STDOUT.
    pub fn copy_out_columns(&self) -> Option<usize> {
        match &self.planned.body {
            Body::Plan(plan, _) => plan.copied_columns(),
            _ => None,
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
}

impl Portal {
    /// The statement.
    pub fn prepared(&self) -> &Arc<Prepared> {
        &self.prepared
    }
}

//! The session's functions for protocol servers: parsing texts into statements, and binding
//! portals.

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use fencepost_planner::Tag;
use fencepost_sql::binder::ParamTypes;
use fencepost_sql::bound;
use fencepost_sql::catalog::{Dependencies, Snapshot};
use fencepost_sql::error::{SqlError, SqlState};
use fencepost_sql::parser;
use fencepost_sql::stack::StackDepth;
use fencepost_sql::stop::StatementStop;
use fencepost_sql::types::Type;
use fencepost_sql::value::Value;
use fencepost_txn::{AbortReason, Stop};

use super::copy::CopyIn;
use super::{Block, Session};
use crate::prepare_pipeline::{
    StatementSyntax, Syntax, literal_values, parse_single, plan_statement,
};
use crate::prepared::{Body, PlannedStatement, Portal, PreparedStatement};

/// The result of running a portal.
pub enum Completion {
    /// The portal is complete; the command tag, such as `INSERT 0 3`.
    Complete(Tag),
    /// The row limit is reached; there may be more rows. Run the portal again for them.
    Suspended,
    /// The text was empty.
    Empty,
    /// A COPY FROM STDIN waits for its data. Give it the data, or fail it.
    CopyIn(CopyIn),
}

impl Session {
    /// Splits the text of a simple query into statements; none for an empty text.
    ///
    /// # Errors
    /// 42601 and others of the parser. An error fails an open block, and rolls back an implicit
    /// transaction.
    pub fn split(&mut self, sql: &str) -> Result<Vec<StatementSyntax>, SqlError> {
        StatementSyntax::all(sql).inspect_err(|_| self.fail())
    }

    /// Prepares one of the statements that [`Session::split`] gave.
    ///
    /// # Errors
    /// As of [`Session::parse`]; 42P02 if the statement has parameters.
    pub fn prepare_parsed(
        &mut self,
        parsed: StatementSyntax,
    ) -> Result<Arc<PreparedStatement>, SqlError> {
        let prepared = match parsed.0 {
            Syntax::Tree(tree) => self.prepare_tree(*tree, ParamTypes::new()),
            Syntax::Lifted(lifted, original) => match self.prepare_lifted(&lifted) {
                Some(prepared) => Ok(prepared),
                None => match parse_single(&original) {
                    Ok(Some(tree)) => self.prepare_tree(tree, ParamTypes::new()),
                    Ok(None) => Ok(empty()),
                    Err(error) => Err(error),
                },
            },
        };
        prepared
            .and_then(|p| self.usable(p))
            .and_then(|p| match p.parameter_types() {
                [] => Ok(p),
                _ => Err(SqlError::new(
                    SqlState::UNDEFINED_PARAMETER,
                    "there is no parameter $1",
                )),
            })
            .inspect_err(|_| self.fail())
    }

    /// Prepares a text with one statement. `param_oids` declares the types of the first parameters;
    /// those that are 0 or not declared are inferred. An empty text is a statement, too.
    ///
    /// # Errors
    /// As of [`Session::prepare`]; 0A000 for an unknown oid.
    pub fn parse(
        &mut self,
        sql: &str,
        param_oids: &[u32],
    ) -> Result<Arc<PreparedStatement>, SqlError> {
        self.parse_typed(sql, param_oids)
            .and_then(|p| self.usable(p))
            .inspect_err(|_| self.fail())
    }

    fn parse_typed(
        &mut self,
        sql: &str,
        param_oids: &[u32],
    ) -> Result<Arc<PreparedStatement>, SqlError> {
        self.set_key(sql, param_oids);
        if !self.eval.has_private()
            && let Some(planned) = self.served.plans.get(&self.key)
        {
            return Ok(PreparedStatement::new(planned, Vec::new()));
        }
        let Some(tree) = parse_single(sql)? else {
            return Ok(empty());
        };
        let types = ParamTypes::from_oids(param_oids, &self.snapshot().0)?;
        let planned = self.plan(tree, (types, &[]), true)?;
        self.keep(&planned);
        Ok(PreparedStatement::new(planned, Vec::new()))
    }

    fn prepare_tree(
        &mut self,
        tree: parser::ParsedStatement,
        types: ParamTypes,
    ) -> Result<Arc<PreparedStatement>, SqlError> {
        let planned = self.plan(tree, (types, &[]), false)?;
        Ok(PreparedStatement::new(planned, Vec::new()))
    }

    /// Prepares a text with lifted literals. Returns `None` if that is not possible; then the
    /// caller prepares the original text.
    fn prepare_lifted(
        &mut self,
        lifted: &parser::LiftedStatement,
    ) -> Option<Arc<PreparedStatement>> {
        self.set_key(&lifted.text, &[]);
        let cached = match self.eval.has_private() {
            false => self.served.plans.get(&self.key),
            true => None,
        };
        let planned = match cached {
            Some(planned) => planned,
            None => {
                let tree = parse_single(&lifted.text).ok()??;
                let types = lifted.literals.iter().map(|l| l.ty()).collect();
                let types = (ParamTypes::declared(types), &lifted.literals[..]);
                let planned = self.plan(tree, types, true).ok()?;
                self.keep(&planned);
                planned
            }
        };
        let literals = literal_values(&lifted.literals, &planned.params, &self.eval)?;
        Some(PreparedStatement::new(planned, literals))
    }

    /// Sets the plan-cache key for a text.
    pub(super) fn set_key(&mut self, text: &str, param_oids: &[u32]) {
        self.key.clear();
        self.key.push_str(text);
        self.key.push_str(&self.plan_tag);
        for oid in param_oids {
            self.key.push_str(&oid.to_string());
            self.key.push(' ');
        }
    }

    /// Stores a plan in the cache for all sessions.
    pub(super) fn keep(&self, planned: &Arc<PlannedStatement>) {
        if !self.eval.has_private()
            && matches!(planned.body, Body::Plan(..))
            && let Some(key) = &planned.key
        {
            self.served.plans.put(key, planned);
        }
    }

    /// Plans a statement with parameters of these types, the first of which have these values. A
    /// cacheable one gets the key of the last [`Session::set_key`].
    pub(super) fn plan(
        &self,
        tree: parser::ParsedStatement,
        types: (ParamTypes, &[parser::Literal]),
        cacheable: bool,
    ) -> Result<Arc<PlannedStatement>, SqlError> {
        let (snapshot, newest) = self.snapshot();
        if !self.eval.has_private() {
            self.served.plans.follow(snapshot.version());
        }
        let planned = plan_statement(tree, &snapshot, types, &self.eval);
        // A missing object may exist in a newer catalog.
        let mut planned = planned.map_err(|error| if newest { error } else { self.unread() })?;
        planned.key = cacheable.then(|| self.key.as_str().into());
        if let Body::Utility(statement) = &planned.body {
            match &**statement {
                bound::Statement::Execute { name, .. } => {
                    planned.columns = self.named(name)?.planned.columns.clone();
                }
                bound::Statement::Fetch(fetch) if !fetch.moves => {
                    planned.columns = self.columns_of_cursor(&fetch.name);
                }
                _ => {}
            }
        }
        Ok(Arc::new(planned))
    }

    /// Returns the catalog for binding statements, and whether it is current. It is the newest
    /// known one, or the version that this transaction has changed.
    pub(super) fn snapshot(&self) -> (Arc<Snapshot>, bool) {
        match self.eval.private() {
            Some(private) => (private, true),
            None => self.db.newest_catalog(&self.served),
        }
    }

    /// Returns the reason why the catalog could not be read.
    fn unread(&self) -> SqlError {
        let stop = match self.db.machine.is_evicted() {
            true => Stop::NotMember,
            false => Stop::Retry(AbortReason::Unreachable),
        };
        StatementStop::from(stop).into_error()
    }

    /// Refuses statements in a failed block, unless they end it.
    fn usable(&self, prepared: Arc<PreparedStatement>) -> Result<Arc<PreparedStatement>, SqlError> {
        match self.block == Block::Failed && !prepared.ends_block() {
            true => Err(block_failed()),
            false => Ok(prepared),
        }
    }

    /// Returns the current types of the client's parameters: an enum may have got other labels
    /// since.
    #[inline]
    pub fn parameter_types<'a>(&self, prepared: &'a PreparedStatement) -> Cow<'a, [Type]> {
        let types = prepared.parameter_types();
        if !prepared.planned.is_bound_here {
            return Cow::Borrowed(types);
        }
        let (snapshot, _) = self.snapshot();
        let now = types.iter().map(|ty| snapshot.types().now(*ty));
        Cow::Owned(now.collect())
    }

    /// Returns a portal of `prepared` with these parameters, which must be of the types that
    /// [`Session::parameter_types`] returns. Nothing runs yet.
    ///
    /// # Errors
    /// 08P01 if the number of parameters is wrong.
    pub fn bind(
        &mut self,
        prepared: &Arc<PreparedStatement>,
        params: Vec<Value>,
    ) -> Result<Portal, SqlError> {
        let mut params = params;
        let wanted = prepared.parameter_types().len();
        if params.len() != wanted {
            let error = SqlError::new(
                SqlState::PROTOCOL_VIOLATION,
                format!("{} parameters given, {wanted} needed", params.len()),
            );
            self.fail();
            return Err(error);
        }
        params.extend(prepared.literals.iter().cloned());
        Ok(Portal::new(Arc::clone(prepared), params))
    }
}

pub(super) fn empty() -> Arc<PreparedStatement> {
    let planned = PlannedStatement {
        text: String::new(),
        params: Vec::new(),
        columns: None,
        body: Body::Empty,
        depends: Dependencies::default(),
        names: Arc::from(""),
        is_bound_here: true,
        is_volatile: true,
        is_repeatable: false,
        key: None,
        number: 0,
        tally: OnceLock::new(),
        deep: StackDepth::now(),
    };
    PreparedStatement::new(Arc::new(planned), Vec::new())
}

/// Returns the error 25P02.
pub(super) fn block_failed() -> SqlError {
    SqlError::new(
        SqlState::IN_FAILED_SQL_TRANSACTION,
        "current transaction is aborted, commands ignored until end of transaction block",
    )
}

//! The session's functions for function shipping ([`crate::ship`]): sending a statement, and
//! running one.

use std::sync::Arc;
use std::time::Instant;

use fencepost_planner::CancelFlag;
use fencepost_sql::binder::ParamTypes;
use fencepost_sql::error::SqlError;
use fencepost_sql::settings::Settings;
use fencepost_sql::types::Type;
use fencepost_txn::Machine;

use super::protocol::empty;
use super::{Block, Session, SessionOptions};
use crate::advisory::SessionLocks;
use crate::database::{DATABASE_NAME, Shared};
use crate::prepare_pipeline::parse_single;
use crate::prepared::{Portal, PreparedStatement};
use crate::ship::Ship;

impl Session {
    /// Returns a session that runs a statement for another machine's session.
    pub(crate) fn of_peer(
        db: &Arc<Shared>,
        (user, database): (String, u32),
        backend_pid: i32,
        settings: Arc<Settings>,
        cancel: CancelFlag,
    ) -> Option<Session> {
        let served = db.database(database)?;
        let catalog = db.databases.first.catalog.newest();
        let name = catalog.database_by_id(database).map(|of| of.name.clone());
        let options = SessionOptions {
            user,
            database: name.unwrap_or_else(|| DATABASE_NAME.to_owned()),
            backend_pid,
            ..SessionOptions::default()
        };
        let mut session = Session::unseen(db, served, options, cancel);
        session.serves = true;
        // The session that has sent the statement may hold locks under its own number.
        let own = || SessionLocks::new(&db.advisory, db.next_pid());
        session.set_locks(db.advisory.idle_locks().unwrap_or_else(own));
        session.lasting = Arc::clone(&settings);
        session.eval.settings = settings;
        session.settings_changed();
        Some(session)
    }

    /// Returns the statement of a text with parameters of these types, if its plan is cached.
    /// Otherwise returns `None`.
    pub(crate) fn known(&mut self, text: &str, types: &[Type]) -> Option<Arc<PreparedStatement>> {
        let oids: Vec<u32> = types.iter().map(Type::oid).collect();
        self.set_key(text, &oids);
        let planned = self.served.plans.get(&self.key)?;
        Some(PreparedStatement::new(planned, Vec::new()))
    }

    /// Prepares a text that has one statement with parameters of these types.
    pub(crate) fn parse_declared(
        &mut self,
        text: &str,
        types: &[Type],
    ) -> Result<Arc<PreparedStatement>, SqlError> {
        if let Some(known) = self.known(text, types) {
            return Ok(known);
        }
        let Some(tree) = parse_single(text)? else {
            return Ok(empty());
        };
        let planned = self.plan(tree, (ParamTypes::declared(types.to_vec()), &[]), true)?;
        self.keep(&planned);
        Ok(PreparedStatement::new(planned, Vec::new()))
    }

    /// Ends the transaction of shipped statements, which formed a whole transaction.
    pub(crate) fn close_shipped(&mut self, portals: &mut [Portal]) {
        for portal in portals {
            portal.transaction = Some(self.transaction);
        }
        self.transaction += 1;
    }

    /// Returns whether there are machines to ship to, and no open transaction. A statement from
    /// another machine is not shipped further.
    #[inline]
    pub(crate) fn ships(&self) -> bool {
        self.db.ship.is_some() && self.block == Block::Idle && !self.serves
    }

    /// Returns whether a portal's statement, which would form a whole transaction, may run
    /// elsewhere.
    pub(crate) fn may_ship(&self, portal: &Portal) -> bool {
        self.ships() && !portal.execution.has_begun()
    }

    pub(crate) fn shipper(&self) -> Option<Arc<Ship>> {
        self.db.ship.as_ref().map(Arc::clone)
    }

    pub(crate) fn machine(&self) -> &Arc<Machine> {
        &self.db.machine
    }

    /// Returns the role, and the oid of the database.
    pub(crate) fn who(&self) -> (&str, u32) {
        (&self.eval.user, self.served.catalog.database())
    }

    /// Returns the cancel flag and the deadline of the running statement.
    pub(crate) fn limits(&self) -> (&CancelFlag, Option<Instant>) {
        (&self.cancel, self.deadline)
    }
}

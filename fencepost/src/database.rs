//! A machine of a database system: its databases, and the state that all of its sessions share.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use fencepost_sql::catalog::acl::Privileges;
use fencepost_sql::catalog::{
    Catalog, CatalogView, DatabaseDef, Object, ObjectKind, RoleDef, Security, Snapshot,
};
use fencepost_sql::error::{SqlError, SqlState};
use fencepost_sql::server::Server;
use fencepost_sql::settings::{ServerSettings, check_settable_by};
use fencepost_sql::stop::StatementStop;
use fencepost_txn::{Machine, MachineId, MachineOptions, Mode, Outcome};
use pollster::FutureExt;

use crate::advisory::Advisory;
use crate::alarm::Alarm;
use crate::blocking::BlockingSession;
use crate::cancels::Cancels;
use crate::channels::Channels;
use crate::cluster::{Cluster, JoinedMachine};
use crate::configuration::{Configuration, ConfigurationSource};
use crate::counters;
use crate::databases::{DatabaseState, Databases};
use crate::error::{Error, OpenError};
use crate::options::{Durability, FirstPassword, Options};
use crate::patience::{CATALOG_PATIENCE, within};
use crate::reclaimer::ReclaimThread;
use crate::retry_turns::RetryTurns;
use crate::saves::{LoadReport, Saver};
use crate::session::{ATTEMPTS_MAX, Session, SessionOptions, back_off, now};
use crate::sessions::Register;
use crate::ship::{Ship, ShipCounts};
use crate::snapshots::Snapshots;
use crate::sweeper::{self, SchemaSweeper};

/// The SQL name of the first database.
pub const DATABASE_NAME: &str = "postgres";

/// The open databases of one machine. Clones share them; dropping the last clone closes them.
///
/// A session and a server keep the databases open, too. A handle may be used by many threads at a
/// time.
///
/// ```
/// use fencepost::{Database, params};
///
/// let db = Database::in_memory()?;
/// db.blocking().batch("CREATE TABLE t (a int PRIMARY KEY)")?;
/// std::thread::scope(|scope| {
///     for a in 0..4 {
///         let mut session = db.blocking();
///         scope.spawn(move || session.execute("INSERT INTO t VALUES ($1)", params![a]));
///     }
/// });
/// let row = db.blocking().query_one("SELECT count(*) FROM t", &[])?;
/// assert_eq!(row.get::<i64>(0)?, 4);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Database {
    shared: Arc<Shared>,
}

/// The state that all sessions of a machine share.
pub(crate) struct Shared {
    pub machine: Arc<Machine>,
    pub databases: Arc<Databases>,
    pub cancels: Arc<Cancels>,
    pub advisory: Arc<Advisory>,
    /// The listening sessions.
    pub channels: Arc<Channels>,
    /// The snapshots that other sessions may import.
    pub snapshots: Arc<Snapshots>,
    /// The current sessions.
    pub register: Arc<Register>,
    /// The counters of the sessions.
    pub counters: Arc<counters::Handle>,
    /// Statement shipping; `None` if there are no other machines.
    pub ship: Option<Arc<Ship>>,
    /// Drops temporary objects of ended sessions.
    pub sweeper: SchemaSweeper,
    /// Frees the memory of dropped tables.
    pub reclaimer: ReclaimThread,
    /// The queue of serializable blocks that are retried.
    pub retry_turns: Arc<RetryTurns>,
    /// The settings of the server.
    pub configuration: Arc<Configuration>,
    pub loaded: LoadReport,
    pub saver: Option<Saver>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.reclaimer.close();
        self.advisory.close();
        if let Some(ship) = &self.ship {
            ship.close();
        }
        // Each session holds the database, so no session is left. A drop cannot report an error;
        // `Database::close` does.
        let _ = self.machine.close();
    }
}

impl Database {
    /// Opens a new database in memory. Its data is lost when the last handle is dropped.
    ///
    /// # Errors
    /// [`OpenError::Machine`] if memory or threads are lacking.
    pub fn in_memory() -> Result<Database, OpenError> {
        Database::options().durability(Durability::Memory).open()
    }

    /// Opens the database in the directory `path`, and creates it if necessary; every commit is on
    /// disk. Blocks until the data is read into memory and the log is replayed.
    ///
    /// # Errors
    /// - [`OpenError::Disk`] if the directory cannot be created or read.
    /// - [`OpenError::Machine`] if another process has the directory open, its files are damaged or
    ///   of a cluster, or the data does not fit into memory.
    /// - [`OpenError::Catalog`] if the definitions cannot be read.
    pub fn open(path: impl AsRef<Path>) -> Result<Database, OpenError> {
        Database::options().data_dir(path).open()
    }

    /// Opens one of several machines that form one database, in memory. Blocks until all machines
    /// are ready. For another tier use [`Options::cluster`].
    ///
    /// # Errors
    /// As of [`Options::open`]; among them [`OpenError::Incomplete`] if a machine does not start in
    /// time.
    pub fn join(cluster: Cluster) -> Result<Database, OpenError> {
        Database::options()
            .durability(Durability::Memory)
            .cluster(cluster)
            .open()
    }

    /// Returns options for other ways to open a database.
    pub fn options() -> Options {
        Options::new()
    }

    pub(crate) fn start(
        options: MachineOptions,
        joined: Option<&JoinedMachine>,
        password: &FirstPassword,
        temporary_directory: Option<PathBuf>,
    ) -> Result<Database, OpenError> {
        let machine = Machine::open(options)?;
        let catalog = catalog_among(&machine, joined, password).inspect_err(|_| {
            // The machine's resources are useless now, and the first error is the one to report.
            let _ = machine.close();
        })?;
        let cancels: Arc<Cancels> = Arc::default();
        cancels.serve(&machine);
        let ship = (machine.number() != 0).then(Ship::new);
        let alarm: Arc<Alarm> = Arc::default();
        let register = Register::new(&machine, &alarm);
        let advisory = Advisory::new(&machine, ship.as_ref(), &register, &alarm);
        advisory.serve(&machine);
        let channels: Arc<Channels> = Arc::default();
        channels.serve(&machine);
        register.serve(&machine);
        let databases = Arc::new(Databases::new(catalog));
        let counters = counters::Handle::new(&machine, &databases);
        let reclaimer =
            ReclaimThread::new(&machine, databases.first.catalog.reclaim_list(), &alarm);
        counters.serve(&machine);
        let shared = Arc::new(Shared {
            machine,
            databases,
            cancels,
            advisory,
            channels,
            snapshots: Arc::default(),
            register,
            counters,
            ship,
            sweeper: SchemaSweeper::default(),
            reclaimer,
            retry_turns: Arc::new(RetryTurns::new(&alarm)),
            configuration: Arc::new(Configuration::new(temporary_directory)),
            loaded: joined.map_or_else(LoadReport::default, |joined| joined.loaded.clone()),
            saver: joined.and_then(|joined| joined.saver.clone()),
        });
        if let Some(ship) = &shared.ship {
            ship.start(&shared).map_err(OpenError::Threads)?;
        }
        let first = &shared.databases.first;
        sweeper::sweep_lost(&shared, first, &first.catalog.newest());
        Ok(Database { shared })
    }

    /// Opens a session of the superuser `postgres`, in the database [`DATABASE_NAME`]. No limit
    /// of connections applies to it.
    pub fn session(&self) -> Session {
        let first = Arc::clone(&self.shared.databases.first);
        Session::new(&self.shared, first, SessionOptions::default())
    }

    /// Opens a session of a role, with settings. It checks no password: the caller does, with
    /// [`Database::verifier`]. In a cluster it may block for 100 ms, to read the newest catalog.
    ///
    /// ```
    /// use fencepost::{Database, SessionOptions};
    ///
    /// let db = Database::in_memory()?;
    /// db.blocking().batch("CREATE ROLE ada LOGIN")?;
    /// let session = db.session_with(SessionOptions {
    ///     user: "ada".into(),
    ///     settings: vec![("lock_timeout".into(), "5s".into())],
    ///     ..SessionOptions::default()
    /// })?;
    /// # drop(session);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// - 28000 if the role does not exist or may not log in.
    /// - 3D000 if the database does not exist; 55000 if it accepts no connections.
    /// - 42501 if the role may not connect to the database, or may not change a setting.
    /// - 53300 if the role or the database has too many sessions.
    /// - 42704 for an unknown setting, 22023 for a bad value, 55P02 for a setting that is fixed.
    pub fn session_with(&self, options: SessionOptions) -> Result<Session, SqlError> {
        let (user, known) = (&options.user, self.role(&options.user));
        if !known.as_ref().is_some_and(|role| role.login) {
            let message = match known {
                Some(_) => format!("role \"{user}\" is not permitted to log in"),
                None => format!("role \"{user}\" does not exist"),
            };
            return Err(SqlError::new(SqlState::INVALID_AUTHORIZATION, message));
        }
        let (all, _) = self.shared.newest_catalog(&self.shared.databases.first);
        let Some(database) = all.database_named(&options.database) else {
            return Err(SqlError::new(
                SqlState::INVALID_CATALOG_NAME,
                format!("database \"{}\" does not exist", options.database),
            ));
        };
        if let Some(role) = &known {
            self.check_connects(&database, role, all.security())?;
        }
        if let Some(role) = &known
            && !role.superuser
            && let Ok(most) = usize::try_from(role.connections)
            && self.shared.register.count_of(user) >= most
        {
            let message = format!("too many connections for role \"{user}\"");
            return Err(SqlError::new(SqlState::new(b"53300"), message));
        }
        let superuser = known.as_ref().is_some_and(|role| role.superuser);
        for (name, _) in &options.settings {
            check_settable_by(name, superuser)?;
        }
        let of_role = known.iter().flat_map(|role| role.settings_in(database.id));
        let of_all = all.settings_of_all_roles();
        let settings = of_all.chain(&database.settings).chain(of_role);
        let settings = settings.chain(&options.settings);
        let settings: Vec<_> = settings.cloned().collect();
        let served = self.shared.databases.open(&database, all.databases());
        let mut session = Session::new(&self.shared, served, options);
        session.apply_startup(&settings)?;
        Ok(session)
    }

    /// Checks whether a role may connect to a database. Fails with 55000, 42501 or 53300.
    fn check_connects(
        &self,
        database: &DatabaseDef,
        role: &RoleDef,
        security: &Security,
    ) -> Result<(), SqlError> {
        let name = &database.name;
        if !database.connects {
            let message = format!("database \"{name}\" is not currently accepting connections");
            return Err(SqlError::new(SqlState::new(b"55000"), message));
        }
        let object = Object::new(ObjectKind::Database, database.id);
        let connect = Privileges::CONNECT;
        if !security.allowed(role.id, object, connect).has(connect) {
            let message = format!("permission denied for database \"{name}\"");
            return Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message)
                .detail("User does not have CONNECT privilege."));
        }
        let most = usize::try_from(database.connections).unwrap_or(usize::MAX);
        if !role.superuser && self.shared.register.count_in(name) >= most {
            let message = format!("too many connections for database \"{name}\"");
            return Err(SqlError::new(SqlState::new(b"53300"), message));
        }
        Ok(())
    }

    /// Opens a session for threads without an async runtime, as [`Database::session`] does.
    pub fn blocking(&self) -> BlockingSession {
        BlockingSession::new(self.session())
    }

    /// Returns the SCRAM-SHA-256 verifier of a role, in the text form that
    /// [`Verifier::parse`](crate::Verifier::parse) reads. Returns `None` if the role does not
    /// exist, has no password, or its password has expired. May block as [`Database::role`] does.
    pub fn verifier(&self, name: &str) -> Option<String> {
        let role = self.role(name)?;
        let over = role.valid_until.is_some_and(|until| until < now());
        role.verifier.clone().filter(|_| !over)
    }

    /// Returns the role `name`; `None` if it does not exist. In a cluster it may block for 100 ms,
    /// to read the newest catalog.
    pub fn role(&self, name: &str) -> Option<Arc<RoleDef>> {
        let (all, _) = self.shared.newest_catalog(&self.shared.databases.first);
        all.role(name).ok().flatten()
    }

    /// Sets the source of the server's settings and reads it. Returns false if it could not be
    /// read: the settings are unchanged then, and the log has the reason. Blocks while the source
    /// reads its files.
    pub fn set_configuration(&self, source: Arc<dyn ConfigurationSource>) -> bool {
        self.shared.configuration.set_source(source)
    }

    /// Reads the server's settings again, as SIGHUP and `pg_reload_conf()` do. Returns false if
    /// they could not be read, as [`Database::set_configuration`] does. Sessions adopt them at
    /// [`Session::follow_server`].
    pub fn reload(&self) -> bool {
        self.shared.configuration.reload()
    }

    /// Returns the settings of the server as they were last read.
    pub fn server_settings(&self) -> Arc<ServerSettings> {
        self.shared.configuration.active()
    }

    /// Calls `hook` with the server's settings now, and each time that they are read again. The
    /// hook stays until the database is closed. It must not call this function or
    /// [`Database::reload`], which would wait for the hook itself.
    pub fn on_reload(&self, hook: impl Fn(&ServerSettings) + Send + Sync + 'static) {
        self.shared.configuration.on_change(Box::new(hook));
    }

    /// Returns how many statements were shipped to other machines, and from them to this one, since
    /// the start. All counts of a machine that is alone are 0.
    pub fn shipped(&self) -> ShipCounts {
        let ship = self.shared.ship.as_ref();
        ship.map(|ship| ship.counts()).unwrap_or_default()
    }

    /// Returns whether this machine is a member of its cluster, as far as it knows. After an
    /// eviction its statements fail with 57P03, and it has to be closed.
    pub fn is_member(&self) -> bool {
        !self.shared.machine.is_evicted()
    }

    /// Asks the other machines to remove this one, which was to leave and has no replicas any more
    /// ([`Machine::is_to_part`]) and serves no client. May be called again until this machine is
    /// removed. Returns at once; [`Database::is_member`] is false once it is removed.
    pub fn part(&self) {
        let machine = &self.shared.machine;
        machine.ask_to_part_with(MachineId(machine.number()));
    }

    /// Returns the underlying machine, for tools and benchmarks.
    pub fn machine(&self) -> &Arc<Machine> {
        &self.shared.machine
    }

    /// Returns which part of the saved memory was loaded when this machine started
    /// ([`Cluster::save_in`]).
    pub fn loaded(&self) -> &LoadReport {
        &self.shared.loaded
    }

    /// Returns the saver that saves this machine's memory after the database is closed, if
    /// [`Cluster::save_in`] asks for that.
    pub fn saver(&self) -> Option<Saver> {
        self.shared.saver.clone()
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    pub(crate) fn catalog(&self) -> &Catalog {
        &self.shared.databases.first.catalog
    }

    /// Makes all commits durable and stops the log. Dropping the last handle does the same, but
    /// cannot report an error. Blocks until the log is on disk.
    ///
    /// End all sessions and servers before: with a data directory, their later writes fail. The
    /// memory and the directory are released with the last handle, session and server.
    ///
    /// # Errors
    /// 58030 if the log has failed: commits with `synchronous_commit = off` may be lost.
    pub fn close(self) -> Result<(), Error> {
        self.shared.sweeper.wait_until_empty();
        self.shared.reclaimer.close();
        self.shared.advisory.close();
        if let Some(ship) = &self.shared.ship {
            ship.close();
        }
        self.shared
            .machine
            .close()
            .map_err(|error| Error::from(SqlError::new(SqlState::IO_ERROR, error.to_string())))
    }
}

impl Shared {
    /// Returns the database with an oid, and opens it if necessary. Returns `None` if it is not
    /// known to exist.
    pub fn database(&self, id: u32) -> Option<Arc<DatabaseState>> {
        self.databases.known(id).or_else(|| {
            let (all, _) = self.newest_catalog(&self.databases.first);
            let database = all.database_by_id(id)?;
            Some(self.databases.open(database, all.databases()))
        })
    }

    /// Returns a catalog of the database, and whether it is the current one. A machine that is
    /// alone knows every change. Other machines may have changed the catalog; if reading it takes
    /// too long, this returns the newest known one.
    pub fn newest_catalog(&self, of: &DatabaseState) -> (Arc<Snapshot>, bool) {
        if self.machine.number() == 0
            && let Some(newest) = of.catalog.newest_of_all()
        {
            return (newest, true);
        }
        let mut tx = self.machine.coordinator().begin(Mode::ReadOnly);
        match within(CATALOG_PATIENCE, of.catalog.snapshot(&mut tx)) {
            Some(Ok(newest)) => (newest, true),
            _ => (of.catalog.newest(), false),
        }
    }

    /// Returns the number for a new session.
    pub fn next_pid(&self) -> i32 {
        self.cancels.next_number(self.machine.number())
    }
}

/// Returns the catalog of a machine, once all machines of its cluster are ready.
fn catalog_among(
    machine: &Arc<Machine>,
    joined: Option<&JoinedMachine>,
    password: &FirstPassword,
) -> Result<Catalog, OpenError> {
    if let Some(joined) = joined {
        joined.await_machines(machine)?;
    }
    match joined.filter(|_| !machine.has_root_object()) {
        None => open_catalog(machine, password).block_on(),
        // The machine that holds the root object creates the catalog, once it sees all machines.
        Some(joined) => joined.await_others(|| open_catalog(machine, password).block_on().ok()),
    }
}

/// Returns the catalog of the machine, with its newest snapshot loaded. If there is no catalog, the
/// machine that has the root object creates it. The root object itself is read, even if its earlier
/// contents are known.
async fn open_catalog(
    machine: &Arc<Machine>,
    password: &FirstPassword,
) -> Result<Catalog, OpenError> {
    let mut coordinator = machine.coordinator();
    let mut tx = coordinator.begin(Mode::ReadOnly);
    let made = Catalog::is_made(&mut tx, machine.root()).await;
    let catalog = match made.map_err(StatementStop::into_error)? {
        true => {
            let opened = Catalog::open(&mut tx, machine.root()).await;
            let catalog = opened.map_err(StatementStop::into_error)?;
            let snapshot = catalog
                .snapshot(&mut tx)
                .await
                .map_err(StatementStop::into_error)?;
            if snapshot.databases().is_empty() {
                add_first_databases(&catalog, machine).await?;
            }
            catalog
        }
        false if machine.has_root_object() => make_catalog(machine, password.verifier()?).await?,
        false => return Err(SqlError::internal("the catalog has yet to be made").into()),
    };
    let mut tx = coordinator.begin(Mode::ReadOnly);
    catalog
        .snapshot(&mut tx)
        .await
        .map_err(StatementStop::into_error)?;
    Ok(catalog)
}

async fn make_catalog(
    machine: &Arc<Machine>,
    verifier: Option<String>,
) -> Result<Catalog, SqlError> {
    let mut tx = machine.coordinator().begin(Mode::ReadWrite);
    let created = Catalog::create(&mut tx, machine.root(), verifier).await;
    let catalog = created.map_err(StatementStop::into_error)?;
    let ended = tx.commit().await;
    match ended.map_err(|stop| StatementStop::Stop(stop).into_error())? {
        Outcome::Committed(_) => Ok(catalog),
        Outcome::Aborted(_) => Err(SqlError::internal("the catalog could not be made")),
    }
}

/// Creates the first databases if the catalog is older than support for several databases. Other
/// machines may do the same concurrently.
async fn add_first_databases(catalog: &Catalog, machine: &Arc<Machine>) -> Result<(), SqlError> {
    let mut coordinator = machine.coordinator();
    for attempt in 0..ATTEMPTS_MAX {
        let mut tx = coordinator.begin(Mode::ReadWrite);
        match catalog.add_first_databases(&mut tx).await {
            Ok(false) => return Ok(()),
            Ok(true) => match tx.commit().await {
                Ok(Outcome::Committed(_)) => return Ok(()),
                Ok(Outcome::Aborted(_)) => {}
                Err(stop) => return Err(StatementStop::Stop(stop).into_error()),
            },
            Err(halt) if halt.is_retryable() => tx.abort(),
            Err(halt) => return Err(halt.into_error()),
        }
        back_off(attempt).await;
    }
    Err(SqlError::internal("the first databases could not be made"))
}

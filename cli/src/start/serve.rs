//! The run of a server, from its start to its end.
//!
//! ```text
//!   open (recovery) ──► listen ──► "ready" line ──► signal ──► statements end ──► close
//!     a signal ends at once                         a second signal ends at once
//! ```
//! The server also ends at once when the other machines of its cluster evict it, because its
//! answers could be outdated. This has its own exit code. A supervisor may start it again. SIGHUP
//! makes it reload its configuration.

use std::sync::Arc;
use std::time::{Duration, Instant};

use fencepost::{Database, OpenError, SaveEnd, Saver, settings_of};
use fencepost_pgserver::{Server, listen};
use tokio::runtime::{Builder, Runtime};
use tokio::task::{JoinError, spawn_blocking};

use super::Start;
use crate::configuration::{Source, check_file};
use crate::failure::Failure;
use crate::leave::{is_to_part, part};
use crate::log::Log;
use crate::monitoring::{Health, Monitoring, ServerParts};
use crate::signals::{HangupSignal, Signals};

/// The time for which statements may continue after the signal.
const TIME_LIMIT: Duration = Duration::from_secs(10);

/// The interval at which the membership of the machine is checked.
const LOOK: Duration = Duration::from_millis(50);

/// The signal receivers of a server.
struct SignalReceivers {
    signals: Signals,
    hangups: HangupSignal,
}

impl Start {
    /// Serves clients until a signal.
    pub fn run(self) -> crate::CommandResult {
        self.check()?;
        if self.check_config {
            println!("the configuration is valid");
            return Ok(());
        }
        let log = Log::start(&self.log)?;
        let done = self.serve(&log);
        match &done {
            Ok(()) => tracing::info!("database system is shut down"),
            // Without a log file, the program prints the failure on stderr.
            Err(failure) if log.control().is_some() => {
                tracing::error!(severity = "FATAL", "{failure}");
            }
            Err(_) => {}
        }
        done
    }

    /// Checks the configuration file, the settings, and the combination of options.
    fn check(&self) -> crate::CommandResult {
        if let Some(path) = &self.config {
            check_file(path).map_err(Failure::Broken)?;
        }
        let data_dir = self.data_dir.as_deref();
        let source = Source::new(&self.settings, self.config.as_deref(), data_dir, None);
        let (_, refused) = settings_of(&source).map_err(Failure::Broken)?;
        match refused.first() {
            // An invalid setting of ALTER SYSTEM does not prevent the start.
            Some(error) if self.check_config => {
                return Err(Failure::Broken(error.message().to_owned()));
            }
            _ => {}
        }
        self.options().map(drop)
    }

    fn serve(&self, log: &Log) -> crate::CommandResult {
        let began = Instant::now();
        let source = Arc::new(Source::new(
            &self.settings,
            self.config.as_deref(),
            self.data_dir.as_deref(),
            log.control(),
        ));
        let (settings, _) = settings_of(&*source).map_err(Failure::Broken)?;
        log.follower()(&settings);
        tracing::info!("starting fencepost {}", env!("CARGO_PKG_VERSION"));
        let runtime = Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build()
            .map_err(Failure::io("runtime"))?;
        // The handlers are set before the ready line, so that a signal sent after that line is not
        // lost.
        let mut heard = {
            let _entered = runtime.enter();
            SignalReceivers {
                signals: Signals::new().map_err(Failure::io("signals"))?,
                hangups: HangupSignal::new().map_err(Failure::io("signals"))?,
            }
        };
        if self.ends_with_parent {
            rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::TERM))
                .map_err(|error| Failure::io("parent")(error.into()))?;
        }
        let health = Arc::new(Health::starting());
        let monitoring = self.metrics_listen.as_ref();
        let monitoring = monitoring.map(|address| Monitoring::start(address, Arc::clone(&health)));
        let monitoring = monitoring.transpose()?;
        if let Some(monitoring) = &monitoring {
            tracing::info!("serving metrics on http://{}/metrics", monitoring.address());
        }
        let database = match runtime.block_on(self.open(&mut heard.signals)) {
            Ok(database) => database,
            Err(failure) => {
                // The end of the process ends an open that is still running.
                runtime.shutdown_background();
                return Err(failure);
            }
        };
        tell_recovery(&database);
        let rules = source.rules().clone();
        database.set_configuration(source);
        database.on_reload(log.follower());
        let server = listen(&database, self.listen_options(&rules))?;
        health.serves(ServerParts {
            database: database.clone(),
            counts: server.counts(),
            dropped: Box::new(log.dropped()),
        });
        self.tell_ready(&database, &server, began);
        let ended = runtime.block_on(self.until_end(&database, server, &mut heard, (log, &health)));
        health.stops();
        ended?;
        close(database, runtime, &mut heard.signals)
    }

    fn tell_ready(&self, database: &Database, server: &Server, began: Instant) {
        let where_to = match (&self.data_dir, self.is_among_others()) {
            (Some(dir), _) => format!("data in {}", dir.display()),
            (None, true) => {
                let members = database.machine().members();
                format!("machine {} of {}", members.me, members.machines.len())
            }
            _ => "data in memory only".to_string(),
        };
        let address = server.local_addr();
        tracing::info!("listening on {address}");
        if let Some(path) = server.local_socket() {
            tracing::info!("listening on Unix socket {}", path.display());
        }
        tracing::info!("database system is ready to accept connections");
        println!(
            "fencepost {} ready on {address} ({where_to}; started in {} ms)",
            env!("CARGO_PKG_VERSION"),
            began.elapsed().as_millis()
        );
    }

    /// Serves until a signal, or until this machine leaves the cluster.
    async fn until_end(
        &self,
        database: &Database,
        server: Server,
        heard: &mut SignalReceivers,
        (log, health): (&Log, &Health),
    ) -> crate::CommandResult {
        let SignalReceivers { signals, hangups } = heard;
        let left = self.left(database);
        let mut left = std::pin::pin!(left);
        let mut parts = std::pin::pin!(is_to_part(database));
        let name = loop {
            tokio::select! {
                name = signals.next() => break name,
                () = hangups.next() => {
                    // The log is reopened first, so that the next line is in the new file.
                    if let Some(control) = log.control() {
                        control.reopen();
                    }
                    tracing::info!("received SIGHUP, reloading configuration files");
                    database.reload();
                }
                left = &mut left => {
                    server.shutdown(Duration::ZERO).await;
                    return Err(left);
                }
                () = &mut parts => {
                    tracing::info!("this machine is to leave: ending sessions");
                    server.shutdown(TIME_LIMIT).await;
                    return part(database).await;
                }
            }
        };
        tracing::info!("received {name}: ending sessions");
        health.stops();
        tokio::select! {
            () = server.shutdown(TIME_LIMIT) => Ok(()),
            name = signals.next() => {
                Err(Failure::Broken(format!("{name} again: ended before sessions did")))
            }
        }
    }

    /// Waits until the other machines have evicted this one; never returns without leases.
    async fn left(&self, database: &Database) -> Failure {
        if self.lease_ms.is_none() {
            std::future::pending::<()>().await;
        }
        while database.is_member() {
            tokio::time::sleep(LOOK).await;
        }
        Failure::Left(database.machine().number())
    }

    /// Opens the database, which may wait for other machines; a signal ends the wait.
    async fn open(&self, signals: &mut Signals) -> Result<Database, Failure> {
        let options = self.options()?;
        let opening = spawn_blocking(move || options.open());
        tokio::select! {
            opened = opening => match opened.map_err(JoinError::try_into_panic) {
                Ok(Err(OpenError::NoSuperuserPassword)) => Err(Failure::NoPassword),
                Ok(opened) => Ok(opened?),
                Err(Ok(panic)) => std::panic::resume_unwind(panic),
                Err(Err(ended)) => Err(Failure::Broken(ended.to_string())),
            },
            name = signals.next() => {
                Err(Failure::Broken(format!("{name}: ended before the database was open")))
            }
        }
    }
}

/// Logs what recovery found of an earlier run.
fn tell_recovery(database: &Database) {
    let loaded = database.loaded();
    for damaged in &loaded.damaged {
        tracing::warn!("{damaged}; it was made again from what others had");
    }
    if loaded.bytes > 0 {
        tracing::info!("loaded {}", amount(loaded.bytes, loaded.took));
    }
    let machine = database.machine();
    let started = machine.started();
    if started.checkpoint_objects > 0 || started.replayed.commits > 0 {
        tracing::info!(
            objects = started.checkpoint_objects,
            transactions = started.replayed.commits,
            "recovery is complete: {} objects of the checkpoint, {} transactions of the log",
            started.checkpoint_objects,
            started.replayed.commits
        );
    }
    if let Some(torn) = &started.torn_tail {
        tracing::info!("the last flush before the end of the earlier run was incomplete: {torn}");
    }
    if machine.number() != 0 {
        let members = machine.members();
        let machines: Vec<u32> = members.machines.iter().map(|member| member.id).collect();
        tracing::info!(
            machine = members.me,
            "this is machine {} of configuration {}, whose machines are {machines:?}",
            members.me,
            members.configuration
        );
    }
    if started.replaced {
        tracing::warn!(
            "the others have gone on without this machine: it has joined them as m{}, \
             and what its disk had is not used",
            machine.number()
        );
    }
}

/// Closes the database, and saves the memory of the machine if configured.
fn close(database: Database, runtime: Runtime, signals: &mut Signals) -> crate::CommandResult {
    let saver = database.saver();
    let closed = database.close().map_err(Failure::Close);
    if let Some(saver) = saver {
        // The memory is saved even if closing failed.
        let saved = runtime.block_on(save(saver, signals));
        if saved.is_err() {
            // The end of the process ends a save that is still running.
            runtime.shutdown_background();
            return saved;
        }
    }
    closed
}

/// Saves the memory of an ended machine, unless another signal ends that.
async fn save(saver: Saver, signals: &mut Signals) -> crate::CommandResult {
    let saving = spawn_blocking(move || saver.save());
    let saved = tokio::select! {
        saved = saving => saved.map_err(|error| Failure::Broken(error.to_string()))?,
        name = signals.next() => {
            return Err(Failure::Broken(format!("{name} again: ended before memory was saved")));
        }
    };
    match saved.map_err(|error| Failure::Broken(format!("memory could not be saved: {error}")))? {
        SaveEnd::Saved(0, _) => {}
        SaveEnd::Saved(bytes, took) => tracing::info!("saved {}", amount(bytes, took)),
        SaveEnd::OthersGoOn => {
            tracing::info!("other machines go on; the last one to end saves the memory of all");
        }
        SaveEnd::Needless => tracing::info!("the others do without what this machine had"),
    }
    Ok(())
}

/// Formats an amount of bytes, its duration and its rate.
fn amount(bytes: u64, took: Duration) -> String {
    let megabytes = bytes as f64 / 1e6;
    let seconds = took.as_secs_f64();
    format!(
        "{megabytes:.0} MB in {seconds:.2} s, {:.0} MB/s",
        megabytes / seconds
    )
}

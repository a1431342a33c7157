//! The log of a server: the destination and the format of its lines.
//!
//! ```text
//!   events of all crates ──> Lines (filter ──> Record ──> text or JSON) ──> a thread ──> sink
//!   settings of the server ────┘ log_min_messages, log_line_prefix, log_timezone, …
//! ```
//! The sink is stderr or a file. Events about clients (`fencepost::client`) have already been
//! filtered by the settings of their session.
//!
//! # Failure
//! No thread of the server waits for the log. If lines arrive faster than they can be written, a
//! bounded number waits ([`meter`]), and further lines are dropped and counted.

mod file;
mod json;
mod meter;
mod panics;
mod prefix;
mod record;
mod text;

use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use clap::{Args, ValueEnum};
use fencepost::ServerSettings;
use parking_lot::RwLock;
use tracing::level_filters::LevelFilter;
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_appender::non_blocking::{NonBlocking, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::Registry;

use crate::failure::Failure;
pub use file::Control;
use file::{LogFile, Rotation};
use meter::{LINES_MAX, Meter, MeteredSink};
use record::Record;
use text::Shape;

/// The form of a log's lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Text, as in PostgreSQL's stderr log, with `log_line_prefix` before each line.
    #[default]
    Text,
    /// JSON: one object per line, with the keys of PostgreSQL's jsonlog.
    Json,
}

impl LogFormat {
    /// Returns the value of `--log-format`.
    pub fn name(self) -> &'static str {
        match self {
            LogFormat::Text => "text",
            LogFormat::Json => "json",
        }
    }
}

// A doc comment here would replace that of `start` in the help.
#[derive(Debug, Args)]
pub struct LogOptions {
    /// Format of the log's lines.
    #[arg(
        long,
        env = "FENCEPOST_LOG_FORMAT",
        value_name = "FORMAT",
        default_value = "text"
    )]
    log_format: LogFormat,
    /// File of the log, in place of stderr. SIGHUP opens it again.
    #[arg(long, env = "FENCEPOST_LOG_FILE", value_name = "FILE")]
    log_file: Option<PathBuf>,
    /// When the log is rotated: daily, never, or at a size, for example 100M. The old files are
    /// FILE.1, FILE.2, ….
    #[arg(
        long,
        env = "FENCEPOST_LOG_ROTATION",
        value_name = "WHEN",
        default_value = "never",
        value_parser = file::rotation
    )]
    log_rotation: Rotation,
    /// Number of old log files that are kept.
    #[arg(
        long,
        env = "FENCEPOST_LOG_FILES_MAX",
        value_name = "N",
        default_value_t = 7
    )]
    log_files_max: u32,
}

/// A running log. Waiting lines are written when it is dropped.
pub struct Log {
    shape: Arc<RwLock<Shape>>,
    filter: Arc<Filter>,
    control: Option<Arc<Control>>,
    meter: Arc<Meter>,
    _guard: WorkerGuard,
}

/// The filter of events.
struct Filter {
    /// The index of `log_min_messages` in [`record::LEVELS`].
    least: AtomicUsize,
    checkpoints: AtomicBool,
}

impl Log {
    /// Starts the log of the process.
    pub fn start(options: &LogOptions) -> Result<Log, Failure> {
        let (sink, control): (Box<dyn Write + Send>, _) = match &options.log_file {
            None => (Box::new(io::stderr()), None),
            Some(path) => {
                let open = LogFile::open(path, options.log_rotation, options.log_files_max);
                let file = open.map_err(Failure::io(path.display().to_string()))?;
                let control = file.control();
                (Box::new(file), Some(control))
            }
        };
        let meter = Arc::new(Meter::default());
        let (writer, guard) = NonBlockingBuilder::default()
            // The meter admits no more lines than this.
            .buffered_lines_limit(LINES_MAX)
            .lossy(true)
            .thread_name("fencepost-log")
            .finish(MeteredSink::new(sink, &meter));
        let log = Log {
            shape: Arc::new(RwLock::new(Shape::new(options.log_format))),
            filter: Arc::new(Filter {
                least: AtomicUsize::new(record::WARNING),
                checkpoints: AtomicBool::new(true),
            }),
            control,
            meter,
            _guard: guard,
        };
        let lines = LineLayer {
            shape: Arc::clone(&log.shape),
            filter: Arc::clone(&log.filter),
            meter: Arc::clone(&log.meter),
            writer,
        };
        // A second log in a process, as in tests, has no effect; the first one is used.
        if tracing::subscriber::set_global_default(Registry::default().with(lines)).is_ok() {
            panics::log_panics();
        }
        Ok(log)
    }

    /// Returns a function that applies changed settings of the server.
    pub fn follower(&self) -> impl Fn(&ServerSettings) + Send + Sync + 'static {
        let (shape, filter) = (Arc::clone(&self.shape), Arc::clone(&self.filter));
        move |settings| {
            shape.write().follow(settings);
            let get = |name| settings.get(name).unwrap_or_default();
            filter
                .checkpoints
                .store(get("log_checkpoints") == "on", Relaxed);
            let least = record::rank(&get("log_min_messages"));
            if filter.least.swap(least, Relaxed) != least {
                tracing::callsite::rebuild_interest_cache();
            }
        }
    }

    /// Returns the handle to rotate the log file, if there is one.
    pub fn control(&self) -> Option<Arc<Control>> {
        self.control.clone()
    }

    /// Returns a function that returns the number of dropped lines.
    pub fn dropped(&self) -> impl Fn() -> u64 + Send + Sync + 'static {
        let meter = Arc::clone(&self.meter);
        move || meter.dropped()
    }
}

/// The layer that turns events into lines.
struct LineLayer {
    shape: Arc<RwLock<Shape>>,
    filter: Arc<Filter>,
    meter: Arc<Meter>,
    writer: NonBlocking,
}

impl LineLayer {
    fn wants(&self, metadata: &Metadata<'_>) -> bool {
        let least = self.filter.least.load(Relaxed);
        let target = metadata.target();
        if !target.starts_with("fencepost") {
            // Events of libraries are logged only at debug levels.
            return least <= record::DEBUG1 && record::of_level(*metadata.level()) >= least;
        }
        if target == record::CLIENT {
            return true;
        }
        if target == record::CHECKPOINT && !self.filter.checkpoints.load(Relaxed) {
            return false;
        }
        record::of_level(*metadata.level()) >= least
    }
}

impl<S: Subscriber> Layer<S> for LineLayer {
    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        // Spans are not logged.
        metadata.is_event() && self.wants(metadata)
    }

    fn register_callsite(
        &self,
        metadata: &'static Metadata<'static>,
    ) -> tracing::subscriber::Interest {
        use tracing::subscriber::Interest;
        match metadata.is_event() {
            // The setting for checkpoints may change.
            true if metadata.target() == record::CHECKPOINT => Interest::sometimes(),
            true if self.wants(metadata) => Interest::always(),
            _ => Interest::never(),
        }
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(match self.filter.least.load(Relaxed) {
            least if least < record::DEBUG1 => LevelFilter::TRACE,
            record::DEBUG1 => LevelFilter::DEBUG,
            _ => LevelFilter::INFO,
        })
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let record = Record::of(event);
        let line = self.shape.read().line(&record);
        if self.meter.admits(line.len()) {
            // The queue is large enough for all lines that the meter admits.
            let _ = self.writer.clone().write_all(line.as_bytes());
        }
    }
}

/// Returns PostgreSQL's name of an event's level.
fn severity_of(level: Level) -> &'static str {
    match level {
        Level::ERROR => "ERROR",
        Level::WARN => "WARNING",
        Level::INFO => "LOG",
        Level::DEBUG => "DEBUG1",
        Level::TRACE => "DEBUG2",
    }
}

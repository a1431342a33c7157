//! The server under test, in its own process, so that its end can be detected.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use fencepost::Database;
use fencepost_pgserver::{ListenOptions, listen};

/// The argument with which this program runs as a server.
pub const SERVE: &str = "serve";

/// The number of bytes of a server's messages that are kept.
const LOG_MAX: usize = 1 << 20;

/// The size of a memory page in bytes.
const PAGE_BYTES: u64 = 4096;

/// Serves a database in memory until the standard input ends. First writes its address to the
/// standard output.
///
/// # Errors
/// Failure to open the database or the address.
pub fn serve(memory_limit: u64) -> Result<(), String> {
    let options = Database::options().region_size(16 << 20);
    let database = options.memory_limit(memory_limit).open();
    let database = database.map_err(|error| error.to_string())?;
    let server = listen(&database, ListenOptions::new("127.0.0.1:0"));
    let server = server.map_err(|error| error.to_string())?;
    let written = writeln!(std::io::stdout(), "{}", server.local_addr());
    written.map_err(|error| error.to_string())?;
    let read = std::io::stdin().read_to_end(&mut Vec::new());
    drop(server);
    read.map_err(|error| error.to_string()).map(drop)
}

/// A running server.
pub struct Process {
    child: Child,
    /// The address on which it listens.
    pub addr: SocketAddr,
    log: Arc<Mutex<String>>,
    reader: Option<JoinHandle<()>>,
}

impl Process {
    /// Starts `program` as a server.
    ///
    /// # Errors
    /// The reason for which it does not start.
    pub fn start(program: &Path) -> Result<Process, String> {
        let failed = |error: std::io::Error| format!("{}: {error}", program.display());
        let mut command = Command::new(program);
        command.arg(SERVE).env("RUST_BACKTRACE", "0");
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().map_err(failed)?;
        let (output, errors) = (child.stdout.take(), child.stderr.take());
        let log = Arc::new(Mutex::new(String::new()));
        let shared = Arc::clone(&log);
        let reader = errors.map(|errors| {
            std::thread::spawn(move || {
                for line in BufReader::new(errors).lines().map_while(Result::ok) {
                    if let Ok(mut log) = shared.lock()
                        && log.len() < LOG_MAX
                    {
                        log.push_str(&line);
                        log.push('\n');
                    }
                }
            })
        });
        let mut line = String::new();
        if let Some(output) = output {
            BufReader::new(output)
                .read_line(&mut line)
                .map_err(failed)?;
        }
        let addr = line.trim().parse();
        let mut process = Process {
            child,
            addr: addr.unwrap_or(SocketAddr::from(([127, 0, 0, 1], 0))),
            log,
            reader,
        };
        if process.addr.port() == 0 {
            process.stop();
            return Err(format!("the server does not begin: {}", process.log()));
        }
        Ok(process)
    }

    /// Returns how the process ended; `None` if it runs.
    pub fn end(&mut self) -> Option<String> {
        let status = self.child.try_wait();
        status.ok().flatten().map(|status| status.to_string())
    }

    /// Returns the standard error of the server so far.
    pub fn log(&self) -> String {
        self.log.lock().map(|log| log.clone()).unwrap_or_default()
    }

    /// Returns the memory that it uses, in bytes.
    pub fn memory_bytes(&self) -> u64 {
        let path = format!("/proc/{}/statm", self.child.id());
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let pages = text
            .split(' ')
            .nth(1)
            .and_then(|pages| pages.parse::<u64>().ok());
        pages.unwrap_or(0) * PAGE_BYTES
    }

    /// Kills the process and waits for its end.
    pub fn stop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.stop();
    }
}

//! A server that lives as long as one run: in memory, on a free port of the loopback address.
//!
//! *Failure.* The server is killed when the value is dropped or a signal ends xtask, so it also
//! ends when the generation fails. Its environment is empty: options of the caller have no effect.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::JoinHandle;

use super::error::ReferenceError;
use crate::children::{Running, StopSignal};

/// A running server.
pub struct Server {
    process: Running,
    port: u16,
}

impl Server {
    /// Starts a server and waits until it accepts connections.
    ///
    /// # Errors
    /// The program cannot be started, or it ends before it is ready.
    pub fn start(program: &Path) -> Result<Server, ReferenceError> {
        let failure = |source| ReferenceError::Process {
            program: program.to_owned(),
            source,
        };
        let mut command = Command::new(program);
        command
            .args(["start", "--listen", "127.0.0.1:0"])
            .env_clear()
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        let process = Running::spawn(&mut command, StopSignal::KillGroup);
        let mut server = Server {
            process: process.map_err(failure)?,
            port: 0,
        };
        let log = server.collect_log();
        let line = server.first_line().map_err(failure)?;
        match port_of(&line) {
            Some(port) => {
                server.port = port;
                Ok(server)
            }
            None => {
                drop(server);
                let log = log.and_then(|log| log.join().ok()).unwrap_or_default();
                let message = match format!("{line}{log}").trim_end() {
                    "" => "it ended without a message".to_owned(),
                    message => message.to_owned(),
                };
                Err(ReferenceError::NotReady { message })
            }
        }
    }

    /// Returns the port of 127.0.0.1 on which the server listens.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Reads the log in a thread, so that the server never waits for a full pipe.
    fn collect_log(&mut self) -> Option<JoinHandle<String>> {
        let mut stderr = self.process.take_stderr()?;
        Some(std::thread::spawn(move || {
            let mut bytes = Vec::new();
            // A broken pipe ends the log.
            let _ = stderr.read_to_end(&mut bytes);
            String::from_utf8_lossy(&bytes).into_owned()
        }))
    }

    /// Waits for the line that a server prints when it is ready; empty if the server ended.
    fn first_line(&mut self) -> std::io::Result<String> {
        let mut line = String::new();
        if let Some(stdout) = self.process.take_stdout() {
            BufReader::new(stdout).read_line(&mut line)?;
        }
        Ok(line)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The data are in memory only, and a server that has ended needs no signal.
        self.process.stop();
        let _ = self.process.wait();
    }
}

/// Returns the port of the address in the line `fencepost … ready on HOST:PORT (…)`.
fn port_of(line: &str) -> Option<u16> {
    let (_, rest) = line.split_once(" ready on ")?;
    let address = rest.split_whitespace().next()?;
    address.rsplit_once(':')?.1.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn port_is_read_from_the_line_of_a_ready_server() {
        let line = "fencepost 0.1.0 ready on 127.0.0.1:37891 (data in memory only)\n";
        assert_eq!(port_of(line), Some(37891));
        assert_eq!(port_of("fencepost: the port is in use\n"), None);
    }

    #[test]
    fn program_that_ends_at_once_is_reported() {
        let error = Server::start(Path::new("/bin/false")).err();
        let text = error.map(|error| error.to_string());
        assert!(text.is_some_and(|text| text.ends_with("it ended without a message")));
    }
}

//! The place where the shell of a document runs.
//!
//! With namespaces each document has a network, processes and a `/dev/shm` of its own. Fixed ports
//! never collide then, `pgrep` finds no process of the host, and the end of the shell ends
//! everything that it started. Root and most other users may make such namespaces.

use std::process::Command;

/// Arguments of `unshare`: the user is mapped to root, which may configure the new namespaces.
const UNSHARE: [&str; 6] = [
    "--map-root-user",
    "--net",
    "--pid",
    "--fork",
    "--kill-child",
    "--mount-proc",
];
/// Commands that make new namespaces usable.
const SETUP: &str = "ip link set lo up && mount -t tmpfs tmpfs /dev/shm || exit";

/// The place where the shell of a document runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sandbox {
    /// Namespaces of its own.
    Namespaces,
    /// The host itself: its ports, processes and memory.
    Host {
        /// The reason why there are no namespaces.
        reason: String,
    },
}

impl Sandbox {
    /// Tries to make namespaces.
    pub fn detect() -> Sandbox {
        let reason = match Sandbox::Namespaces.shell("true").output() {
            Ok(output) if output.status.success() => return Sandbox::Namespaces,
            Ok(output) => String::from_utf8_lossy(&output.stderr).trim().to_owned(),
            Err(error) => format!("unshare: {error}"),
        };
        Sandbox::Host { reason }
    }

    /// Returns the command of a shell that runs a script; further arguments are `$1`, `$2` and on.
    pub fn shell(&self, script: &str) -> Command {
        match self {
            Sandbox::Namespaces => {
                let mut command = Command::new("unshare");
                let script = format!("{SETUP}\n{script}");
                command.args(UNSHARE).args(["bash", "-c", &script, "bash"]);
                command
            }
            Sandbox::Host { .. } => {
                let mut command = Command::new("bash");
                command.args(["-c", script, "bash"]);
                command
            }
        }
    }

    /// Returns the number of documents that may run at the same time.
    pub fn documents_at_once(&self) -> usize {
        match self {
            Sandbox::Namespaces => std::thread::available_parallelism().map_or(1, usize::from),
            Sandbox::Host { .. } => 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_runs_one_document_at_a_time() {
        let reason = "no right".to_owned();
        let host = Sandbox::Host { reason };
        assert_eq!(host.documents_at_once(), 1);
        assert_eq!(host.shell("true").get_program(), "bash");
    }
}

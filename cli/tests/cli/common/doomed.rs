//! A program that must fail soon, with a reason.

use std::io::Read;
use std::path::Path;
use std::process::{Child, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::{program, said};

/// Less than the time that machines wait for others to start.
pub const SOON: Duration = Duration::from_secs(30);

/// A program that must end by itself; dropping it kills it.
pub struct ShortLivedProgram {
    /// The process.
    pub child: Child,
    /// The time of the start.
    pub began: Instant,
}

impl ShortLivedProgram {
    /// Starts the program.
    pub fn start(arguments: &[&str]) -> ShortLivedProgram {
        let child = program(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        ShortLivedProgram {
            child: child.expect("the program starts"),
            began: Instant::now(),
        }
    }

    /// Starts a machine of a network, with further arguments after its addresses.
    pub fn join(
        addresses: &str,
        machine: &str,
        secret: &Path,
        further: &[&str],
    ) -> ShortLivedProgram {
        let secret = secret.to_str().expect("a path");
        let mut arguments = vec!["start", "--listen", "127.0.0.1:0", "--join", addresses];
        arguments.extend(["--machine", machine, "--cluster-secret", secret]);
        arguments.extend(further);
        ShortLivedProgram::start(&arguments)
    }

    /// Checks that the program fails soon, with this reason.
    #[track_caller]
    pub fn assert_fails(mut self, why: &str) {
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("a child") {
                break status;
            }
            assert!(self.began.elapsed() < SOON, "it goes on; expected: {why}");
            thread::sleep(Duration::from_millis(10));
        };
        let mut output = Output {
            status,
            stdout: Vec::new(),
            stderr: Vec::new(),
        };
        let stdout = self.child.stdout.take().expect("a pipe");
        let stderr = self.child.stderr.take().expect("a pipe");
        let read = |mut pipe: Box<dyn Read>, to: &mut Vec<u8>| pipe.read_to_end(to);
        read(Box::new(stdout), &mut output.stdout).expect("what it said");
        read(Box::new(stderr), &mut output.stderr).expect("what it said");
        let said = said(&output);
        assert_eq!(status.code(), Some(1), "{said}");
        assert!(said.contains(why), "{said}");
    }
}

impl Drop for ShortLivedProgram {
    fn drop(&mut self) {
        // The program may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

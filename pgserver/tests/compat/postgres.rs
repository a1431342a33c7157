//! A PostgreSQL server for the tests, if it is installed on this machine.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The longest time that the server may need to start.
const TIME_LIMIT: Duration = Duration::from_secs(60);

/// A running server. Dropping it stops it.
pub struct Postgres {
    child: Child,
    port: u16,
    programs: PathBuf,
    _data: tempfile::TempDir,
}

impl Postgres {
    /// Returns the URL of the server.
    pub fn url(&self) -> String {
        format!(
            "host=127.0.0.1 port={} user=postgres dbname=postgres",
            self.port
        )
    }
}

impl Postgres {
    /// Returns the path of its psql.
    pub fn psql(&self) -> String {
        self.programs.join("psql").to_string_lossy().into_owned()
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // SIGKILL would leave its processes and shared memory behind.
        let id = self.child.id().to_string();
        let _ = Command::new("kill").args(["-INT", &id]).status();
        let _ = self.child.wait();
    }
}

/// Starts a server on a new directory, or returns the reason why it cannot start.
pub fn start() -> Result<Postgres, String> {
    let programs = programs().ok_or("no PostgreSQL 15 on this machine")?;
    let data = tempfile::tempdir().map_err(|error| error.to_string())?;
    let root = is_root();
    if root {
        // PostgreSQL does not run as root.
        run(Command::new("chown").arg("postgres").arg(data.path()))?;
    }
    let mut initdb = as_postgres(root, &programs.join("initdb"));
    initdb.args(["-A", "trust", "-U", "postgres", "-E", "UTF8"]);
    initdb.args(["--locale=C.UTF-8", "--no-sync", "-D"]);
    run(initdb.arg(data.path()))?;
    let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    let port = free.map_err(|error| error.to_string())?.port();
    let mut server = as_postgres(root, &programs.join("postgres"));
    server.arg("-D").arg(data.path());
    server.args(["-p", &port.to_string(), "-h", "127.0.0.1", "-F"]);
    server.args(["-c", "unix_socket_directories="]);
    // Without autovacuum, only the tests cause work.
    server.args(["-c", "autovacuum=off"]);
    let quiet = server.stdout(Stdio::null()).stderr(Stdio::null());
    let child = quiet.spawn().map_err(|error| error.to_string())?;
    let server = Postgres {
        child,
        port,
        programs: programs.clone(),
        _data: data,
    };
    let began = Instant::now();
    let mut is_ready = Command::new(programs.join("pg_isready"));
    is_ready.args(["-h", "127.0.0.1", "-p", &port.to_string()]);
    while run(&mut is_ready).is_err() {
        if began.elapsed() > TIME_LIMIT {
            return Err("PostgreSQL did not start".to_owned());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(server)
}

fn programs() -> Option<PathBuf> {
    let debian = PathBuf::from("/usr/lib/postgresql/15/bin");
    debian.join("initdb").exists().then_some(debian)
}

fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output();
    id.is_ok_and(|id| id.stdout.starts_with(b"0\n"))
}

fn as_postgres(root: bool, program: &Path) -> Command {
    match root {
        false => Command::new(program),
        true => {
            let mut command = Command::new("setpriv");
            command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups"]);
            command.arg(program);
            command
        }
    }
}

fn run(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|error| error.to_string())?;
    match output.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

//! The databases of the test files, and their servers.

use std::cell::Cell;
use std::path::Path;

use fencepost::Database;
use fencepost_pgserver::{ListenOptions, Server, listen};
use tokio_postgres::Config;

use crate::engine::{Engine, Failure};
use crate::machines;

/// The kind of server that runs the files.
pub enum ServerKind {
    /// A database in memory, which this process serves.
    InProcess,
    /// A database of three machines, which this process serves.
    Machines,
    /// A PostgreSQL server with this URL.
    Server(String),
}

/// The database of a file.
pub struct FileDatabase {
    /// The addresses of the database, one for each machine.
    ways: Vec<Config>,
    /// The number of connections so far.
    connected: Cell<usize>,
    /// Whether each statement goes to another machine, on every connection.
    rotates: bool,
    resources: Resources,
}

/// The resources that keep the database available.
enum Resources {
    Serving {
        servers: Vec<Server>,
        _memory: Option<tempfile::TempDir>,
    },
    Beside {
        first: Box<Config>,
        name: String,
    },
}

impl ServerKind {
    /// Creates an empty database for the file.
    pub async fn make(&self, file: &Path) -> FileDatabase {
        let rotates = matches!(self, ServerKind::Machines) && !has_state(file);
        let (ways, resources) = match self {
            ServerKind::InProcess => serve(
                &[Database::in_memory().expect("a database in memory")],
                None,
            ),
            ServerKind::Machines => {
                let memory = machines::memory();
                serve(&machines::open(memory.path()), Some(memory))
            }
            ServerKind::Server(url) => beside(url, &crate::name_of(file)).await,
        };
        FileDatabase {
            ways,
            connected: Cell::new(0),
            rotates,
            resources,
        }
    }
}

impl FileDatabase {
    /// Connects, each time to another machine. With `brief`, failures contain only the SQLSTATE.
    pub async fn connect(&self, brief: bool) -> Result<Engine, Failure> {
        let nth = self.connected.replace(self.connected.get() + 1) % self.ways.len();
        let mut ways = self.ways.clone();
        ways.rotate_left(nth);
        if !self.rotates {
            ways.truncate(1);
        }
        Engine::connect(&ways, brief).await
    }

    /// Removes the database.
    pub async fn remove(self) {
        match self.resources {
            Resources::Serving { servers, .. } => drop(servers),
            Resources::Beside { first, name } => {
                let drop = format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)");
                on(&first, &[&drop]).await;
            }
        }
    }
}

/// Returns whether statements of the file need the session of earlier ones.
fn has_state(file: &Path) -> bool {
    const WORDS: [&str; 15] = [
        "begin",
        "start transaction",
        "\nset ",
        "reset",
        "prepare",
        "declare",
        "currval",
        "lastval",
        "temp ",
        "temporary",
        "listen",
        "advisory",
        "set_config",
        "connection ",
        "\\c ",
    ];
    let text = std::fs::read_to_string(file).expect("the file");
    let text = text.to_ascii_lowercase();
    WORDS.iter().any(|word| text.contains(word))
}

fn serve(machines: &[Database], memory: Option<tempfile::TempDir>) -> (Vec<Config>, Resources) {
    let serve = |machine| listen(machine, ListenOptions::new("127.0.0.1:0")).expect("a free port");
    let servers: Vec<Server> = machines.iter().map(serve).collect();
    let way = |server: &Server| {
        let mut config = Config::new();
        config.host("127.0.0.1").port(server.local_addr().port());
        config.user("postgres").dbname("postgres");
        config
    };
    let ways = servers.iter().map(way).collect();
    let resources = Resources::Serving {
        servers,
        _memory: memory,
    };
    (ways, resources)
}

/// Creates a database for a file on an existing server.
async fn beside(url: &str, file: &str) -> (Vec<Config>, Resources) {
    let mut first: Config = url.parse().expect("a URL in COMPAT_URL");
    if first.get_dbname().is_none() {
        first.dbname("postgres");
    }
    let name = format!("compat_{file}");
    let drop = format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)");
    let make = format!("CREATE DATABASE {name}");
    on(&first, &[&drop, &make]).await;
    let mut config = first.clone();
    config.dbname(&name);
    let first = Box::new(first);
    (vec![config], Resources::Beside { first, name })
}

async fn on(config: &Config, statements: &[&str]) {
    let engine = Engine::connect(std::slice::from_ref(config), false).await;
    let engine = engine.expect("a server");
    for statement in statements {
        engine.does(statement).await;
    }
}

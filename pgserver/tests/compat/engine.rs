//! A connection for the test runner.

use std::time::Duration;

use async_trait::async_trait;
use sqllogictest::{AsyncDB, ColumnType, DBOutput};
use tokio_postgres::types::{Kind, Type};
use tokio_postgres::{Client, Config, NoTls, SimpleQueryMessage};

/// Longer than the run time of any statement in a file.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(120);

/// A connection of a file.
pub struct Engine {
    /// Connections to all machines; statements use them in turn.
    clients: Vec<Client>,
    /// The addresses of the machines.
    ways: Vec<Config>,
    next_client: usize,
    name: &'static str,
    brief: bool,
}

/// The error of a statement.
#[derive(Debug)]
pub struct Failure {
    state: Option<String>,
    message: String,
    brief: bool,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.state {
            Some(state) if self.brief => write!(f, "({state})"),
            Some(state) => write!(f, "{state}: {}", self.message),
            None => write!(f, "the connection: {}", self.message),
        }
    }
}

impl std::error::Error for Failure {}

/// Returns whether the connection is lost.
pub fn is_lost(error: &(dyn std::error::Error + 'static)) -> bool {
    let failure = error.downcast_ref::<Failure>();
    failure.is_some_and(|failure| failure.state.is_none())
}

/// The kind of a column's type, as a letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TypeLetter(char);

impl ColumnType for TypeLetter {
    fn from_char(letter: char) -> Option<TypeLetter> {
        Some(TypeLetter(letter))
    }

    fn to_char(&self) -> char {
        self.0
    }
}

impl TypeLetter {
    fn of(ty: &Type) -> TypeLetter {
        TypeLetter(match *ty {
            Type::BOOL => 'B',
            Type::INT2 | Type::INT4 | Type::INT8 => 'I',
            Type::NUMERIC | Type::FLOAT4 | Type::FLOAT8 => 'R',
            Type::TEXT | Type::VARCHAR | Type::BPCHAR | Type::NAME => 'T',
            Type::DATE | Type::TIME | Type::TIMETZ | Type::TIMESTAMP | Type::TIMESTAMPTZ => 'D',
            Type::INTERVAL => 'D',
            _ => match ty.kind() {
                Kind::Array(_) => 'A',
                _ => '?',
            },
        })
    }
}

impl Engine {
    /// Connects to each of these addresses. With `brief`, failures contain only the SQLSTATE.
    pub async fn connect(ways: &[Config], brief: bool) -> Result<Engine, Failure> {
        let failed = |error: tokio_postgres::Error| failure(&error, brief);
        let mut clients = Vec::new();
        for config in ways {
            let (client, connection) = config.connect(NoTls).await.map_err(failed)?;
            tokio::spawn(connection);
            clients.push(client);
        }
        let version = clients[0].simple_query("SELECT version()").await;
        let version = version.map_err(failed)?;
        let is_here = version.iter().any(|message| match message {
            SimpleQueryMessage::Row(row) => row.get(0).is_some_and(|v| v.contains("Fencepost")),
            _ => false,
        });
        let name = if is_here { "fencepost" } else { "postgres" };
        Ok(Engine {
            clients,
            ways: ways.to_vec(),
            next_client: 0,
            name,
            brief,
        })
    }

    /// Executes `\c name`: replaces this connection by one to another database of the server.
    async fn reconnect(&mut self, database: &str) -> Result<DBOutput<TypeLetter>, Failure> {
        let mut ways = self.ways.clone();
        for way in &mut ways {
            way.dbname(database);
        }
        self.clients = Engine::connect(&ways, self.brief).await?.clients;
        Ok(DBOutput::StatementComplete(0))
    }

    /// Runs a statement that must not fail.
    pub async fn does(&self, sql: &str) {
        let done = self.client().simple_query(sql).await;
        done.expect("a statement that does not fail");
    }

    fn client(&self) -> &Client {
        &self.clients[self.next_client % self.clients.len()]
    }

    /// Returns the types of the columns of a statement.
    async fn type_letters(&self, sql: &str, columns: usize) -> Vec<TypeLetter> {
        match self.client().prepare(sql).await {
            Ok(prepared) if prepared.columns().len() == columns => {
                let columns = prepared.columns().iter();
                columns
                    .map(|column| TypeLetter::of(column.type_()))
                    .collect()
            }
            _ => vec![TypeLetter('?'); columns],
        }
    }
}

fn failure(error: &tokio_postgres::Error, brief: bool) -> Failure {
    let db = error.as_db_error();
    Failure {
        state: db.map(|db| db.code().code().to_owned()),
        message: db.map_or_else(|| error.to_string(), |db| db.message().to_owned()),
        brief,
    }
}

#[async_trait]
impl AsyncDB for Engine {
    type Error = Failure;
    type ColumnType = TypeLetter;

    async fn run(&mut self, sql: &str) -> Result<DBOutput<TypeLetter>, Failure> {
        if let Some(database) = sql.strip_prefix("\\c ") {
            return self.reconnect(database.trim()).await;
        }
        self.next_client += 1;
        let run = tokio::time::timeout(STATEMENT_TIMEOUT, self.client().simple_query(sql));
        let run = run.await.map_err(|_| Failure {
            state: None,
            message: format!("no answer within {STATEMENT_TIMEOUT:?}"),
            brief: false,
        })?;
        let messages = match run {
            Ok(messages) => messages,
            Err(error) => {
                // The error arrives before its rollback has completed; the reply to another
                // statement arrives after it. A lost connection is reported by the next statement.
                let _ = self.client().simple_query("").await;
                return Err(failure(&error, self.brief));
            }
        };
        let (mut width, mut rows, mut count) = (None, Vec::new(), 0);
        for message in messages {
            match message {
                SimpleQueryMessage::RowDescription(columns) => {
                    width = Some(columns.len());
                    rows.clear();
                }
                SimpleQueryMessage::Row(row) => {
                    let cells = (0..row.len()).map(|column| cell(row.get(column)));
                    rows.push(cells.collect());
                }
                SimpleQueryMessage::CommandComplete(number) => count = number,
                _ => {}
            }
        }
        Ok(match width {
            None => DBOutput::StatementComplete(count),
            Some(width) => DBOutput::Rows {
                types: self.type_letters(sql, width).await,
                rows,
            },
        })
    }

    async fn shutdown(&mut self) {}

    fn engine_name(&self) -> &str {
        self.name
    }

    async fn sleep(duration: Duration) {
        tokio::time::sleep(duration).await;
    }

    fn error_sql_state(error: &Failure) -> Option<String> {
        error.state.clone()
    }
}

/// Returns a value in the format of the files.
fn cell(value: Option<&str>) -> String {
    match value {
        None => "NULL".to_owned(),
        Some("") => "(empty)".to_owned(),
        Some(text) => text.replace('\n', "\\n"),
    }
}

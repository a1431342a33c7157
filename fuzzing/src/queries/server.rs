//! A server on which queries run, with the settings under which they run there.

use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

use super::schema::Schema;

/// The longest run of a query.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(10);

/// Settings under which a query runs.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// The names and values; empty for the defaults.
    pub values: Vec<(&'static str, &'static str)>,
}

impl Settings {
    /// Returns the settings that make the planner choose other plans, the defaults first.
    pub fn of_planner() -> Vec<Settings> {
        let all: [&[(&str, &str)]; 5] = [
            &[],
            &[("enable_hashjoin", "off")],
            &[("enable_nestloop", "off")],
            &[("fencepost.analytics", "on")],
            &[
                ("fencepost.analytics", "off"),
                ("enable_hashjoin", "off"),
                ("enable_nestloop", "off"),
            ],
        ];
        let settings = all.map(|values| Settings {
            values: values.to_vec(),
        });
        settings.to_vec()
    }

    /// Returns the name in reports.
    pub fn name(&self) -> String {
        let each = self
            .values
            .iter()
            .map(|(name, value)| format!("{name} = {value}"));
        if self.values.is_empty() {
            return "defaults".to_owned();
        }
        each.collect::<Vec<_>>().join(", ")
    }
}

/// A connection to a server, and the settings under which each query runs there.
pub struct QueryServer {
    name: String,
    runtime: Runtime,
    client: Client,
    settings: Vec<Settings>,
}

/// The rows of a query as text.
pub type TextRows = Vec<Vec<Option<String>>>;

/// The answer to a query: its rows, or the SQLSTATE of its error.
pub type Answer = Result<TextRows, String>;

impl QueryServer {
    /// Connects to a server.
    ///
    /// # Errors
    /// A server that cannot be reached, or that refuses the connection.
    pub fn connect(name: &str, url: &str, settings: Vec<Settings>) -> Result<QueryServer, String> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| error.to_string())?;
        let connected = runtime.block_on(tokio_postgres::connect(url, NoTls));
        let (client, connection) = connected.map_err(|error| format!("{url}: {error}"))?;
        // The statement that finds the connection closed returns the error.
        runtime.spawn(async move { drop(connection.await) });
        let server = QueryServer {
            name: name.to_owned(),
            runtime,
            client,
            settings,
        };
        let timeout = STATEMENT_TIMEOUT.as_millis();
        server.execute(&format!("SET statement_timeout = {timeout}"))?;
        server.execute("SET client_min_messages = error")?;
        Ok(server)
    }

    /// Returns the name of the server in reports.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the settings.
    pub fn settings(&self) -> &[Settings] {
        &self.settings
    }

    /// Creates the tables of a round.
    ///
    /// # Errors
    /// A statement that fails.
    pub fn create(&mut self, schema: &Schema) -> Result<(), String> {
        for statement in &schema.statements {
            self.execute(statement)?;
        }
        Ok(())
    }

    fn execute(&self, sql: &str) -> Result<(), String> {
        let done = self.runtime.block_on(self.client.batch_execute(sql));
        done.map_err(|error| format!("{}: {sql}: {error}", self.name))
    }

    /// Runs a query under settings.
    ///
    /// # Errors
    /// A connection that ends.
    pub fn answer(&self, settings: &Settings, sql: &str) -> Result<Answer, String> {
        for (name, value) in &settings.values {
            self.execute(&format!("SET {name} = {value}"))?;
        }
        let answer = self.runtime.block_on(self.client.simple_query(sql));
        for (name, _) in &settings.values {
            self.execute(&format!("RESET {name}"))?;
        }
        let messages = match answer {
            Ok(messages) => messages,
            Err(error) => {
                let state = error.code().map(|state| state.code().to_owned());
                return state
                    .map(Err)
                    .ok_or_else(|| format!("{}: {sql}: {error}", self.name));
            }
        };
        let mut rows = Vec::new();
        for message in messages {
            if let SimpleQueryMessage::Row(row) = message {
                let columns = 0..row.len();
                rows.push(columns.map(|at| row.get(at).map(str::to_owned)).collect());
            }
        }
        Ok(Ok(rows))
    }
}

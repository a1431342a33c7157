//! `fencepost status`: connects to a running database and says what it finds.

use std::time::Instant;

use clap::Args;
use fencepost_benchmarks::BenchError;
use fencepost_benchmarks::sql::{Cell, PgSession, SqlSession};

/// Show a running database.
#[derive(Debug, Args)]
pub struct Status {
    /// Where it is: postgresql://user@host:port/database, or host=… port=….
    #[arg(long, default_value = "postgresql://postgres@127.0.0.1:5433/postgres")]
    url: String,
}

impl Status {
    pub fn run(self) -> crate::Done {
        let began = Instant::now();
        let mut session = PgSession::connect(&self.url)?;
        let connected = began.elapsed();
        let text = |session: &mut PgSession, sql: &str| -> Result<String, BenchError> {
            let statement = session.prepare(sql)?;
            let rows = session.query(statement, &[])?;
            Ok(match rows.first().and_then(|row| row.first()) {
                Some(Cell::Text(text)) => text.clone(),
                Some(Cell::Int(number)) => number.to_string(),
                Some(Cell::Numeric(number)) => number.to_string(),
                Some(Cell::Null) | None => String::new(),
            })
        };
        let version = text(&mut session, "SELECT version()")?;
        let asked = Instant::now();
        text(&mut session, "SELECT 1")?;
        let answered = asked.elapsed();
        println!("version     {version}");
        println!("connected   in {:.1} ms", connected.as_secs_f64() * 1e3);
        println!(
            "SELECT 1    prepared and run in {:.2} ms",
            answered.as_secs_f64() * 1e3
        );
        for (name, label) in [
            ("server_version", "protocol"),
            ("synchronous_commit", "commit"),
        ] {
            println!(
                "{label:<11} {name} = {}",
                text(&mut session, &format!("SHOW {name}"))?
            );
        }
        Ok(())
    }
}

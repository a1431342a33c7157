//! `fencepost status`: connects to a running database and prints its state.

use std::time::Instant;

use clap::Args;

use crate::admin_connection::AdminConnection;
use crate::failure::Failure;

/// Show a running database.
#[derive(Debug, Args)]
pub struct Status {
    /// Address of the database: postgresql://user@host:port/database, or host=… port=….
    #[arg(long, default_value = "postgresql://postgres@127.0.0.1:5433/postgres")]
    url: String,
}

impl Status {
    pub fn run(self) -> crate::CommandResult {
        let began = Instant::now();
        let link = AdminConnection::connect(&self.url)?;
        let connected = began.elapsed();
        let version = link.text("SELECT version()")?;
        let asked = Instant::now();
        link.text("SELECT 1")?;
        let answered = asked.elapsed();
        println!("version     {version}");
        println!("connected   in {:.1} ms", connected.as_secs_f64() * 1e3);
        println!(
            "SELECT 1    answered in {:.2} ms",
            answered.as_secs_f64() * 1e3
        );
        for (name, label) in [
            ("server_version", "protocol"),
            ("synchronous_commit", "commit"),
        ] {
            println!(
                "{label:<11} {name} = {}",
                link.text(&format!("SHOW {name}"))?
            );
        }
        let memory = "SELECT round(memory_used / 1048576.0, 1) || ' MB' || \
                      coalesce(' of ' || memory_limit / 1048576 || ' MB', '')
                      FROM pg_fencepost_machines WHERE is_this";
        println!("memory      {}", link.text(memory)?);
        machines(&link)
    }
}

/// Prints the machines, if there are several.
fn machines(link: &AdminConnection) -> Result<(), Failure> {
    let rows = link.texts(
        "SELECT m.machine, m.regions,
                CASE WHEN is_this THEN 'this one' WHEN is_reachable THEN 'up' ELSE 'down' END,
                CASE WHEN is_manager THEN ', configuration manager' ELSE '' END,
                CASE WHEN clock_uncertainty_us > 0 \
                THEN '; clock within ' || clock_uncertainty_us || ' us' ELSE '' END,
                c.replicas,
                CASE WHEN m.state = 'member' THEN '' ELSE '; ' || m.state || \
                coalesce(', replica of ' || m.replicas || ' regions', '') END
         FROM pg_fencepost_machines m CROSS JOIN pg_fencepost_configurations c ORDER BY m.machine",
    )?;
    for (at, row) in rows.iter().enumerate().filter(|_| rows.len() > 1) {
        if let [machine, regions, state, manager, clock, replicas, leaving] = &row[..] {
            if at == 0 {
                println!(
                    "machines    {}, {replicas} of which have each region",
                    rows.len()
                );
            }
            println!(
                "  m{machine:<8} {state}{manager}; primary of {regions} regions{leaving}{clock}"
            );
        }
    }
    Ok(())
}

//! `fencepost check`: opens a stopped database, which recovers it, and verifies all of its data.

use std::path::PathBuf;
use std::time::Instant;

use clap::Args;
use fencepost::Database;

use crate::failure::Failure;

/// Verify a stopped database.
#[derive(Debug, Args)]
pub struct Check {
    /// Directory of the database.
    #[arg(long, value_name = "DIR")]
    data_dir: PathBuf,
}

impl Check {
    pub fn run(self) -> crate::CommandResult {
        let dir = self.data_dir.display();
        if !self.data_dir.join("log").is_dir() {
            return Err(Failure::Broken(format!("there is no database in {dir}")));
        }
        let began = Instant::now();
        let database = Database::options().data_dir(&self.data_dir).open()?;
        let opened = began.elapsed();
        let found = fencepost::check(&database);
        for problem in &found.problems {
            println!("{problem}");
        }
        println!(
            "{dir}: {} tables, {} indexes, {} rows, {} objects; opened in {} ms, checked in {} ms",
            found.tables,
            found.indexes,
            found.rows,
            found.objects,
            opened.as_millis(),
            (began.elapsed() - opened).as_millis()
        );
        database.close().map_err(Failure::Close)?;
        match found.problems.len() {
            0 => Ok(()),
            count => Err(Failure::Broken(format!("{dir}: {count} problem(s)"))),
        }
    }
}

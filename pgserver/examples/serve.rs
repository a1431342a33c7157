//! A database in memory that PostgreSQL clients can talk to:
//! `cargo run --release -p fencepost-pgserver --example serve [ADDRESS]`, then
//! `psql -h 127.0.0.1 -p 5433 -U postgres`.

use fencepost::Database;
use fencepost_pgserver::listen;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::args()
        .nth(1)
        .unwrap_or_else(|| "127.0.0.1:5433".to_owned());
    let database = Database::in_memory()?;
    let server = listen(&database, address)?;
    println!("listening on {}", server.local_addr());
    loop {
        std::thread::park();
    }
}

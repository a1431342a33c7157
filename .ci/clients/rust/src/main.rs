//! Clients in Rust: `rust-clients CLIENT URL [OTHER]` runs the checks of one client. A line for
//! each check says how it ended, as in ../python/checks.py.

mod with_sqlx;
mod with_tokio_postgres;

use std::error::Error;
use std::future::Future;
use std::time::Duration;

/// A check that waits for what never comes fails, and the next ones still run.
const TIME_LIMIT: Duration = Duration::from_secs(90);

type Checked = Result<(), Box<dyn Error>>;

/// Where the server is, and another machine of it.
struct Urls {
    url: String,
    other: String,
}

/// Runs one check. A failed one is not the program's failure: the runner knows which may fail.
async fn check(name: &str, check: impl Future<Output = Checked>) {
    match tokio::time::timeout(TIME_LIMIT, check).await {
        Ok(Ok(())) => println!("ok {name}"),
        Ok(Err(error)) => {
            let why = format!("{error:?}");
            println!(
                "failed {name}: {}",
                why.split_whitespace().collect::<Vec<_>>().join(" ")
            );
        }
        Err(_) => println!("failed {name}: no end after {TIME_LIMIT:?}"),
    }
}

/// Fails unless both are the same.
fn same<T: PartialEq<U> + std::fmt::Debug, U: std::fmt::Debug>(found: T, wanted: U) -> Checked {
    match found == wanted {
        true => Ok(()),
        false => Err(format!("found {found:?}, wanted {wanted:?}").into()),
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Checked {
    let mut arguments = std::env::args().skip(1);
    let client = arguments.next().ok_or("a client")?;
    let url = arguments.next().ok_or("a URL")?;
    let other = arguments.next().unwrap_or_else(|| url.clone());
    let urls = Urls { url, other };
    match client.as_str() {
        "tokio-postgres" => with_tokio_postgres::run(&urls).await,
        "sqlx" => with_sqlx::run(&urls).await,
        _ => return Err("no such client".into()),
    }
    Ok(())
}

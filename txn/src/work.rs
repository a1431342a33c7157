//! Boxed futures for long operations.
//!
//! The code of an `async fn` is compiled again in each crate that awaits it, with the code of all
//! that it awaits. A function that returns [`Work`] is compiled once, in its own crate. Operations
//! that wait for others anyway return [`Work`]: the allocation does not matter there. Operations
//! that mostly finish at once are `async fn`s that leave the slow path to such functions.

use std::pin::Pin;

/// A future that is compiled in the crate that creates it.
pub type Work<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

//! What takes a while, behind a pointer.
//!
//! The code of an `async fn` is compiled in each crate that awaits it, and with it that of all that it awaits. What returns
//! [`Work`] is compiled once, in its own crate. So do statements, but for those that read a single row: their futures are
//! short, and not worth an allocation.

use std::pin::Pin;

/// A future that is compiled where it is made.
pub type Work<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

//! What takes a while, behind a pointer.
//!
//! The code of an `async fn` is compiled in each crate that awaits it, and with it that of all that it awaits. What returns
//! [`Work`] is compiled once, in its own crate. So is what waits for others anyway, where an allocation is no matter; what
//! answers at once mostly is an `async fn` that leaves the rest to such.

use std::pin::Pin;

/// A future that is compiled where it is made.
pub type Work<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

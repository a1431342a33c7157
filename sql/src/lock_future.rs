//! The pending result of a request to the lock manager, or to another part of the server.

use std::future::Future;
use std::pin::Pin;

use crate::error::SqlError;

/// The pending result of a request.
pub type LockFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, SqlError>> + Send + 'a>>;

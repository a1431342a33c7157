//! Types, values, functions, parser, binder and catalog by PostgreSQL's rules.
//!
//! ```text
//!   text ──parser──▶ syntax tree ──binder (catalog)──▶ bound tree ──▶ planner
//!                                                        │
//!                                     functions::eval ◀──┘  values, types, settings
//! ```

pub mod advisory;
pub mod binder;
pub mod bound;
pub mod catalog;
pub mod context;
pub mod counts;
pub mod cursors;
pub mod digest;
pub mod encoding;
pub mod error;
pub mod exports;
pub mod extensions;
pub mod functions;
pub mod key;
mod lock_future;
pub mod lock_mode;
pub mod notify;
pub mod order;
pub mod parser;
pub mod password;
pub mod pg_catalog;
pub mod plpgsql;
pub mod row;
pub mod sequences;
pub mod server;
pub mod sessions;
pub mod settings;
mod spelling;
pub mod stack;
pub mod statements;
pub mod stop;
pub mod system;
pub mod table_locks;
pub mod table_statistics;
pub mod types;
pub mod value;
mod walk;

pub use context::EvalContext;
pub use error::{SqlError, SqlState};
pub use settings::Settings;
pub use types::{Type, TypeKind};
pub use value::Value;

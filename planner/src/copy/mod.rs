//! COPY: rows in and out as text or CSV.

mod input;
mod output;
mod records;

pub use input::CopyInput;
pub use output::CopyWriter;

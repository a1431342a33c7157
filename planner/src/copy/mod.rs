//! COPY: rows in and out as text, CSV or in binary.

mod binary;
mod input;
mod output;
mod records;

pub use input::CopyInput;
pub use output::CopyWriter;

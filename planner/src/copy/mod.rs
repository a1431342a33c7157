//! COPY: input and output of rows as text, CSV or in the binary format.

mod binary;
mod input;
mod output;
mod records;

pub use input::CopyInput;
pub use output::CopyWriter;

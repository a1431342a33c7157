//! The destination of result rows: the output buffer, in the client's formats.
//!
//! Rows of a statement stay in the buffer until it ends or has produced more than 64 KiB. Until
//! then the engine may discard them and run the statement again.

use std::future::poll_fn;

use super::drive::Handoff;
use super::encoding;
use crate::engine::{
    self, Encoding, FlushFuture, OutputColumn, PreparedStatement, RowSink, SqlError, SqlState,
    Style, Value, is_textual,
};
use crate::io::SEND_BYTES;
use crate::proto::client_message::Formats;
use crate::proto::encode;

/// Returns the error 22023 for a format code that is neither text nor binary.
#[cold]
pub(super) fn unsupported_format(code: i16) -> SqlError {
    let message = format!("unsupported format code: {code}");
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

/// The formats of a result's columns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ResultFormats {
    /// All columns in text.
    Text,
    /// All columns in binary.
    Binary,
    /// For each column, whether it is binary.
    Mixed(Box<[bool]>),
}

impl ResultFormats {
    /// Returns the formats that a client requests for the columns of its statement. Formats of a
    /// statement without rows are ignored.
    ///
    /// Errors: 08P01 if the numbers of formats and columns differ, 22023 for an unsupported code.
    /// PostgreSQL reports the latter with the first row.
    #[inline]
    pub(super) fn of(
        formats: &Formats<'_>,
        columns: Option<&[OutputColumn]>,
    ) -> Result<ResultFormats, SqlError> {
        let (count, Some(columns)) = (formats.count(), columns) else {
            return Ok(ResultFormats::Text);
        };
        if count > 1 && count != columns.len() {
            let columns = columns.len();
            let message =
                format!("bind message has {count} result formats but query has {columns} columns");
            return Err(SqlError::new(SqlState::PROTOCOL_VIOLATION, message));
        }
        if let Some(code) = formats.unsupported() {
            return Err(unsupported_format(code));
        }
        Ok(match count {
            0 => ResultFormats::Text,
            1 if formats.code(0) == 1 => ResultFormats::Binary,
            1 => ResultFormats::Text,
            count => ResultFormats::Mixed((0..count).map(|at| formats.code(at) == 1).collect()),
        })
    }

    /// Returns for each column of a statement whether it is binary.
    pub(super) fn by_column(&self, prepared: &PreparedStatement) -> Box<[bool]> {
        let columns = engine::columns(prepared).map_or(0, <[_]>::len);
        (0..columns).map(|column| self.is_binary(column)).collect()
    }

    #[inline]
    pub(super) fn is_binary(&self, column: usize) -> bool {
        match self {
            ResultFormats::Text => false,
            ResultFormats::Binary => true,
            ResultFormats::Mixed(binary) => binary.get(column).is_some_and(|b| *b),
        }
    }
}

impl From<&[bool]> for ResultFormats {
    fn from(binary: &[bool]) -> ResultFormats {
        match binary.contains(&true) {
            true => ResultFormats::Mixed(binary.into()),
            false => ResultFormats::Text,
        }
    }
}

/// The sink of one run of a statement.
pub(super) struct WireSink<'a> {
    out: Vec<u8>,
    /// The position in `out` where the statement's replies begin.
    mark: usize,
    /// True once some of the replies have been sent.
    sent: bool,
    columns: &'a [OutputColumn],
    formats: &'a ResultFormats,
    style: &'a Style,
    handoff: &'a Handoff,
    /// The encoding of the client; `None` if the output need not be converted.
    encoding: Option<Encoding>,
}

impl<'a> WireSink<'a> {
    #[inline]
    pub(super) fn new(
        out: Vec<u8>,
        columns: &'a [OutputColumn],
        formats: &'a ResultFormats,
        style: &'a Style,
        handoff: &'a Handoff,
    ) -> Self {
        WireSink {
            mark: out.len(),
            out,
            sent: false,
            columns,
            formats,
            style,
            handoff,
            encoding: style.encoding,
        }
    }

    /// Sets the columns of a COPY TO STDOUT, and whether they are binary. Binary data is not
    /// converted.
    #[inline]
    pub(super) fn copies(&mut self, columns: Option<(usize, bool)>) {
        if let Some((_, true)) = columns {
            self.encoding = None;
        }
    }

    /// Returns the output buffer after the run has ended.
    #[inline]
    pub(super) fn into_out(self) -> Vec<u8> {
        self.out
    }
}

impl RowSink for WireSink<'_> {
    #[inline]
    fn row(&mut self, row: &[Value]) -> Result<(), SqlError> {
        let begin = self.out.len();
        let start = encode::begin_row(&mut self.out, self.columns.len());
        for (index, column) in self.columns.iter().enumerate() {
            match row.get(index) {
                None | Some(Value::Null) => encode::null(&mut self.out),
                Some(value) => {
                    let binary = self.formats.is_binary(index);
                    let written = encode::field(&mut self.out, |out| {
                        let start = out.len();
                        engine::write_value(value, column, binary, self.style, out)?;
                        match self.encoding {
                            Some(of) if !binary || is_textual(&column.ty) => {
                                encoding::encode_tail(of, out, start)
                            }
                            _ => Ok(()),
                        }
                    });
                    if let Err(error) = written {
                        self.out.truncate(begin);
                        return Err(error);
                    }
                }
            }
        }
        match self.out.len() - start > encode::MESSAGE_BYTES_MAX {
            true => Err(engine::row_too_large()),
            false => {
                encode::end(&mut self.out, start);
                Ok(())
            }
        }
    }

    fn copy_data(&mut self, data: &[u8]) -> Result<(), SqlError> {
        match self.encoding {
            Some(of) if !data.is_ascii() => {
                let mut converted = Vec::with_capacity(data.len());
                of.encode(&String::from_utf8_lossy(data), &mut converted)?;
                encode::copy_data(&mut self.out, &converted);
            }
            _ => encode::copy_data(&mut self.out, data),
        }
        Ok(())
    }

    fn rewind(&mut self) -> bool {
        if !self.sent {
            self.out.truncate(self.mark);
        }
        !self.sent
    }

    #[inline]
    fn should_flush(&self) -> bool {
        self.out.len() > SEND_BYTES
    }

    fn flush(&mut self) -> FlushFuture<'_> {
        self.sent = true;
        self.handoff.give(std::mem::take(&mut self.out));
        Box::pin(poll_fn(|cx| self.handoff.poll_taken(cx).map(Ok)))
    }
}

//! COPY TO STDOUT.

use fencepost_sql::bound::{CopyFormat, CopyOptions};
use fencepost_sql::error::SqlError;
use fencepost_sql::settings::Settings;
use fencepost_sql::types::{Type, checked_text_out};
use fencepost_sql::value::Value;

use super::binary;

/// Writes rows in the format of a COPY TO.
pub struct CopyWriter<'a> {
    options: &'a CopyOptions,
    settings: &'a Settings,
    types: Vec<Type>,
    field: Vec<u8>,
}

impl<'a> CopyWriter<'a> {
    /// Creates a writer of rows with these types.
    pub fn new(
        options: &'a CopyOptions,
        settings: &'a Settings,
        types: Vec<Type>,
    ) -> CopyWriter<'a> {
        CopyWriter {
            options,
            settings,
            types,
            field: Vec::new(),
        }
    }

    /// Appends the header: in text formats, a line of column names if one is requested.
    pub fn begin<'n>(&mut self, names: impl Iterator<Item = &'n str>, out: &mut Vec<u8>) {
        if self.options.format == CopyFormat::Binary {
            return binary::header(out);
        }
        if !self.options.header {
            return;
        }
        for (nth, name) in names.enumerate() {
            self.delimit(nth, out);
            self.field.clear();
            self.field.extend_from_slice(name.as_bytes());
            self.put(false, false, out);
        }
        out.push(b'\n');
    }

    /// Appends the trailer of the binary format.
    pub fn end(&self, out: &mut Vec<u8>) {
        if self.options.format == CopyFormat::Binary {
            binary::trailer(out);
        }
    }

    /// Appends `row`, as a line or a tuple.
    ///
    /// # Errors
    /// 54000 if the text of a row or an array is too long.
    pub fn row(&mut self, row: &[Value], out: &mut Vec<u8>) -> Result<(), SqlError> {
        if self.options.format == CopyFormat::Binary {
            binary::row(row, &self.types, out);
            return Ok(());
        }
        let alone = row.len() == 1;
        for (nth, value) in row.iter().enumerate() {
            self.delimit(nth, out);
            if value.is_null() {
                out.extend_from_slice(self.options.null.as_bytes());
                continue;
            }
            self.field.clear();
            checked_text_out(value, &self.types[nth], self.settings, &mut self.field)?;
            let forced = self.options.force_quote.as_ref();
            self.put(forced.is_some_and(|f| f.contains(&nth)), alone, out);
        }
        out.push(b'\n');
        Ok(())
    }

    fn delimit(&self, nth: usize, out: &mut Vec<u8>) {
        if nth > 0 {
            out.push(self.options.delimiter);
        }
    }

    fn put(&self, forced: bool, alone: bool, out: &mut Vec<u8>) {
        match self.options.format {
            CopyFormat::Csv => self.put_csv(forced, alone, out),
            _ => self.put_text(out),
        }
    }

    fn put_text(&self, out: &mut Vec<u8>) {
        for &byte in &self.field {
            let letter = match byte {
                8 => b'b',
                12 => b'f',
                b'\n' => b'n',
                b'\r' => b'r',
                b'\t' => b't',
                11 => b'v',
                b'\\' => b'\\',
                other if other == self.options.delimiter => other,
                other => {
                    out.push(other);
                    continue;
                }
            };
            out.extend_from_slice(&[b'\\', letter]);
        }
    }

    fn put_csv(&self, forced: bool, alone: bool, out: &mut Vec<u8>) {
        let options = self.options;
        let special =
            |b: &u8| *b == options.delimiter || *b == options.quote || *b == b'\n' || *b == b'\r';
        let quote = forced
            || self.field == options.null.as_bytes()
            || (alone && self.field == b"\\.")
            || self.field.iter().any(special);
        if !quote {
            out.extend_from_slice(&self.field);
            return;
        }
        out.push(options.quote);
        for &byte in &self.field {
            if byte == options.quote || byte == options.escape {
                out.push(options.escape);
            }
            out.push(byte);
        }
        out.push(options.quote);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(options: &CopyOptions, row: &[Value]) -> String {
        let settings = Settings::new();
        let mut out = Vec::new();
        CopyWriter::new(options, &settings, vec![Type::TEXT; row.len()])
            .row(row, &mut out)
            .expect("a short row");
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn text_is_escaped() {
        let row = [Value::text("a\tb\\c\nd"), Value::Null, Value::text("")];
        assert_eq!(
            line(&CopyOptions::default(), &row),
            "a\\tb\\\\c\\nd\t\\N\t\n"
        );
    }

    #[test]
    fn csv_is_quoted_where_needed() {
        let options = CopyOptions {
            format: CopyFormat::Csv,
            delimiter: b',',
            null: String::new(),
            ..CopyOptions::default()
        };
        let row = [
            Value::text("a,b"),
            Value::text("q\"q"),
            Value::Null,
            Value::text(""),
            Value::text("x"),
        ];
        assert_eq!(line(&options, &row), "\"a,b\",\"q\"\"q\",,\"\",x\n");
    }
}

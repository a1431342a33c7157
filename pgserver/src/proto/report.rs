//! ErrorResponse and NoticeResponse: a report is a list of tagged fields.

use super::encode::{cstring, message};

/// How bad a report is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// The statement failed.
    Error,
    /// The connection ends.
    Fatal,
    /// Nothing failed, with the level to show (`NOTICE`, `WARNING`, …).
    Notice(&'static str),
}

impl Severity {
    fn name(self) -> &'static str {
        match self {
            Severity::Error => "ERROR",
            Severity::Fatal => "FATAL",
            Severity::Notice(level) => level,
        }
    }
}

/// The fields of a report; those that are `None` are left out.
#[derive(Debug, Clone, Copy)]
pub struct Report<'a> {
    /// How bad it is.
    pub severity: Severity,
    /// The SQLSTATE.
    pub sqlstate: &'a str,
    /// What happened.
    pub message: &'a str,
    /// More about it.
    pub detail: Option<&'a str>,
    /// What to do about it.
    pub hint: Option<&'a str>,
    /// Where in the statement, in characters from 1.
    pub position: Option<u32>,
    /// What the server was doing.
    pub context: Option<&'a str>,
    /// The schema concerned.
    pub schema: Option<&'a str>,
    /// The table concerned.
    pub table: Option<&'a str>,
    /// The column concerned.
    pub column: Option<&'a str>,
    /// The data type concerned.
    pub data_type: Option<&'a str>,
    /// The constraint concerned.
    pub constraint: Option<&'a str>,
    /// What PostgreSQL's function is called that reports this, where clients go by it.
    pub routine: Option<&'a str>,
}

impl<'a> Report<'a> {
    /// A report of a state and a message.
    pub fn new(severity: Severity, sqlstate: &'a str, message: &'a str) -> Self {
        Report {
            severity,
            sqlstate,
            message,
            detail: None,
            hint: None,
            position: None,
            context: None,
            schema: None,
            table: None,
            column: None,
            data_type: None,
            constraint: None,
            routine: None,
        }
    }

    /// Appends the message that carries the report.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let tag = if matches!(self.severity, Severity::Notice(_)) {
            b'N'
        } else {
            b'E'
        };
        let position = self.position.map(|p| p.to_string());
        let fields = [
            (b'S', Some(self.severity.name())),
            (b'V', Some(self.severity.name())),
            (b'C', Some(self.sqlstate)),
            (b'M', Some(self.message)),
            (b'D', self.detail),
            (b'H', self.hint),
            (b'P', position.as_deref()),
            (b'W', self.context),
            (b's', self.schema),
            (b't', self.table),
            (b'c', self.column),
            (b'd', self.data_type),
            (b'n', self.constraint),
            (b'R', self.routine),
        ];
        message(out, tag, |out| {
            for (code, text) in fields {
                if let Some(text) = text {
                    out.push(code);
                    cstring(out, text);
                }
            }
            out.push(0);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_tagged_and_absent_ones_left_out() {
        let mut out = Vec::new();
        let mut report = Report::new(Severity::Error, "23505", "twice");
        report.constraint = Some("t_pkey");
        report.position = Some(12);
        report.encode(&mut out);
        assert_eq!(&out[..5], &[b'E', 0, 0, 0, (out.len() - 1) as u8]);
        assert_eq!(
            &out[5..],
            b"SERROR\0VERROR\0C23505\0Mtwice\0P12\0nt_pkey\0\0"
        );
    }

    #[test]
    fn a_zero_byte_in_a_message_cannot_forge_a_field() {
        let mut out = Vec::new();
        Report::new(Severity::Notice("NOTICE"), "00000", "a\0b").encode(&mut out);
        assert!(out.ends_with(b"Ma b\0\0"));
    }
}

//! Log lines as JSON: the keys are those of PostgreSQL's jsonlog, other fields of events keep their
//! own names.

use jiff::tz::TimeZone;
use serde_json::{Map, Value};

use super::prefix::{Process, began, pid, session_id, stamp};
use super::record::Record;

/// Appends the JSON object of a record, and a line end.
pub fn write(record: &Record, zone: &TimeZone, process: Process, out: &mut String) {
    let mut object = Map::new();
    let mut put = |key: &str, value: Value| {
        object.insert(key.to_owned(), value);
    };
    let text = |text: &Option<String>| text.clone().map(Value::from);
    put(
        "timestamp",
        stamp(record.at, zone, "%Y-%m-%d %H:%M:%S%.3f %Z").into(),
    );
    put("pid", pid(record, process).into());
    put("session_id", session_id(record, process).into());
    let since = began(record, process);
    put(
        "session_start",
        stamp(since, zone, "%Y-%m-%d %H:%M:%S %Z").into(),
    );
    put("error_severity", record.severity.clone().into());
    put("message", record.message.clone().into());
    let mut fields = vec![
        ("state_code", text(&record.sqlstate)),
        ("detail", text(&record.detail)),
        ("hint", text(&record.hint)),
        ("context", text(&record.context)),
        ("statement", text(&record.statement)),
        ("cursor_position", record.position.map(Value::from)),
        ("backtrace", text(&record.backtrace)),
    ];
    let kind = match &record.client {
        Some(client) => {
            fields.extend([
                ("user", text(&client.user)),
                ("dbname", text(&client.database)),
                ("application_name", text(&client.application)),
                ("remote_host", Some(client.host.clone().into())),
                ("remote_port", client.port.map(Value::from)),
                ("line_num", Some(client.line.into())),
            ]);
            "client backend"
        }
        None => "postmaster",
    };
    for (key, value) in fields {
        if let Some(value) = value {
            put(key, value);
        }
    }
    put("backend_type", kind.into());
    put("target", record.target.clone().into());
    for (key, value) in &record.others {
        let number = value.parse::<i64>().map(Value::from);
        put(key, number.unwrap_or_else(|_| value.clone().into()));
    }
    out.push_str(&Value::Object(object).to_string());
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    #[test]
    fn json_line_is_one_object() {
        let record = Record {
            severity: "LOG".into(),
            message: "two\nlines".into(),
            others: vec![("machine", "3".into())],
            ..Record::default()
        };
        let process = Process {
            pid: 7,
            began: Timestamp::UNIX_EPOCH,
        };
        let mut out = String::new();
        write(&record, &TimeZone::UTC, process, &mut out);
        assert_eq!(out.matches('\n').count(), 1);
        let read: Value = serde_json::from_str(&out).expect("an object");
        assert_eq!(read["message"], "two\nlines");
        assert_eq!(read["machine"], 3);
        assert_eq!(read["pid"], 7);
        assert_eq!(read["backend_type"], "postmaster");
    }
}

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use fencepost_sql::error::{SqlError, SqlState};
use fencepost_sql::types::enums::{Enum, EnumDef, Label};
use fencepost_sql::types::{Fields, Inet, Type, TypeKind};
use fencepost_sql::value::{Array, Dimension, Interval, Object, Record, TimeTz, Value};
use pollster::FutureExt;

use super::codec::RowCodec;
use super::*;

fn file_in(directory: &Path, bytes_max: Option<u64>) -> (SpillFile, TemporaryBytes) {
    let bytes = TemporaryBytes::default();
    let place = TemporaryFiles {
        directory: directory.into(),
        bytes: Arc::clone(&bytes),
        bytes_max,
    };
    (SpillFile::new(BlockFile::new(&place, 16_384, 1)), bytes)
}

/// Returns a value of each kind.
fn all_kinds() -> Vec<Value> {
    let label = |id, place, name: &str| Label {
        id,
        place,
        name: name.into(),
    };
    let labels = vec![label(9, 1.0, "dark"), label(10, 2.0, "light")];
    let shade = Enum::of(EnumDef::named(7, 8, ("public", "shade"), labels));
    let fields = Fields::numbered([Type::of(TypeKind::Int4), Type::of(TypeKind::Text)]);
    let record = Record::new(fields, vec![Value::Int4(1), Value::Null]);
    let array = Array {
        dims: vec![
            Dimension { len: 1, lower: -3 },
            Dimension { len: 2, lower: 1 },
        ],
        values: vec![Value::text("long enough to be on the heap"), Value::Null],
    };
    let mut all = vec![
        Value::Null,
        Value::Bool(false),
        Value::Bool(true),
        Value::Int2(i16::MIN),
        Value::Int4(i32::MAX),
        Value::Int8(i64::MIN),
        Value::Float4(-0.0),
        Value::Float8(f64::INFINITY),
        Value::Numeric("-12.500".parse().expect("a number")),
        Value::text("ü"),
        Value::Citext("Ab".into()),
        Value::Bytea(vec![0, 255, 1]),
        Value::Date(i32::MAX),
        Value::Timestamp(-1),
        Value::TimestampTz(1),
        Value::Time(86_400_000_000),
        Value::TimeTz(TimeTz { us: 5, west: -3600 }),
        Value::Interval(Interval {
            months: -1,
            days: 2,
            us: -3,
        }),
        Value::Json("{\"a\": 1}".into()),
        Value::Jsonb("{\"a\": 1}".into()),
        array.into(),
        Array::default().into(),
        Value::Uuid([7; 16]),
        Inet::from("10.0.0.1".parse::<std::net::IpAddr>().expect("an address")).into(),
        Inet::from("::1".parse::<std::net::IpAddr>().expect("an address")).into(),
        Value::MacAddr([1, 2, 3, 4, 5, 6]),
        Value::Oid(u32::MAX),
        Value::Object(Box::new(Object {
            oid: 3,
            name: "public.t".into(),
        })),
        record.into(),
    ];
    all.extend(shade.values().map(Value::Enum));
    all
}

#[test]
fn row_of_all_kinds_is_decoded_as_it_was() {
    let row = all_kinds();
    let mut codec = RowCodec::default();
    let mut bytes = Vec::new();
    codec.encode(&row, &mut bytes).expect("a short row");
    codec.encode(&row[..1], &mut bytes).expect("a short row");
    let first = RowCodec::first_row(&bytes).expect("a complete row");
    let mut decoded = vec![Value::Bool(true); row.len()];
    codec
        .decode(&bytes[..first], &mut decoded)
        .expect("the row");
    assert!(row.iter().zip(&decoded).all(|(a, b)| a.is_identical(b)));
    let second = RowCodec::first_row(&bytes[first..]);
    assert_eq!(second, Some(bytes.len() - first));
}

#[test]
fn damaged_row_is_an_error() {
    let row = all_kinds();
    let mut codec = RowCodec::default();
    let mut bytes = Vec::new();
    codec.encode(&row, &mut bytes).expect("a short row");
    let mut decoded = vec![Value::Null; row.len()];
    for length in 0..bytes.len() {
        assert_eq!(RowCodec::first_row(&bytes[..length]), None);
        assert!(codec.decode(&bytes[..length], &mut decoded).is_err());
    }
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x55;
        // Another value, or an error.
        let _ = codec.decode(&damaged, &mut decoded);
    }
    assert!(codec.decode(&bytes, &mut decoded[1..]).is_err());
}

#[test]
fn streams_return_their_rows_in_order() {
    let directory = tempfile::tempdir().expect("a directory");
    let (mut file, bytes) = file_in(directory.path(), None);
    let mut random = fastrand::Rng::with_seed(5);
    let mut streams = [Stream::default(), Stream::default(), Stream::default()];
    let mut expected = [Vec::new(), Vec::new(), Vec::new()];
    for number in 0..20_000_i32 {
        let to = random.usize(..3);
        // Some rows are longer than a block.
        let length = random.usize(..40) * if number % 997 == 0 { 1000 } else { 1 };
        let row = [Value::Int4(number), Value::text("x".repeat(length))];
        file.add(&mut streams[to], &row).expect("a short row");
        file.write(&mut streams[to]).block_on().expect("a write");
        expected[to].push(row);
    }
    let size = bytes.load(Relaxed);
    assert!(size > 0 && size % 8192 == 0, "{size}");
    let unnamed = std::fs::read_dir(directory.path()).expect("the directory");
    assert_eq!(unnamed.count(), 0, "the file has no name");
    for (stream, expected) in streams.into_iter().zip(&expected) {
        assert_eq!(stream.rows(), expected.len() as u64);
        let mut reader = file.reader(stream);
        let mut row = [Value::Null, Value::Null];
        for expected in expected {
            assert!(file.next(&mut reader, &mut row).block_on().expect("a row"));
            assert_eq!(row, *expected);
        }
        assert!(
            !file
                .next(&mut reader, &mut row)
                .block_on()
                .expect("the end")
        );
    }
    // The blocks that were read are used again.
    let mut again = Stream::default();
    for _ in 0..1000 {
        let row = [Value::text("y".repeat(100))];
        file.add(&mut again, &row).expect("a short row");
        file.write(&mut again).block_on().expect("a write");
    }
    assert_eq!(bytes.load(Relaxed), size);
    drop(file);
    assert_eq!(bytes.load(Relaxed), 0);
}

/// Fills a stream until writing fails.
fn error_of(file: &mut SpillFile) -> SqlError {
    let mut stream = Stream::default();
    for _ in 0..100_000 {
        let row = [Value::text("z".repeat(1000))];
        file.add(&mut stream, &row).expect("a short row");
        if let Err(error) = file.write(&mut stream).block_on() {
            return error;
        }
    }
    panic!("the file has no limit");
}

#[test]
fn file_above_the_limit_is_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let (mut file, _) = file_in(directory.path(), Some(1 << 20));
    let error = error_of(&mut file);
    assert_eq!(error.sqlstate(), SqlState::CONFIGURATION_LIMIT_EXCEEDED);
    assert_eq!(
        error.message(),
        "temporary file size exceeds temp_file_limit (1024kB)"
    );
}

#[test]
fn missing_directory_is_an_error() {
    let (mut file, _) = file_in(&PathBuf::from("/nonexistent/directory"), None);
    assert_eq!(error_of(&mut file).sqlstate(), SqlState::IO_ERROR);
}

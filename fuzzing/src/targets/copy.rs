//! Options and data of COPY FROM STDIN.
//!
//! ```text
//! input   options (4) | columns (2) | delimiter, quote, escape (1 each) | piece bytes (1) | data
//! ```
//!
//! The data is sent at once, and then in pieces; both must have the same outcome. All changes are
//! rolled back.

use std::cell::RefCell;

use fencepost::{Completion, Database, MemorySink, Session, SqlError};
use pollster::FutureExt;

use super::bytes::Bytes;
use super::database;

/// The maximal length of the data, in bytes.
const DATA_BYTES_MAX: usize = 16 << 10;

/// The number of inputs after which a new database is opened.
const INPUTS_MAX: u32 = 20_000;

/// The columns that may be copied, with their types.
const COLUMNS: [(&str, &str); 16] = [
    ("a", "int"),
    ("b", "text"),
    ("c", "numeric(12, 3)"),
    ("d", "date"),
    ("e", "timestamptz"),
    ("f", "float8"),
    ("g", "int[]"),
    ("h", "jsonb"),
    ("i", "mood"),
    ("j", "pair"),
    ("k", "interval"),
    ("l", "time"),
    ("m", "bytea"),
    ("n", "uuid"),
    ("o", "boolean DEFAULT true"),
    ("p", "varchar(4)"),
];

const ENCODINGS: [&str; 4] = ["UTF8", "LATIN1", "SQL_ASCII", "EUC_JP"];

const FORMATS: [&str; 3] = ["text", "csv", "binary"];

/// A database, and the number of its inputs so far.
struct CopyTarget {
    database: Database,
    inputs: u32,
}

thread_local! {
    static COPYING: RefCell<Option<CopyTarget>> = const { RefCell::new(None) };
}

/// The statement of an input, its data, and the size of a piece in bytes.
struct Input<'a> {
    statement: String,
    data: &'a [u8],
    piece: usize,
}

/// The number of copied rows, or the SQLSTATE and the message of the error.
type Outcome = Result<u64, (String, String)>;

/// Runs one input.
///
/// # Panics
/// If COPY ends with an internal error, or has another outcome when its data arrives in pieces.
pub fn run(input: &[u8]) {
    let input = Input::of(input);
    COPYING.with_borrow_mut(|copying| {
        if copying
            .as_ref()
            .is_some_and(|copying| copying.inputs >= INPUTS_MAX)
        {
            *copying = None;
        }
        let copying = copying.get_or_insert_with(|| CopyTarget {
            database: open(),
            inputs: 0,
        });
        copying.inputs += 1;
        let mut session = copying.database.session();
        let whole = copy(&mut session, &input, DATA_BYTES_MAX);
        let pieces = copy(&mut session, &input, input.piece);
        assert_eq!(
            whole,
            pieces,
            "{} of {:?} in pieces of {} bytes",
            input.statement,
            String::from_utf8_lossy(input.data),
            input.piece
        );
    });
}

fn open() -> Database {
    let columns: Vec<String> = COLUMNS
        .iter()
        .map(|(name, of)| format!("{name} {of}"))
        .collect();
    database::open(&format!(
        "CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
         CREATE TYPE pair AS (x int, y text);
         CREATE TABLE t ({})",
        columns.join(", ")
    ))
}

impl<'a> Input<'a> {
    fn of(input: &'a [u8]) -> Input<'a> {
        let mut rest = Bytes(input);
        let format = *rest.pick(&FORMATS).unwrap_or(&"text");
        let mut options = vec![format!("FORMAT {format}")];
        let flags = [rest.byte(), rest.byte()];
        let encoding = *rest.pick(&ENCODINGS).unwrap_or(&"UTF8");
        let mask = rest.short();
        let marks = [rest.byte(), rest.byte(), rest.byte()];
        let piece = usize::from(rest.byte()) + 1;
        let mut columns: Vec<&str> = Vec::new();
        for (at, (name, _)) in COLUMNS.iter().enumerate() {
            if mask & 1 << at != 0 {
                columns.push(name);
            }
        }
        let list = match columns.join(", ") {
            none if none.is_empty() => String::new(),
            some => format!(" ({some})"),
        };
        let mut add = |bit: u8, option: String| {
            if flags[usize::from(bit / 8)] & 1 << (bit % 8) != 0 {
                options.push(option);
            }
        };
        let forced = columns.first().copied().unwrap_or("a");
        add(0, "HEADER true".into());
        add(1, "HEADER match".into());
        add(2, format!("DELIMITER {}", literal(marks[0])));
        add(3, format!("QUOTE {}", literal(marks[1])));
        add(4, format!("ESCAPE {}", literal(marks[2])));
        add(5, "NULL 'null'".into());
        add(6, "NULL ''".into());
        add(7, format!("FORCE_NULL ({forced})"));
        add(8, format!("FORCE_NOT_NULL ({forced})"));
        add(9, format!("ENCODING '{encoding}'"));
        add(10, "FREEZE false".into());
        let condition = match flags[1] & 0x80 {
            0 => "",
            _ => " WHERE a IS NOT NULL",
        };
        Input {
            statement: format!(
                "COPY t{list} FROM STDIN ({}){condition}",
                options.join(", ")
            ),
            data: rest.take(DATA_BYTES_MAX),
            piece,
        }
    }
}

/// Returns a delimiter, quote or escape character as a literal.
fn literal(mark: u8) -> String {
    format!("E'\\x{:02x}'", mark & 0x7F)
}

/// Runs COPY in a transaction that is rolled back.
fn copy(session: &mut Session, input: &Input<'_>, piece: usize) -> Outcome {
    let begun = session.batch("BEGIN").block_on();
    assert!(begun.is_ok(), "{begun:?}");
    let outcome = feed(session, input, piece).block_on();
    let ended = session.batch("ROLLBACK").block_on();
    assert!(ended.is_ok(), "{ended:?} after {}", input.statement);
    outcome.map_err(|error| {
        database::check(&input.statement, &error);
        let state = error.sqlstate().as_str().to_owned();
        (state, error.message().to_owned())
    })
}

async fn feed(session: &mut Session, input: &Input<'_>, piece: usize) -> Result<u64, SqlError> {
    let prepared = session.parse(&input.statement, &[])?;
    let mut portal = session.bind(&prepared, Vec::new())?;
    let mut sink = MemorySink::default();
    let Completion::CopyIn(mut copy) = session.run(&mut portal, 0, &mut sink).await? else {
        panic!("{} wants no data", input.statement);
    };
    for piece in input.data.chunks(piece) {
        copy.data(session, piece).await?;
    }
    Ok(copy.finish(session).await?.rows())
}

/// Returns data in all formats.
pub fn seeds() -> Vec<Vec<u8>> {
    // The format, flags, encoding, columns, delimiter, quote, escape, and the size of a piece.
    let head = |format: u8, flags: u16, columns: u16, marks: &[u8; 3]| {
        let [low, high] = flags.to_le_bytes();
        let [first, second] = columns.to_le_bytes();
        let mut head = vec![format, low, high, 0, first, second];
        head.extend(marks);
        head.push(6);
        head
    };
    let row = "1\tx\\ty\t1.5\t2020-01-02\t2020-01-02 03:04:05+00\t1e3\t{1,NULL}\
        \t{\"k\": [1]}\tok\t(1,z)\
        \t1 day\t04:05:06.7\t\\\\x00ff\t6f1ed002-ab5d-4f0b-9d3c-2f6e6b3a1a11\tt\tabcd\n";
    let text = format!("{row}{}\n\\.\n", ["\\N"; 16].join("\t"));
    let csv = "1,\"a \"\"b\"\"\nc\",2.5\r\n2,,\r\n\\.\r\n";
    let mut seeds = vec![
        [head(0, 0, 0, &[0; 3]), text.into_bytes()].concat(),
        [
            head(0, 0b10_0100, 3, b"|\0\0"),
            b"1|\\x41\\101\n2|null\n".to_vec(),
        ]
        .concat(),
        [head(1, 0, 7, &[0; 3]), csv.as_bytes().to_vec()].concat(),
        [head(1, 0b1_1110, 3, b";'\\"), b"a;b\n1;'it\\'s'\n".to_vec()].concat(),
        [head(1, 0x8380, 3, &[0; 3]), b"1,caf\xc3\xa9\n".to_vec()].concat(),
    ];
    let session = open().session();
    seeds.push([head(2, 0, 0, &[0; 3]), binary(session)].concat());
    seeds
}

/// Returns a row with all columns and one of NULLs, as COPY TO writes them.
fn binary(mut session: Session) -> Vec<u8> {
    let insert = "INSERT INTO t VALUES (1, 'x', 1.5, '2020-01-02', '2020-01-02 03:04:05+00', 1e3, \
        '{1,NULL}',
        '{\"k\": [1]}', 'ok', '(1,z)', '1 day', '04:05:06.7', '\\x00ff', \
          '6f1ed002-ab5d-4f0b-9d3c-2f6e6b3a1a11', true,
        'abcd'); INSERT INTO t (o) VALUES (NULL)";
    let written = session.batch(insert).block_on();
    assert!(written.is_ok(), "{written:?}");
    let copied = session
        .copy_out("COPY t TO STDOUT (FORMAT binary)")
        .block_on();
    copied.unwrap_or_else(|error| panic!("COPY TO: {error}"))
}

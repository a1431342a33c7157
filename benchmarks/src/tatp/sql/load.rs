//! The schema and the population, loaded by COPY.

use super::TABLES;
use crate::error::BenchError;
use crate::sql::{SqlSession, put};
use crate::tatp::population::{Population, Sizes, Subscriber, number};

/// The number of subscribers of one COPY into each table.
const PIECE: u32 = 20_000;

const SCHEMA: [&str; 3] = [
    "CREATE TABLE access_info (s_id integer NOT NULL, ai_type smallint NOT NULL, data1 smallint, \
     data2 smallint, data3 char(3), data4 char(5), PRIMARY KEY (s_id, ai_type))",
    "CREATE TABLE special_facility (s_id integer NOT NULL, sf_type smallint NOT NULL, \
     is_active smallint NOT NULL, error_cntrl smallint, data_a smallint, data_b char(5), \
     PRIMARY KEY (s_id, sf_type))",
    "CREATE TABLE call_forwarding (s_id integer NOT NULL, sf_type smallint NOT NULL, \
     start_time smallint NOT NULL, end_time smallint, numberx varchar(15), \
     PRIMARY KEY (s_id, sf_type, start_time))",
];

/// Returns the definitions of ten columns named `name_1` to `name_10`.
fn ten(name: &str) -> String {
    (1..=10).map(|k| format!("{name}_{k} smallint, ")).collect()
}

fn subscriber_table() -> String {
    format!(
        "CREATE TABLE subscriber (s_id integer NOT NULL PRIMARY KEY, sub_nbr varchar(15) NOT NULL, \
         {}{}{}msc_location integer, vlr_location integer)",
        ten("bit"),
        ten("hex"),
        ten("byte2")
    )
}

/// Drops, creates and loads the tables.
pub(super) fn load(
    session: &mut dyn SqlSession,
    population: &Population,
    say: &dyn Fn(&str),
) -> Result<Sizes, BenchError> {
    for table in TABLES {
        session.script(&format!("DROP TABLE IF EXISTS {table}"))?;
    }
    session.script(&subscriber_table())?;
    for table in SCHEMA {
        session.script(table)?;
    }
    session.script("CREATE UNIQUE INDEX subscriber_sub_nbr ON subscriber (sub_nbr)")?;
    let mut sizes = Sizes::default();
    let mut first = 1;
    while first <= population.subscribers {
        let last = population.subscribers.min(first + PIECE - 1);
        let mut texts = Texts::default();
        for s_id in first..=last {
            let subscriber = population.subscriber(s_id);
            sizes.add(&subscriber);
            texts.add(&subscriber);
        }
        for (table, text) in TABLES.iter().rev().zip(texts.0) {
            session.copy_in(&format!("COPY {table} FROM STDIN"), &text)?;
        }
        if last / 100_000 > (first - 1) / 100_000 || last == population.subscribers {
            say(&format!(
                "loaded {last} of {} subscribers",
                population.subscribers
            ));
        }
        first = last + 1;
    }
    session.script("VACUUM ANALYZE")?;
    Ok(sizes)
}

/// The COPY texts of subscribers, accesses, facilities and forwardings.
#[derive(Default)]
struct Texts([Vec<u8>; 4]);

impl Texts {
    fn add(&mut self, subscriber: &Subscriber) {
        let s_id = subscriber.s_id;
        let [subscribers, accesses, facilities, forwardings] = &mut self.0;
        put(subscribers, format_args!("{s_id}\t{}", number(s_id)));
        for k in 0..10 {
            put(subscribers, format_args!("\t{}", subscriber.bits >> k & 1));
        }
        for value in subscriber.hex.iter().chain(&subscriber.byte2) {
            put(subscribers, format_args!("\t{value}"));
        }
        let (msc, vlr) = (subscriber.msc_location, subscriber.vlr_location);
        put(subscribers, format_args!("\t{msc}\t{vlr}\n"));
        for row in &subscriber.access {
            let (data3, data4) = (text(&row.data3), text(&row.data4));
            let (kind, data1, data2) = (row.ai_type, row.data1, row.data2);
            put(
                accesses,
                format_args!("{s_id}\t{kind}\t{data1}\t{data2}\t{data3}\t{data4}\n"),
            );
        }
        for row in &subscriber.facilities {
            let (kind, active) = (row.sf_type, u8::from(row.is_active));
            let (error, data_a, data_b) = (row.error_cntrl, row.data_a, text(&row.data_b));
            put(
                facilities,
                format_args!("{s_id}\t{kind}\t{active}\t{error}\t{data_a}\t{data_b}\n"),
            );
            for call in &row.forwardings {
                let (start, end, to) = (call.start_time, call.end_time, number(call.to));
                put(
                    forwardings,
                    format_args!("{s_id}\t{kind}\t{start}\t{end}\t{to}\n"),
                );
            }
        }
    }
}

fn text(letters: &[u8]) -> &str {
    std::str::from_utf8(letters).expect("letters are ASCII")
}

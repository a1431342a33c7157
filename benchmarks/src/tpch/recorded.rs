//! Digests of the answers of PostgreSQL 15, recorded in `answers.txt`.
//!
//! ```text
//! scale query rows checksum
//! 0.01  q01   4    8f1c0d2e
//! ```
//!
//! The file has the lines that these commands write:
//!
//! ```text
//! fencepost bench tpch --via pg --url URL --rounds 1 --scale SCALE --digests FILE
//! cat FILE… > benchmarks/src/tpch/answers.txt
//! ```

use std::collections::BTreeMap;

use crate::compared::{AnswerDigest, ComparedReport, ItemReport};

const ANSWERS: &str = include_str!("answers.txt");

/// Returns the recorded digests of a scale by the name of the query; none for other scales.
pub(super) fn recorded_digests(scale: f64) -> BTreeMap<&'static str, AnswerDigest> {
    let lines = ANSWERS.lines().filter_map(parse_line);
    lines
        .filter(|(recorded_scale, ..)| *recorded_scale == scale)
        .map(|(_, query, digest)| (query, digest))
        .collect()
}

fn parse_line(line: &str) -> Option<(f64, &str, AnswerDigest)> {
    let mut words = line.split_ascii_whitespace();
    let scale = words.next()?.parse().ok()?;
    let query = words.next()?;
    let rows = words.next()?.parse().ok()?;
    let crc = u32::from_str_radix(words.next()?, 16).ok()?;
    Some((scale, query, AnswerDigest { rows, crc }))
}

/// Returns the digests of the answers of a run at a scale, as lines of `answers.txt`.
pub fn digests(report: &ComparedReport, scale: f64) -> String {
    let line = |item: &ItemReport| Some(digest_line(scale, &item.name, item.digest.as_ref()?));
    report.items.iter().filter_map(line).collect()
}

/// Formats a line of `answers.txt`.
fn digest_line(scale: f64, query: &str, digest: &AnswerDigest) -> String {
    format!("{scale} {query} {digest}\n")
}

#[cfg(test)]
mod tests {
    use rust_decimal::Decimal;
    use tpchgen::q_and_a::answers_sf1;

    use super::*;
    use crate::compared::{CanonicalAnswer, canonical_number};
    use crate::tpch::queries::{QUERIES, TpchQuery};

    #[test]
    fn every_line_is_a_digest_and_every_scale_has_all_queries() {
        for line in ANSWERS.lines() {
            let (scale, query, digest) = parse_line(line).expect("a digest");
            assert_eq!(digest_line(scale, query, &digest), format!("{line}\n"));
        }
        for scale in [0.00295, 0.01, 0.1, 1.0] {
            let digests = recorded_digests(scale);
            for query in &QUERIES {
                assert!(digests.contains_key(query.name().as_str()), "{scale}");
            }
            assert_eq!(digests.len(), QUERIES.len());
        }
        assert!(recorded_digests(0.02).is_empty());
    }

    /// A sum of the 9th query that is exactly 42698382.855. The specification rounds it down,
    /// within its tolerance.
    const HALF_A_CENT: (&str, &str) = ("42698382.85", "42698382.86");

    /// The specification cuts off the keys of the 11th answer. Its 17th answer is 0.03 below the
    /// exact one.
    const INEXACT: [u8; 2] = [11, 17];

    /// Returns an answer of the specification, whose first line has the names of the columns.
    fn specified_answer(query: &TpchQuery) -> CanonicalAnswer {
        let text = answers_sf1::answer(query.number.into()).expect("an answer");
        let text = text.replace(HALF_A_CENT.0, HALF_A_CENT.1);
        let rows = text.lines().filter(|line| !line.trim().is_empty());
        let field = |field: &str| match field.trim().parse::<Decimal>() {
            Ok(number) => canonical_number(number),
            Err(_) => field.trim().to_string(),
        };
        let fields = rows.skip(1).map(|row| row.split('|').map(field).collect());
        CanonicalAnswer::of_fields(fields.collect(), query.order_columns)
    }

    #[test]
    fn answers_of_the_specification_have_the_digests_of_scale_1() {
        let digests = recorded_digests(1.0);
        let exact = QUERIES
            .iter()
            .filter(|query| !INEXACT.contains(&query.number));
        let differs = |query: &&TpchQuery| {
            let specified = specified_answer(query).digest();
            digests.get(query.name().as_str()) != Some(&specified)
        };
        let names: Vec<String> = exact.filter(differs).map(TpchQuery::name).collect();
        assert!(names.is_empty(), "{names:?}");
    }
}

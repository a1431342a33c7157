//! The conditions that must hold after any run.

use std::ops::RangeInclusive;

use crate::error::BenchError;
use crate::sql::{Arg, SqlSession};
use crate::tatp::population::{Population, Sizes, number};

/// The number of subscribers, evenly spread, that are looked up by number.
const LOOKED_UP: u32 = 200;

pub(super) fn verify(
    session: &mut dyn SqlSession,
    population: &Population,
    loaded: Sizes,
    forwardings: &RangeInclusive<i64>,
) -> Result<Option<String>, BenchError> {
    let subscribers = i64::from(population.subscribers);
    let exactly = |count: i64| count..=count;
    let rules: [(&str, &str, RangeInclusive<i64>); 10] = [
        (
            "subscribers",
            "SELECT count(*) FROM subscriber",
            exactly(subscribers),
        ),
        (
            "access rows",
            "SELECT count(*) FROM access_info",
            exactly(loaded.access as i64),
        ),
        (
            "facilities",
            "SELECT count(*) FROM special_facility",
            exactly(loaded.facilities as i64),
        ),
        (
            "forwardings",
            "SELECT count(*) FROM call_forwarding",
            forwardings.clone(),
        ),
        (
            "access rows of a subscriber",
            "SELECT count(*) FROM access_info a JOIN subscriber s ON s.s_id = a.s_id",
            exactly(loaded.access as i64),
        ),
        (
            "facilities of a subscriber",
            "SELECT count(*) FROM special_facility f JOIN subscriber s ON s.s_id = f.s_id",
            exactly(loaded.facilities as i64),
        ),
        (
            "forwardings of a facility",
            "SELECT count(*) FROM call_forwarding c JOIN special_facility f \
             ON f.s_id = c.s_id AND f.sf_type = c.sf_type",
            forwardings.clone(),
        ),
        (
            "access rows of an impossible type",
            "SELECT count(*) FROM access_info WHERE ai_type < 1 OR ai_type > 4",
            exactly(0),
        ),
        (
            "facilities of an impossible type",
            "SELECT count(*) FROM special_facility \
             WHERE sf_type < 1 OR sf_type > 4 OR is_active < 0 OR is_active > 1",
            exactly(0),
        ),
        (
            "forwardings at an impossible time",
            "SELECT count(*) FROM call_forwarding WHERE end_time < 1 OR end_time > 24 \
             OR (start_time <> 0 AND start_time <> 8 AND start_time <> 16)",
            exactly(0),
        ),
    ];
    for (what, sql, wanted) in rules {
        let found = session.number(sql)?;
        if !wanted.contains(&found) {
            let (least, most) = wanted.into_inner();
            let wanted = match least == most {
                true => least.to_string(),
                false => format!("{least} to {most}"),
            };
            return Ok(Some(format!("{what}: {found} instead of {wanted}")));
        }
    }
    let by_number = session.prepare("SELECT s_id FROM subscriber WHERE sub_nbr = $1")?;
    for s_id in
        (1..=population.subscribers).step_by((subscribers as u32 / LOOKED_UP).max(1) as usize)
    {
        let rows = session.query(by_number, &[Arg::Text(&number(s_id))])?;
        let found: Vec<_> = rows.iter().filter_map(|row| row.first()?.int()).collect();
        if found != [i64::from(s_id)] {
            return Ok(Some(format!(
                "subscriber {s_id} has a number that leads to {found:?}"
            )));
        }
    }
    Ok(None)
}

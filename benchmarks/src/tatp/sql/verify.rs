//! What must hold after any run.

use crate::error::BenchError;
use crate::sql::{Arg, SqlSession};
use crate::tatp::population::{Population, Sizes, number};

/// Subscribers that are looked up by number, evenly spread.
const LOOKED_UP: u32 = 200;

pub(super) fn verify(
    session: &mut dyn SqlSession,
    population: &Population,
    loaded: Sizes,
    more_forwardings: i64,
) -> Result<Option<String>, BenchError> {
    let forwardings = loaded.forwardings as i64 + more_forwardings;
    let subscribers = i64::from(population.subscribers);
    let rules: [(&str, &str, i64); 10] = [
        (
            "subscribers",
            "SELECT count(*) FROM subscriber",
            subscribers,
        ),
        (
            "access rows",
            "SELECT count(*) FROM access_info",
            loaded.access as i64,
        ),
        (
            "facilities",
            "SELECT count(*) FROM special_facility",
            loaded.facilities as i64,
        ),
        (
            "forwardings",
            "SELECT count(*) FROM call_forwarding",
            forwardings,
        ),
        (
            "access rows of a subscriber",
            "SELECT count(*) FROM access_info a JOIN subscriber s ON s.s_id = a.s_id",
            loaded.access as i64,
        ),
        (
            "facilities of a subscriber",
            "SELECT count(*) FROM special_facility f JOIN subscriber s ON s.s_id = f.s_id",
            loaded.facilities as i64,
        ),
        (
            "forwardings of a facility",
            "SELECT count(*) FROM call_forwarding c JOIN special_facility f \
             ON f.s_id = c.s_id AND f.sf_type = c.sf_type",
            forwardings,
        ),
        (
            "access rows of an impossible type",
            "SELECT count(*) FROM access_info WHERE ai_type < 1 OR ai_type > 4",
            0,
        ),
        (
            "facilities of an impossible type",
            "SELECT count(*) FROM special_facility \
             WHERE sf_type < 1 OR sf_type > 4 OR is_active < 0 OR is_active > 1",
            0,
        ),
        (
            "forwardings at an impossible time",
            "SELECT count(*) FROM call_forwarding WHERE end_time < 1 OR end_time > 24 \
             OR (start_time <> 0 AND start_time <> 8 AND start_time <> 16)",
            0,
        ),
    ];
    for (what, sql, wanted) in rules {
        let found = session.number(sql)?;
        if found != wanted {
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

//! Makes a query with a difference smaller: removes parts as long as the answers still differ.

use super::compare::{Outcome, compare};
use super::query::Query;
use super::server::QueryServer;

/// Returns the smallest query that was found, with its difference.
///
/// # Errors
/// A connection that ends.
pub fn reduce(servers: &[QueryServer], mut query: Query) -> Result<(Query, String), String> {
    let mut difference = match compare(servers, &query.sql())? {
        Outcome::Different(difference) => difference,
        Outcome::Same | Outcome::Skipped => "the difference did not occur again".to_owned(),
    };
    let mut candidates = smaller(&query).into_iter();
    while let Some(candidate) = candidates.next() {
        if let Outcome::Different(found) = compare(servers, &candidate.sql())? {
            difference = found;
            candidates = smaller(&candidate).into_iter();
            query = candidate;
        }
    }
    Ok((query, difference))
}

/// Returns the queries that lack one part of a query.
fn smaller(query: &Query) -> Vec<Query> {
    let mut all = Vec::new();
    let mut changed = |change: &dyn Fn(&mut Query)| {
        let mut copy = query.clone();
        change(&mut copy);
        all.push(copy);
    };
    if query.set.is_some() {
        changed(&|copy| copy.set = None);
    }
    if query.limit.is_some() {
        changed(&|copy| copy.limit = None);
    }
    if query.distinct {
        changed(&|copy| copy.distinct = false);
    }
    if query.having.is_some() {
        changed(&|copy| copy.having = None);
    }
    for at in (1..query.from.len()).rev() {
        changed(&|copy| {
            copy.from.remove(at);
        });
    }
    for at in 0..query.filter.len() {
        changed(&|copy| {
            copy.filter.remove(at);
        });
    }
    for at in 0..query.targets.len() {
        if query.targets.len() > 1 {
            changed(&|copy| {
                copy.targets.remove(at);
            });
        }
    }
    for at in 0..query.groups.len() {
        if query.groups.len() > 1 {
            changed(&|copy| {
                copy.groups.remove(at);
            });
        }
    }
    for (at, relation) in query.from.iter().enumerate() {
        let conditions = relation.on.as_ref().map_or(0, Vec::len);
        for condition in 0..conditions {
            if conditions > 1 {
                changed(&|copy| {
                    if let Some(on) = &mut copy.from[at].on {
                        on.remove(condition);
                    }
                });
            }
        }
    }
    all
}

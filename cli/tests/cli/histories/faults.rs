//! Faults that are inserted into a correct history: the checker must find each of them.

use fencepost_simulator::appends::{ListTransaction, check_appends};
use fencepost_simulator::history::{NEVER, Object};
use fencepost_simulator::lists::Contents;

const CIRCLE: &str = "not strictly serializable";

/// Inserts the faults one by one into a history whose last visit read all final lists.
pub fn assert_found(history: &[ListTransaction]) {
    let end = &history.last().expect("a last visit").found;
    let x = end.iter().position(|contents| contents.numbers.len() > 2);
    let x = x.expect("a list with numbers");
    let other = |y: &Contents| !y.numbers.is_empty() && y.numbers.last() != end[x].numbers.last();
    let y = end.iter().position(other).expect("another last writer");
    let (x, y) = (&end[x], &end[y]);

    let swapped = changed(x, |numbers| {
        let n = numbers.len();
        numbers.swap(n - 1, n - 2);
    });
    let reordered = with(history, &[visit(1, 0, &[swapped], &[])]);
    assert_wrong(&reordered, "no beginning of");

    let missing = x.numbers[x.numbers.len() - 2];
    let mut lost = history.to_vec();
    for contents in lost.iter_mut().flat_map(|visit| &mut visit.found) {
        contents.numbers.retain(|number| *number != missing);
    }
    assert_wrong(&lost, &format!("has lost {missing}"));

    // A stale read is correct if real time is ignored.
    let shorter = |list| changed(list, |numbers| numbers.truncate(numbers.len() - 1));
    let stale = |began| with(history, &[visit(1, began, &[shorter(x)], &[])]);
    assert_eq!(check_appends(&stale(0)), Ok(()));
    assert_wrong(&stale(NEVER - 1), CIRCLE);

    let long_fork = [
        visit(1, 0, &[x.clone(), shorter(y)], &[]),
        visit(2, 0, &[shorter(x), y.clone()], &[]),
    ];
    assert_wrong(&with(history, &long_fork), CIRCLE);

    let both = [x.clone(), y.clone()];
    let one = visit(1, 0, &both, &[x.list]);
    let two = visit(2, 0, &both, &[y.list]);
    let after = [(x, one.id), (y, two.id)];
    let after = after.map(|(list, id)| changed(list, |numbers| numbers.push(id)));
    let write_skew = [one, two, visit(3, 0, &after, &[])];
    assert_wrong(&with(history, &write_skew), CIRCLE);
}

/// Returns an additional visit without an end.
fn visit(number: u64, began: u64, found: &[Contents], appended: &[Object]) -> ListTransaction {
    ListTransaction {
        id: NEVER - number,
        began,
        ended: NEVER,
        found: found.to_vec(),
        appended: appended.to_vec(),
    }
}

fn changed(contents: &Contents, change: impl FnOnce(&mut Vec<u64>)) -> Contents {
    let mut contents = contents.clone();
    change(&mut contents.numbers);
    contents
}

fn with(history: &[ListTransaction], further: &[ListTransaction]) -> Vec<ListTransaction> {
    [history, further].concat()
}

#[track_caller]
fn assert_wrong(history: &[ListTransaction], what: &str) {
    let found = check_appends(history).expect_err("an injected fault");
    assert!(found.contains(what), "{found}");
}

//! Comparisons of jsonpath items, with the results true, false and unknown.

use std::cmp::Ordering;

use super::item::Item;
use crate::error::SqlError;
use crate::functions::regex::is_path_match;
use crate::types::json;
use crate::types::jsonpath::Comparison;

/// Compares two items; `None` is unknown.
pub(super) fn compared(how: Comparison, left: &Item<'_>, right: &Item<'_>) -> Option<bool> {
    let order = match (left, right) {
        (Item::Null, Item::Null) => Ordering::Equal,
        // Null is equal only to null.
        (Item::Null, _) | (_, Item::Null) => return Some(how == Comparison::NotEqual),
        (Item::Bool(left), Item::Bool(right)) => left.cmp(right),
        (Item::Number(left), Item::Number(right)) => json::compare(left, right),
        (Item::Text(left), Item::Text(right)) => left.cmp(right),
        _ => return None,
    };
    Some(match how {
        Comparison::Equal => order.is_eq(),
        Comparison::NotEqual => order.is_ne(),
        Comparison::Less => order.is_lt(),
        Comparison::LessOrEqual => order.is_le(),
        Comparison::Greater => order.is_gt(),
        Comparison::GreaterOrEqual => order.is_ge(),
    })
}

/// Returns whether a text begins with another; `None` is unknown.
pub(super) fn starts_with(left: &Item<'_>, right: &Item<'_>) -> Option<bool> {
    match (left, right) {
        (Item::Text(text), Item::Text(beginning)) => Some(text.starts_with(&**beginning)),
        _ => None,
    }
}

/// Returns whether a text matches a pattern; `None` is unknown.
pub(super) fn like_regex(item: &Item<'_>, pattern: &str, flags: &str) -> Option<bool> {
    let Item::Text(text) = item else {
        return None;
    };
    is_path_match(text, pattern, &of_regex(flags)).ok()
}

/// Checks a pattern of `like_regex`.
///
/// # Errors
/// 2201B for an invalid pattern.
pub fn check_path_regex(pattern: &str, flags: &str) -> Result<(), SqlError> {
    is_path_match("", pattern, &of_regex(flags)).map(|_| ())
}

/// Translates XQuery flags to those of regular expressions. In XQuery a dot matches no line break
/// by default.
fn of_regex(flags: &str) -> String {
    let has = |flag: char| flags.contains(flag);
    let mut all = String::new();
    if has('i') {
        all.push('i');
    }
    if has('q') {
        all.push('q');
        return all;
    }
    all.push_str(match (has('s'), has('m')) {
        (true, true) => "w",
        (true, false) => "",
        (false, true) => "n",
        (false, false) => "p",
    });
    all
}

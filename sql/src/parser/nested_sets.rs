//! ROLLUP and CUBE as elements of GROUPING SETS, which sqlparser reads as calls of functions.
//!
//! ```text
//! GROUPING SETS (ROLLUP (a), b)     the sets of ROLLUP, and b
//! GROUPING SETS ((ROLLUP (a)), b)   a call of a function, as in PostgreSQL
//! ```
//! The tree is the same for both, so the tokens tell them apart.

use sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, GroupByExpr, ObjectNamePart,
    Select,
};

use super::lexer::Token;
use crate::walk::{TreeMut, VisitorMut};

/// A line and a column of a text, both from 1.
type Location = (u64, u64);

/// Replaces such calls in a tree, if its text has any.
pub(super) fn convert(tree: &mut impl TreeMut, text: &str, tokens: &[Token]) {
    let has = |words: &[&str]| tokens.iter().any(|token| token.is_one_of(text, words));
    if has(&["grouping"]) && has(&["rollup", "cube"]) {
        let calls = calls_in_parentheses(text, tokens);
        // The visitor never stops early.
        let _ = tree.walk_mut(&mut Converter { calls });
    }
}

/// Returns the names of calls that follow a parenthesis other than that of GROUPING SETS, in the
/// order of the text.
fn calls_in_parentheses(text: &str, tokens: &[Token]) -> Vec<Location> {
    let mut found = Vec::new();
    let (mut line, mut column, mut read) = (1, 1, 0);
    for three in tokens.windows(3) {
        let [before, open, name] = three else {
            continue;
        };
        let is_call = open.text(text) == "(" && name.is_one_of(text, &["rollup", "cube"]);
        if !is_call || before.is(text, "sets") {
            continue;
        }
        for character in text.get(read..name.start).unwrap_or("").chars() {
            (line, column) = match character {
                '\n' => (line + 1, 1),
                _ => (line, column + 1),
            };
        }
        read = name.start;
        found.push((line, column));
    }
    found
}

struct Converter {
    /// The calls that stay calls, in the order of the text.
    calls: Vec<Location>,
}

impl VisitorMut for Converter {
    fn select(&mut self, select: &mut Select) {
        let GroupByExpr::Expressions(items, _) = &mut select.group_by else {
            return;
        };
        for item in items {
            let Expr::GroupingSets(sets) = item else {
                continue;
            };
            for set in sets {
                if let [Expr::Function(call)] = &set[..]
                    && let Some(nested) = self.sets_of(call)
                {
                    *set = vec![nested];
                }
            }
        }
    }
}

impl Converter {
    /// Returns the grouping sets that a call stands for, if its name is ROLLUP or CUBE.
    fn sets_of(&self, call: &Function) -> Option<Expr> {
        let [ObjectNamePart::Identifier(name)] = &call.name.0[..] else {
            return None;
        };
        let FunctionArguments::List(list) = &call.args else {
            return None;
        };
        let elements = list.args.iter().map(|argument| match argument {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Tuple(parts))) => Some(parts.clone()),
            FunctionArg::Unnamed(FunctionArgExpr::Expr(one)) => Some(vec![one.clone()]),
            _ => None,
        });
        let elements: Vec<Vec<Expr>> = elements.collect::<Option<_>>()?;
        let is = |word: &str| name.quote_style.is_none() && name.value.eq_ignore_ascii_case(word);
        let start = (name.span.start.line, name.span.start.column);
        let is_call = call.filter.is_some()
            || call.over.is_some()
            || list.duplicate_treatment.is_some()
            || !list.clauses.is_empty()
            || self.calls.binary_search(&start).is_ok();
        if is_call || elements.is_empty() {
            None
        } else if is("rollup") {
            Some(Expr::Rollup(elements))
        } else if is("cube") {
            Some(Expr::Cube(elements))
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parser::lexer;

    #[test]
    fn call_in_parentheses_is_found_at_its_location() {
        let text = "GROUPING SETS (ROLLUP (a),\n é, (cube (b)), ((rollup (c))))";
        let tokens = lexer::tokens(text).expect("tokens");
        assert_eq!(calls_in_parentheses(text, &tokens), [(2, 6), (2, 19)]);
    }
}

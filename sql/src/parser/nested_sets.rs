//! ROLLUP and CUBE as elements of GROUPING SETS, which sqlparser reads as calls of functions.

use sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, GroupByExpr, ObjectNamePart,
    Select,
};

use super::lexer::Token;
use crate::walk::{TreeMut, VisitorMut};

/// Replaces such calls in a tree, if its text has any.
pub(super) fn convert(tree: &mut impl TreeMut, text: &str, tokens: &[Token]) {
    let has = |words: &[&str]| tokens.iter().any(|token| token.is_one_of(text, words));
    if has(&["grouping"]) && has(&["rollup", "cube"]) {
        // The visitor never stops early.
        let _ = tree.walk_mut(&mut Converter);
    }
}

struct Converter;

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
                    && let Some(nested) = sets_of(call)
                {
                    *set = vec![nested];
                }
            }
        }
    }
}

/// Returns the grouping sets that a call stands for, if its name is ROLLUP or CUBE.
fn sets_of(call: &Function) -> Option<Expr> {
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
    if elements.is_empty() {
        None
    } else if is("rollup") {
        Some(Expr::Rollup(elements))
    } else if is("cube") {
        Some(Expr::Cube(elements))
    } else {
        None
    }
}

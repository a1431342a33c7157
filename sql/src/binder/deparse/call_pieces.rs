//! The pieces of a deparsed call: its name, its arguments and the options of its sort keys.

use sqlparser::ast;

use super::DeparsedExpr;
use super::tree::{Piece, Tree};
use crate::functions::quote_ident as quoted;

/// Returns the options of a sort key that are not the defaults, such as ` DESC` or ` NULLS FIRST`.
pub(super) fn suffix(key: &ast::OrderByExpr) -> &'static str {
    match (key.options.asc == Some(false), key.options.nulls_first) {
        (false, Some(true)) => " NULLS FIRST",
        (false, _) => "",
        (true, Some(false)) => " DESC NULLS LAST",
        (true, _) => " DESC",
    }
}

/// Returns a call of a built-in function.
pub(super) fn call(name: &str, args: Vec<DeparsedExpr>) -> Tree {
    call_named(quoted(name), args)
}

/// Returns a call of a function by its qualified name.
pub(super) fn call_named(name: String, args: Vec<DeparsedExpr>) -> Tree {
    let mut pieces = vec![Piece::Text(format!("{name}("))];
    pieces.extend(list_of(args));
    pieces.push(Piece::Text(")".to_owned()));
    Tree::Call {
        pieces,
        function: true,
    }
}

/// Returns a call whose last argument is marked VARIADIC.
pub(super) fn spread_call(name: String, mut args: Vec<DeparsedExpr>) -> Tree {
    let array = args.pop();
    let mut pieces = vec![Piece::Text(format!("{name}("))];
    let comma = if args.is_empty() { "" } else { ", " };
    pieces.extend(list_of(args));
    pieces.push(Piece::Text(format!("{comma}VARIADIC ")));
    pieces.extend(array.map(|array| Piece::Tree(array.tree)));
    pieces.push(Piece::Text(")".to_owned()));
    Tree::Call {
        pieces,
        function: true,
    }
}

pub(super) fn list_of(args: Vec<DeparsedExpr>) -> Vec<Piece> {
    let mut pieces = Vec::new();
    for (i, arg) in args.into_iter().enumerate() {
        if i > 0 {
            pieces.push(Piece::Text(", ".to_owned()));
        }
        pieces.push(Piece::Tree(arg.tree));
    }
    pieces
}

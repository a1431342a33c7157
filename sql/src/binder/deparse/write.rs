//! Writes trees as text in PostgreSQL's layout.
//!
//! Without `pretty` every operator is in parentheses; with `pretty` the redundant ones are omitted.
//! With `indented` each clause begins on a new line.

use super::tree::{Piece, QueryKind, SortBy, SortKey, Subscript, Tree};
use crate::stack;
use crate::types::TypeKind;

/// The indentation of a subquery in its query, and of clauses in a query.
pub(super) const CLAUSE: i32 = 8;
/// The indentation of JOIN.
pub(super) const JOIN: i32 = 4;
/// The indentation of targets, and of the branches of CASE.
pub(super) const VAR: i32 = 4;
/// The level from which lines are indented less.
const LEVEL_MAX: i32 = 40;

/// The layout of deparsed definitions.
#[derive(Clone, Copy, Debug)]
pub struct Style {
    /// Whether redundant parentheses are omitted.
    pub pretty: bool,
    /// Whether there are line breaks.
    pub indented: bool,
}

pub(super) struct Writer {
    pub(super) text: String,
    pub(super) style: Style,
    pub(super) level: i32,
}

/// The kind of node around an expression, which determines whether the expression needs
/// parentheses.
#[derive(Clone, Copy)]
enum Parent<'t> {
    /// A cast, or a function with keywords instead of commas.
    Cast,
    Op(&'t str, bool),
    And,
    Not,
    Or,
    Other,
}

impl Writer {
    pub(super) fn new(style: Style) -> Writer {
        Writer {
            text: String::new(),
            style,
            level: 0,
        }
    }

    pub(super) fn put(&mut self, text: &str) {
        self.text.push_str(text);
    }

    /// Begins a new line if lines are indented. The level changes by `before` before the line and
    /// by `after` after it; `plus` applies to this line only.
    pub(super) fn line(&mut self, words: &str, before: i32, after: i32, plus: i32) {
        if !self.style.indented {
            return self.put(words);
        }
        self.level += before;
        self.trim();
        self.text.push('\n');
        let level = self.level.max(0);
        let amount = match level < LEVEL_MAX {
            true => level + plus,
            false => (LEVEL_MAX + (level - LEVEL_MAX) / (CLAUSE / 2)) % LEVEL_MAX + plus,
        };
        let spaces = usize::try_from(amount).unwrap_or(0);
        self.text.extend(std::iter::repeat_n(' ', spaces));
        self.put(words);
        self.level = (self.level + after).max(0);
    }

    /// Removes trailing spaces.
    pub(super) fn trim(&mut self) {
        let kept = self.text.trim_end_matches(' ').len();
        self.text.truncate(kept);
    }

    fn open(&mut self) {
        if !self.style.pretty {
            self.put("(");
        }
    }

    fn close(&mut self) {
        if !self.style.pretty {
            self.put(")");
        }
    }

    pub(super) fn list(&mut self, trees: &[Tree]) {
        for (i, tree) in trees.iter().enumerate() {
            if i > 0 {
                self.put(", ");
            }
            self.tree(tree, true);
        }
    }

    /// Writes an operand, in parentheses if it needs them.
    fn operand(&mut self, tree: &Tree, casts: bool, parent: Parent<'_>) {
        let parentheses = self.style.pretty && !is_simple(tree, parent);
        if parentheses {
            self.put("(");
        }
        self.tree(tree, casts);
        if parentheses {
            self.put(")");
        }
    }

    /// Writes an expression; `casts` displays an implicit cast around it.
    pub(super) fn tree(&mut self, tree: &Tree, casts: bool) {
        stack::enough(|| self.tree_here(tree, casts));
    }

    fn tree_here(&mut self, tree: &Tree, casts: bool) {
        match tree {
            Tree::Var(name) => self.put(name),
            Tree::Const { text, kind, label } => self.constant(text.as_deref(), *kind, label, 0),
            Tree::Call { pieces, .. } => self.pieces(pieces),
            Tree::Cast {
                input,
                implicit: true,
                ..
            } if !casts => self.operand(input, false, Parent::Cast),
            Tree::Cast {
                input, kind, label, ..
            } => {
                match &**input {
                    Tree::Const {
                        text,
                        kind: same,
                        label,
                    } if same == kind => self.constant(text.as_deref(), *kind, label, -1),
                    input => {
                        self.open();
                        self.operand(input, false, Parent::Cast);
                        self.close();
                    }
                }
                self.put("::");
                self.put(label);
            }
            Tree::Op {
                symbol,
                left,
                right,
            } => {
                self.open();
                if let Some(left) = left {
                    self.operand(left, true, Parent::Op(symbol, true));
                    self.put(" ");
                }
                self.put(symbol);
                self.put(" ");
                let parent = match left {
                    Some(_) => Parent::Op(symbol, false),
                    None => Parent::Other,
                };
                self.operand(right, true, parent);
                self.close();
            }
            Tree::Quantified {
                left,
                symbol,
                word,
                right,
            } => {
                self.open();
                self.operand(left, true, Parent::Other);
                self.put(&format!(" {symbol} {word} ("));
                self.operand(right, true, Parent::Other);
                self.put(")");
                self.close();
            }
            Tree::Bool { and, parts } => {
                let (word, parent) = match and {
                    true => (" AND ", Parent::And),
                    false => (" OR ", Parent::Or),
                };
                self.open();
                for (i, part) in parts.iter().enumerate() {
                    if i > 0 {
                        self.put(word);
                    }
                    self.operand(part, false, parent);
                }
                self.close();
            }
            Tree::Not(input) => {
                self.open();
                self.put("NOT ");
                self.operand(input, false, Parent::Not);
                self.close();
            }
            Tree::Test {
                input,
                suffix,
                casts,
            } => {
                self.open();
                self.operand(input, *casts, Parent::Other);
                self.put(" ");
                self.put(suffix);
                self.close();
            }
            Tree::Distinct(left, right) => {
                self.open();
                self.operand(left, true, Parent::Other);
                self.put(" IS DISTINCT FROM ");
                self.operand(right, true, Parent::Other);
                self.close();
            }
            Tree::Case {
                operand,
                branches,
                otherwise,
            } => {
                self.line("CASE", 0, VAR, 0);
                if let Some(operand) = operand {
                    self.put(" ");
                    self.tree(operand, true);
                }
                for (when, then) in branches {
                    self.branch("WHEN ", 0);
                    self.tree(when, false);
                    self.put(" THEN ");
                    self.tree(then, true);
                }
                self.branch("ELSE ", 0);
                self.tree(otherwise, true);
                self.branch("END", -VAR);
            }
            Tree::Subscript { base, at } => {
                let parentheses = !matches!(**base, Tree::Var(_));
                if parentheses {
                    self.put("(");
                }
                self.tree(base, true);
                if parentheses {
                    self.put(")");
                }
                for subscript in at {
                    self.put("[");
                    match subscript {
                        Subscript::At(at) => self.tree(at, false),
                        Subscript::Slice(from, to) => {
                            from.iter().for_each(|from| self.tree(from, false));
                            self.put(":");
                            to.iter().for_each(|to| self.tree(to, false));
                        }
                    }
                    self.put("]");
                }
            }
            Tree::Rows {
                left,
                symbol,
                right,
            } => {
                self.put("(ROW(");
                self.list(left);
                self.put(&format!(") {symbol} ROW("));
                self.list(right);
                self.put("))");
            }
            Tree::Query { kind, left, query } => {
                self.put(match kind {
                    QueryKind::Array => "ARRAY(",
                    _ => "(",
                });
                match left.as_slice() {
                    [] => {}
                    [one] => self.tree(one, true),
                    all => {
                        self.put("(");
                        self.list(all);
                        self.put(")");
                    }
                }
                let close = match kind {
                    QueryKind::Scalar | QueryKind::Array => ")",
                    QueryKind::Exists => {
                        self.put("EXISTS (");
                        "))"
                    }
                    QueryKind::Compared(words) => {
                        self.put(&format!(" {words} ("));
                        "))"
                    }
                };
                self.query(query, None, false);
                self.put(close);
            }
        }
    }

    fn branch(&mut self, words: &str, before: i32) {
        if !self.style.indented {
            self.put(" ");
        }
        self.line(words, before, 0, 0);
    }

    pub(super) fn pieces(&mut self, pieces: &[Piece]) {
        for piece in pieces {
            match piece {
                Piece::Text(text) => self.put(text),
                Piece::Tree(tree) => self.tree(tree, true),
                Piece::Plain(tree) => self.tree(tree, false),
                Piece::Operand(tree) => self.operand(tree, false, Parent::Cast),
                Piece::Keys(keys) => self.keys(keys),
            }
        }
    }

    pub(super) fn keys(&mut self, keys: &[SortKey]) {
        for (i, key) in keys.iter().enumerate() {
            if i > 0 {
                self.put(", ");
            }
            self.key(key);
        }
    }

    /// Writes a key. A plain number would mean a column number, and a call in GROUP BY could mean
    /// grouping sets.
    pub(super) fn key(&mut self, key: &SortKey) {
        match &key.by {
            SortBy::Number(number) => self.put(&number.to_string()),
            SortBy::Tree(Tree::Const { text, kind, label }) => {
                self.constant(text.as_deref(), *kind, label, 1);
            }
            SortBy::Tree(tree @ Tree::Var(_)) => self.tree(tree, true),
            SortBy::Tree(tree) => {
                let function = matches!(tree, Tree::Call { function: true, .. });
                let parentheses = self.style.pretty || function;
                if parentheses {
                    self.put("(");
                }
                self.tree(tree, true);
                if parentheses {
                    self.put(")");
                }
            }
        }
        self.put(key.suffix);
    }

    /// Writes a constant, with its type if the text alone does not determine it. With `labels`
    /// above 0 the type is always written, below 0 never.
    fn constant(&mut self, text: Option<&str>, kind: TypeKind, label: &str, labels: i32) {
        let Some(text) = text else {
            self.put("NULL");
            if labels >= 0 && kind != TypeKind::Unknown {
                self.put("::");
                self.put(label);
            }
            return;
        };
        let bare = match kind {
            TypeKind::Int4 => !text.starts_with('-'),
            TypeKind::Numeric => {
                text.starts_with(|c: char| c.is_ascii_digit()) && text.contains(['.', 'e', 'E'])
            }
            TypeKind::Bool => true,
            _ => false,
        };
        match kind {
            TypeKind::Bool => self.put(match text {
                "t" | "true" => "true",
                _ => "false",
            }),
            _ if bare => self.put(text),
            _ => self.put(&format!("'{}'", text.replace('\'', "''"))),
        }
        let label_needed = !bare && kind != TypeKind::Unknown;
        if labels > 0 || (label_needed && labels == 0) {
            self.put("::");
            self.put(label);
        }
    }
}

/// Returns whether the expression needs no parentheses inside `parent`.
fn is_simple(tree: &Tree, parent: Parent<'_>) -> bool {
    let delimits = matches!(parent, Parent::And | Parent::Or | Parent::Not);
    match tree {
        Tree::Var(_) | Tree::Const { .. } | Tree::Call { .. } | Tree::Case { .. } => true,
        Tree::Subscript { .. } => true,
        Tree::Cast { input, .. } => is_simple(input, Parent::Cast),
        Tree::Op {
            symbol,
            left: Some(_),
            ..
        } if let Parent::Op(outer, first) = parent => {
            let low = |symbol: &str| matches!(symbol, "+" | "-");
            let high = |symbol: &str| matches!(symbol, "*" | "/" | "%");
            match (low(symbol), high(symbol), low(outer), high(outer)) {
                (_, true, true, _) => true,
                (true, _, true, _) | (_, true, _, true) => first,
                _ => false,
            }
        }
        Tree::Op { .. } | Tree::Query { .. } | Tree::Test { .. } | Tree::Distinct(..) => delimits,
        Tree::Not(_) | Tree::Bool { and: true, .. } => {
            matches!(parent, Parent::And | Parent::Or)
        }
        Tree::Bool { and: false, .. } => matches!(parent, Parent::Or),
        Tree::Quantified { .. } | Tree::Rows { .. } => false,
    }
}

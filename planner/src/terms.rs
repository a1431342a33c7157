//! Conditions cut into terms that an index may serve.

use fencepost_sql::bound::{CompareClass, CompareOp, Expr, Node, SubqueryKind, Volatility};
use fencepost_sql::types::{Type, TypeKind};

use crate::plan::is_array;

/// The conjuncts of a condition.
pub fn conjuncts(filter: Option<Expr>, out: &mut Vec<Expr>) {
    match filter {
        None => {}
        Some(Expr {
            node: Node::And(parts),
            ..
        }) => {
            for part in parts {
                conjuncts(Some(part), out);
            }
        }
        Some(other) => out.push(other),
    }
}

/// One condition of several.
pub fn conjunction(mut parts: Vec<Expr>) -> Option<Expr> {
    match parts.len() {
        0 => None,
        1 => parts.pop(),
        _ => Some(Expr::new(Type::BOOL, Node::And(parts))),
    }
}

/// Slots from the first up to, not including, the second.
pub type SlotRange = (usize, usize);

/// Does `expr` read only slots within `slots`?
pub fn reads_only(expr: &Expr, slots: SlotRange) -> bool {
    let mut only = true;
    expr.for_each_column(&mut |slot| only &= slots.0 <= slot && slot < slots.1);
    only
}

/// Does `expr` read any slot within `slots`?
pub fn reads_any(expr: &Expr, slots: SlotRange) -> bool {
    let mut any = false;
    expr.for_each_column(&mut |slot| any |= slots.0 <= slot && slot < slots.1);
    any
}

/// A term on one column of a leaf that an index could serve.
#[derive(Clone, Debug)]
pub struct Term {
    /// The column, by position in the table.
    pub column: usize,
    /// What it says.
    pub kind: TermKind,
    /// The conjunct it comes from.
    pub conjunct: usize,
}

/// What a term says of its column.
#[derive(Clone, Debug)]
pub enum TermKind {
    /// Equal to this.
    Equal(Expr),
    /// Equal to one of these, or to an element of the array that stands alone.
    Any(Vec<Expr>),
    /// Equal to one of those that a query gives, which is the condition.
    Members(Expr),
    /// Above this, or equal if included.
    Lower(Expr, bool),
    /// Below this, or equal if included.
    Upper(Expr, bool),
}

/// The terms on the leaf that owns `own`, whose other sides read only `known` slots.
pub fn terms(conjuncts: &[Expr], own: SlotRange, known: SlotRange) -> Vec<Term> {
    let mut found = Vec::new();
    for (position, conjunct) in conjuncts.iter().enumerate() {
        if let Some((column, kind)) = term(conjunct, own, known) {
            found.push(Term {
                column: column - own.0,
                kind,
                conjunct: position,
            });
        }
    }
    found
}

fn term(conjunct: &Expr, own: SlotRange, known: SlotRange) -> Option<(usize, TermKind)> {
    match &conjunct.node {
        Node::Compare {
            op,
            class,
            left,
            right,
        } => comparison(*op, *class, left, right, own, known)
            .or_else(|| comparison(op.swap(), *class, right, left, own, known)),
        Node::InList {
            negated: false,
            input,
            list,
            ..
        } => {
            let column = own_column(input, own)?;
            let known = list.iter().all(|e| is_known(e, own, known));
            let kind = match list.as_slice() {
                [one] => TermKind::Equal(one.clone()),
                list => TermKind::Any(list.to_vec()),
            };
            known.then_some((column, kind))
        }
        Node::Quantified {
            op: CompareOp::Eq,
            all: false,
            left,
            array,
        } => {
            let column = own_column(left, own)?;
            is_known(array, own, known).then(|| (column, TermKind::Any(vec![Expr::clone(array)])))
        }
        Node::Subquery(sub) if !sub.volatile && sub.stands_alone() => {
            let SubqueryKind::Any {
                all: false,
                test,
                columns,
            } = &sub.kind
            else {
                return None;
            };
            let column = own_column(member_test(test, columns)?.0, own)?;
            Some((column, TermKind::Members(conjunct.clone())))
        }
        Node::Or(parts) => any_of(parts, own, known),
        Node::Column(slot) if own.0 <= *slot && *slot < own.1 => {
            let yes = Expr::constant(Type::BOOL, fencepost_sql::value::Value::Bool(true));
            Some((*slot, TermKind::Equal(yes)))
        }
        _ => None,
    }
}

/// `a = 1 OR a = 2` is `a IN (1, 2)`.
fn any_of(parts: &[Expr], own: SlotRange, known: SlotRange) -> Option<(usize, TermKind)> {
    let mut list = Vec::new();
    let mut column = None;
    for part in parts {
        let (slot, kind) = term(part, own, known)?;
        if *column.get_or_insert(slot) != slot {
            return None;
        }
        match kind {
            TermKind::Equal(value) => list.push(value),
            TermKind::Any(values) if is_array(&values) => return None,
            TermKind::Any(values) => list.extend(values),
            TermKind::Members(_) | TermKind::Lower(..) | TermKind::Upper(..) => return None,
        }
    }
    Some((column?, TermKind::Any(list)))
}

fn comparison(
    op: CompareOp,
    class: CompareClass,
    column: &Expr,
    other: &Expr,
    own: SlotRange,
    known: SlotRange,
) -> Option<(usize, TermKind)> {
    let slot = own_column(column, own)?;
    if !is_known(other, own, known) {
        return None;
    }
    debug_assert!(class == CompareClass::Int || !other.ty.kind.is_integer());
    let value = other.clone();
    let kind = match op {
        CompareOp::Eq => TermKind::Equal(value),
        CompareOp::Lt => TermKind::Upper(value, false),
        CompareOp::Le => TermKind::Upper(value, true),
        CompareOp::Gt => TermKind::Lower(value, false),
        CompareOp::Ge => TermKind::Lower(value, true),
        CompareOp::Ne => return None,
    };
    Some((slot, kind))
}

/// The slot, where `expr` is a column of the leaf, perhaps under a cast that changes no value.
fn own_column(expr: &Expr, own: SlotRange) -> Option<usize> {
    match &expr.node {
        Node::Column(slot) if own.0 <= *slot && *slot < own.1 => Some(*slot),
        Node::Cast { input, .. } if same_values(&input.ty, &expr.ty) => own_column(input, own),
        _ => None,
    }
}

/// The sides of a test that asks whether a value is among a query's rows: what is looked for, and what a row has in
/// its one column.
pub fn member_test<'a>(test: &'a Expr, columns: &[usize]) -> Option<(&'a Expr, &'a Expr)> {
    let (
        Node::Compare {
            op: CompareOp::Eq,
            left,
            right,
            ..
        },
        [slot],
    ) = (&test.node, columns)
    else {
        return None;
    };
    let plain = !right.has_columns() && !right.has_subquery();
    (plain && reads_outer(right, *slot) && !reads_outer(left, *slot)).then_some((left, right))
}

fn reads_outer(expr: &Expr, slot: usize) -> bool {
    let mut found = matches!(expr.node, Node::Outer(outer) if outer == slot);
    expr.for_each_part(|part| found |= reads_outer(part, slot));
    found
}

/// Casts between the unpadded strings keep the bytes.
fn same_values(from: &Type, to: &Type) -> bool {
    let plain = |kind| matches!(kind, TypeKind::Text | TypeKind::VarChar | TypeKind::Name);
    plain(from.kind) && plain(to.kind) && to.typmod < 0
}

/// Whether a scan may take the value for its keys: a query in it has run before, so it reads no columns.
fn is_known(expr: &Expr, own: SlotRange, known: SlotRange) -> bool {
    if expr.has_subquery() && expr.has_columns() {
        return false;
    }
    expr.volatility() < Volatility::Volatile && !reads_any(expr, own) && reads_only(expr, known)
}
